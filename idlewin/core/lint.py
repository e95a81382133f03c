"""Why a rule and its cluster do not agree: each fault by its own name, with the remedy.

A refusal keeps a window from opening and is shown as the rule's condition; it never stops a
return. What a file alone can show is rule.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from idlewin.core.pool import Pool, Queue, RuleObject, Target, Workload
from idlewin.core.rule import OnReturn, QueueClass, Rule
from idlewin.core.text import format_duration


class Fault(StrEnum):
    """What can be wrong between a rule and its cluster."""

    SPEC_INVALID = "SpecInvalid"
    NOT_SUPPORTED = "NotSupported"
    QUEUE_MISSING = "QueueMissing"
    NOT_ADOPTED = "NotAdopted"
    RULE_CONFLICT = "RuleConflict"
    CARDS_MISMATCH = "CardsMismatch"
    TARGET_MISSING = "TargetMissing"
    SERVING_TOO_LARGE = "ServingTooLarge"
    SERVING_NOT_OURS = "ServingNotOurs"
    QUOTA_LEAKS = "QuotaLeaks"
    BOUND_NOT_ENFORCED = "BoundNotEnforced"
    WAKE_UNREADABLE = "WakeUnreadable"
    NOT_CHECKED = "NotChecked"


NO_KUEUE = (
    "the cluster knows no ClusterQueue (kueue.x-k8s.io/v1beta2), so nothing can be lent; install "
    "Kueue, or a version of it that has v1beta2"
)
#: Faults of consent: nothing at all is written to a queue that is not ours.
CONSENT = frozenset({Fault.QUEUE_MISSING, Fault.NOT_ADOPTED})


@dataclass(frozen=True, slots=True)
class Refusal:
    """One fault, in a sentence that ends with what would be right."""

    fault: Fault
    text: str


def refusals(
    this: RuleObject, pool: Pool, others: Iterable[RuleObject] = ()
) -> tuple[Refusal, ...]:
    """All that keeps this rule from opening a window, the most basic fault first."""
    if this.rule is None:
        return (Refusal(Fault.SPEC_INVALID, this.error),)
    found = [
        *_conflicts(this, pool, others),
        *_queues(this.name, this.rule, pool),
        *_cards(this.rule, pool),
        *_targets(this.rule, pool),
        *_bounds(this.rule, pool),
    ]
    if this.wake_error:
        found.append(Refusal(Fault.WAKE_UNREADABLE, this.wake_error))
    if pool.unseen:
        found.append(
            Refusal(
                Fault.NOT_CHECKED,
                "not seen, so whether serving could come back and who else may use the quota "
                f"cannot be checked: {'; '.join(pool.unseen)}; let idlewin list and watch these",
            )
        )
    return tuple(found)


def _queues(name: str, rule: Rule, pool: Pool) -> Iterator[Refusal]:
    if pool.no_kueue:
        yield Refusal(Fault.QUEUE_MISSING, NO_KUEUE)
        return
    for spec in rule.batch.queues:
        queue = pool.queue(spec.cluster_queue)
        if queue is None or queue.terminating:
            yield Refusal(
                Fault.QUEUE_MISSING,
                f"ClusterQueue {spec.cluster_queue} does not exist; create it, or take it out of "
                "batch.queues",
            )
        elif queue.adopted_by != name:
            owner = f"is adopted by rule {queue.adopted_by}" if queue.adopted_by else "is not ours"
            yield Refusal(
                Fault.NOT_ADOPTED,
                f"ClusterQueue {queue.name} {owner}; run 'idlewin adopt {queue.name} --rule "
                f"{name}' to let idlewin open and close it",
            )
        else:
            for leak in queue.leaks:
                yield Refusal(Fault.QUOTA_LEAKS, leak)


def _conflicts(this: RuleObject, pool: Pool, others: Iterable[RuleObject]) -> Iterator[Refusal]:
    """The older rule keeps what two rules name; of equal age, the one first by name."""
    assert this.rule is not None  # noqa: S101 - the caller has looked
    for other in others:
        if other.rule is None or other.name == this.name or _age(this) < _age(other):
            continue
        shared = [f"ClusterQueue {name}" for name in _common_queues(this.rule, other.rule)]
        shared += [str(s.ref) for s in this.rule.serving if s.ref in _refs(other.rule)]
        if this.rule.cards.resource == other.rule.cards.resource:
            wanted = other.rule.cards.node_selector.items()
            both = [node for node, labels in pool.labels.items() if wanted <= labels.items()]
            shared += [f"{this.rule.cards.resource} on node {node}" for node in both]
        for what in shared:
            yield Refusal(
                Fault.RULE_CONFLICT,
                f"{what} belongs to rule {other.name}, which is older; one rule owns a queue, a "
                "target and a card, so take it out of one of the two",
            )


def _age(rule: RuleObject) -> tuple[datetime, str]:
    return (rule.created_at or _NEVER, rule.name)


def _common_queues(a: Rule, b: Rule) -> list[str]:
    names = {queue.cluster_queue for queue in b.batch.queues}
    return [q.cluster_queue for q in a.batch.queues if q.cluster_queue in names]


def _refs(rule: Rule) -> frozenset[object]:
    return frozenset(serving.ref for serving in rule.serving)


def _cards(rule: Rule, pool: Pool) -> Iterator[Refusal]:
    if not pool.allocatable:
        seen = f" ({', '.join(pool.nodes)})" if pool.nodes else ""
        yield Refusal(
            Fault.CARDS_MISMATCH,
            f"no node that matches nodeSelector{seen} has {rule.cards.resource}; correct "
            "cards.nodeSelector or cards.resource, or let the device plugin run there",
        )
    elif pool.allocatable != rule.cards.count:
        nodes = ", ".join(pool.nodes)
        yield Refusal(
            Fault.CARDS_MISMATCH,
            f"cards.count is {rule.cards.count}, but {nodes} can allocate {pool.allocatable} "
            f"{rule.cards.resource}; write {pool.allocatable}, and "
            "where a card is shared, set the device plugin to one pod a card",
        )


def _targets(rule: Rule, pool: Pool) -> Iterator[Refusal]:
    wanted = 0
    for serving in rule.serving:
        target = pool.target(serving.ref)
        if target is None:
            yield Refusal(
                Fault.TARGET_MISSING,
                f"{serving.ref} does not exist; create it, or take it out of serving",
            )
            continue
        wanted += _size(target)
        for trouble in target.trouble:
            yield Refusal(Fault.SERVING_NOT_OURS, trouble)
    if wanted > rule.cards.count:
        yield Refusal(
            Fault.SERVING_TOO_LARGE,
            f"serving requests {wanted} cards at its size, but the rule has {rule.cards.count}: "
            "with one pod a card they cannot all come back. Decide the co-tenancy: scale one of "
            "them to zero for good, move one to other cards, or let them take turns",
        )


def _size(target: Target) -> int:
    replicas = target.record.replicas if target.record else target.replicas
    return replicas * target.claims


def _bounds(rule: Rule, pool: Pool) -> Iterator[Refusal]:
    for spec in rule.batch.queues:
        queue = pool.queue(spec.cluster_queue)
        if queue is None or rule.batch.on_return is OnReturn.EVICT:
            continue
        if work := next(without_bound(spec, queue), None):
            limit = spec.max_runtime
            most = f" of at most {format_duration(limit)}" if limit else ", and no contract"
            yield Refusal(
                Fault.BOUND_NOT_ENFORCED,
                f"workload {work} in queue {queue.name} has no maximum "
                f"execution time{most}, so a returning user could "
                "wait for ever; label its Job kueue.x-k8s.io/max-exec-time-seconds, or enforce "
                "it by policy and annotate the queue idlewin.dev/max-runtime-enforced: 'true'",
            )


def without_bound(spec: QueueClass, queue: Queue) -> Iterator[Workload]:
    """Work that nothing ends within what its class says, and that has no contract."""
    limit = spec.max_runtime
    for work in () if queue.bound_enforced else queue.workloads:
        agreed = spec.contract is not None and work.contract
        long = work.max_runtime is None or (limit is not None and work.max_runtime > limit)
        if long and not agreed:
            yield work


def too_much_quota(rule: Rule, pool: Pool) -> str:
    """What comes of quota for more cards than there are; empty: there is none. No refusal."""
    if pool.quota is None or pool.quota <= rule.cards.count:
        return ""
    return (
        f"Kueue may admit work for {pool.quota} cards, and the rule has {rule.cards.count}: what "
        "gets no card waits while its maximum execution time runs, or waitForPodsReady ends it; "
        f"put the queues into one Cohort with a quota of {rule.cards.count}, and 0 on each"
    )


def must_wait(on_return: OnReturn, spec: QueueClass) -> bool:
    """Whether a returning user waits for work of this queue."""
    return spec.contract is None and on_return is OnReturn.WAIT


_NEVER = datetime.max.replace(tzinfo=UTC)
