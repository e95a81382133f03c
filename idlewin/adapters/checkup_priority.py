"""Who would preempt whom: the scheduler by PriorityClasses, and Kueue by its own.

The scheduler takes a card from a pod of lower priority, whatever has been agreed to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.diagnosis import Diagnosis, bad, doubt, good, unasked
from idlewin.adapters.fields import holds
from idlewin.adapters.queues import GROUP as KUEUE
from idlewin.adapters.serving import kind_of
from idlewin.core.lint import must_wait
from idlewin.core.pool import RuleObject
from idlewin.core.rule import Rule
from idlewin.core.target import Ref

Json = dict[str, Any]
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rank:
    """Where pods stand before the scheduler."""

    who: str
    value: int
    preempts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """What priorities rest on, read once."""

    classes: dict[str, Json]
    queues: dict[str, Json]
    works: dict[str, list[Json]]
    """Work that has not ended, by its ClusterQueue."""

    def rank(self, who: str, spec: Json) -> _Rank:
        """That of pods with this spec."""
        usual = next((n for n, one in self.classes.items() if one.get("globalDefault")), "")
        given = self.classes.get(spec.get("priorityClassName") or usual, {})
        policy = spec.get("preemptionPolicy") or given.get("preemptionPolicy")
        value = int(spec.get("priority") or given.get("value") or 0)
        return _Rank(who=who, value=value, preempts=policy != "Never")


def of_priorities(api: Api, rules: Iterable[RuleObject]) -> Iterator[Diagnosis]:
    """Each rule's serving beside the work in its queues; never raises."""
    known = [one for one in rules if one.rule]
    try:
        cluster = _read(api) if known else None
        for one in known:
            if cluster and one.rule:
                about = f"priorities of {one.name}"
                serving = [rank for ref in _refs(one.rule) if (rank := _serving(api, cluster, ref))]
                found = [
                    *_between(about, one.rule, cluster, serving),
                    *_within(about, one.rule, cluster),
                ]
                yield from found or [good(about, "nobody takes a card from anybody by priority")]
    except ApiError as error:
        yield unasked("priorities", error)


def _read(api: Api) -> _Cluster:
    locals_ = {
        (one["metadata"]["namespace"], one["metadata"]["name"]): str(one["spec"]["clusterQueue"])
        for one in api.listed(f"{KUEUE}/localqueues")[0]
    }
    works: dict[str, list[Json]] = {}
    for work in api.listed(f"{KUEUE}/workloads")[0]:
        place = work["metadata"]["namespace"], work["spec"].get("queueName", "")
        if not holds(work, "Finished"):
            works.setdefault(locals_.get(place, ""), []).append(work)
    return _Cluster(
        classes={one["metadata"]["name"]: one for one in api.listed(_CLASSES)[0]},
        queues={one["metadata"]["name"]: one for one in api.listed(f"{KUEUE}/clusterqueues")[0]},
        works=works,
    )


def _refs(rule: Rule) -> list[Ref]:
    return [serving.ref for serving in rule.serving]


def _serving(api: Api, cluster: _Cluster, ref: Ref) -> _Rank | None:
    """A target's pods; None: there is no such target, which its rule is told elsewhere."""
    kind = kind_of(ref)
    if kind is None:
        return None
    try:
        raw = api.get(kind.path(ref.namespace, ref.name))
        if (below := kind.scaled(raw)) and (its := kind_of(below)):
            raw = api.get(its.path(below.namespace, below.name))
    except ApiError as error:
        if error.gone:
            return None
        raise
    spec = raw["spec"]
    return cluster.rank(
        str(ref), (spec.get("template") or {}).get("spec") or spec.get("predictor") or {}
    )


def _between(
    about: str, rule: Rule, cluster: _Cluster, serving: list[_Rank]
) -> Iterator[Diagnosis]:
    """Batch that would take serving's card, and serving that takes it from work that waits."""
    for queue in rule.batch.queues:
        batch = [
            cluster.rank(
                f"{w['metadata']['namespace']}/{w['metadata']['name']}", pods["template"]["spec"]
            )
            for w in cluster.works.get(queue.cluster_queue, ())
            for pods in w["spec"].get("podSets") or ()
        ]
        for target in serving:
            over = [one for one in batch if one.preempts and one.value > target.value]
            if over:
                yield bad(
                    about,
                    f"pods of {over[0].who} (priority {over[0].value}) would take the card from "
                    f"{target.who} ({target.value}), also when users are back",
                    "give serving a PriorityClass of no less, or batch one that never preempts",
                )
            usual = cluster.rank("work without a PriorityClass", {})
            under = [one for one in (*batch, usual) if one.value < target.value]
            if under and target.preempts and must_wait(rule.batch.on_return, queue):
                yield doubt(
                    about,
                    f"{target.who} (priority {target.value}) would end pods of {under[0].who} "
                    f"({under[0].value}) in ClusterQueue {queue.cluster_queue}, which agreed to no "
                    "end, once it is scaled back after drainTimeout",
                    "give serving a PriorityClass that never preempts, or set onReturn: Evict",
                )


def _within(about: str, rule: Rule, cluster: _Cluster) -> Iterator[Diagnosis]:
    """Queues in which Kueue itself ends work that agreed to no end, for other work."""
    for queue in rule.batch.queues:
        raw = cluster.queues.get(queue.cluster_queue, {"spec": {}})
        policy = (raw["spec"].get("preemption") or {}).get("withinClusterQueue", "Never")
        if policy != "Never" and must_wait(rule.batch.on_return, queue):
            yield doubt(
                about,
                f"ClusterQueue {queue.cluster_queue} has preemption.withinClusterQueue: {policy}, "
                "so work of a higher WorkloadPriorityClass ends work there that agreed to no end",
                "set it to Never, or put such work under a contract",
            )
