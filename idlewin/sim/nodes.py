"""Nodes as they are: a scheduler that hands out whole cards, and kubelets that take their time.

A pod that is deleted keeps its card for as long as it takes to stop; a pod that claims no card
opens the device node and is never kept from it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from idlewin.sim.clock import Timeline, Timer
from idlewin.sim.objects import Deployment, Objects, SimNode, SimPod, Work


class Nodes:
    """The scheduler and the kubelets."""

    def __init__(self, objects: Objects, timeline: Timeline, random: Random) -> None:
        self._objects, self._timeline, self._random = objects, timeline, random
        self._due: set[str] = set()
        self._ends: dict[str, Timer] = {}
        self.started: list[Callable[[SimPod], None]] = []
        """Told when a pod's containers run."""
        self.gone: list[Callable[[SimPod], None]] = []
        """Told when a pod's object is gone."""

    def create(self, pod: SimPod) -> None:
        """A pod object; the scheduler will look at it."""
        self._objects.pods[pod.uid] = pod
        self._objects.touch(pod)
        self._schedule(pod.pool)

    def delete(self, pod: SimPod) -> None:
        """A pod is asked to stop: it runs on, Terminating, for as long as it takes."""
        if pod.terminating or pod.uid not in self._objects.pods:
            return
        if pod.node is None:
            self._remove(pod)
            return
        pod.terminating, pod.ready = True, False
        self._objects.touch(pod)
        takes = pod.owner.stops_within if isinstance(pod.owner, Work) else 1.0
        seconds = max(0.3, pod.grace.total_seconds() * takes) + self._random.uniform(0.1, 0.8)
        self._ends[pod.uid] = self._timeline.after(seconds, lambda: self.end(pod))

    def end(self, pod: SimPod) -> None:
        """A pod's containers have stopped, and its kubelet lets it go; not while it is stuck."""
        if pod.uid not in self._objects.pods or pod.stuck:
            return
        if pod.node is not None and pod.node.dead:
            self._timeline.after(30, lambda: self.end(pod))
            return
        self._remove(pod)

    def vanish(self, pod: SimPod) -> None:
        """A pod's object is removed by force, whatever its kubelet says."""
        if pod.uid in self._objects.pods:
            self._remove(pod)

    def free(self, node: SimNode) -> int:
        """Cards of a node that nobody has claimed."""
        used = sum(pod.claims for pod in self._objects.pods.values() if pod.node is node)
        return node.allocatable - used

    def changed(self, pool: str) -> None:
        """A node of a pool has changed: pods that waited may fit."""
        self._schedule(pool)

    def _remove(self, pod: SimPod) -> None:
        del self._objects.pods[pod.uid]
        if timer := self._ends.pop(pod.uid, None):
            timer.cancel()
        self._objects.touch(pod)
        self._schedule(pod.pool)
        for told in self.gone:
            told(pod)

    def _schedule(self, pool: str) -> None:
        if pool not in self._due:
            self._due.add(pool)
            self._timeline.after(self._random.uniform(0.02, 0.2), lambda: self._place(pool))

    def _place(self, pool: str) -> None:
        self._due.discard(pool)
        waiting = [
            pod
            for pod in self._objects.pods.values()
            if pod.pool == pool and pod.node is None and not pod.terminating
        ]
        nodes = [n for n in self._objects.nodes.values() if n.pool == pool and not n.dead]
        for pod in sorted(waiting, key=lambda pod: -pod.priority):
            fitting = (node for node in nodes if self.free(node) >= pod.claims)
            pod.node = next(fitting, None)
            if pod.node is None:
                self._preempt(pod, nodes)
            else:
                self._objects.touch(pod)
                delay = self._random.uniform(0.3, 1.2)
                self._timeline.after(delay, lambda pod=pod: self._start(pod))  # type: ignore[misc]

    def _preempt(self, pod: SimPod, nodes: list[SimNode]) -> None:
        """End pods of a lower priority, with their whole grace, where that makes room."""
        for node in nodes:
            lower = [
                other
                for other in self._objects.pods.values()
                if other.node is node and other.claims and other.priority < pod.priority
            ]
            if lower and sum(other.claims for other in lower) + self.free(node) >= pod.claims:
                for other in lower:
                    self.delete(other)
                return

    def _start(self, pod: SimPod) -> None:
        if pod.terminating or pod.uid not in self._objects.pods:
            return
        pod.running, pod.started_at = True, self._timeline.now()
        pod.ready = not isinstance(pod.owner, Deployment)
        self._objects.touch(pod)
        for told in self.started:
            told(pod)
