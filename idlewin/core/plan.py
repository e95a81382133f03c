"""Acting is writing wanted minus observed: the actions of a phase, at one look.

Nothing here knows how it came to be in a phase. Asked again after a crash, or after a write that
did not get through, it plans what is left; a refused write is answered by the next rung.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from idlewin.core import batch, failure, ladder, opening, sealing, whose
from idlewin.core.decision import (
    Action,
    EvictPod,
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
from idlewin.core.pool import Queue, StopPolicy, Workload
from idlewin.core.situation import Situation

Actions = tuple[Action, ...]


def plan(s: Situation, phase: Phase) -> Actions:
    """The writes that make the phase's row true. ``s.status`` is that of the phase already."""
    wanted = WANTED[phase]
    # Queues first: nothing may open between a return and its fence.
    queues = tuple(_queues(s, wanted.queues))
    return (*_finalizer(s, phase, queues), *queues, *_serving(s, wanted.serving))


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
                devices=s.window.device_nodes if s.window else (),
                exempt=s.window.exempt_namespaces if s.window else (),
                generation=target.generation,
                settings=target.settings,
                scaled=target.scaled,
            )


def _restore(s: Situation) -> Iterator[Action]:
    due = {target.ref for target in whose.to_restore(s)}
    # A queue that somebody has opened meanwhile may let work in that is not seen yet.
    free = sealing.shut(s) and not batch.batch_pods(s)
    for target in whose.remembered(s):
        now = whose.same(s, target)
        ours = (s.object.name, s.status.epoch, target.settings)
        if now is not None and now.settling:
            # Its own scaler may lower it at once: not before it was seen back.
            if now.ready >= now.replicas or s.object.deleting:
                yield ForgetRecord(target.ref, target.uid, *ours)
        elif now is None or target.restored:
            continue
        elif target.ref in due:
            # Without a claim nothing but us keeps it off the cards while batch is there.
            if now.claims or free or s.forced:
                yield ScaleBack(target.ref, target.uid, target.replicas, *ours, by=target.by)
        elif now.record is not None:
            yield ForgetRecord(target.ref, target.uid, *ours)
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
                    yield replace(ladder.fence(s, queue), marks=True)
        case Gate.OPEN:
            yield from _open(s)
        case Gate.SEALED:
            for entry, queue in sealing.present(s):
                yield from ladder.rungs(s, entry, queue)
            if s.object.deleting and _is_back(s):
                # Serving that never gets ready must not keep the rule, nor what we owe.
                yield from _wake_owed(s, () if s.forced else batch.on_cards(s))


def _hold(s: Situation, queue: Queue) -> SetStopPolicy:
    """A hold that counts as a correction where somebody else had opened the queue."""
    corrects = whose.opened_by_other(s, queue)
    return replace(ladder.stop(s, queue, StopPolicy.HOLD), corrects=corrects)


def _shut(s: Situation) -> Iterator[Action]:
    """While serving: an open queue is corrected, and what we closed on the way reopened.

    What is open by our own hand is closed whatever the rule says: a return left it so.
    """
    due = {queue.name: queue for queue in (*whose.ours(s), *whose.left_open(s))}
    for queue in due.values():
        if queue.stop_policy is StopPolicy.NONE:
            yield _hold(s, queue)
    yield from _reopen_owed(s)
    for queue in () if s.forced else whose.shut_by_us(s):
        # Work that a dead Kueue did not end would have its pods again once Kueue is back.
        yield from ladder.left_over(s, queue)
    if sealing.all_shut(s) or (s.object.deleting and not whose.left_open(s)):
        # Left asleep it would be no work that waits, and no window would open to wake it.
        yield from _wake_owed(s, () if s.forced else batch.on_cards(s))


def _wake_owed(s: Situation, on_cards: Sequence[Workload] = ()) -> Iterator[SetActive]:
    """Whoever was stopped one by one; woken before it has left its cards, it would stay on them."""
    stay = {work.uid for work in on_cards}
    for work in s.status.owed.workloads:
        if work.uid not in stay:
            yield SetActive(work.namespace, work.name, work.uid, active=True, epoch=s.status.epoch)


def _reopen_owed(s: Situation) -> Iterator[Action]:
    """LocalQueues that we closed, once their ClusterQueue is seen stopped, or opened by us."""
    above = {one.cluster_queue for one in s.status.owed.local_queues if sealing.wants_fence(s, one)}
    yield from (ladder.fence(s, queue) for queue in s.pool.queues if queue.name in above)
    for owed in s.status.owed.local_queues:
        if sealing.may_reopen(s, owed):
            yield ReopenLocalQueue(
                owed.namespace,
                owed.name,
                owed.uid,
                owed.wrote,
                owed.was,
                s.status.epoch,
                s.object.name,
            )


def _open(s: Situation) -> Iterator[Action]:
    assert s.window is not None  # noqa: S101 - a window is open
    until = opening.due(s) or s.now
    for entry, queue in sealing.entries(s):
        if whose.closed_by_other(s, queue):
            continue
        fits = batch.may_open(s, entry, queue, until)
        if fits and queue.stop_policy is not StopPolicy.NONE:
            yield ladder.stop(s, queue, StopPolicy.NONE)
        elif not fits and queue.stop_policy is StopPolicy.NONE:
            yield _hold(s, queue)
    yield from _reopen_owed(s)
    yield from _wake_owed(s)


# -- the rule's own finalizer


def _finalizer(s: Situation, phase: Phase, queues: Actions) -> Iterator[Action]:
    if s.object.deleting:
        # What is closed now would be on nobody's record, and a drain that is due never written.
        no = [one.action for one in s.refused if one.verdict is not Verdict.CONFLICT]
        kinds = StopLocalQueue | SetActive | SetStopPolicy
        closes = any(isinstance(action, kinds) and action not in no for action in queues)
        if s.object.finalizer and not closes and _released(s, phase):
            yield ReleaseRule(s.object.name, s.object.resource_version)
    elif not s.object.finalizer and (whose.may_act(s) or phase is not Phase.SERVING):
        yield HoldRule(s.object.name, s.object.resource_version)


def _released(s: Situation, phase: Phase) -> bool:
    """Whether a rule may go: every record is written back, every queue of ours shut."""
    records = any(t.record and t.record.rule == s.object.name for t in s.pool.targets)
    owed = s.status.owed.local_queues or s.status.owed.workloads
    back = phase is Phase.SERVING or (_is_back(s) and _stops_had_their_time(s))
    return back and not records and not whose.left_open(s) and not owed


def _stops_had_their_time(s: Situation) -> bool:
    """Whether each queue has settled, so that a drain can be written, or Kueue does not answer."""
    return all(
        sealing.settled(s, queue) or sealing.unseen(s, queue) or sealing.refused(s, queue)
        for _, queue in sealing.entries(s)
    )


def _is_back(s: Situation) -> bool:
    """Whether serving is what it was, ready or not."""
    return s.status.phase == Phase.RESTORING and not whose.to_restore(s)


def handover(s: Situation) -> Actions:
    """The patches of a whole handover, to be asked of the API server by dry run."""
    targets = [s.pool.target(serving.ref) for serving in s.rule.serving] if s.rule else []
    name, epoch = s.object.name, next_epoch(s)
    return (
        *(
            ScaleToZero(
                t.ref, t.uid, t.replicas, t.resource_version, name, epoch, settings=t.settings
            )
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


def drains(action: Action) -> bool:
    """Whether an action evicts whatever a queue holds when Kueue sees it."""
    match action:
        case SetStopPolicy(policy=policy) | StopLocalQueue(policy=policy):
            return policy is StopPolicy.HOLD_AND_DRAIN
    return False
