"""A status as another version of idlewin would have left it, by kind of difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from idlewin.sim.kinds import FaultKind

Json = dict[str, Any]


def _new_phase(data: Json) -> None:
    data["phase"], data["version"] = "Probing", 2


def _new_fields(data: Json) -> None:
    """A newer version of the same phases: more in each place, and values that we do not know."""
    data["newer"] = {"since": "2026-01-01T00:00:00Z"}
    window = data.get("window") or {}
    for entry in (window, *window.get("targets", ()), *window.get("queues", ())):
        if entry:
            entry["newer"] = [1, "two"]
    for entry in window.get("queues", ()):
        entry.setdefault("spec", {})["newer"] = "1h"
    if data.get("owed"):
        data["owed"]["newer"] = []
    for one in data.get("conditions", ()):
        one["newer"] = True
    told = {"reason": "New", "message": "new", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    data.setdefault("conditions", []).append({"type": "New", "status": "Maybe", **told})


def _old(data: Json) -> None:
    """A version that knew less: what has a default was not written yet."""
    kept = ("message", "conditions", "leadTimes", "notLowered", "observedGeneration", "version")
    for name in kept:
        data.pop(name, None)
    window = data.get("window") or {}
    for name in (
        *("giveBackEpoch", "restoringSince", "reclaimAt"),
        *("deviceNodes", "exemptNamespaces"),
    ):
        window.pop(name, None)
    for target in window.get("targets", ()):
        target.pop("readyTimeout", None)
    for queue in window.get("queues", ()):
        queue.pop("closedForFit", None)
        queue.pop("refused", None)


VERSIONS: dict[FaultKind, Callable[[Json], None]] = {
    FaultKind.NEW_PHASE: _new_phase,
    FaultKind.NEW_FIELDS: _new_fields,
    FaultKind.OLD_STATUS: _old,
}
