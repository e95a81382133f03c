"""One look at a rule's cards: a Pool from the stores, or from reads made now.

A fresh look reads what its answer depends on and puts it into the stores; then both kinds of look
are the same. Nothing is judged here, and nothing written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from idlewin.adapters import watched
from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.fields import claims, labels_of, whole
from idlewin.adapters.objects import batch_owner, ended, node_dead, opens, other_owner, pod_of
from idlewin.adapters.queues import epoch_of, queue_of, workload_of
from idlewin.adapters.quota import leaks, reach
from idlewin.adapters.serving import KINDS, SCALED_OBJECT, Around, Kind, kind_of
from idlewin.adapters.serving.replicated import raises
from idlewin.adapters.store import Store, key_of
from idlewin.adapters.watched import Watched
from idlewin.adapters.webhooks import inside
from idlewin.core.pool import Pod, Pool, Queue, Role, Scope, Target, Workload
from idlewin.core.target import Ref

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """A target of a look, raw and read."""

    kind: Kind
    raw: Json
    target: Target


class Look:
    """One look, by the stores as they are."""

    def __init__(self, stores: Watched, scope: Scope, now: datetime) -> None:
        self._stores, self._scope, self._now = stores, scope, now
        self._found = tuple(self._targets())
        self._nodes = nodes_of(stores, scope)

    def pool(self) -> Pool:
        """Everything that the scope names, and what carries our marks for it."""
        allocatable = (node["status"]["allocatable"] for node in self._nodes)
        return Pool(
            targets=tuple(found.target for found in self._found),
            queues=tuple(self._queues()),
            pods=tuple(self._pods()),
            allocatable=sum(whole(cards.get(self._scope.resource, 0)) for cards in allocatable),
            nodes=tuple(node["metadata"]["name"] for node in self._nodes),
            labels={node["metadata"]["name"]: labels_of(node) for node in self._nodes},
            quota=self._quota(),
            unseen=self._stores.unseen(),
            no_kueue=self._stores.absent(watched.QUEUES),
        )

    def generations(self) -> dict[str, int]:
        """The generation of each queue: whether somebody has written it since."""
        found = (self._stores.queues.get("", name) for name in queues_of(self._stores, self._scope))
        metas = [raw["metadata"] for raw in found if raw is not None]
        return {meta["name"]: meta.get("generation", 0) for meta in metas}

    # -- targets

    def _targets(self) -> Iterator[Found]:
        for kind, raw in targets_of(self._stores, self._scope):
            yield Found(kind, raw, kind.read(raw, self._around(kind, raw)))

    def _around(self, kind: Kind, raw: Json) -> Around:
        namespace = raw["metadata"]["namespace"]
        makes_pods = kind.scaled(raw) or f"{kind.kind} {namespace}/{raw['metadata']['name']}"
        known = self._stores.namespaces.get("", namespace)
        hooks = [one for store in self._stores.webhooks for one in store.all()]
        return Around(
            resource=self._scope.resource,
            autoscalers=tuple(self._stores.autoscalers.by("namespace", namespace)),
            scaled_objects=tuple(
                self._stores.serving[SCALED_OBJECT.kind].by("scaled", str(makes_pods))
            ),
            # Of a namespace that is not seen nothing is said; that it is not, is.
            inside_kueue=known is not None
            and inside(
                hooks,
                labels_of(known),
                (kind.plural, labels_of(raw)),
                kind.pod_labels(raw),
            ),
        )

    # -- queues

    def _queues(self) -> Iterator[Queue]:
        names = queues_of(self._stores, self._scope)
        for name in names:
            raw = self._stores.queues.get("", name)
            if raw is None:
                continue
            local = self._stores.local_queues.by("queue", name)
            leaking = leaks(
                raw,
                frozenset(names),
                self._stores.queues.all(),
                self._stores.cohorts.all(),
                self._scope.resource,
            )
            yield queue_of(raw, local, self._workloads(name, local), leaking)

    def _quota(self) -> int | None:
        named = [self._stores.queues.get("", name) for name in self._scope.queues]
        return reach(
            [raw for raw in named if raw is not None],
            self._stores.queues.all(),
            self._stores.cohorts.all(),
            self._scope.resource,
        )

    def _workloads(self, queue: str, local_queues: list[Json]) -> Iterator[Workload]:
        store = self._stores.workloads
        found = {key_of(raw): raw for raw in store.by("admitted", queue)}
        for local in local_queues:
            meta = local["metadata"]
            for raw in store.by("local", f"{meta['namespace']}/{meta['name']}"):
                if not raw["status"]["admission"]:
                    found[key_of(raw)] = raw
        return (workload_of(found[key], queue, self._scope.resource) for key in sorted(found))

    # -- nodes and pods

    def _pods(self) -> Iterator[Pod]:
        names = node_names(self._stores, self._scope)
        candidates = {
            key_of(pod): pod for name in sorted(names) for pod in self._stores.pods.by("node", name)
        }
        for namespace in sorted({found.target.ref.namespace for found in self._found}):
            for pod in self._stores.pods.by("namespace", namespace):
                candidates.setdefault(key_of(pod), pod)
        for pod in candidates.values():
            if not ended(pod) and (told := self._pod(pod, names)):
                yield told

    def _pod(self, pod: Json, pool: set[str]) -> Pod | None:
        claimed = claims(pod["spec"], self._scope.resource)
        node = pod["spec"].get("nodeName", "")
        serving = self._serving(pod)
        if serving is not None:
            role, owner = Role.SERVING, str(serving.ref)
            holds = bool(claimed) or not serving.claims
        else:
            batch = batch_owner(pod)
            role = Role.OTHER if batch is None else Role.BATCH
            owner, holds = batch or other_owner(pod), bool(claimed) or opens(pod, self._scope)
        on_cards = node in pool and holds
        if serving is None and not on_cards:
            return None
        dead = bool(node) and node_dead(self._stores.nodes.get("", node), self._now)
        return pod_of(pod, role, owner, claimed=claimed, place=(on_cards, dead))

    def _serving(self, pod: Json) -> Target | None:
        namespace = pod["metadata"]["namespace"]
        return next(
            (
                found.target
                for found in self._found
                if found.target.ref.namespace == namespace and found.kind.owns(found.raw, pod)
            ),
            None,
        )


# -- what a scope names


def targets_of(stores: Watched, scope: Scope) -> list[tuple[Kind, Json]]:
    """The targets of a scope that exist, and those that carry a record of its rule."""
    found: dict[tuple[str, str, str], tuple[Kind, Json]] = {}
    for ref in scope.targets:
        if one := _stored(stores, ref):
            found[(ref.kind, ref.namespace, ref.name)] = one
    for kind in KINDS:
        for raw in stores.serving[kind.kind].by("rule", scope.rule):
            found.setdefault((kind.kind, *key_of(raw)), (kind, stores.target(kind, raw)))
    for ref in scope.heirs:
        # Whatever scales it, the target or another of any name, owns its count, unless frozen.
        owners = filter(raises, stores.serving[SCALED_OBJECT.kind].by("scaled", str(ref)))
        if not any(owners) and (one := _stored(stores, ref)):
            found.setdefault((ref.kind, ref.namespace, ref.name), one)
    return list(found.values())


def _stored(stores: Watched, ref: Ref) -> tuple[Kind, Json] | None:
    kind = kind_of(ref)
    raw = stores.serving[kind.kind].get(ref.namespace, ref.name) if kind else None
    return (kind, stores.target(kind, raw)) if kind and raw else None


def queues_of(stores: Watched, scope: Scope) -> list[str]:
    """The queues of a scope, and those that carry an epoch of its rule."""
    marked = [
        raw["metadata"]["name"]
        for raw in stores.queues.by("rule", scope.rule)
        if epoch_of(raw) is not None
    ]
    return list(dict.fromkeys([*scope.queues, *marked]))


def nodes_of(stores: Watched, scope: Scope) -> list[Json]:
    """The nodes that a scope selects."""
    return [
        node
        for node in stores.nodes.all()
        if scope.node_selector and scope.node_selector.items() <= labels_of(node).items()
    ]


def node_names(stores: Watched, scope: Scope) -> set[str]:
    """The nodes whose pods count: those that a scope selects, and those that it names."""
    return {node["metadata"]["name"] for node in nodes_of(stores, scope)}.union(scope.nodes)


# -- reads made now


def refresh(api: Api, stores: Watched, scope: Scope) -> None:
    """Read what a look depends on, and put it into the stores. Raises ApiError."""
    if scope.node_selector:
        selector = ",".join(f"{name}={value}" for name, value in scope.node_selector.items())
        known = nodes_of(stores, scope)
        stores.nodes.replace(api.pages(watched.NODES, labelSelector=selector), known)
    for name in scope.nodes:
        # One that has lost its labels is not gone.
        _read(api, stores.nodes, f"{watched.NODES}/{name}", ("", name))
    refs = (*scope.targets, *scope.heirs)
    named = [(kind, (ref.namespace, ref.name)) for ref in refs if (kind := kind_of(ref))]
    marked = [(kind, key_of(raw)) for kind, raw in targets_of(stores, scope)]
    for kind, key in dict.fromkeys(named + marked):
        _read(api, stores.serving[kind.kind], kind.path(*key), key)
        stored = stores.serving[kind.kind].get(*key)
        if stored and (ref := kind.scaled(stored)) and (below := kind_of(ref)):
            where = (ref.namespace, ref.name)
            _read(api, stores.serving[below.kind], below.path(*where), where)
    _refresh_pods(api, stores, scope)
    _refresh_queues(api, stores, scope)


def _refresh_pods(api: Api, stores: Watched, scope: Scope) -> None:
    for name in sorted(node_names(stores, scope)):
        pages = api.pages(watched.PODS, fieldSelector=f"spec.nodeName={name}")
        stores.pods.replace(pages, stores.pods.by("node", name))
    for kind, raw in targets_of(stores, scope):
        namespace = raw["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/pods"
        known = [pod for pod in stores.pods.by("namespace", namespace) if kind.owns(raw, pod)]
        stores.pods.replace(api.pages(path, labelSelector=kind.pod_selector(raw)), known)


def _refresh_queues(api: Api, stores: Watched, scope: Scope) -> None:
    names = queues_of(stores, scope)
    for name in names:
        _read(api, stores.queues, f"{watched.QUEUES}/{name}", ("", name))
    if names:
        _read_all(api, stores.local_queues, watched.LOCAL_QUEUES)
    for name in names:
        # Of all Workloads only the admitted ones can be asked for by queue; those that wait
        # matter to nobody's safety, and come by the watch.
        _read_all(
            api,
            stores.workloads,
            watched.WORKLOADS,
            among=stores.workloads.by("admitted", name),
            fieldSelector=f"status.admission.clusterQueue={name}",
        )


def _read(api: Api, store: Store, path: str, key: tuple[str, str]) -> None:
    try:
        store.upsert(api.get(path))
    except ApiError as error:
        if not error.gone:
            raise
        store.remove(key)


def _read_all(
    api: Api, store: Store, path: str, among: list[Json] | None = None, **query: str
) -> None:
    try:
        store.replace(api.pages(path, **query), among)
    except ApiError as error:
        if not error.gone:
            raise
        # Kueue has been taken out of the cluster: nothing of it is left.
        store.clear()
