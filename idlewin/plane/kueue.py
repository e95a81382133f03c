"""Kueue's objects of a plane, each with why it is so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from idlewin.core.pool import ADOPTED_BY
from idlewin.core.text import format_duration
from idlewin.plane.hardware import Cards
from idlewin.plane.model import Plane, Queue
from idlewin.plane.objects import Object

_API = "kueue.x-k8s.io/v1beta2"
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def objects(plane: Plane) -> Iterator[Object]:
    """All of them, kind by kind."""
    yield from _topologies(plane)
    for cards in plane.written.cards:
        yield _flavor(plane, cards)
    for cards in plane.written.cards:
        yield from _cohorts(plane, cards)
    yield from _priorities(plane)
    for queue in plane.queues:
        yield _cluster_queue(plane, queue)
    for queue in plane.queues:
        for namespace in queue.tenant.namespaces:
            yield _local_queue(queue, namespace)


def _object(kind: str, name: str, more: Mapping[str, Any], why: str = "", **meta: Any) -> Object:
    body = {"apiVersion": _API, "kind": kind, "metadata": {"name": name, **meta}, **more}
    return Object(body=body, why=why)


def _topologies(plane: Plane) -> Iterator[Object]:
    for topology in plane.written.topologies:
        levels = [{"nodeLabel": level} for level in topology.levels]
        why = (
            "Every node of cards of this topology needs all of these labels; levels cannot change."
        )
        yield _object("Topology", topology.name, {"spec": {"levels": levels}}, why)


def _flavor(plane: Plane, cards: Cards) -> Object:
    device = plane.device_class(cards)
    spec: dict[str, Any] = {"nodeLabels": cards.labels}
    if cards.topology is not None:
        spec["topologyName"] = cards.topology
    why = (
        f"{cards.model}, {cards.memory}, {cards.count} on {', '.join(cards.nodes)}; device class "
        f"{device.name}: {device.kind.value}. One pod a card."
    )
    return _object("ResourceFlavor", cards.name, {"spec": spec}, why)


def _cohorts(plane: Plane, cards: Cards) -> Iterator[Object]:
    quota = {cards.resource: cards.count, "cpu": cards.host.cpu, "memory": cards.host.memory}
    why = (
        f"The quota is what there is: {cards.count} of {cards.model}. It stands here alone, so "
        "no queue can have more, and only the queues below are members: one that is not stopped "
        "with them could use the cards while they are closed."
    )
    yield _object("Cohort", cards.name, {"spec": _groups(cards, quota)}, why)
    tenants = {queue.tenant.name: queue for queue in plane.on(cards)}
    for queue in tenants.values():
        tenant = queue.tenant
        spec: dict[str, Any] = {"parentName": cards.name}
        most = tenant.quota.get(cards.name)
        if most is not None:
            spec |= _groups(cards, dict.fromkeys(quota, 0), {cards.resource: most})
        # Its type is a quantity, which the API server keeps as text.
        spec["fairSharing"] = {"weight": str(tenant.weight)}
        limit = f"at most {most} at a time" if most is not None else "up to all of them"
        why = (
            f"Tenant {tenant.name} on {cards.name}: {limit}, over all of its queues. Its weight "
            "counts where fairSharing is on in Kueue's configuration."
        )
        yield _object("Cohort", queue.cohort, {"spec": spec}, why)


def _groups(
    cards: Cards, quota: Mapping[str, object], limits: Mapping[str, int] | None = None
) -> dict[str, Any]:
    resources = []
    for name, nominal in quota.items():
        entry: dict[str, Any] = {"name": name, "nominalQuota": str(nominal)}
        if limits and name in limits:
            entry["borrowingLimit"] = str(limits[name])
        resources.append(entry)
    flavors = [{"name": cards.name, "resources": resources}]
    return {"resourceGroups": [{"coveredResources": [*quota], "flavors": flavors}]}


def _priorities(plane: Plane) -> Iterator[Object]:
    for priority in plane.written.priorities:
        more: dict[str, Any] = {"value": priority.value}
        if priority.description:
            more["description"] = priority.description
        yield _object("WorkloadPriorityClass", priority.name, more)


def _cluster_queue(plane: Plane, queue: Queue) -> Object:
    cards = queue.cards
    ruled = plane.rule(cards) is not None
    marks = {"annotations": {ADOPTED_BY: cards.name}} if ruled else {}
    names = list(queue.tenant.namespaces)
    where = {"key": NAMESPACE_LABEL, "operator": "In", "values": names}
    empty: dict[str, object] = {cards.resource: 0, "cpu": 0, "memory": 0}
    spec = {
        "cohortName": queue.cohort,
        "namespaceSelector": {"matchExpressions": [where]},
        "preemption": _preemption(plane, queue),
        **_groups(cards, empty),
    }
    return _object("ClusterQueue", queue.name, {"spec": spec}, _why(queue, ruled=ruled), **marks)


def _why(queue: Queue, *, ruled: bool) -> str:
    end = queue.kind.max_runtime
    agreed = f"ends within {format_duration(end)}" if end else "saves itself and resumes"
    gate = (
        "No stopPolicy: that field is idlewin's. Close it before its first Job."
        if ruled
        else "Nobody serves on these cards, so no rule closes it."
    )
    if queue.kind.is_protected:
        taken = "Never preempted"
        taken += ", for it agreed to nothing of the kind." if end else ": it is protected."
    else:
        taken = "Work under a contract may be preempted by more important work of its kind."
    return f"Work here {agreed}. {gate} {taken}"


def _preemption(plane: Plane, queue: Queue) -> dict[str, str]:
    """Whom its work may preempt: nobody but work that agreed to it, all of which is in reach."""
    if queue.kind.is_protected:
        return {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}
    spared = any(other.kind.is_protected for other in plane.on(queue.cards))
    return {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Never" if spared else "Any",
    }


def _local_queue(queue: Queue, namespace: str) -> Object:
    more = {"spec": {"clusterQueue": queue.name}}
    return _object("LocalQueue", queue.local, more, namespace=namespace)
