"""Noting: what must be on record before an action, and what its outcome leaves on record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from idlewin.core.decision import (
    Action,
    ForgetRecord,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.pool import MANAGER, LocalQueue, StopPolicy
from idlewin.core.situation import Situation
from idlewin.core.status import Owed, OwedQueue, OwedWorkload, Remembered, Status, WindowQueue

#: A closing that fails is tried often; the status is not to be written with each try.
AGAIN = timedelta(seconds=1)


def owed_by(s: Situation, actions: tuple[Action, ...]) -> Status:
    """The status that must be written before the actions: what they close, to be opened again."""
    owed = s.status.owed
    known = {entry.uid for entry in owed.local_queues} | {work.uid for work in owed.workloads}
    queues, workloads = list(owed.local_queues), list(owed.workloads)
    for action in actions:
        match action:
            case StopLocalQueue(queue, cluster_queue, policy) if queue.uid not in known:
                queues.append(_owed_queue(s, queue, cluster_queue, policy))
            case StopLocalQueue(queue):
                queues = [_again(s, q, action) if q.uid == queue.uid else q for q in queues]
            case SetActive(namespace, name, uid, active=False) if uid not in known:
                workloads.append(OwedWorkload(namespace=namespace, name=name, uid=uid))
            case _:
                pass
    after = Owed(local_queues=tuple(queues), workloads=tuple(workloads))
    return replace(s.status, owed=after) if after != owed else s.status


def _again(s: Situation, owed: OwedQueue, action: StopLocalQueue) -> OwedQueue:
    """Written anew; what a person has made of it since is what it will have back.

    Closed anew, and not only drained after our own hold, it settles anew.
    """
    queue = action.queue
    theirs = queue.stop_writer not in ("", MANAGER)
    was = queue.stop_policy.value if theirs else owed.was
    anew = theirs or queue.stop_policy is StopPolicy.NONE
    at = s.now if anew and s.now >= owed.at + AGAIN else owed.at
    return replace(owed, wrote=action.policy.value, was=was, at=at)


def _owed_queue(s: Situation, queue: LocalQueue, cluster: str, policy: StopPolicy) -> OwedQueue:
    return OwedQueue(
        namespace=queue.namespace,
        name=queue.name,
        uid=queue.uid,
        cluster_queue=cluster,
        was=queue.stop_policy.value,
        wrote=policy.value,
        at=s.now,
    )


def noted(status: Status, action: Action, verdict: Verdict) -> Status:
    """The status once an action has had its outcome; equal where there is nothing to note."""
    if verdict not in (Verdict.DONE, Verdict.GONE):
        return _not_taken(status, action)
    match action:
        case ScaleToZero(uid=uid) if verdict is Verdict.DONE:
            return _mark(status, uid, lowered=True)
        case ScaleBack(uid=uid) | ForgetRecord(uid=uid):
            return _mark(status, uid, restored=True)
        case ReopenLocalQueue(uid=uid):
            left = tuple(q for q in status.owed.local_queues if q.uid != uid)
            return replace(status, owed=replace(status.owed, local_queues=left))
        case SetActive(uid=uid, active=True):
            rest = tuple(w for w in status.owed.workloads if w.uid != uid)
            return replace(status, owed=replace(status.owed, workloads=rest))
        case SetStopPolicy(corrects=True) if verdict is Verdict.DONE:
            corrections = status.counters.corrections + 1
            return replace(status, counters=replace(status.counters, corrections=corrections))
        case SetStopPolicy(queue=name, policy=StopPolicy.HOLD) if status.phase == Phase.HARVESTING:
            return _queue(status, name, _closed_for_fit)
        case _:
            return status


def _not_taken(status: Status, action: Action) -> Status:
    """What a return does not wait for again: a queue that could not be closed from below either."""
    if not isinstance(action, StopLocalQueue) or status.phase not in GIVING_BACK:
        return status
    return _queue(status, action.cluster_queue, lambda queue: replace(queue, refused=True))


def _mark(status: Status, uid: str, *, lowered: bool = False, restored: bool = False) -> Status:
    def marked(target: Remembered) -> Remembered:
        if target.uid != uid:
            return target
        return replace(
            target,
            lowered=target.lowered or lowered,
            restored=target.restored or restored,
        )

    if status.window is None:
        return status
    targets = tuple(marked(target) for target in status.window.targets)
    return replace(status, window=replace(status.window, targets=targets))


def _closed_for_fit(queue: WindowQueue) -> WindowQueue:
    return replace(queue, closed_for_fit=queue.closed_for_fit + 1)


def _queue(status: Status, name: str, note: Callable[[WindowQueue], WindowQueue]) -> Status:
    if status.window is None:
        return status
    queues = tuple(
        note(queue) if queue.spec.cluster_queue == name else queue for queue in status.window.queues
    )
    return replace(status, window=replace(status.window, queues=queues))
