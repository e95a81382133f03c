"""Quota as ClusterQueues and Cohorts have it: who may use it past the gate, and how much it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from idlewin.adapters.fields import whole

Json = dict[str, Any]


def quotas(raw: Json, resource: str) -> dict[str, Json]:
    """The quota of a resource on a ClusterQueue or Cohort, by flavor."""
    return {
        flavor["name"]: quota
        for group in raw["spec"].get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for quota in flavor.get("resources") or ()
        if quota["name"] == resource
    }


def leaks(
    queue: Json, ours: frozenset[str], queues: list[Json], cohorts: list[Json], resource: str
) -> Iterator[str]:
    """How a ClusterQueue's quota could be used while it is stopped: a stopped one lends in full."""
    if not queue["spec"].get("cohortName"):
        return
    parents = {c["metadata"]["name"]: c["spec"].get("parentName", "") for c in cohorts}
    root = _root(queue["spec"]["cohortName"], parents)
    others = [
        other
        for other in queues
        if other["metadata"]["name"] not in ours
        and _root(other["spec"].get("cohortName", ""), parents) == root
    ]
    name = queue["metadata"]["name"]
    tree = [c for c in cohorts if _root(c["metadata"]["name"], parents) == root]
    for flavor, quota in quotas(queue, resource).items():
        reach = [o["metadata"]["name"] for o in others if flavor in quotas(o, resource)]
        if not reach:
            continue
        who = ", ".join(sorted(reach))
        if whole(quota.get("nominalQuota", 0)) and whole(quota.get("lendingLimit", 1)):
            yield (
                f"ClusterQueue {name} lends its {resource} of flavor {flavor} to {who} while it is "
                "stopped; set lendingLimit: 0 on it, or take it out of its cohort"
            )
        for cohort in tree:
            pooled = quotas(cohort, resource).get(flavor, {})
            if whole(pooled.get("nominalQuota", 0)):
                yield (
                    f"Cohort {cohort['metadata']['name']} has {resource} of flavor {flavor}, which "
                    f"{who} can use while ClusterQueue {name} is stopped; make the rule's queues "
                    "its only members"
                )


def reach(
    ours: list[Json], queues: Iterable[Json], cohorts: Iterable[Json], resource: str
) -> int | None:
    """Cards that the work of some ClusterQueues may be admitted for together.

    None: they have several flavors, or none, and which of them are these cards does not show.
    """
    flavors = {flavor for queue in ours for flavor in quotas(queue, resource)}
    if len(flavors) != 1:
        return None
    (flavor,) = flavors
    parents = {c["metadata"]["name"]: c["spec"].get("parentName", "") for c in cohorts}
    roots = {_root(q["spec"]["cohortName"], parents) for q in ours if q["spec"].get("cohortName")}

    def cards(raw: Json, field: str) -> int | None:
        value = quotas(raw, resource).get(flavor, {}).get(field)
        return None if value is None else whole(value)

    def lent(raw: Json) -> int:
        nominal, limit = cards(raw, "nominalQuota") or 0, cards(raw, "lendingLimit")
        inside = bool(raw["spec"].get("cohortName"))
        return (nominal if limit is None else min(nominal, limit)) if inside else 0

    pooled = [c for c in cohorts if _root(c["metadata"]["name"], parents) in roots]
    lenders = [q for q in queues if _root(q["spec"].get("cohortName", ""), parents) in roots]
    own = sum((cards(queue, "nominalQuota") or 0) - lent(queue) for queue in ours)
    shared = sum(cards(one, "nominalQuota") or 0 for one in pooled) + sum(map(lent, lenders))
    limits = [cards(queue, "borrowingLimit") for queue in ours]
    bounds = [
        (cards(queue, "nominalQuota") or 0) + limit
        for queue, limit in zip(ours, limits, strict=True)
        if limit is not None
    ]
    return min(own + shared, sum(bounds)) if len(bounds) == len(ours) else own + shared


def _root(cohort: str, parents: dict[str, str]) -> str:
    seen = {cohort}
    while (parent := parents.get(cohort, "")) and parent not in seen:
        cohort = parent
        seen.add(cohort)
    return cohort
