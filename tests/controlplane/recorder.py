"""What happened in a cluster, in the API server's own order: for asserting what came after what.

One resourceVersion counts the writes of all kinds, so histories of several watches are one
history. Nothing is decided here about what a good history is.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from tests.labs.kubelab.api import Api, ApiError

Json = dict[str, Any]
Key = tuple[str, str, str]
World = Mapping[Key, Json]
KINDS = {
    "IdleRule": "/apis/idlewin.dev/v1alpha1/idlerules",
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta2/clusterqueues",
    "LocalQueue": "/apis/kueue.x-k8s.io/v1beta2/localqueues",
    "Workload": "/apis/kueue.x-k8s.io/v1beta2/workloads",
    "Deployment": "/apis/apps/v1/deployments",
    "Job": "/apis/batch/v1/jobs",
    "Pod": "/api/v1/pods",
}
#: A quiet watch is begun anew after this, in seconds; so long may the end of a recorder take.
QUIET_S = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One write: the object as it was then, or as it was at last where it was deleted."""

    version: int
    kind: str
    deleted: bool
    raw: Json

    @property
    def key(self) -> Key:
        meta = self.raw["metadata"]
        return self.kind, meta.get("namespace", ""), meta["name"]


class Recorder:
    """Watches the kinds above from its beginning to its end."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._seen: list[Seen] = []
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._threads = [
            threading.Thread(target=self._watch, args=(kind, path), daemon=True)
            for kind, path in KINDS.items()
        ]
        self._told = {kind: threading.Event() for kind in KINDS}

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        for kind, told in self._told.items():
            assert told.wait(30), f"{kind} cannot be watched"
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(QUIET_S + 5)

    def history(self) -> list[Seen]:
        """All writes so far, in order."""
        with self._lock:
            return sorted(self._seen, key=lambda seen: seen.version)

    def worlds(self, after: int = 0) -> Iterator[tuple[Seen, World]]:
        """Each write after a version, with the whole world as it was right then."""
        world: dict[Key, Json] = {}
        for seen in self.history():
            if seen.deleted:
                world.pop(seen.key, None)
            else:
                world[seen.key] = seen.raw
            if seen.version > after:
                yield seen, world

    def first(self, what: str, test: Callable[[Seen], object], after: int = 0) -> Seen:
        """The first write after a version of which a test holds. Raises AssertionError."""
        for seen in self.history():
            if seen.version > after and test(seen):
                return seen
        raise AssertionError(f"never seen after version {after}: {what}")

    def version(self) -> int:
        """The newest version that was seen."""
        with self._lock:
            return max((seen.version for seen in self._seen), default=0)

    def caught_up(self) -> None:
        """Wait until each watch has been silent for a moment after what is written now."""
        before = -1
        while before != (now := self.version()):
            before = now
            time.sleep(0.3)

    def _watch(self, kind: str, path: str) -> None:
        version = ""
        while not self._ended.is_set():
            try:
                version = version or self._listed(kind, path)
                self._told[kind].set()
                query = f"watch=1&allowWatchBookmarks=true&resourceVersion={version}"
                with self._api.stream(f"{path}?{query}", timeout=QUIET_S) as events:
                    for event in events:
                        if event.get("type", "ERROR") == "ERROR":  # or it is no event at all
                            version = ""
                            break
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            self._add(kind, event["object"], deleted=event["type"] == "DELETED")
                        if self._ended.is_set():
                            return
            except (OSError, http.client.HTTPException, ValueError, ApiError):
                time.sleep(0.05)

    def _listed(self, kind: str, path: str) -> str:
        found = self._api.get(path)
        version = str(found["metadata"]["resourceVersion"])
        for raw in found["items"]:
            self._add(kind, raw, deleted=False)
        # What went while nobody watched.
        there = {raw["metadata"]["uid"] for raw in found["items"]}
        for raw in self._alive(kind):
            if raw["metadata"]["uid"] not in there:
                gone = {**raw["metadata"], "resourceVersion": version}
                self._add(kind, {**raw, "metadata": gone}, deleted=True)
        return version

    def _alive(self, kind: str) -> list[Json]:
        last: dict[str, Seen] = {}
        for seen in self.history():
            if seen.kind == kind:
                last[seen.raw["metadata"]["uid"]] = seen
        return [seen.raw for seen in last.values() if not seen.deleted]

    def _add(self, kind: str, raw: Json, *, deleted: bool) -> None:
        version = int(raw["metadata"]["resourceVersion"])
        with self._lock:
            self._seen.append(Seen(version=version, kind=kind, deleted=deleted, raw=raw))
