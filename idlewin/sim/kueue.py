"""Kueue 0.18 as it was measured: slow to see, late to admit, arbitrary in its drains.

A stop is seen up to 2 s after it is written, and every third one admits a little more for up to
0.4 s after that; a drain passes over workloads of LocalQueues on Hold; quota is free about a
second after an eviction, long before the card is. While it is down nothing of this happens, and
when it is back it takes what is written then, a while after its webhooks answer. docs/kueue.md
has the whole list, and the tests that hold this file to the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

from idlewin.core.pool import StopPolicy
from idlewin.sim.clock import Timeline, Timer
from idlewin.sim.jobs import Jobs
from idlewin.sim.objects import Objects, SimLocalQueue, SimQueue, Work
from idlewin.sim.quota import room
from idlewin.sim.ready import Readiness

_DRAIN = StopPolicy.HOLD_AND_DRAIN


class Kueue:
    """Queues, admission and eviction; quota is quota.py's."""

    def __init__(self, objects: Objects, timeline: Timeline, jobs: Jobs, random: Random) -> None:
        self.objects, self._timeline, self._jobs = objects, timeline, jobs
        self._random = random
        self._due: set[str] = set()
        self._limits: dict[str, Timer] = {}
        self.up = True
        """Whether its webhooks answer."""
        self._works = True
        """Whether its controllers do; after a start that is a while later."""
        self.ready = Readiness(objects, timeline)
        self.ready.evict, self.ready.requeue = self._evict, self._back_in
        self.on_evict: list[Callable[[Work, str], None]] = []
        """Told of each eviction and its cause."""
        self.on_up: list[Callable[[bool], None]] = []
        """Told when it goes down, or is back."""
        self.on_admit: list[Callable[[Work], None]] = []
        jobs.finished = self.finish
        jobs.runs = lambda _: self._consider_all()

    # -- what is written, and when it is seen

    def queue_written(self, queue: SimQueue) -> None:
        """A ClusterQueue's spec was written."""
        slow = self._random.random() < 0.1
        delay = self._random.uniform(0.5, 2.0) if slow else self._random.uniform(0.05, 0.3)
        self._timeline.after(delay, lambda: self._see(queue))

    def local_queue_written(self, local: SimLocalQueue) -> None:
        """A LocalQueue's spec was written."""
        delay = self._random.uniform(0.03, 0.4)
        self._timeline.after(delay, lambda: self._see_local(local))

    def submitted(self, work: Work) -> None:
        """A job was created."""
        self._consider(work.pool)

    def quota_written(self, queue: SimQueue) -> None:
        """Its quota, or what it lends, was written: that counts at once, stopped or not."""
        self._consider(queue.pool)

    def active_written(self, work: Work) -> None:
        """A Workload's spec.active was written."""
        delay = self._random.uniform(0.4, 1.5)
        self._timeline.after(delay, lambda: self._see_active(work))

    def go_down(self) -> None:
        """Its process is gone, and its webhooks refuse."""
        self.up = self._works = self.ready.on = False
        for told in self.on_up:
            told(False)  # noqa: FBT003
        self._jobs.kueue_is_up(False)  # noqa: FBT003

    def come_back(self) -> None:
        """It has started: its webhooks answer, and soon it takes everything as it is written."""
        self.up = True
        self._jobs.kueue_is_up(True)  # noqa: FBT003
        for told in self.on_up:
            told(True)  # noqa: FBT003
        self._timeline.after(self._random.uniform(0.5, 3), self._begin)

    def _begin(self) -> None:
        if not self.up or self._works:
            return
        self._works = self.ready.on = True
        for local in self.objects.local_queues.values():
            self._see_local(local)
        for queue in self.objects.queues.values():
            self._see(queue)
        for work in list(self.objects.works.values()):
            if not work.left or work.lost:
                self.finish(work)
            elif work.evicted and work.admitted:
                self._timeline.after(1.0, lambda work=work: self._release(work))  # type: ignore[misc]
            else:
                self._reconcile(work, "ClusterQueueStopped")
                self.ready.admitted(work)
        self._consider_all()

    def _see(self, queue: SimQueue) -> None:
        if not self._works or self.objects.queues.get(queue.name) is not queue:
            return
        before, queue.seen = queue.seen, queue.stop_policy
        fresh, queue.observed = queue.observed != queue.generation, queue.generation
        if queue.seen is StopPolicy.NONE:
            queue.stopped_since = None
            self._requeue(self.objects.works_of(queue.name))
        else:
            if before is StopPolicy.NONE and fresh and self._random.random() < 1 / 3:
                self._timeline.after(self._random.uniform(0, 0.4), lambda: self._late(queue))
            queue.stopped_since = queue.stopped_since or self._timeline.now()
            self._drain(self.objects.works_of(queue.name), "ClusterQueueStopped")
        self.objects.touch(queue)

    def _see_local(self, local: SimLocalQueue) -> None:
        if not self._works:
            return
        before, local.seen = local.seen, local.stop_policy
        works = [w for w in self.objects.works.values() if self.objects.local_queue_of(w) is local]
        if local.seen is StopPolicy.NONE:
            self._requeue(works)
            if before is StopPolicy.HOLD and self._random.random() < 0.5:
                # Back from Hold below a draining ClusterQueue: a race that is won half the time.
                self._drain(works, "ClusterQueueStopped")
        elif local.seen is _DRAIN:
            self._drain(works, "LocalQueueStopped")

    def _see_active(self, work: Work) -> None:
        if not self._works or work.finished:
            return
        if work.expired and work.active:
            work.set_active(active=False, writer="kueue")
            self.objects.touch(work)
        elif work.active:
            self._requeue([work])
        else:
            self._reconcile(work, "Deactivated")

    # -- eviction

    def _drain(self, works: list[Work], cause: str) -> None:
        self._random.shuffle(works)
        delay = self._random.uniform(0.02, 0.4)
        for work in works:
            if work.admitted and not work.evicted:
                self._timeline.after(delay, lambda work=work: self._reconcile(work, cause))  # type: ignore[misc]
                delay += self._random.uniform(0.1, 0.9)

    def _reconcile(self, work: Work, cause: str) -> None:
        queue = self.objects.queues.get(work.cluster_queue)
        if not self._works or queue is None or not work.admitted or work.evicted or work.finished:
            return
        local = self.objects.local_queue_of(work)
        if not work.active:
            self._evict(work, cause)
        elif local.seen is _DRAIN:
            self._evict(work, "LocalQueueStopped")
        elif queue.seen is _DRAIN and local.seen is not StopPolicy.HOLD:
            self._evict(work, "ClusterQueueStopped")

    def _evict(self, work: Work, cause: str) -> None:
        work.evicted, work.requeued = True, False
        self.objects.touch(work)
        for told in self.on_evict:
            told(work, cause)
        self._timeline.after(self._random.uniform(0.05, 0.6), lambda: self._jobs.suspended(work))
        self._timeline.after(self._random.uniform(1.0, 1.8), lambda: self._release(work))

    def _release(self, work: Work) -> None:
        """Quota is free: the pod may still hold the card for its whole grace."""
        if work.finished or not work.admitted or not self._works:
            return
        self._let_go(work)
        self.objects.touch(work)
        queue = self.objects.queues.get(work.cluster_queue)
        if queue is not None and queue.seen is StopPolicy.NONE:
            self._requeue([work])
        self._consider(work.pool)

    def _let_go(self, work: Work) -> None:
        work.admitted = False
        if timer := self._limits.pop(work.uid, None):
            timer.cancel()
        if work.admitted_at is not None:
            work.used += self._timeline.now() - work.admitted_at
            work.admitted_at = None

    def finish(self, work: Work) -> None:
        """A job has ended: its workload and quota go; with Kueue down not before it is back."""
        if not self._works:
            return
        work.finished = True
        self._let_go(work)
        self.objects.works.pop((work.namespace, work.name), None)
        self.objects.touch(work)
        self._consider(work.pool)

    def _expire(self, work: Work) -> None:
        if not self._works or not work.admitted or work.finished:
            return
        # What it has used is counted anew: only its last run is left in the sum.
        work.set_active(active=False, writer="kueue")
        work.expired, work.used = True, timedelta()
        self._evict(work, "DeactivatedDueToMaximumExecutionTimeExceeded")

    # -- admission

    def _back_in(self, work: Work) -> None:
        queue = self.objects.queues.get(work.cluster_queue)
        if self._works and queue is not None and queue.seen is StopPolicy.NONE:
            self._requeue([work])

    def _requeue(self, works: list[Work]) -> None:
        for work in works:
            if not work.requeued and work.active and not (work.expired or work.kept_out_until):
                # The flip comes after the queue is open: a drained job may lose its turn.
                delay = self._random.uniform(0.05, 1.0)
                self._timeline.after(delay, lambda work=work: self._requeued(work))  # type: ignore[misc]
        if works:
            self._consider(works[0].pool)

    def _requeued(self, work: Work) -> None:
        out = work.admitted or work.kept_out_until or not work.active
        if self._works and not out and self._open(work):
            work.requeued, work.evicted = True, False
            self.objects.touch(work)
            self._consider(work.pool)

    def _consider(self, pool: str) -> None:
        if pool not in self._due:
            self._due.add(pool)
            self._timeline.after(self._random.uniform(0.05, 0.8), lambda: self._admit(pool))

    def _consider_all(self) -> None:
        if self.ready.policy is not None and self.ready.policy.block_admission:
            for pool in {work.pool for work in self.objects.works.values()}:
                self._consider(pool)

    def _admit(self, pool: str) -> None:
        self._due.discard(pool)
        for work in self._waiting(pool) if self._works else ():
            if self._open(work) and self._fits(work) and not self.ready.blocks():
                self._admitted(work)

    def _late(self, queue: SimQueue) -> None:
        """Admissions of a scheduling round that began before the stop was seen."""
        if not self._works:
            return
        most = self._random.randint(1, 3)
        for work in [w for w in self._waiting(queue.pool) if w.cluster_queue == queue.name][:most]:
            if self.objects.local_queue_of(work).seen is StopPolicy.NONE and self._fits(work):
                self._admitted(work)
                delay = self._random.uniform(0.05, 0.5)
                self._timeline.after(delay, lambda work=work: self._reconcile(work, "Late"))  # type: ignore[misc]

    def _waiting(self, pool: str) -> list[Work]:
        return [
            work
            for work in self.objects.works.values()
            if work.pool == pool and not work.admitted and work.active and work.requeued
        ]

    def _open(self, work: Work) -> bool:
        queue = self.objects.queues.get(work.cluster_queue)
        return (
            queue is not None
            and not queue.terminating
            and queue.seen is StopPolicy.NONE
            and self.objects.local_queue_of(work).seen is StopPolicy.NONE
        )

    def _fits(self, work: Work) -> bool:
        return work.claims <= room(self.objects, self.objects.queues[work.cluster_queue])

    def _admitted(self, work: Work) -> None:
        work.admitted, work.evicted, work.admitted_at = True, False, self._timeline.now()
        work.timed_out = False
        self.objects.touch(work)
        self.ready.admitted(work)
        for told in self.on_admit:
            told(work)
        if work.max_runtime is not None:
            left = max(work.max_runtime - work.used, timedelta(seconds=1)).total_seconds()
            self._limits[work.uid] = self._timeline.after(left, lambda: self._expire(work))
        self._timeline.after(self._random.uniform(0.1, 0.9), lambda: self._jobs.unsuspended(work))
