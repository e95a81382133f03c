"""Who is woken by what the watches show."""

from __future__ import annotations

from idlewin.adapters.wake import Concerns
from idlewin.adapters.watched import Watched


def test_all_pools_are_looked_at_once_a_kind_is_in_sight_again():
    # A look that failed meanwhile is tried again later and later, up to two minutes.
    stores, woken = Watched(None), []
    for name in ("a", "b"):
        meta = {"name": name, "uid": name, "generation": 1, "resourceVersion": "1"}
        stores.rules.upsert({"metadata": meta, "spec": {}})
    Concerns(stores, woken.append)
    woken.clear()

    for reflector in stores._reflectors:
        reflector.in_sight()
        assert woken == ["a", "b"]
        woken.clear()
