"""What people and other controllers do to a cluster while idlewin is at work in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from idlewin.core.pool import StopPolicy
from idlewin.core.rule import Mode, Rule
from idlewin.core.target import Ref
from idlewin.sim.furnish import Server, add_queue, add_target
from idlewin.sim.objects import SimPod, SimRule, Work
from idlewin.sim.world import World

WRITER = "kubectl"


class People:
    """Hands in the cluster. What names something that is gone does nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._objects = world.objects

    # -- serving

    def scale(self, ref: Ref, replicas: int, writer: str = WRITER) -> None:
        """The owner of a target wants it otherwise. The size that it has already is no write."""
        target = self._objects.deployments.get(ref)
        if target is None or target.replicas == replicas:
            return
        target.owner_wants, target.at_our_zero = replicas, False
        target.writer, target.owner_wrote_at = writer, self._world.clock.now()
        target.generation += 1
        target.replicas = replicas
        self._world.serving.changed(target)
        self._objects.touch(target)

    def deploy(self, ref: Ref) -> None:
        """A new image: another pod template, and its size left as it is."""
        if (target := self._objects.deployments.get(ref)) is not None:
            target.generation += 1
            target.template = f"generation {target.generation}"
            self._world.serving.changed(target)
            self._objects.touch(target)

    def delete_target(self, ref: Ref) -> None:
        """The target is deleted."""
        if ref in self._objects.deployments:
            self._world.serving.remove(ref)

    def recreate_target(self, ref: Ref, pool: str, server: Server) -> None:
        """The target is deleted and made anew: the same name, another object."""
        self.delete_target(ref)
        add_target(self._world, pool, ref, server)

    def lose_record(self, ref: Ref) -> None:
        """Somebody strips the annotations of a target."""
        target = self._objects.deployments.get(ref)
        if target is not None:
            target.record = None
            target.generation += 1
            self._objects.touch(target)

    def restart_server(self, ref: Ref) -> None:
        """A pod of a target dies, and another is made."""
        target = self._objects.deployments.get(ref)
        for pod in self._objects.pods_of(target)[:1] if target else ():
            self._world.nodes.delete(pod)

    # -- queues

    def set_policy(self, queue: str, policy: StopPolicy, writer: str = WRITER) -> None:
        """A person opens or closes a ClusterQueue; with Kueue down its webhook refuses them too."""
        stored = self._objects.queues.get(queue)
        if stored is None or stored.stop_policy is policy or not self._world.kueue.up:
            return
        stored.stop_policy, stored.writer = policy, writer
        stored.wrote_at = self._world.clock.now()
        stored.generation += 1
        self._objects.touch(stored)
        self._world.kueue.queue_written(stored)

    def set_local_policy(self, namespace: str, name: str, policy: StopPolicy) -> None:
        """A person opens or closes a LocalQueue."""
        stored = self._objects.local_queues.get((namespace, name))
        if stored is not None and stored.stop_policy is not policy:
            stored.stop_policy, stored.writer = policy, WRITER
            stored.wrote_at = self._world.clock.now()
            self._objects.touch(stored)
            self._world.kueue.local_queue_written(stored)

    def lend(self, queue: str, cards: int) -> None:
        """Another lendingLimit."""
        stored = self._objects.queues.get(queue)
        if stored is not None and self._world.kueue.up:
            stored.lending = cards
            self._objects.touch(stored)
            self._world.kueue.quota_written(stored)

    def activate(self, work: Work, *, active: bool) -> None:
        """Another spec.active of a Workload."""
        if self._world.kueue.up and work.active is not active:
            work.set_active(active=active, writer=WRITER)
            self._objects.touch(work)
            self._world.kueue.active_written(work)

    def adopt(self, queue: str, rule: str) -> None:
        """A person lets a rule have a ClusterQueue, or takes it away from all of them."""
        stored = self._objects.queues.get(queue)
        if stored is not None and self._world.kueue.up:
            stored.adopted_by = rule
            self._objects.touch(stored)

    def delete_queue(self, queue: str) -> None:
        """A ClusterQueue is deleted: it stays, Terminating, while work of it is admitted."""
        stored = self._objects.queues.get(queue)
        if stored is None:
            return
        stored.terminating = True
        self._objects.touch(stored)
        self._finish_deletion(queue)

    def _finish_deletion(self, queue: str) -> None:
        stored = self._objects.queues.get(queue)
        if stored is None or not stored.terminating:
            return
        if any(work.admitted for work in self._objects.works_of(queue)):
            self._world.clock.after(5, lambda: self._finish_deletion(queue))
            return
        del self._objects.queues[queue]
        self._objects.touch(stored)

    def create_queue(self, pool: str, queue: str, local_queues: int = 1) -> None:
        """A ClusterQueue is made again, adopted and on Hold."""
        if queue not in self._objects.queues:
            add_queue(self._world, pool, queue, local_queues)

    # -- the rule

    def edit(self, name: str, rule: Rule | None, error: str = "") -> None:
        """A new spec; None with an error: one that cannot be read."""
        if (stored := self._objects.rules.get(name)) is not None:
            stored.rule, stored.error = rule, error
            stored.generation += 1
            self._objects.touch(stored)

    def pause(self, name: str, *, paused: bool) -> None:
        """A person pauses a rule, or lets it go on."""
        if (stored := self._readable(name)) and stored.rule:
            self.edit(name, replace(stored.rule, paused=paused))

    def set_mode(self, name: str, mode: Mode) -> None:
        """A rule is to observe, or to act."""
        if (stored := self._readable(name)) and stored.rule:
            self.edit(name, replace(stored.rule, mode=mode))

    def resume(self, name: str) -> None:
        """A person says that idlewin may go on."""
        if stored := self._objects.rules.get(name):
            stored.resume_at = self._world.clock.now()
            self._objects.touch(stored)

    def claim(self, name: str, length: timedelta) -> None:
        """Demand is announced that nothing shows yet."""
        if stored := self._objects.rules.get(name):
            stored.wake_until = self._world.clock.now() + length
            self._objects.touch(stored)

    def delete_rule(self, name: str) -> None:
        """A rule is deleted; while it has our finalizer, it stays."""
        if stored := self._objects.rules.get(name):
            stored.deleting = True
            if not stored.finalizer:
                del self._objects.rules[name]
            self._objects.touch(stored)

    def lose_status(self, name: str) -> None:
        """A rule comes back from a backup, without its status."""
        if stored := self._objects.rules.get(name):
            stored.status = None
            self._objects.touch(stored)

    def _readable(self, name: str) -> SimRule | None:
        stored = self._objects.rules.get(name)
        return stored if stored and stored.rule is not None else None

    # -- nodes

    def open_device(self, pool: str, device: str) -> SimPod:
        """A pod of nobody that mounts a device node of the cards, and claims none of them."""
        uid = self._objects.uid()
        pod = SimPod(
            name=f"transcoder-{uid}",
            uid=uid,
            pool=pool,
            namespace="media",
            owner=None,
            claims=0,
            created_at=self._world.clock.now(),
            grace=timedelta(seconds=30),
            device=device,
        )
        self._world.nodes.create(pod)
        return pod

    def cards(self, pool: str, allocatable: int) -> None:
        """A node's device plugin shows so many cards."""
        for node in self._objects.nodes.values():
            if node.pool == pool:
                node.allocatable = allocatable
                self._objects.touch(node)
                self._world.nodes.changed(pool)

    def node_dead(self, pool: str, *, dead: bool) -> None:
        """A pool's node stops answering, or is back."""
        for node in self._objects.nodes.values():
            if node.pool == pool:
                node.dead = dead
                self._objects.touch(node)
                self._world.nodes.changed(pool)
