"""What a cluster has that a first rule is about: one list of each kind, made now, and no watch.

Whose pods they are is tenancy.py's. What is not there, or must not be listed, is said and left
out; without nodes and pods there is nothing to draft.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.edits import RULES, told
from idlewin.adapters.fields import annotation, labels_of, whole
from idlewin.adapters.objects import trim_pod
from idlewin.adapters.queues import GROUP as KUEUE, trim_workload, workload_of
from idlewin.adapters.serving import KINDS
from idlewin.adapters.tenancy import Objects, tenants
from idlewin.adapters.watched import NODES, PODS, QUEUES, WORKLOADS
from idlewin.core.pool import ADOPTED_BY
from idlewin.draft.facts import Facts, Node, Owned, Queue

Json = dict[str, Any]
_FLAVORS = f"{KUEUE}/resourceflavors"
_LOCAL_QUEUES = f"{KUEUE}/localqueues"
_AUTOSCALERS = "/apis/autoscaling/v2/horizontalpodautoscalers"
_SERVICES = "/api/v1/services"
#: What leads to a Service by its name, or to a Deployment.
_ROUTES = (
    "/apis/networking.k8s.io/v1/ingresses",
    "/apis/gateway.networking.k8s.io/v1/httproutes",
    "/apis/traefik.io/v1alpha1/ingressroutes",
    "/apis/http.keda.sh/v1alpha1/httpscaledobjects",
)


@dataclass(slots=True)
class Lists:
    """Lists, and why some could not be had."""

    api: Api
    unseen: dict[str, str] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)

    def all(self, path: str, keep: Callable[[Json], Json | None] = lambda raw: raw) -> list[Json]:
        """All objects of a path, as far as they are kept; none where the cluster has no such kind.

        By pages: of a large cluster only what is kept is held.
        """
        try:
            return list(self._kept(path, keep))
        except ApiError as error:
            if error.gone:
                self.absent.add(path)
            else:
                self.unseen[path.rpartition("/")[2]] = error.message
            return []

    def needed(self, path: str, keep: Callable[[Json], Json | None]) -> list[Json]:
        """The same, where nothing can be drafted without. Raises IdlewinError."""
        with told(path.rpartition("/")[2]):
            return list(self._kept(path, keep))

    def _kept(self, path: str, keep: Callable[[Json], Json | None]) -> Iterator[Json]:
        for page, _ in self.api.pages(path):
            yield from filter(None, map(keep, page))


def inventory(api: Api) -> Facts:
    """All of it. Raises IdlewinError where nodes or pods cannot be listed."""
    lists = Lists(api)
    nodes = [_node(raw) for raw in lists.needed(NODES, lambda raw: raw)]
    pods = lists.needed(PODS, _on_cards)
    serving = {kind.kind: lists.all(kind.watch_path) for kind in KINDS}
    objects = Objects(
        serving=serving,
        autoscalers=lists.all(_AUTOSCALERS),
        services=lists.all(_SERVICES),
        routes=[raw for path in _ROUTES for raw in lists.all(path)],
    )
    resources = sorted({name for node in nodes for name in node.cards})
    return Facts(
        nodes=tuple(sorted(nodes, key=lambda node: node.name)),
        tenants=tuple(tenants(objects, pods, resources)),
        queues=tuple(_queues(lists)),
        flavors={
            raw["metadata"]["name"]: (raw.get("spec") or {}).get("nodeLabels") or {}
            for raw in lists.all(_FLAVORS)
        },
        rules=tuple(map(_owned, lists.all(RULES))),
        no_kueue=QUEUES in lists.absent,
        no_definition=RULES in lists.absent,
        unseen=lists.unseen,
    )


def _owned(raw: Json) -> Owned:
    """A rule's cards, as they are written: one that cannot be read may have lent them."""
    spec = raw.get("spec")
    cards = spec.get("cards") if isinstance(spec, dict) else None
    named = cards if isinstance(cards, dict) else {}
    nodes = named.get("nodeSelector")
    return Owned(
        name=raw["metadata"]["name"],
        resource=str(named.get("resource", "")),
        node_selector=nodes if isinstance(nodes, dict) else {},
    )


def _node(raw: Json) -> Node:
    has, status = (raw.get("status") or {}).get("allocatable") or {}, raw.get("status") or {}
    return Node(
        name=raw["metadata"]["name"],
        labels=labels_of(raw),
        cards={name: whole(count) for name, count in has.items() if "/" in name},
        cpu=max(1, _floor(has.get("cpu", 1))),
        memory=max(1, _floor(has.get("memory", 0)) // 2**30),
        addresses=tuple(one["address"] for one in status.get("addresses") or ()),
    )


def _floor(quantity: object) -> int:
    # Rounded up is what is asked for; what there is, is rounded down.
    return -whole(f"-{quantity}")


def _on_cards(raw: Json) -> Json | None:
    """A pod that requests an extended resource or mounts a device, with the programs in it."""
    kept = trim_pod(raw, ())
    return {**kept, "programs": raw["spec"].get("containers") or []} if kept else None


# -- queues


def _queues(lists: Lists) -> Iterator[Queue]:
    found = lists.all(QUEUES)
    homes = {
        (raw["metadata"]["namespace"], raw["metadata"]["name"]): raw["spec"].get("clusterQueue", "")
        for raw in (lists.all(_LOCAL_QUEUES) if found else [])
    }
    work: dict[str, list[Json]] = {}
    for raw in lists.all(WORKLOADS) if found else []:
        home = (raw["metadata"]["namespace"], (raw.get("spec") or {}).get("queueName", ""))
        work.setdefault(homes.get(home, ""), []).append(raw)
    for raw in sorted(found, key=lambda raw: str(raw["metadata"]["name"])):
        yield _queue(raw, work.get(raw["metadata"]["name"], []))


def _queue(raw: Json, work: list[Json]) -> Queue:
    groups = (raw.get("spec") or {}).get("resourceGroups") or ()
    flavors: dict[str, list[str]] = {}
    for flavor in (flavor for group in groups for flavor in group.get("flavors") or ()):
        for quota in flavor.get("resources") or ():
            flavors.setdefault(quota["name"], []).append(flavor["name"])
    name = raw["metadata"]["name"]
    # Ended work tells as much as what waits: of what kind the work of this queue is.
    agreed = [_agreed(one, name) for one in work]
    limits = [limit for _, limit in agreed]
    return Queue(
        name=name,
        flavors={resource: tuple(names) for resource, names in flavors.items()},
        rule=annotation(raw, ADOPTED_BY),
        longest=max((limit for limit in limits if limit), default=None) if all(limits) else None,
        checkpoint=bool(agreed) and all(contract for contract, _ in agreed),
        works=len(agreed),
    )


def _agreed(raw: Json, queue: str) -> tuple[bool, timedelta | None]:
    """Whether work is under the contract, and its maximum execution time."""
    trimmed = trim_workload({**raw, "status": {}})
    assert trimmed is not None  # noqa: S101 - it does not say Finished any more
    work = workload_of(trimmed, queue, "")
    return work.contract, work.max_runtime
