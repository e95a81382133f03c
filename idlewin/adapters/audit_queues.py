"""ClusterQueues, their quota and the work in them, in an audit's words.

Pure functions over raw objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from idlewin.adapters.audit_pods import Object, ended
from idlewin.adapters.fields import condition, holds, maybe_instant, whole
from idlewin.adapters.quota import quotas
from idlewin.audit.facts import Admitted, Queue, Quota
from idlewin.draft.facts import is_card

Json = dict[str, Any]
_HELD = ("Hold", "HoldAndDrain")
#: Whose pods can be told; those of others may hang on objects that are not looked at.
_WITH_PODS = frozenset({"Job", "JobSet", "Pod"})


def with_spec(raw: Json) -> Json:
    """An object that has a spec: Kueue requires none."""
    return {**raw, "spec": raw.get("spec") or {}}


def queue(one: Object) -> Queue:
    """A ClusterQueue, and whether Kueue ends work in it."""
    policy = ((one.raw.get("spec") or {}).get("preemption") or {}).get("withinClusterQueue")
    told = f"preemption.withinClusterQueue is {policy}" if policy not in (None, "Never") else ""
    return Queue(thing=one.thing, preempts=told)


def quotas_of(objects: Iterable[Object]) -> Iterator[Quota]:
    """The quota of ClusterQueues and Cohorts."""
    for one in objects:
        raw = with_spec(one.raw)
        groups = raw["spec"].get("resourceGroups") or ()
        for resource in sorted({n for group in groups for n in group["coveredResources"]}):
            for flavor, quota in quotas(raw, resource).items():
                yield Quota(
                    thing=one.thing,
                    flavor=flavor,
                    resource=resource,
                    count=whole(quota.get("nominalQuota", 0)),
                    held=raw["spec"].get("stopPolicy") in _HELD,
                )


def admitted(
    works: Iterable[Object], jobs: Iterable[Object], pods: Iterable[Object]
) -> Iterator[Admitted]:
    """Work that Kueue has let in onto cards, with the number of its pods."""
    by_uid = {one.raw["metadata"].get("uid"): one for one in jobs}
    live = [pod for pod in pods if not ended(pod.raw)]
    for one in works:
        admission = (one.raw.get("status") or {}).get("admission") or {}
        if not holds(one.raw, "Admitted") or holds(one.raw, "Finished") or _elsewhere(one, by_uid):
            continue
        cards: dict[str, int] = {}
        for part in admission.get("podSetAssignments") or ():
            for name, count in (part.get("resourceUsage") or {}).items():
                if is_card(name):
                    cards[name] = cards.get(name, 0) + whole(count)
        since = (condition(one.raw, "Admitted") or {}).get("lastTransitionTime")
        if cards:
            yield Admitted(
                thing=one.thing,
                queue=admission.get("clusterQueue", ""),
                cards=cards,
                since=maybe_instant(since),
                pods=sum(_is_of(pod, one, by_uid) for pod in live),
            )


def _elsewhere(work: Object, jobs: Mapping[Any, Object]) -> bool:
    """Whether the pods of a Workload are made by somebody, or in some place, not looked at."""
    owners = work.raw["metadata"].get("ownerReferences") or ()
    return any(
        owner["kind"] not in _WITH_PODS
        or (owner["uid"] in jobs and jobs[owner["uid"]].raw["spec"].get("managedBy"))
        for owner in owners
    )


def _is_of(pod: Object, work: Object, jobs: Mapping[Any, Object]) -> bool:
    """Whether a pod is of the object that a Workload is of, or of a Job of that."""
    theirs = _owners(pod)
    theirs |= {uid for job in theirs & jobs.keys() for uid in _owners(jobs[job])}
    return bool(_owners(work) & {*theirs, pod.raw["metadata"].get("uid")})


def _owners(one: Object) -> set[Any]:
    return {owner["uid"] for owner in one.raw["metadata"].get("ownerReferences") or ()}
