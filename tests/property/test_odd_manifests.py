"""Whatever stands in a manifest: a finding, or an error with its line; never a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings as tries, strategies as st

from idlewin.adapters.audit_pods import Object
from idlewin.adapters.audit_sound import sound
from idlewin.adapters.audited import facts_of
from idlewin.audit.audited import audited

FAULTS = Path(__file__).parents[1] / "golden/audit/faults"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
THINGS = [
    thing
    for file in sorted(FAULTS.glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
    for thing in document.get("items", [document])
]
ODD: list[Any] = [None, "", "x", 0, -1, 2.5, True, [], ["x"], [None], {}, {"x": None}, [{}]]


def paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if not isinstance(node, dict | list):
        return
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        # Kind and name are looked at before.
        if (*path, key) not in {("kind",), ("metadata",), ("metadata", "name")}:
            yield (*path, key)
        yield from paths(value, (*path, key))


PLACES = [(number, path) for number, thing in enumerate(THINGS) for path in paths(thing)]


@tries(max_examples=300, deadline=None)
@given(places=st.lists(st.sampled_from(PLACES), min_size=1, max_size=3), data=st.data())
def test_odd_values_are_told_or_looked_at(places, data):
    things = copy.deepcopy(THINGS)
    for number, path in places:
        node = things[number]
        try:
            for step in path[:-1]:
                node = node[step]
            node[path[-1]] = data.draw(st.sampled_from(ODD))
        except (KeyError, IndexError, TypeError):
            continue  # an odd value stands above it already
    objects = [Object(thing, "m.yaml", 1) for thing in things]

    found, odd = sound(objects)

    assert len(found) + len(odd) == len(objects)
    changed = {id(things[number]) for number, _ in places}
    assert [why for one, why in odd if id(one.raw) not in changed] == []
    for one in audited(facts_of(found), NOW):
        assert one.seen
        assert one.remedy
