"""Whose a queue, a stop and a zero are: what we may write, and what is somebody else's."""

from __future__ import annotations

from dataclasses import replace

from idlewin.core.lint import CONSENT
from idlewin.core.phase import Phase
from idlewin.core.pool import MANAGER, Queue, StopPolicy, Target
from idlewin.core.rule import Mode
from idlewin.core.situation import Situation
from idlewin.core.status import Remembered


def may_act(s: Situation) -> bool:
    """Whether the rule may change anything of the cluster outside a return."""
    return (
        s.rule is not None
        and s.rule.mode is Mode.ACT
        and not s.object.deleting
        and not s.rule.paused
        and not s.status.contested_by
        and not any(refusal.fault in CONSENT for refusal in s.refusals)
    )


def ours(s: Situation) -> tuple[Queue, ...]:
    """The queues of the spec that we may write outside a window."""
    if s.rule is None or not may_act(s):
        return ()
    found = (s.pool.queue(spec.cluster_queue) for spec in s.rule.batch.queues)
    return tuple(queue for queue in found if queue and not queue.terminating)


def closed_by_other(s: Situation, queue: Queue) -> bool:
    """Whether a person closed it, and has not said resume since."""
    if queue.stop_policy in (StopPolicy.NONE, queue.left):
        return False
    # In an open window it had our mark: who has taken that off has written the queue anew.
    if queue.left is None and s.phase in (Phase.SERVING, Phase.YIELDING):
        known = queue.adopted_at
        if known is None or known is queue.stop_policy:
            return False
    resumed, written = s.object.resume_at, queue.stop_written_at
    return resumed is None or (written is not None and resumed < written)


def stopped_by(queue: Queue) -> str:
    """A queue that is closed, and who did that."""
    return f"{queue.name} at {queue.stop_policy} by {queue.stop_writer or 'somebody'}"


def opened_by_other(s: Situation, queue: Queue) -> bool:
    """Whether somebody else opened it: whatever is open without our mark was not opened by us."""
    marked = queue.left is StopPolicy.NONE and queue.uid not in s.taken
    return queue.stop_policy is StopPolicy.NONE and not marked


def contested(s: Situation, queue: Queue) -> bool:
    """Whether it is open by somebody who keeps opening what is ours."""
    return bool(s.status.contested_by) and opened_by_other(s, queue)


def left_open(s: Situation) -> list[Queue]:
    """The queues of ours that are open by our own hand."""
    return [
        queue
        for queue in s.pool.queues
        if queue.adopted_by == s.object.name
        and queue.epoch is not None
        and queue.stop_policy is StopPolicy.NONE
        and not queue.terminating
        and not opened_by_other(s, queue)
    ]


def shut_by_us(s: Situation) -> list[Queue]:
    """The queues of ours that stand at the stop that we wrote."""
    return [
        queue
        for queue in s.pool.queues
        if queue.adopted_by == s.object.name
        and queue.stop_policy is queue.left is not StopPolicy.NONE
        and not queue.terminating
        and queue.uid not in s.taken
    ]


def given_up(s: Situation, queue: Queue) -> bool:
    """Whether what a queue lets in is its owner's business, though we closed what is below it.

    It is not ours any more, or a person opened it by hand where the rule does nothing with it.
    """
    if queue.adopted_by != s.object.name:
        return True
    rule = s.rule
    by_hand = s.object.deleting or rule is None or rule.paused or rule.mode is not Mode.ACT
    named = [spec.cluster_queue for spec in rule.batch.queues] if rule else []
    by_hand = by_hand or queue.name not in named
    return by_hand and queue.stop_policy is StopPolicy.NONE and queue not in left_open(s)


def remembered(s: Situation) -> tuple[Remembered, ...]:
    """The targets of the window."""
    return s.window.targets if s.window else ()


def inherited(s: Situation, target: Remembered) -> tuple[Remembered, ...]:
    """The target; and what it scaled, where it does so no more and left that at our zero."""
    one, now = target.scaled, same(s, target)
    if one is None:
        return (target,)
    if now and not moved(target, now):
        own = now.replicas == 0 and now.replicas_writer not in ("", MANAGER, one.by)
        # What its owner has put to zero stays there, whatever becomes of what did that.
        return (replace(target, scaled=None) if own else target,)
    heir = s.pool.target(one.ref)
    if heir is None or heir.uid != one.uid:
        return (target,)
    left = replace(
        target,
        ref=heir.ref,
        uid=heir.uid,
        scaled_by=target.ref,
        by=one.by,
        scaled=None,
        generation=0,
        template="",
        settings={},
        lowered=True,
        restored=False,
    )
    return (replace(target, scaled=None), left) if now else (left,)


def moved(target: Remembered, now: Target | None) -> bool:
    """Whether what it scaled is not scaled by it any more: it is gone, or scales another."""
    aim = now.scaled if now else None
    return target.scaled is not None and (now is None or (aim and aim.ref) != target.scaled.ref)


def same(s: Situation, target: Remembered) -> Target | None:
    """The remembered object, if it still exists."""
    now = s.pool.target(target.ref)
    return now if now is not None and now.uid == target.uid else None


def to_restore(s: Situation) -> tuple[Target, ...]:
    """Targets that are still at our zero: ours to bring back."""
    return tuple(
        now
        for target in remembered(s)
        if not target.restored
        and (now := same(s, target))
        and now.replicas == 0
        and target.replicas > 0
        and _ours(target, now)
    )


def _ours(target: Remembered, now: Target) -> bool:
    """Whether a zero is ours: who wrote it last tells; where that is not known, what we noted."""
    if now.replicas_writer:
        return now.replicas_writer in (MANAGER, target.by)
    return target.lowered or now.record is not None


def lost(s: Situation) -> tuple[Target, ...]:
    """Targets at our zero of which no copy is left: nobody can tell what is right.

    A window that was opened on such a zero remembers it as 0, which is no copy.
    """
    copies = s.window.targets if s.window else s.status.not_lowered
    window = {target.ref: target for target in copies}
    serving = [entry.ref for entry in s.rule.serving] if s.rule else []
    return tuple(
        now
        for ref in dict.fromkeys((*window, *serving))
        if (now := s.pool.target(ref))
        and now.replicas == 0
        and now.record is None
        and now.replicas_writer == MANAGER
        and (ref not in window or window[ref].uid != now.uid or window[ref].replicas == 0)
    )


def lowered_late(s: Situation) -> tuple[Remembered, ...]:
    """Targets that were not lowered when their window ended, and are at our zero all the same."""
    return tuple(
        target
        for target in s.status.not_lowered
        if (now := same(s, target))
        and now.replicas == 0
        and now.record is None
        and now.replicas_writer == MANAGER
    )


def to_come(s: Situation) -> tuple[Remembered, ...]:
    """Targets of the last window that a leader which froze in it may lower yet, or has lowered.

    One that was written since is not lowered by it; one with another rule's record is that rule's.
    """
    return tuple(target for target in s.status.not_lowered if _to_come(s, target))


def _to_come(s: Situation, target: Remembered) -> bool:
    now = s.pool.target(target.ref)
    if now is None or now.uid != target.uid:
        return now is None
    if now.replicas == 0:
        return now.record is None or now.record.rule == s.object.name
    return target.generation in (0, now.generation)


def kept(s: Situation) -> tuple[str, ...]:
    """Targets of the window that somebody else has scaled: each as it is, and by whom."""
    return tuple(
        f"{now.ref} at {now.replicas} by {now.replicas_writer}"
        for target in (s.window.targets if s.window else ())
        if (now := s.pool.target(target.ref))
        and now.uid == target.uid
        and target.lowered
        and now.replicas_writer not in ("", MANAGER, target.by)
    )
