"""Sealing: what a queue must show before nothing of it can still be admitted.

Kueue admits late: "closed" is a stop that Kueue shows at our generation, then a settle time, then
a look in which nothing admitted is left. With Kueue down its LocalQueues take the stop instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from idlewin.core import whose
from idlewin.core.decision import FenceQueue, SetStopPolicy, Verdict
from idlewin.core.lint import must_wait
from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.pool import MANAGER, LocalQueue, Queue, StopPolicy, Workload
from idlewin.core.rule import OnReturn, QueueClass
from idlewin.core.situation import Situation
from idlewin.core.status import OwedQueue, Window, WindowQueue
from idlewin.core.timing import SETTLE, STOP_SEEN_WITHIN, last_bound


def present(s: Situation) -> Iterator[tuple[WindowQueue, Queue]]:
    """The queues of the window that still exist, with those that are being deleted.

    While giving back, every other queue that is ours by consent counts too: it may have been
    adopted, or made anew, since the window began.
    """
    found: set[str] = set()
    for entry in s.window.queues if s.window else ():
        queue = s.pool.queue(entry.spec.cluster_queue)
        if queue is not None and queue.uid == entry.uid:
            found.add(queue.uid)
            yield entry, queue
    if s.phase not in GIVING_BACK:
        return
    for queue in s.pool.queues:
        if queue.adopted_by == s.object.name and queue.uid not in found:
            yield WindowQueue(spec=class_of(s, queue), uid=queue.uid), queue


def class_of(s: Situation, queue: Queue) -> QueueClass:
    """What the rule says of a queue; of one that it does not name nobody knows what was agreed."""
    specs = s.rule.batch.queues if s.rule else ()
    found = (spec for spec in specs if spec.cluster_queue == queue.name)
    return next(found, QueueClass(cluster_queue=queue.name))


def entries(s: Situation) -> Iterator[tuple[WindowQueue, Queue]]:
    """Those that have to be stopped: one that is gone or Terminating admits nothing more.

    What it has admitted runs on all the same, and is drained as that of the others.
    """
    return ((entry, queue) for entry, queue in present(s) if not queue.terminating)


def sealed_since(queue: Queue) -> datetime | None:
    """Since when Kueue shows the stop; None while it does not.

    A queue that was open for a moment only may show an older stop: the later of what Kueue shows
    and of when the stop was written counts. Of one that is being deleted Kueue shows only that.
    """
    since = queue.stopped_since or (queue.stop_written_at if queue.terminating else None)
    if queue.stop_policy is StopPolicy.NONE or since is None:
        return None
    return max(since, queue.stop_written_at or since)


def stopped_from(s: Situation, queue: Queue) -> datetime | None:
    """Since when Kueue has had our stop to act on; None: it has yet to be written.

    Not since giving back began: the API server may have been away, and our write came late.
    """
    if queue.stop_policy is StopPolicy.NONE:
        return s.since if whose.opened_by_other(s, queue) else None
    return max(s.since, queue.stop_written_at or s.since)


def unseen(s: Situation, queue: Queue) -> bool:
    """Whether Kueue has had its time and does not show the stop."""
    if queue.terminating or sealed_since(queue) is not None:
        return False
    since = stopped_from(s, queue)
    return since is not None and s.now >= since + STOP_SEEN_WITHIN


def sealed_by_local_queues(s: Situation, queue: Queue) -> datetime | None:
    """Since when all its LocalQueues are closed; None while one is open, or there is none."""
    if not queue.local_queues or any(
        local.stop_policy is StopPolicy.NONE for local in queue.local_queues
    ):
        return None
    ours = {owed.uid: owed.at for owed in s.status.owed.local_queues}

    def closed_at(local: LocalQueue) -> datetime:
        at = ours.get(local.uid, s.since)
        # From our hold to a drain nothing is let in: it has been closed since the hold.
        by_us = local.uid in ours and local.stop_writer in ("", MANAGER)
        return at if by_us else max(at, local.stop_written_at or at)

    return max(closed_at(local) for local in queue.local_queues)


def stands_open(s: Situation, queue: Queue) -> bool:
    """Whether work can come in: neither it nor all its LocalQueues are stopped."""
    closed = queue.stop_policy is not StopPolicy.NONE or sealed_by_local_queues(s, queue)
    return not closed and bool(queue.local_queues)


def only_below(s: Situation, queue: Queue) -> bool:
    """Whether somebody opened a queue all of whose LocalQueues are closed.

    It lets nothing in: while giving back its opener is not fought with.
    """
    return whose.opened_by_other(s, queue) and sealed_by_local_queues(s, queue) is not None


def fenced(s: Situation, queue: Queue) -> bool:
    """Whether a queue carries our epoch of this return: who looked before it opens it no more."""
    began = s.window.give_back_epoch if s.window else 0
    return queue.epoch is not None and queue.epoch >= began


def loose(s: Situation) -> list[str]:
    """Queues that a leader of before this return may open yet: no fence was tried on them.

    Who gave back and was away for drainTimeout after that has its first writes yet to make. One
    that got through and is undone by others, whatever they want, is not waited for again.
    """
    return [
        queue.name
        for entry, queue in entries(s)
        if s.window is not None
        and entry in s.window.queues
        and queue.local_queues
        and not (fenced(s, queue) or entry.refused or tried(s, queue) or s.forced)
        and sealed_by_local_queues(s, queue) is None
    ]


def tried(s: Situation, queue: Queue) -> bool:
    """Whether a stop or a fence got through in this return, as far as was looked."""
    began = s.window.give_back_epoch if s.window else s.status.epoch
    return any(name == queue.name and epoch >= began for name, epoch in s.stopped)


def unfenced(s: Situation, queue: Queue) -> bool:
    """Whether only what is below a queue kept it shut: its return may have ended without a fence.

    A leader that was frozen in the window would open it. A fence that got through and is undone by
    others is not waited for.
    """
    behind = s.status.phase == Phase.SERVING and (queue.epoch or 0) < s.status.epoch
    return behind and not tried(s, queue)


def may_reopen(s: Situation, owed: OwedQueue) -> bool:
    """Whether a LocalQueue that we closed on the way is not needed to keep its queue shut."""
    queue = s.pool.queue(owed.cluster_queue)
    if queue is None or queue.terminating or whose.given_up(s, queue):
        return True
    if _shut_above(owed, queue) and not unfenced(s, queue):
        return True
    if s.object.deleting:
        # The stop is written; a person says that nobody will come and show it.
        return s.forced and queue.stop_policy is not StopPolicy.NONE
    return s.status.phase == Phase.HARVESTING and queue.epoch == s.status.epoch


def wants_fence(s: Situation, owed: OwedQueue) -> bool:
    """Whether nothing but a fence is missing for a LocalQueue to be opened again."""
    queue = s.pool.queue(owed.cluster_queue)
    above = queue is not None and _shut_above(owed, queue) and unfenced(s, queue)
    return above and not may_reopen(s, owed)


def _shut_above(owed: OwedQueue, queue: Queue) -> bool:
    # What a dead Kueue has yet to drain is drained by its LocalQueue: the queue may be on Hold.
    drains = owed.wrote == StopPolicy.HOLD_AND_DRAIN and any(w.admitted for w in queue.workloads)
    return sealed_since(queue) is not None and not drains


def settled_at(s: Situation, queue: Queue) -> datetime | None:
    """When the seal of a queue has settled, by either way; None while it is not sealed.

    A stop without our fence is no seal: a leader that was frozen before it opens the queue again.
    """
    shown = sealed_since(queue) if fenced(s, queue) else None
    since = [at for at in (shown, sealed_by_local_queues(s, queue)) if at]
    return min(since) + SETTLE if since else None


def settled(s: Situation, queue: Queue) -> bool:
    """Whether nothing of a queue is admitted any more but what this look shows."""
    at = settled_at(s, queue)
    return at is not None and s.now >= at


def agreed(work: Workload, spec: QueueClass, on_return: OnReturn | None) -> bool:
    """Whether a workload may be evicted: by its own contract, or because the rule says so."""
    if on_return is OnReturn.EVICT:
        return True
    return spec.contract is not None and work.contract and work.grace >= spec.grace


def lacking(entry: WindowQueue, queue: Queue, window: Window) -> tuple[Workload, ...]:
    """Work that did not agree to be evicted, in a queue whose work is to be under contract."""
    if entry.spec.contract is None:
        return ()
    return tuple(
        work
        for work in queue.workloads
        if (work.admitted or work.active) and not agreed(work, entry.spec, window.on_return)
    )


def waits(entry: WindowQueue, queue: Queue, window: Window) -> bool:
    """Whether a queue is held and never drained: one workload that did not agree is enough.

    A drain leaves alone what is not admitted.
    """
    odd = any(work.admitted for work in lacking(entry, queue, window))
    return odd or must_wait(window.on_return, entry.spec)


def sealing_policy(s: Situation, entry: WindowQueue, queue: Queue) -> StopPolicy:
    """What the stop policy of a queue is to be now, while giving back.

    It is held first. A drain evicts whatever is there when Kueue sees it: what is let in between
    our look and our write need not have agreed, so nothing may be let in any more by that look.
    """
    assert s.window is not None  # noqa: S101 - asked while giving back
    if s.window.on_return is OnReturn.EVICT:
        return StopPolicy.HOLD_AND_DRAIN
    if waits(entry, queue, s.window):
        return StopPolicy.HOLD
    there = settled(s, queue) and not s.unsure and any(w.admitted for w in queue.workloads)
    drained = queue.stop_policy is StopPolicy.HOLD_AND_DRAIN
    return StopPolicy.HOLD_AND_DRAIN if there or drained else StopPolicy.HOLD


def overdue_at(s: Situation, window: Window) -> datetime:
    """When batch has had its time: drainTimeout after the later of the start and the last bound.

    The drain itself begins once a hold has settled, but for work all of which agreed.
    """
    waiting = [(entry, queue) for entry, queue in present(s) if waits(entry, queue, window)]
    bound = last_bound(waiting)
    held = timedelta() if window.on_return is OnReturn.EVICT else SETTLE
    return max(s.since + held, bound or s.since) + window.drain_timeout


def shut(s: Situation) -> bool:
    """Whether nothing can be let in any more, or that has been tried for long enough."""
    overdue = s.window is not None and s.now >= overdue_at(s, s.window)
    return all(settled(s, queue) or (overdue and _enough(s, queue)) for _, queue in entries(s))


def _enough(s: Situation, queue: Queue) -> bool:
    """Whether a queue that does not settle is waited for no more.

    A fence is no stop: what a late leader opened just before it is stopped first.
    """
    open_by_us = stands_open(s, queue) and not whose.opened_by_other(s, queue)
    return refused(s, queue) or (not open_by_us and (fenced(s, queue) or tried(s, queue)))


def refused(s: Situation, queue: Queue) -> bool:
    """Whether the write to a ClusterQueue did not get through in this cycle."""
    return bool(_noes(s, queue))


def unheard(s: Situation, queue: Queue) -> bool:
    """Whether Kueue does not answer for a queue: its webhook, or it has had its time.

    One answer of the API server that did not come is no sign of that.
    """
    noes = _noes(s, queue)
    long = bool(noes) and s.now >= s.since + STOP_SEEN_WITHIN
    return long or Verdict.REFUSED in noes or unseen(s, queue)


def _noes(s: Situation, queue: Queue) -> list[Verdict]:
    # Who writes it all the time has each of our writes come too late; once is nothing.
    long = s.now >= s.since + STOP_SEEN_WITHIN
    return [
        outcome.verdict
        for outcome in s.refused
        if isinstance(outcome.action, SetStopPolicy | FenceQueue)
        and outcome.action.queue == queue.name
        and (outcome.verdict is not Verdict.CONFLICT or long)
    ]


def all_shut(s: Situation) -> bool:
    """Whether nothing that waits comes in by us: the stops show, or are their owners' business."""
    mine = [q for q in s.pool.queues if q.adopted_by == s.object.name and not q.terminating]
    return all(sealed_since(queue) or whose.given_up(s, queue) for queue in mine)
