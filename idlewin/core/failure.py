"""What goes wrong in a handover though nobody did anything wrong: told, and held against the next.

A failed handover is an alarm, and the next one waits longer and longer. A return that failed asks
for more: serving that came back late is not lent again until its probe has answered, or a person
has said so.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from idlewin.core import batch, opening, sealing, timing, whose
from idlewin.core.pool import Pod, Queue, Role, StopPolicy, Target, Workload
from idlewin.core.reason import Reason
from idlewin.core.situation import Situation
from idlewin.core.status import Remembered, Status, Window
from idlewin.core.target import OnOverdue
from idlewin.core.text import format_duration

NO_TIME = timedelta()


def up(s: Situation, target: Remembered) -> bool:
    """Whether a remembered target is as its owner wants it; one that is gone cannot be."""
    now = whose.same(s, target)
    return now is None or (now.ready >= now.replicas and now not in whose.to_restore(s))


def late(s: Situation, window: Window) -> tuple[Remembered, ...]:
    """Targets that are not back readyTimeout after serving was first brought back."""
    since = window.restoring_since
    return tuple(
        target
        for target in window.targets
        if since and s.now >= since + target.ready_timeout and not up(s, target)
    )


def marked(s: Situation, status: Status) -> Status:
    """The status in which targets that are late are marked so, for as long as the window lasts."""
    if status.window is None:
        return status
    overdue = {target.uid for target in late(s, status.window)}
    targets = tuple(
        replace(target, overdue=True) if target.uid in overdue else target
        for target in status.window.targets
    )
    return replace(status, window=replace(status.window, targets=targets))


def down(s: Situation) -> dict[str, datetime]:
    """Targets that were up and have no ready pod outside a window, with when that is told."""
    found = {}
    for serving in s.rule.serving if s.rule else ():
        now, since = s.pool.target(serving.ref), s.down_since.get(str(serving.ref))
        if now and not now.resting and since and str(serving.ref) in s.status.seen_up:
            # A pod that is made anew takes its start-up; nobody is on the way to a zero.
            found[str(serving.ref)] = since + (serving.ready_timeout if now.replicas else NO_TIME)
    return found


def of_target(now: Target, wanted: int) -> str:
    """How far a target is, and whether it is its answer that lacks."""
    told = f"{now.ref} {now.ready}/{wanted} ready"
    return told if now.answers else f"{told}: its pods are, but its probe has no good answer"


def to_restart(s: Situation, window: Window) -> tuple[Pod, ...]:
    """Pods of late targets that the rule wants made anew: each that was there at the limit."""
    found: list[Pod] = []
    for target in late(s, window):
        now = whose.same(s, target)
        if target.on_overdue is not OnOverdue.RESTART or now is None or not now.replicas:
            continue
        limit = (window.restoring_since or s.now) + target.ready_timeout
        found += [
            pod
            for pod in s.pool.pods
            if pod.role is Role.SERVING
            and pod.owner == str(now.ref)
            and not pod.terminating
            and (not pod.ready or not now.answers)
            and pod.created_at is not None
            and pod.created_at < limit
        ]
    return tuple(found)


def in_vain(s: Situation) -> tuple[Workload, ...]:
    """Work that waits in an open queue of the window, would fit, and is not let in."""
    until = opening.due(s) if s.window else None
    return tuple(
        work
        for entry, queue in sealing.entries(s)
        if until and _open(queue)
        for work in queue.workloads
        if work.active and not work.admitted and not timing.kept_out(queue, work, s.now)
        if s.now + timing.need(entry.spec, work) <= until
    )


def _open(queue: Queue) -> bool:
    return queue.stop_policy is StopPolicy.NONE and queue.stopped_since is None


def of_move(s: Situation, reason: Reason) -> str:
    """What a transition tells of a handover that went wrong; empty: nothing."""
    match reason:
        case Reason.YIELD_OVERDUE:
            held = _named([str(pod) for pod in s.pool.pods])
            told = f"serving did not leave within yieldTimeout; the cards were held by {held}"
            return "; ".join([told, *_unheeded(s), *_not_lowered(s)])
        case Reason.DRAIN_OVERDUE:
            held = _named([str(pod) for pod in batch.batch_pods(s)])
            return f"batch did not leave within drainTimeout: {held}"
        case Reason.QUEUE_DRY if s.rule and (waiting := in_vain(s)):
            dry = format_duration(s.rule.batch.dry_after)
            return (
                f"{_named([str(work) for work in waiting])} waited for {dry} in an open queue and "
                "was not admitted; compare its requests with the queue's flavors and quota"
            )
        case _:
            return ""


def _unheeded(s: Situation) -> list[str]:
    """Who was told to stop, and what to look into where that is not heeded."""
    return [
        f"{now.ref} was told to stop by {now.lever}"
        for target in whose.remembered(s)
        if (now := whose.same(s, target)) and now.replicas == 0 and now.lever
        if any(pod.owner == str(now.ref) for pod in s.pool.pods)
    ]


def _not_lowered(s: Situation) -> list[str]:
    """Who was not told to stop, and what was said to that."""
    return [
        f"{target.ref} was not lowered: {why}"
        for target in whose.remembered(s)
        if not target.lowered and (why := s.target_refused.get(str(target.ref)))
    ]


def of_return(window: Window) -> str:
    """What the end of a return tells: who was late."""
    names = [str(target.ref) for target in window.targets if target.overdue]
    return f"{_named(names)} came back later than readyTimeout" if names else ""


def unproven(s: Situation, window: Window) -> bool:
    """Whether a target that was late has no probe that shows that it answers now."""
    probed = {serving.ref for serving in s.rule.serving if serving.probe} if s.rule else set()
    return any(target.overdue and target.ref not in probed for target in window.targets)


def _named(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "nobody that is seen"
