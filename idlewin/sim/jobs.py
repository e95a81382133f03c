"""Batch jobs as they behave: pods under an admitted workload, work that saves itself or is lost."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from idlewin.sim.clock import Timeline, Timer
from idlewin.sim.nodes import Nodes
from idlewin.sim.objects import Objects, SimPod, Work


class Jobs:
    """The Job controller, and the work in the pods."""

    def __init__(self, objects: Objects, timeline: Timeline, nodes: Nodes, random: Random) -> None:
        self._objects, self._timeline, self._nodes = objects, timeline, nodes
        self._random = random
        self._ends: dict[str, Timer] = {}
        self.kueue_up = True
        self.finished: Callable[[Work], None] = lambda _: None
        self.runs: Callable[[Work], None] = lambda _: None
        nodes.started.append(self._started)
        nodes.gone.append(self._gone)

    def unsuspended(self, work: Work) -> None:
        """The job may run: its pod is made, where the webhooks let it."""
        if not (work.left and work.admitted) or work.evicted or work.lost:
            return
        if self._objects.pods_of(work):
            return
        if self.kueue_up:
            uid = self._objects.uid()
            pod = SimPod(
                name=f"{work.name}-{uid}",
                uid=uid,
                pool=work.pool,
                namespace=work.namespace,
                owner=work,
                claims=work.claims,
                created_at=self._timeline.now(),
                grace=work.grace,
            )
            self._nodes.create(pod)

    def suspended(self, work: Work) -> None:
        """The job must stop: its pods are deleted."""
        for pod in self._objects.pods_of(work):
            self._nodes.delete(pod)

    def kueue_is_up(self, up: bool) -> None:  # noqa: FBT001 - a fact that is passed on
        """Whether pods can be created inside Kueue's webhooks."""
        self.kueue_up = up
        if up:
            for work in list(self._objects.works.values()):
                self._later(work)

    def _started(self, pod: SimPod) -> None:
        if isinstance(pod.owner, Work):
            work = pod.owner
            seconds = work.left.total_seconds()
            self._ends[pod.uid] = self._timeline.after(seconds, lambda: self.done(work, pod))
            self.runs(work)

    def done(self, work: Work, pod: SimPod) -> None:
        """Its work is done, and its pod ends."""
        if pod.terminating or pod.uid not in self._objects.pods:
            return
        work.left = work.left * 0
        self._nodes.vanish(pod)
        self.finished(work)

    def _gone(self, pod: SimPod) -> None:
        work = pod.owner
        if not isinstance(work, Work):
            return
        if timer := self._ends.pop(pod.uid, None):
            timer.cancel()
        if not work.left:
            return
        if pod.started_at is not None and work.contract:
            work.left = max(work.left - (self._timeline.now() - pod.started_at), work.left * 0)
            work.left = max(work.left, work.runtime * 0.001)
        if work.admitted and not work.evicted and not work.retries:
            # backoffLimit 0: a pod that others ended fails the Job, and Kueue lets it go.
            work.lost = True
            self.finished(work)
            return
        self._later(work)

    def _later(self, work: Work) -> None:
        if work.admitted and not work.evicted:
            delay = self._random.uniform(1, 10)
            self._timeline.after(delay, lambda: self.unsuspended(work))
