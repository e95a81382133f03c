"""What the watches have shown: objects by name, trimmed, indexed, newest wins.

Two writers meet here, the watch and the answers to our own reads and writes; so a write is seen
by the next look, whatever the watch is at. Nothing here asks the API server.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Any

Json = dict[str, Any]
Key = tuple[str, str]
#: Called with ADDED, MODIFIED or DELETED, and the object; for DELETED, as it last was.
Handler = Callable[[str, Json], None]

#: So many deleted objects are known as deleted: a late answer about one must not revive it.
_GRAVES = 2000


def key_of(stored: Json) -> Key:
    """Namespace and name; the namespace of what has none is empty."""
    meta = stored["metadata"]
    return meta.get("namespace", ""), meta["name"]


def version_of(stored: Json) -> int:
    """The resourceVersion; they can be compared since Kubernetes 1.35 says so."""
    return int(stored["metadata"]["resourceVersion"])


class Store:
    """Objects of one kind. Trimmed on the way in; an object that is trimmed to None is not kept."""

    def __init__(
        self,
        trim: Callable[[Json], Json | None],
        indexes: Mapping[str, Callable[[Json], Iterable[str]]] | None = None,
    ) -> None:
        self._trim = trim
        self._index_of = dict(indexes or {})
        self._lock = RLock()
        self._objects: dict[Key, Json] = {}
        self._indexed: dict[str, dict[str, set[Key]]] = {
            name: defaultdict(set) for name in self._index_of
        }
        self._handlers: list[Handler] = []
        self._deleted: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._objects)

    def subscribe(self, handler: Handler) -> None:
        """Have changes told, from the thread that made them. A change of version alone is none."""
        self._handlers.append(handler)

    def get(self, namespace: str, name: str) -> Json | None:
        """The object of a name."""
        return self._objects.get((namespace, name))

    def all(self) -> list[Json]:
        """All objects, in order of their names."""
        with self._lock:
            return [self._objects[key] for key in sorted(self._objects)]

    def by(self, index: str, value: str) -> list[Json]:
        """The objects that an index files under a value, in order of their names."""
        with self._lock:
            return [self._objects[key] for key in sorted(self._indexed[index].get(value, ()))]

    def upsert(self, raw: Json) -> None:
        """Take an object in, unless a newer version of it is there."""
        key, trimmed = key_of(raw), self._trim(raw)
        with self._lock:
            old = self._objects.get(key)
            if old is not None and version_of(old) >= version_of(raw):
                return
            if raw["metadata"]["uid"] in self._deleted:
                return
            self._put(key, old, trimmed)
        self._tell(old, trimmed)

    def remove(self, key: Key, version: int | None = None, *, deleted: bool = True) -> None:
        """Drop an object; with a version, unless what is there is newer."""
        with self._lock:
            old = self._objects.get(key)
            if old is None or (version is not None and version_of(old) > version):
                return
            self._put(key, old, None)
            if deleted:
                self._bury(old)
        self._tell(old, None)

    def deleted(self, gone: Json) -> None:
        """Drop an object that was deleted; one that is not here either is not to come back."""
        with self._lock:
            self._bury(gone)
        self.remove(key_of(gone), version_of(gone))

    def _bury(self, gone: Json) -> None:
        self._deleted[gone["metadata"]["uid"]] = None
        if len(self._deleted) > _GRAVES:
            self._deleted.popitem(last=False)

    def replace(
        self, pages: Iterable[tuple[list[Json], str]], among: Iterable[Json] | None = None
    ) -> str:
        """Take a whole list in: what it lacks is gone, unless it is newer. The list's version.

        ``among``: the stored objects that the list could have held, where it was a selection.
        """
        there, version = set(), ""
        for found, of_list in pages:
            version = of_list
            for raw in found:
                there.add(key_of(raw))
                self.upsert(raw)
        for stored in self.all() if among is None else among:
            if key_of(stored) not in there:
                # What a selection lacks may have left the selection only.
                self.remove(key_of(stored), int(version), deleted=among is None)
        return version

    def clear(self) -> None:
        """Drop everything: there is no such kind of object."""
        for stored in self.all():
            self.remove(key_of(stored))

    def _put(self, key: Key, old: Json | None, new: Json | None) -> None:
        for name, values_of in self._index_of.items():
            for value in values_of(old) if old is not None else ():
                self._indexed[name][value].discard(key)
                if not self._indexed[name][value]:
                    del self._indexed[name][value]
            for value in values_of(new) if new is not None else ():
                self._indexed[name][value].add(key)
        if new is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = new

    def _tell(self, old: Json | None, new: Json | None) -> None:
        if new is None:
            change, shown = "DELETED", old
        else:
            change, shown = ("ADDED" if old is None else "MODIFIED"), new
        if shown is None or (old is not None and new is not None and _same(old, new)):
            return
        for handler in self._handlers:
            handler(change, shown)


def _same(old: Json, new: Json) -> bool:
    """Whether two trimmed objects differ in nothing but their version."""
    version = old["metadata"]["resourceVersion"]
    return old == {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
