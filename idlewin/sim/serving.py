"""Serving as it behaves: a Deployment's pods come and go, and take their time to be ready."""

from __future__ import annotations

from random import Random

from idlewin.core.target import Ref
from idlewin.sim.clock import Timeline
from idlewin.sim.nodes import Nodes
from idlewin.sim.objects import Deployment, Objects, SimPod


class Serving:
    """The controllers of Deployments, and the servers in their pods."""

    def __init__(self, objects: Objects, timeline: Timeline, nodes: Nodes, random: Random) -> None:
        self._objects, self._timeline, self._nodes = objects, timeline, nodes
        self._random = random
        self._due: set[str] = set()
        self.kueue_up = True
        nodes.started.append(self._started)
        nodes.gone.append(self._gone)

    def changed(self, target: Deployment) -> None:
        """Its replicas were written: its controller acts after a moment."""
        if target.uid not in self._due:
            self._due.add(target.uid)
            delay = self._random.uniform(0.05, 0.5)
            self._timeline.after(delay, lambda: self._reconcile(target))

    def kueue_is_up(self, up: bool) -> None:  # noqa: FBT001 - a fact that is passed on
        """Whether pods can be created inside Kueue's webhooks."""
        self.kueue_up = up
        if up:
            for target in self._objects.deployments.values():
                self.changed(target)

    def remove(self, ref: Ref) -> None:
        """The target is deleted, and its pods after it."""
        target = self._objects.deployments.pop(ref)
        self._objects.touch(target)
        for pod in self._objects.pods_of(target):
            self._nodes.delete(pod)

    def _reconcile(self, target: Deployment) -> None:
        self._due.discard(target.uid)
        if self._objects.deployments.get(target.ref) is not target:
            return
        live = [pod for pod in self._objects.pods_of(target) if not pod.terminating]
        for pod in sorted(live, key=lambda pod: pod.ready)[: max(0, len(live) - target.replicas)]:
            self._nodes.delete(pod)
        if target.inside_kueue and not self.kueue_up:
            return
        for _ in range(target.replicas - len(live)):
            self._nodes.create(self._pod(target))

    def _pod(self, target: Deployment) -> SimPod:
        uid = self._objects.uid()
        return SimPod(
            name=f"{target.ref.name}-{uid}",
            uid=uid,
            pool=target.pool,
            namespace=target.ref.namespace,
            owner=target,
            claims=target.claims,
            created_at=self._timeline.now(),
            grace=target.grace,
            priority=target.priority,
        )

    def _started(self, pod: SimPod) -> None:
        if isinstance(pod.owner, Deployment):
            median, spread = pod.owner.start_up
            seconds = median * self._random.lognormvariate(0, spread)
            self._timeline.after(seconds, lambda: self._ready(pod))

    def _ready(self, pod: SimPod) -> None:
        if pod.uid in self._objects.pods and not pod.terminating and not pod.mute:
            pod.ready = True
            self._objects.touch(pod)
            if isinstance(pod.owner, Deployment):
                self._objects.touch(pod.owner)

    def speak(self, pod: SimPod) -> None:
        """A server that was mute gets ready after all."""
        pod.mute = False
        if pod.started_at is not None:
            self._ready(pod)

    def _gone(self, pod: SimPod) -> None:
        if isinstance(pod.owner, Deployment):
            # The Deployment's status changes, and with it its resourceVersion.
            self._objects.touch(pod.owner)
            self.changed(pod.owner)
