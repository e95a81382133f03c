"""Acting is writing wanted minus observed: the actions of a phase, at one look.

Nothing here knows how it came to be in a phase. Asked again after a crash, or after a write that
did not get through, it plans what is left; a refused write is answered by the next rung.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from idlewin.core import failure, opening, sealing, timing, whose
from idlewin.core.decision import (
    Action,
    EvictPod,
    FenceQueue,
    ForgetRecord,
    HoldRule,
    ReleaseRule,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.follow import next_epoch
from idlewin.core.phase import WANTED, Gate, Phase, Replicas
from idlewin.core.pool import Pod, Queue, StopPolicy, Workload
from idlewin.core.situation import Situation
from idlewin.core.status import WindowQueue

#: Work that a drain should have evicted by then is stopped one by one.
DRAIN_SEEN_WITHIN = timedelta(seconds=20)
Actions = tuple[Action, ...]


def plan(s: Situation, phase: Phase) -> Actions:
    """The writes that make the phase's row true. ``s.status`` is that of the phase already."""
    wanted = WANTED[phase]
    # Queues first: nothing may open between a return and its fence.
    return (*_finalizer(s, phase), *_queues(s, wanted.queues), *_serving(s, wanted.serving))


# -- serving


def _serving(s: Situation, wanted: Replicas) -> Iterator[Action]:
    match wanted:
        case Replicas.LEAVE:
            return
        case Replicas.ZERO:
            yield from _lower(s)
        case Replicas.REMEMBERED:
            yield from _restore(s)


def _lower(s: Situation) -> Iterator[Action]:
    """To zero, once: a target that was lowered and raised again is its owner's."""
    for target in whose.remembered(s):
        now = whose.same(s, target)
        if now and now.replicas > 0 and not target.lowered and now.record is None:
            yield ScaleToZero(
                target=target.ref,
                uid=target.uid,
                replicas=target.replicas,
                resource_version=now.resource_version,
                rule=s.object.name,
                epoch=s.status.epoch,
                resource=s.window.resource if s.window else "",
                nodes=s.window.node_selector if s.window else {},
                generation=target.generation,
            )


def _restore(s: Situation) -> Iterator[Action]:
    due = {target.ref for target in whose.to_restore(s)}
    # A queue that somebody has opened meanwhile may let work in that is not seen yet.
    free = sealing.shut(s) and not sealing.batch_pods(s)
    for target in whose.remembered(s):
        now = whose.same(s, target)
        if now is None or target.restored:
            continue
        if target.ref in due:
            # Without a claim nothing but us keeps it off the cards while batch is there.
            if now.claims or free or s.forced:
                yield ScaleBack(
                    target.ref, target.uid, target.replicas, s.object.name, s.status.epoch
                )
        elif now.record is not None:
            yield ForgetRecord(target.ref, target.uid, s.object.name, s.status.epoch)
    for pod in failure.to_restart(s, s.window) if s.window else ():
        yield EvictPod(pod, delete=True)


# -- queues


def _queues(s: Situation, wanted: Gate) -> Iterator[Action]:
    match wanted:
        case Gate.SHUT:
            yield from _shut(s)
        case Gate.HOLD:
            for _, queue in sealing.entries(s):
                if whose.closed_by_other(s, queue):
                    continue
                if queue.stop_policy is not StopPolicy.HOLD:
                    yield _hold(s, queue)
                elif queue.left is None:
                    # From here on it shows who has written it: us, or somebody else.
                    yield replace(_fence(s, queue), marks=True)
        case Gate.OPEN:
            yield from _open(s)
        case Gate.SEALED:
            for entry, queue in sealing.present(s):
                yield from _seal(s, entry, queue)
            if s.status.phase == Phase.RESTORING and sealing.shown(s):
                yield from _wake_owed(s, sealing.admitted(s))


def _stop(s: Situation, queue: Queue, policy: StopPolicy) -> SetStopPolicy:
    return SetStopPolicy(queue.name, queue.uid, policy, s.status.epoch, s.object.name)


def _fence(s: Situation, queue: Queue) -> FenceQueue:
    return FenceQueue(queue.name, queue.uid, s.status.epoch, s.object.name)


def _hold(s: Situation, queue: Queue) -> SetStopPolicy:
    """A hold that counts as a correction where somebody else had opened the queue."""
    corrects = whose.opened_by_other(queue)
    return replace(_stop(s, queue, StopPolicy.HOLD), corrects=corrects)


def _shut(s: Situation) -> Iterator[Action]:
    """While serving: an open queue is corrected, and what we closed on the way reopened."""
    for queue in whose.ours(s):
        if queue.stop_policy is StopPolicy.NONE:
            yield _hold(s, queue)
    yield from _reopen_owed(s)
    if (shut := whose.ours(s)) and all(sealing.sealed_since(queue) for queue in shut):
        # Left asleep it would be no work that waits, and no window would open to wake it.
        yield from _wake_owed(s, [w for queue in shut for w in queue.workloads if w.admitted])
    if s.object.deleting:
        # What the return could not close, and what it has yet to wake.
        left = [_hold(s, queue) for queue in whose.left_open(s)]
        yield from left or _wake_owed(s)


def _wake_owed(s: Situation, on_cards: Sequence[Workload] = ()) -> Iterator[SetActive]:
    """Whoever was stopped one by one; woken before it has left its cards, it would stay on them."""
    for work in s.status.owed.workloads:
        if work.uid not in [one.uid for one in on_cards]:
            yield SetActive(work.namespace, work.name, work.uid, active=True, epoch=s.status.epoch)


def _reopen_owed(s: Situation) -> Iterator[Action]:
    """LocalQueues that we closed, once their ClusterQueue is seen stopped, or opened by us."""
    for owed in s.status.owed.local_queues:
        if sealing.may_reopen(s, owed):
            yield ReopenLocalQueue(
                owed.namespace, owed.name, owed.uid, owed.wrote, owed.was, s.status.epoch
            )


def _open(s: Situation) -> Iterator[Action]:
    assert s.window is not None  # noqa: S101 - a window is open
    until = opening.due(s) or s.now
    for entry, queue in sealing.entries(s):
        if whose.closed_by_other(s, queue):
            continue
        fits = sealing.may_open(s, entry, queue, until)
        if fits and queue.stop_policy is not StopPolicy.NONE:
            yield _stop(s, queue, StopPolicy.NONE)
        elif not fits and queue.stop_policy is StopPolicy.NONE:
            yield _hold(s, queue)
    yield from _reopen_owed(s)
    yield from _wake_owed(s)


def _seal(s: Situation, entry: WindowQueue, queue: Queue) -> Iterator[Action]:
    """The ladder: the ClusterQueue, its LocalQueues, single workloads, then pods."""
    policy = sealing.sealing_policy(s, entry, queue)
    below = sealing.only_below(s, queue)
    if _is_due(s, queue, policy):
        yield _stop(s, queue, policy)
    elif not sealing.fenced(s, queue):
        yield _fence(s, queue)
    if sealing.refused(s, queue) or sealing.unseen(s, queue) or below or whose.contested(s, queue):
        yield from _local_rung(s, queue, policy)
    elif policy is StopPolicy.HOLD_AND_DRAIN:
        # A drain of the ClusterQueue passes by jobs whose LocalQueue is on Hold.
        held = [q for q in queue.local_queues if q.stop_policy is StopPolicy.HOLD]
        yield from (StopLocalQueue(q, queue.name, policy, s.status.epoch) for q in held)
    yield from _single_rung(s, entry, queue, policy)
    yield from _pod_rung(s, entry, queue)


def _is_due(s: Situation, queue: Queue, policy: StopPolicy) -> bool:
    """Whether the stop policy of a queue is to be written: what a person closed is not."""
    theirs = sealing.only_below(s, queue) or whose.closed_by_other(s, queue)
    return queue.stop_policy is not policy and not theirs


def _local_rung(s: Situation, queue: Queue, policy: StopPolicy) -> Iterator[Action]:
    for local in queue.local_queues:
        if local.stop_policy not in (policy, StopPolicy.HOLD_AND_DRAIN):
            yield StopLocalQueue(local, queue.name, policy, s.status.epoch)


def _single_rung(
    s: Situation, entry: WindowQueue, queue: Queue, policy: StopPolicy
) -> Iterator[Action]:
    """One by one: who agreed beside one that did not, and those that a drain missed."""
    assert s.window is not None  # noqa: S101 - asked while giving back
    beside = sealing.waits(entry, queue, s.window)
    if not beside and not _had_its_time(s, queue, policy):
        return
    for work in queue.workloads:
        runs = work.admitted and work.active and (beside or not work.evicted)
        if runs and sealing.agreed(work, entry, s.window):
            yield SetActive(work.namespace, work.name, work.uid, active=False, epoch=s.status.epoch)


def _had_its_time(s: Situation, queue: Queue, policy: StopPolicy) -> bool:
    """Whether a stop was written long enough ago, or cannot be written for as long."""
    since = sealing.stopped_from(s, queue)
    if sealing.refused(s, queue):
        since = since or s.since
    elif policy is StopPolicy.HOLD and not sealing.unseen(s, queue):
        return False  # A drain may follow.
    elif queue.stop_policy is StopPolicy.HOLD and _is_due(s, queue, policy):
        return False  # The drain is written now.
    return since is not None and s.now >= since + DRAIN_SEEN_WITHIN


def _pod_rung(s: Situation, entry: WindowQueue, queue: Queue) -> Iterator[Action]:
    """Pods, where Kueue does not act: of work that agreed, and of work past its agreed bound."""
    assert s.window is not None  # noqa: S101 - asked while giving back
    dead = sealing.refused(s, queue) or sealing.unseen(s, queue)
    work_of = {str(work): work for work in queue.workloads}
    for pod in sealing.batch_pods(s):
        work = work_of.get(pod.owner)
        if work is None or pod.terminating:
            continue
        bound = timing.bound_of(work, entry.spec, queue)
        past = bound is not None and s.now >= bound + timing.PAST_BOUND
        if past or (dead and sealing.agreed(work, entry, s.window)):
            # A disruption budget may refuse the eviction of work that agreed to it: delete then.
            yield EvictPod(pod, delete=_eviction_refused(s, pod))


def _eviction_refused(s: Situation, pod: Pod) -> bool:
    no = [one.action for one in s.refused if one.verdict is Verdict.REFUSED]
    return any(isinstance(action, EvictPod) and action.pod.uid == pod.uid for action in no)


# -- the rule's own finalizer


def _finalizer(s: Situation, phase: Phase) -> Iterator[Action]:
    if s.object.deleting:
        if s.object.finalizer and _released(s, phase):
            yield ReleaseRule(s.object.name, s.object.resource_version)
    elif not s.object.finalizer and (whose.may_act(s) or phase is not Phase.SERVING):
        yield HoldRule(s.object.name, s.object.resource_version)


def _released(s: Situation, phase: Phase) -> bool:
    """Whether a rule may go: every record is written back, every queue of ours shut."""
    records = any(t.record and t.record.rule == s.object.name for t in s.pool.targets)
    owed = s.status.owed.local_queues or s.status.owed.workloads
    back = phase is Phase.SERVING or (phase is Phase.RESTORING and not whose.to_restore(s))
    return back and not records and not whose.left_open(s) and not owed


def handover(s: Situation) -> Actions:
    """The patches of a whole handover, to be asked of the API server by dry run."""
    targets = [s.pool.target(serving.ref) for serving in s.rule.serving] if s.rule else []
    name, epoch = s.object.name, next_epoch(s)
    return (
        *(
            ScaleToZero(t.ref, t.uid, t.replicas, t.resource_version, name, epoch)
            for t in targets
            if t and t.replicas > 0
        ),
        *(SetStopPolicy(q.name, q.uid, StopPolicy.NONE, epoch, name) for q in whose.ours(s)),
    )


def gives(action: Action) -> bool:
    """Whether an action gives cards away: it needs every action before it to have succeeded."""
    match action:
        case ScaleToZero() | SetStopPolicy(policy=StopPolicy.NONE) | SetActive(active=True):
            return True
    return False
