"""Second writers: controllers that look after each change of a pool and write what they want.

Each is what is known of its kind, no more: what it writes, how soon, and whether it takes marks
off that it does not know. It ends when it is told, or when nobody wants it any more.
"""

from __future__ import annotations

from random import Random

from idlewin.core.pool import MANAGER, StopPolicy
from idlewin.core.target import Ref
from idlewin.sim.objects import Deployment, SimQueue
from idlewin.sim.people import People
from idlewin.sim.world import World

HPA, GITOPS, OPERATOR, KEDA = (
    "kube-controller-manager",
    "argocd-controller",
    "model-operator",
    "keda-operator",
)


class Rival:
    """A controller beside ours: woken by each change of its pool, it looks a moment later."""

    within = (0.1, 2.0)
    """How soon it looks, in seconds."""

    def __init__(self, world: World, pool: str, random: Random) -> None:
        self._world, self._pool, self._random = world, pool, random
        self._people = People(world)
        self._due = self.ended = False
        self.writes = 0
        world.objects.listeners.append(self._changed)
        self._changed(pool)

    def end(self) -> None:
        """It is switched off, or told to leave the field alone."""
        self.ended = True

    def _changed(self, pool: str) -> None:
        if pool == self._pool and not self._due and not self.ended:
            self._due = True
            self._world.clock.after(self._random.uniform(*self.within), self._looks)

    def _looks(self) -> None:
        self._due = False
        if not self.ended:
            self._look()

    def _look(self) -> None:
        raise NotImplementedError

    def _scale(self, ref: Ref, replicas: int, writer: str) -> None:
        self.writes += 1
        self._people.scale(ref, replicas, writer)

    def _prune(self, target: Deployment) -> None:
        """Our record goes, as far as the status has it too: both gone is beyond any promise."""
        rule = self._world.objects.rules.get(self._pool)
        window = rule.status.window if rule and rule.status else None
        known = [one.uid for one in window.targets] if window else []
        if target.record is not None and target.uid in known:
            self._people.lose_record(target.ref)


class Autoscaler(Rival):
    """An HPA with a minimum of one or more: at 0 it is quiet, above it follows its own mind."""

    within = (5.0, 15.0)

    def __init__(
        self, world: World, pool: str, random: Random, ref: Ref, bounds: tuple[int, int]
    ) -> None:
        self._ref, (self._least, self._most) = ref, bounds
        super().__init__(world, pool, random)

    def _look(self) -> None:
        target = self._world.objects.deployments.get(self._ref)
        if target is None or target.replicas == 0:
            return
        wanted = min(max(target.replicas, self._least), self._most)
        if self._random.random() < 0.1:
            wanted = self._random.randint(self._least, self._most)
        if wanted != target.replicas:
            self._scale(self._ref, wanted, HPA)


class GitOps(Rival):
    """Has serving as it is in Git; what it replaces loses the marks that are not in Git."""

    writer = GITOPS

    def __init__(
        self,
        world: World,
        pool: str,
        random: Random,
        replicas: dict[Ref, int],
        *,
        prunes: bool = False,
    ) -> None:
        """``replicas``: of each target that it writes; none where that field is left out."""
        self._replicas, self._prunes = replicas, prunes
        super().__init__(world, pool, random)

    def _look(self) -> None:
        for target in list(self._world.objects.deployments.values()):
            if target.pool == self._pool:
                wanted = self._replicas.get(target.ref, target.replicas)
                if self._prunes:
                    self._prune(target)
                if target.replicas != wanted:
                    self._scale(target.ref, wanted, self.writer)


class Operator(GitOps):
    """Owns the object: whatever is not as it wants it is put right at once, marks and all."""

    within = (0.01, 0.2)
    writer = OPERATOR


class Keda(Rival):
    """Raises a target from zero while its trigger is active, by a poll and not by a change."""

    within = (15.0, 45.0)

    def __init__(self, world: World, pool: str, random: Random, ref: Ref) -> None:
        self._ref = ref
        super().__init__(world, pool, random)

    def _look(self) -> None:
        target = self._world.objects.deployments.get(self._ref)
        if target is not None and target.replicas == 0:
            self._scale(self._ref, 1, KEDA)
        self._changed(self._pool)


class QueueReplacer(Rival):
    """Has ClusterQueues as they are in Git: replaced, so that our marks go with what we wrote."""

    def __init__(self, world: World, pool: str, random: Random, policy: StopPolicy) -> None:
        self._policy = policy
        super().__init__(world, pool, random)

    def _look(self) -> None:
        for queue in list(self._world.objects.queues.values()):
            if queue.pool == self._pool and queue.stop_policy is not self._policy:
                self._replace(queue)

    def _replace(self, queue: SimQueue) -> None:
        if self._world.kueue.up and not queue.terminating:
            self.writes += queue.writer == MANAGER
            queue.epoch = queue.left = None
            self._people.set_policy(queue.name, self._policy, GITOPS)
