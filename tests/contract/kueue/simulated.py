"""The simulated cluster under test; its time is virtual."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from idlewin.core.decision import Action, Outcome
from idlewin.core.pool import Pool, Scope, StopPolicy, Workload
from idlewin.core.target import Ref
from idlewin.sim.furnish import Server, add_target
from idlewin.sim.objects import SimCohort, SimLocalQueue, SimQueue, Work
from idlewin.sim.people import People
from idlewin.sim.ready import PodsReady as Policy
from tests.contract.kueue.cluster import Cluster, PodsReady, RefusedError
from tests.simulation.scenery import NAME, REF, a_setup, a_world

T = TypeVar("T")
LONG = timedelta(hours=5)


class Simulated(Cluster):
    """A world without a controller, its one card free."""

    simulated = True

    def __init__(self, seed: int = 1) -> None:
        self.world = a_world(seed, a_setup(servers={REF: Server(replicas=0)}))
        self.objects, self.people = self.world.objects, People(self.world)
        self._queues: list[str] = []
        self._targets: list[Ref] = []
        self._causes: dict[str, str] = {}
        self.world.kueue.on_evict.append(self._evicted)

    def _evicted(self, work: Work, cause: str) -> None:
        self._causes[work.name] = cause

    # -- what people do

    def make_cohort(self, name: str, cards: int) -> None:
        uid = self.objects.uid()
        self.objects.cohorts[name] = SimCohort(name=name, uid=uid, pool=NAME, quota=cards)

    def make_queue(
        self,
        name: str,
        cards: int = 1,
        *,
        cohort: str = "",
        lends: int | None = None,
        policy: StopPolicy = StopPolicy.NONE,
        local_queues: int = 1,
    ) -> None:
        queue = SimQueue(
            name=name,
            uid=self.objects.uid(),
            pool=NAME,
            quota=cards,
            cohort=cohort,
            lending=lends,
            adopted_by=self.rule,
            stop_policy=policy,
            seen=policy,
        )
        self.objects.queues[name] = queue
        self.objects.touch(queue)
        self.world.kueue.queue_written(queue)
        for number in range(local_queues):
            self.objects.local_queues["default", _local(name, number)] = SimLocalQueue(
                name=_local(name, number),
                uid=self.objects.uid(),
                pool=NAME,
                namespace="default",
                cluster_queue=name,
            )
        self._queues.append(name)

    def lend(self, queue: str, cards: int) -> None:
        self.people.lend(queue, cards)

    def set_policy(self, queue: str, policy: StopPolicy) -> None:
        if not self.world.kueue.up:
            raise RefusedError
        self.people.set_policy(queue, policy)

    def set_local(self, queue: str, policy: StopPolicy, number: int = 0) -> None:
        self.people.set_local_policy("default", _local(queue, number), policy)

    def submit(
        self,
        job: str,
        queue: str,
        *,
        number: int = 0,
        grace: int = 1,
        limit: int | None = None,
        fragile: bool = False,
    ) -> None:
        work = Work(
            name=job,
            uid=self.objects.uid(),
            pool=NAME,
            namespace="default",
            cluster_queue=queue,
            local_queue=_local(queue, number),
            created_at=self.world.clock.now(),
            runtime=LONG,
            left=LONG,
            contract=True,
            grace=timedelta(seconds=grace),
            max_runtime=None if limit is None else timedelta(seconds=limit),
            retries=not fragile,
        )
        if not self.world.backlog.create(work):
            raise RefusedError

    def activate(self, job: str, *, active: bool) -> None:
        self.people.activate(self.objects.works["default", job], active=active)

    def finish(self, job: str) -> None:
        work = self.objects.works["default", job]
        (pod,) = self.objects.pods_of(work)
        self.world.jobs.done(work, pod)

    def serve(
        self, name: str, replicas: int, *, first: bool = False, covered: bool = False
    ) -> None:
        ref = Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name=name)
        server = Server(
            replicas=replicas,
            grace=timedelta(seconds=1),
            start_up=(1.0, 0.1),
            inside_kueue=covered,
            priority=int(first),
        )
        add_target(self.world, NAME, ref, server)
        self._targets.append(ref)

    def scale(self, name: str, replicas: int) -> None:
        self.people.scale(self.target(name).ref, replicas)

    def restart(self, name: str) -> None:
        self.people.restart_server(self.target(name).ref)

    def kueue_down(self) -> None:
        self.world.kueue.go_down()

    def kueue_up(self) -> None:
        self.world.kueue.come_back()

    def wait_for_pods(self, ready: PodsReady | None) -> None:
        self.world.kueue.ready.policy = ready and Policy(
            timeout=timedelta(seconds=ready.timeout),
            base=timedelta(seconds=ready.base),
            limit=ready.limit,
            block_admission=ready.block,
        )

    # -- what idlewin sees and does

    def look(self) -> Pool:
        return self.world.cluster.look(
            Scope(
                rule=self.rule,
                targets=tuple(self._targets),
                queues=tuple(self._queues),
                resource="gpu.intel.com/xe",
                node_selector={"host": "b580"},
            ),
            fresh=True,
        )

    def apply(self, action: Action) -> Outcome:
        return self.world.cluster.apply(action)

    def rehearse(self, action: Action) -> str:
        return "".join(refused.message for refused in self.world.cluster.rehearse([action]))

    def passed_over(self, job: str) -> bool:
        self.wait(timedelta(seconds=3))
        return not self.admitted(job)

    def cause(self, job: str) -> str:
        return self._causes.get(job, "")

    # -- time and names

    def until(self, what: str, check: Callable[[], T]) -> T:
        for _ in range(2400):
            if got := check():
                return got
            self.wait(timedelta(seconds=0.05))
        raise TimeoutError(f"no {what} in two virtual minutes")

    def wait(self, length: timedelta) -> None:
        self.world.clock.run(self.world.clock.now() + length)

    def named(self, name: str) -> str:
        return name

    def is_of(self, work: Workload, job: str) -> bool:
        return work.name == job


def _local(queue: str, number: int) -> str:
    return f"{queue}-{number}"
