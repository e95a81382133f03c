"""Which rules a change in the cluster concerns, cheaply: most changes concern none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from threading import Lock
from typing import Any

from idlewin.adapters.fields import annotation, claims, labels_of
from idlewin.adapters.objects import rule_of
from idlewin.adapters.serving import KINDS, Kind, kind_of
from idlewin.adapters.watched import Watched, recorded_by
from idlewin.core.pool import ADOPTED_BY, Scope
from idlewin.core.scope import scope_of

Json = dict[str, Any]


class Concerns:
    """Tells of each change the names of the rules whose pool it is in."""

    def __init__(self, stores: Watched, wake: Callable[[str], None]) -> None:
        self._stores, self._wake = stores, wake
        self._lock = Lock()
        self._scopes: dict[str, Scope] = {}
        stores.rules.subscribe(self._rule_changed)
        self._listen(stores.queues.subscribe, self._of_queue)
        self._listen(stores.local_queues.subscribe, self._of_local_queue)
        self._listen(stores.workloads.subscribe, self._of_workload)
        self._listen(stores.nodes.subscribe, self._of_node)
        self._listen(stores.pods.subscribe, self._of_pod)
        self._listen(stores.autoscalers.subscribe, self._of_autoscaler)
        for kind in KINDS:
            store = stores.serving[kind.kind]
            self._listen(store.subscribe, partial(self._of_target, kind))
        for stored in stores.rules.all():
            self._rule_changed("ADDED", stored)
        # A pool that could not be looked at is looked at as soon as it can be, changed or not.
        stores.on_sight(self._all)

    def _listen(
        self,
        subscribe: Callable[[Callable[[str, Json], None]], None],
        concerned: Callable[[Json], Iterator[str]],
    ) -> None:
        def changed(_change: str, stored: Json) -> None:
            for name in set(concerned(stored)):
                self._wake(name)

        subscribe(changed)

    def _all(self) -> None:
        for name in list(self._scopes):
            self._wake(name)

    def _rule_changed(self, change: str, stored: Json) -> None:
        name = stored["metadata"]["name"]
        with self._lock:
            # A new dict each time: readers in other threads see one or the other, whole.
            scopes = {other: scope for other, scope in self._scopes.items() if other != name}
            if change != "DELETED":
                scopes[name] = scope_of(rule_of(stored))
            self._scopes = scopes
        self._wake(name)

    def _of_queue(self, queue: Json) -> Iterator[str]:
        yield from self._with_queue(queue["metadata"]["name"])
        if rule := annotation(queue, ADOPTED_BY):
            yield rule

    def _with_queue(self, queue: str) -> Iterator[str]:
        return (name for name, scope in self._scopes.items() if queue in scope.queues)

    def _of_local_queue(self, local: Json) -> Iterator[str]:
        return self._with_queue(local["spec"].get("clusterQueue", ""))

    def _of_workload(self, workload: Json) -> Iterator[str]:
        queue = workload["status"]["admission"].get("clusterQueue")
        if queue is None:
            meta, name = workload["metadata"], workload["spec"].get("queueName", "")
            local = self._stores.local_queues.get(meta["namespace"], name)
            queue = local["spec"].get("clusterQueue") if local else None
        return self._with_queue(queue) if queue else iter(())

    def _of_node(self, node: Json) -> Iterator[str]:
        return (name for name, scope in self._scopes.items() if _selected(scope, node))

    def _of_pod(self, pod: Json) -> Iterator[str]:
        node = self._stores.nodes.get("", pod["spec"].get("nodeName", ""))
        for name, scope in self._scopes.items():
            claimed = node and _selected(scope, node) and claims(pod["spec"], scope.resource)
            if claimed or self._served(scope, pod):
                yield name

    def _served(self, scope: Scope, pod: Json) -> bool:
        namespace = pod["metadata"]["namespace"]
        near = [ref for ref in scope.targets if ref.namespace == namespace]
        found = ((kind, self._stores.serving[kind.kind].get(namespace, ref.name))
                 for ref in near if (kind := kind_of(ref)))  # fmt: skip
        return any(
            raw is not None and kind.owns(self._stores.target(kind, raw), pod)
            for kind, raw in found
        )

    def _of_target(self, kind: Kind, target: Json) -> Iterator[str]:
        meta = target["metadata"]
        yield from self._with_target(kind.kind, meta)
        yield from recorded_by(target)
        if ref := kind.scaled(target):
            where = {"namespace": ref.namespace, "name": ref.name}
            yield from self._with_target(ref.kind, where)
        for above in KINDS:
            # Its replicas and its pods are those of what scales it.
            name = f"{kind.kind} {meta['namespace']}/{meta['name']}"
            for one in self._stores.serving[above.kind].by("scaled", name):
                yield from self._with_target(above.kind, one["metadata"])
                yield from recorded_by(one)

    def _of_autoscaler(self, scaler: Json) -> Iterator[str]:
        aim = scaler["spec"]["scaleTargetRef"]
        where = {"namespace": scaler["metadata"]["namespace"], "name": aim["name"]}
        return self._with_target(aim["kind"], where)

    def _with_target(self, kind: str, meta: Json) -> Iterator[str]:
        wanted = (kind, meta["namespace"], meta["name"])
        return (
            name
            for name, scope in self._scopes.items()
            if any((ref.kind, ref.namespace, ref.name) == wanted for ref in scope.targets)
        )


def _selected(scope: Scope, node: Json) -> bool:
    labelled = bool(scope.node_selector) and scope.node_selector.items() <= labels_of(node).items()
    return labelled or node["metadata"]["name"] in scope.nodes
