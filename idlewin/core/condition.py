"""Conditions: what stands about a rule, as Kubernetes shows it, each with a reason and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from enum import StrEnum

from idlewin.core import batch, failure, sealing, timing, whose
from idlewin.core.lint import CONSENT, too_much_quota
from idlewin.core.load import Level
from idlewin.core.phase import AWAY, GIVING_BACK, Phase
from idlewin.core.pool import Queue, StopPolicy
from idlewin.core.situation import Situation
from idlewin.core.status import Condition, Status, Truth, Window
from idlewin.core.text import format_instant


class ConditionType(StrEnum):
    """The conditions of an IdleRule. Those after READY are shown only while there is cause."""

    READY = "Ready"
    """The rule can be read, its queues are ours, and the cluster agrees with it."""
    LOAD_KNOWN = "LoadKnown"
    """Demand can be told."""
    CONTESTED = "Contested"
    """Another writer keeps changing what is ours."""
    INSIDE_KUEUE = "ServingInsideKueue"
    """With Kueue down serving could not come back: its namespace is inside Kueue's webhooks."""
    CONTRACT_MISSING = "ContractMissing"
    """Work in a contract queue that did not agree to be evicted; it is waited for."""
    WITHOUT_KUEUE = "AdmittedWithoutKueue"
    """Kueue is away, and work is admitted that nobody ends."""
    SEAL_REFUSED = "SealRefused"
    """A queue could not be stopped; its LocalQueues were, and pods that agreed are evicted."""
    RETURN_OVERDUE = "ReturnOverdue"
    """Batch keeps serving out past drainTimeout, or it is not back readyTimeout after that."""
    NOTHING_ADMITTED = "NothingAdmitted"
    """The window is open, work waits that fits, and none was let in for half of dryAfter."""
    HANDOVER_FAILED = "HandoverFailed"
    """Something went wrong in the last handover; the next one waits."""
    SERVING_DOWN = "ServingDown"
    """Outside a window a target that was up has fallen to zero, or has no ready pod for long."""
    PODS_NOT_READY = "PodsNotReadyInTime"
    """Kueue took work back because it was admitted and its pods got no card in time."""
    QUOTA_TOO_LARGE = "QuotaTooLarge"
    """The queues together may admit work for more cards than the rule has."""
    BATCH_BESIDE = "BatchBesideServing"
    """No window is open, and batch holds a card."""
    CLOSED_BY_OTHER = "QueueClosedByOther"
    """A person closed a queue; it stays so until ``idlewin resume``."""
    DELETION_WAITS = "DeletionWaits"
    """The rule is being deleted, and only its LocalQueues keep a queue closed."""
    RECORD_LOST = "RecordLost"
    """A target is at zero and neither copy of what it was is left; it is not raised."""


#: Conditions that need a person.
ALARMS = frozenset(
    {
        ConditionType.CONTESTED,
        ConditionType.WITHOUT_KUEUE,
        ConditionType.RETURN_OVERDUE,
        ConditionType.NOTHING_ADMITTED,
        ConditionType.HANDOVER_FAILED,
        ConditionType.SERVING_DOWN,
        ConditionType.BATCH_BESIDE,
        ConditionType.DELETION_WAITS,
        ConditionType.RECORD_LOST,
    }
)


def alarming(status: Status) -> frozenset[str]:
    """The conditions of a status that need a person."""
    return frozenset(
        one.type for one in status.conditions if one.type in ALARMS and one.status is Truth.TRUE
    )


INSIDE_KUEUE = (
    "with Kueue down its pods could not be created; take the namespace out of Kueue's pod and "
    "workload webhooks (managedJobsNamespaceSelector)"
)
Found = tuple[ConditionType, bool, str, str]


def conditions(s: Situation, status: Status, phase: Phase) -> tuple[Condition, ...]:
    """The conditions now; one whose status is as before keeps its time of transition."""
    before = {condition.type: condition for condition in s.status.conditions}
    found = [*_standing(s), *_causes(s, status, phase)]
    return tuple(_made(s, before.get(one[0]), one) for one in found)


def _made(s: Situation, before: Condition | None, found: Found) -> Condition:
    kind, truth, why, text = found
    value = Truth.TRUE if truth else Truth.FALSE
    since: datetime = s.now
    if before and before.status is value:
        if before.reason == why:
            # The sentence may name numbers that change; it alone is not worth a write.
            return replace(before, observed_generation=s.object.generation)
        since = before.last_transition_time
    return Condition(
        type=kind.value,
        status=value,
        reason=why,
        message=text,
        last_transition_time=since,
        observed_generation=s.object.generation,
    )


def _standing(s: Situation) -> Iterator[Found]:
    if s.refusals:
        first = s.refusals[0]
        more = f" (and {len(s.refusals) - 1} more)" if len(s.refusals) > 1 else ""
        yield ConditionType.READY, False, first.fault.value, first.text + more
    else:
        yield ConditionType.READY, True, "Agreed", "the rule and its cluster agree"
    known = s.load.level is not Level.UNKNOWN
    yield ConditionType.LOAD_KNOWN, known, "Known" if known else "Unknown", s.load.why


def _causes(s: Situation, status: Status, phase: Phase) -> Iterator[Found]:
    if status.contested_by:
        text = (
            f"{status.contested_by} keeps changing what idlewin owns; make it ignore the field, "
            f"then run 'idlewin resume {s.object.name}'"
        )
        yield ConditionType.CONTESTED, True, "SecondWriter", text
    inside = [str(target.ref) for target in s.pool.targets if target.inside_kueue]
    if inside and not any(refusal.fault in CONSENT for refusal in s.refusals):
        text = f"{', '.join(inside)}: {INSIDE_KUEUE}"
        yield ConditionType.INSIDE_KUEUE, True, "WebhooksCoverServing", text
    beside = batch.batch_pods(s) if phase is Phase.SERVING and whose.may_act(s) else ()
    if beside and s.status.phase == phase:
        names = ", ".join(str(pod) for pod in beside)
        text = f"{names} on the cards though no window is open; end it, or let it run out"
        yield ConditionType.BATCH_BESIDE, True, "BatchOnCards", text
    if phase is Phase.SERVING:
        yield from _while_serving(s, status)
    if lost := [str(target.ref) for target in whose.lost(s)]:
        text = f"{', '.join(lost)}: at our zero, and no record is left; scale it by hand"
        yield ConditionType.RECORD_LOST, True, "NoCopyLeft", text
    if s.rule and (text := too_much_quota(s.rule, s.pool)):
        yield ConditionType.QUOTA_TOO_LARGE, True, "MoreThanCards", text
    if late := [str(w) for queue in s.pool.queues for w in queue.workloads if w.timed_out]:
        text = (
            f"Kueue's waitForPodsReady took back {', '.join(late)}, and ends such work for good "
            "after a few times; give the queues no more quota than there are cards, or raise "
            "its timeout"
        )
        yield ConditionType.PODS_NOT_READY, True, "PodsReadyTimeout", text
    if closed := [whose.stopped_by(q) for q in _closed(s, phase)]:
        text = (
            f"ClusterQueue {', '.join(closed)}; idlewin leaves it so until "
            f"'idlewin resume {s.object.name}'"
        )
        yield ConditionType.CLOSED_BY_OTHER, True, "StopPolicyChanged", text
    if status.window and phase in AWAY:
        yield from _in_window(s, status, phase)


def _while_serving(s: Situation, status: Status) -> Iterator[Found]:
    owed = status.owed.local_queues if s.object.deleting and s.object.finalizer else ()
    if held := sorted({q.cluster_queue for q in owed if not sealing.may_reopen(s, q)}):
        text = (
            f"Kueue does not show {', '.join(held)} stopped, so its LocalQueues stay closed, and "
            "the rule stays; bring Kueue back, or where it is gone for good, webhooks too, run "
            f"'idlewin give-back {s.object.name} --force'"
        )
        yield ConditionType.DELETION_WAITS, True, "KueueAway", text
    if status.failure:
        due = status.back_off_until
        wait = f"the next handover waits until {format_instant(due)}" if due else ""
        again = f"see that serving answers, then run 'idlewin resume {s.object.name}'"
        text = f"{status.failure}; {again if status.unproven else wait}"
        why = "ReturnUnproven" if status.unproven else "BackingOff"
        yield ConditionType.HANDOVER_FAILED, True, why, text
    fell = [name for name, told in failure.down(s).items() if s.now >= told]
    if fell:
        found = [now for now in s.pool.targets if str(now.ref) in fell]
        zero = [f"{t.ref} (by {t.replicas_writer or 'somebody'})" for t in found if not t.replicas]
        unready = [failure.of_target(t, t.replicas) for t in found if t.replicas]
        text = (
            f"outside a window: {'; '.join([*unready, *(f'{one} is at zero' for one in zero)])}; "
            f"if that is meant, run 'idlewin resume {s.object.name}'"
        )
        yield ConditionType.SERVING_DOWN, True, "ScaledToZero" if zero else "NotReady", text


def _closed(s: Situation, phase: Phase) -> list[Queue]:
    """The queues that stay shut because somebody else shut them."""
    if phase in GIVING_BACK:
        return []
    queues = whose.ours(s) if phase is Phase.SERVING else [q for _, q in sealing.entries(s)]
    return [queue for queue in queues if whose.closed_by_other(s, queue)]


def _in_window(s: Situation, status: Status, phase: Phase) -> Iterator[Found]:
    window = status.window
    assert window is not None  # noqa: S101 - the caller has looked
    missing = [
        str(work)
        for entry, queue in sealing.entries(s)
        for work in sealing.lacking(entry, queue, window)
        if work.admitted or phase not in GIVING_BACK  # A stopped queue lets it wait.
    ]
    if missing:
        text = f"{', '.join(missing)} did not agree to be evicted, so the return waits for it"
        yield ConditionType.CONTRACT_MISSING, True, "NoContract", text
    waiting = failure.in_vain(s) if phase is Phase.HARVESTING else ()
    if waiting and s.rule and s.now >= batch.without_work_since(s) + s.rule.batch.dry_after / 2:
        text = (
            f"{', '.join(str(work) for work in waiting)} waits in an open queue and is not "
            "admitted; compare its requests with the queue's flavors and quota"
        )
        yield ConditionType.NOTHING_ADMITTED, True, "PendingOnly", text
    if phase not in GIVING_BACK or s.status.phase != phase:
        return
    # A stop that cannot be written for as long is not seen either.
    late = s.now >= s.since + timing.STOP_SEEN_WITHIN
    unseen = [
        queue.name
        for _, queue in sealing.entries(s)
        if sealing.unseen(s, queue) or (late and queue.stop_policy is StopPolicy.NONE)
    ]
    if unseen:
        text = f"Kueue does not show {', '.join(unseen)} stopped; their LocalQueues are closed"
        yield ConditionType.SEAL_REFUSED, True, "KueueAway", text
        left = [str(w) for w in batch.admitted(s)]
        if left and s.now >= sealing.overdue_at(s, window):
            text = f"{', '.join(left)} stay admitted; nothing ends them until Kueue is back"
            yield ConditionType.WITHOUT_KUEUE, True, "KueueAway", text
    if phase is Phase.RESTORING:
        yield from _return(s, window)
    elif s.now >= sealing.overdue_at(s, window) and whose.to_restore(s):
        held = ", ".join(str(one) for one in batch.batch_pods(s) or batch.admitted(s))
        text = (
            f"{held or 'batch'} keeps serving out past drainTimeout; look at it, or run "
            f"'idlewin give-back {s.object.name} --force'; the queues stay sealed"
        )
        yield ConditionType.RETURN_OVERDUE, True, "BatchStays", text


def _return(s: Situation, window: Window) -> Iterator[Found]:
    due, late, refused = whose.to_restore(s), [], False
    for target in failure.late(s, window):
        if now := whose.same(s, target):
            told = failure.of_target(now, target.replicas if now in due else now.replicas)
            why = s.target_refused.get(str(now.ref)) if now in due else ""
            late.append(f"{told}, and not let back: {why}" if why else told)
            refused = refused or bool(why)
    if late:
        look = "look at who refuses that" if refused else "look at its pods and events"
        text = f"{', '.join(late)}; {look}; the queues stay sealed"
        yield ConditionType.RETURN_OVERDUE, True, "Refused" if refused else "NotReady", text
