"""An API server in memory: versions, generations, merge patches, who wrote which field, and when.

Only as far as single writes can tell; and somebody else may write at the moment before ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from idlewin.adapters.api import ApiError
from idlewin.core.pool import MANAGER
from idlewin.core.text import format_instant
from tests.builders import NOW

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Written:
    """One write of ours that changed something."""

    path: str
    before: Json
    after: Json


@dataclass(slots=True)
class Server:
    """The API, as Writer uses it. Raises ApiError."""

    objects: dict[str, Json] = field(default_factory=dict)
    ours: list[Written] = field(default_factory=list)
    ended: list[tuple[str, Json]] = field(default_factory=list)
    """Evictions and deletions that were carried out."""
    between: list[Callable[[], None]] = field(default_factory=list)
    """What others do: one of these before each write of ours arrives."""
    clock: int = 0
    version: int = 0

    def get(self, path: str) -> Json:
        return deepcopy(self._found(path))

    def merge(self, path: str, patch: Json) -> Json:
        if self.between:
            self.between.pop(0)()
        path = path.removesuffix("/status")
        before = self.get(path)
        asked = patch["metadata"].get("resourceVersion")
        if asked not in (None, before["metadata"]["resourceVersion"]):
            raise ApiError(409, "the object has been modified")
        after = self.write(path, MANAGER, patch)
        if after != before:
            self.ours.append(Written(path, before, after))
        return after

    def post(self, path: str, body: Json) -> Json:
        return self._end(path.removesuffix("/eviction"), body["deleteOptions"], "evicted")

    def delete(self, path: str, options: Json) -> Json:
        return self._end(path, options, "deleted")

    # -- others

    def create(self, path: str, raw: Json) -> None:
        self.version += 1
        meta = {**raw["metadata"], "resourceVersion": str(self.version), "generation": 1}
        self.objects[path] = {**raw, "metadata": {**meta, "managedFields": []}}

    def write(self, path: str, manager: str, patch: Json) -> Json:
        """A merge patch, whatever the version; without a manager it is on nobody's account."""
        raw = self._found(path)
        self.clock += 1
        changed = list(_merged(raw, {**patch, "metadata": _free(patch)}))
        if changed:
            self.version += 1
            raw["metadata"]["resourceVersion"] = str(self.version)
            raw["metadata"]["generation"] += any(one[0] == "spec" for one in changed)
            for one in changed:
                self._note(raw, manager, one)
        return deepcopy(raw)

    def _note(self, raw: Json, manager: str, changed: tuple[str, ...]) -> None:
        entry: Json = {"manager": manager, "time": self.now(), "path": changed, "fieldsV1": {}}
        inner = entry["fieldsV1"]
        for name in changed:
            inner = inner.setdefault(f"f:{name}", {})
        others = [one for one in raw["metadata"]["managedFields"] if one["path"] != changed]
        raw["metadata"]["managedFields"] = [*others, *([entry] if manager else [])]

    def now(self) -> str:
        return format_instant(NOW + timedelta(seconds=self.clock))

    def _found(self, path: str) -> Json:
        if path not in self.objects:
            raise ApiError(404, f"{path} not found")
        return self.objects[path]

    def _end(self, path: str, options: Json, how: str) -> Json:
        uid = (options.get("preconditions") or {}).get("uid")
        raw = self._found(path)
        if uid not in (None, raw["metadata"]["uid"]):
            raise ApiError(409, "the UID in the precondition does not match the UID in record")
        self.ended.append((how, self.objects.pop(path)))
        return {}


def _free(patch: Json) -> Json:
    return {
        name: one for name, one in patch.get("metadata", {}).items() if name != "resourceVersion"
    }


def _merged(raw: Json, patch: Json, *above: str) -> Iterator[tuple[str, ...]]:
    """Merge a patch in; the paths that it has changed."""
    for name, value in patch.items():
        if isinstance(value, dict):
            yield from _merged(raw.setdefault(name, {}), value, *above, name)
        elif value is None:
            if raw.pop(name, None) is not None:
                yield (*above, name)
        elif raw.get(name) != value:
            raw[name] = value
            yield (*above, name)


def version(raw: Json) -> str:
    return str(raw["metadata"]["resourceVersion"])


def mark(raw: Json, name: str) -> str:
    return str(raw["metadata"]["annotations"].get(name, ""))
