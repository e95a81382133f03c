"""Batch: what of it is on the cards, and what of it may still come and has to end in time."""

from __future__ import annotations

from datetime import datetime

from idlewin.core import sealing, timing
from idlewin.core.lint import without_bound
from idlewin.core.pool import Pod, Queue, Role, Workload
from idlewin.core.rule import OnReturn
from idlewin.core.situation import Situation
from idlewin.core.status import WindowQueue
from idlewin.core.timing import need_of


def batch_pods(s: Situation) -> tuple[Pod, ...]:
    """Batch pods that hold cards and may still run; those of a dead node do not."""
    return tuple(pod for pod in s.pool.on_cards(Role.BATCH) if not pod.node_dead)


def ours_still_there(s: Situation) -> tuple[Pod, ...]:
    """Batch pods but those of a queue that a person has taken from us: they are that person's."""
    ours = {queue.uid for _, queue in sealing.present(s)}
    theirs = {
        str(work) for queue in s.pool.queues if queue.uid not in ours for work in queue.workloads
    }
    return tuple(pod for pod in batch_pods(s) if pod.owner not in theirs)


def may_open(s: Situation, entry: WindowQueue, queue: Queue, until: datetime) -> bool:
    """Whether a queue of an open window may be open: what waits ends in time, or at all."""
    kept = any(not work.admitted for work in boundless(s, entry, queue))
    return not kept and timing.may_open(entry, queue, until, s.now)


def boundless(s: Situation, entry: WindowQueue, queue: Queue) -> tuple[Workload, ...]:
    """Work that nothing ends as its class says, and that may not be evicted."""
    if s.window is None or s.window.on_return is OnReturn.EVICT:
        return ()
    known = entry.spec.contract or entry.spec.max_runtime
    return tuple(work for work in without_bound(entry.spec, queue) if known and work.active)


def endless(s: Situation) -> tuple[Workload, ...]:
    """Admitted work that nobody ends: it may have a pod again whenever its Job makes one."""
    return tuple(
        work
        for entry, queue in sealing.present(s)
        for work in boundless(s, entry, queue)
        if work.admitted and timing.bound_of(work, entry.spec, queue) is None
    )


def useful_until(s: Situation, until: datetime) -> datetime:
    """When cards that are to be free by an instant are of no use to batch any more.

    Work that runs uses them to the end; where none runs, the last start that still fits counts.
    """
    if batch_pods(s) or admitted(s):
        return until
    ends = [
        until - need_of(entry.spec, queue)
        for entry, queue in sealing.entries(s)
        if timing.may_open(entry, queue, until, s.now)
    ]
    return max(ends, default=min(until, s.now))


def admitted(s: Situation) -> tuple[Workload, ...]:
    """Admitted, unfinished work of the window's queues."""
    return tuple(
        work for _, queue in sealing.present(s) for work in queue.workloads if work.admitted
    )


def on_cards(s: Situation) -> list[Workload]:
    """Admitted work of the queues that are ours."""
    mine = [queue for queue in s.pool.queues if queue.adopted_by == s.object.name]
    return [work for queue in mine for work in queue.workloads if work.admitted]


def without_work_since(s: Situation) -> datetime:
    """Since when no work was seen to run in this phase."""
    return max(s.batch_seen_at or s.since, s.since)
