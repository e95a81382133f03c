"""Work that waits: jobs of a few kinds, as many as a queue should always hold, or a number."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from random import Random

from idlewin.sim.clock import Timeline
from idlewin.sim.kueue import Kueue
from idlewin.sim.objects import Objects, SimLocalQueue, SimQueue, Work


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """Jobs of one queue: how long they run, and what they agreed to."""

    queue: str
    runtime: tuple[timedelta, timedelta]
    """The shortest and the longest; evenly spread in between."""
    contract: bool = False
    grace: timedelta = timedelta(seconds=30)
    max_runtime: timedelta | None = None
    """Enforced by Kueue."""
    depth: int = 3
    """So many wait at any time."""
    total: int | None = None
    """So many come in all; None: there is no end."""
    retries: bool = True
    """Whether its Job makes a new pod for one that others ended."""


class Backlog:
    """Submits jobs whenever fewer wait than should."""

    def __init__(self, objects: Objects, timeline: Timeline, kueue: Kueue, random: Random) -> None:
        self._objects, self._timeline, self._kueue = objects, timeline, kueue
        self._random = random
        self._kinds: dict[str, list[JobKind]] = {}
        self._left: dict[JobKind, int | None] = {}
        self._made = 0
        kueue.on_admit.append(lambda work: self._fill(work.cluster_queue))
        kueue.on_up.append(lambda up: self._fill_all() if up else None)

    def keep(self, kind: JobKind) -> None:
        """Let jobs of a kind wait from now on."""
        self._kinds.setdefault(kind.queue, []).append(kind)
        self._left[kind] = kind.total
        self._fill(kind.queue)

    def kept(self, queue: str) -> tuple[JobKind, ...]:
        """The kinds that are kept waiting in a queue."""
        return tuple(self._kinds.get(queue, ()))

    def drop(self, kind: JobKind) -> None:
        """No more jobs of a kind."""
        self._kinds[kind.queue].remove(kind)

    def stop(self) -> None:
        """Nothing more is submitted."""
        self._kinds.clear()

    def submit(self, kind: JobKind) -> Work | None:
        """One job, in the queue's LocalQueues by turns; None: no queue, or a webhook refuses."""
        queue = self._objects.queues.get(kind.queue)
        locals_ = self._objects.local_queues_of(kind.queue)
        if queue is None or not locals_ or not self._kueue.up:
            return None
        self._made += 1
        work = self._work(kind, queue, locals_[self._made % len(locals_)])
        return work if self.create(work) else None

    def create(self, work: Work) -> bool:
        """A job; False: Kueue is away, and its webhook refuses it."""
        if not self._kueue.up:
            return False
        self._objects.works[work.namespace, work.name] = work
        self._objects.touch(work)
        self._kueue.submitted(work)
        return True

    def _fill_all(self) -> None:
        for queue in self._kinds:
            self._fill(queue)

    def _fill(self, queue: str) -> None:
        waiting = sum(not work.admitted for work in self._objects.works_of(queue))
        for kind in self._kinds.get(queue, ()):
            while waiting < kind.depth and self._left[kind] != 0:
                if self.submit(kind) is None:
                    return
                waiting += 1
                if (left := self._left[kind]) is not None:
                    self._left[kind] = left - 1

    def _work(self, kind: JobKind, queue: SimQueue, local: SimLocalQueue) -> Work:
        shortest, longest = kind.runtime
        runtime = shortest + (longest - shortest) * self._random.random()
        return Work(
            name=f"job-{self._made}",
            uid=self._objects.uid(),
            pool=queue.pool,
            namespace=local.namespace,
            cluster_queue=kind.queue,
            local_queue=local.name,
            created_at=self._timeline.now(),
            runtime=runtime,
            left=runtime,
            contract=kind.contract,
            grace=kind.grace,
            stops_within=self._random.uniform(0.2, 1.0),
            max_runtime=kind.max_runtime,
            retries=kind.retries,
        )
