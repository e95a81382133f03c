"""The abstract cluster as the simulator's objects, and back: looks and writes are the simulator's.

So what an action needs and does is not modelled a second time: ``idlewin/sim/writes.py`` carries it
out, whose contract tests hold it to the real API server.
"""

# ruff: noqa: ARG005 - the shapes of what Writes tells

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from types import SimpleNamespace

from idlewin.core.decision import Action, Outcome
from idlewin.core.load import Level
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, Record, RuleObject
from idlewin.core.rule import (
    Batch,
    Cards,
    Contract,
    Mode,
    OnReturn,
    QueueClass,
    Rule,
    WindowPolicy,
)
from idlewin.core.scope import scope_of
from idlewin.core.status import Status
from idlewin.core.target import Demand, Ref, Serving
from idlewin.sim.objects import (
    Deployment,
    Objects,
    SimLocalQueue,
    SimNode,
    SimPod,
    SimQueue,
    SimRule,
    Work,
)
from idlewin.sim.view import pool_of, rule_object
from idlewin.sim.writes import Writes
from tests.exhausted.state import (
    ADMITTED,
    DONE,
    DRAIN,
    ENDING,
    EVICTED,
    NO_PODS,
    NOW,
    ON_CARDS,
    OPEN,
    PENDING,
    PERSON,
    RUNNING,
    UNPODDED,
    US,
    Cluster,
    Queue,
    Statuses,
    Target,
)

NAME, XE, LABELS = "night", "gpu.intel.com/xe", {"kubernetes.io/hostname": "node-1"}
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MOMENT = timedelta(seconds=1)
GRACE = timedelta(seconds=30)
BOUND = 30 * MINUTE


@dataclass(frozen=True)
class Scene:
    """What is explored: what serves, what fills the cards, who leads, what goes wrong."""

    name: str
    about: str
    leaders: int
    faults: int
    kinds: tuple[str, ...]
    """The kinds of faults."""
    queues: tuple[str, ...]
    """"contract", "wait" or "odd" (a contract queue whose work may have none)."""
    claims: tuple[int, ...] = (1,)
    """For each target, whether it claims its cards from the scheduler."""
    evict: bool = False
    """onReturn: Evict."""
    slow: bool = False
    """A leader may be frozen between its read of the rule and its look, too."""
    prompt: bool = True
    """A Kueue that runs sees and drains within 15 s. Dead ones do nothing, either way."""
    pending: bool = False
    """Pods of serving that find no card wait, and are seen to."""
    fit: bool = False
    """The forecast may move so near that only work under contract fits."""

    @property
    def cards(self) -> int:
        """Two for each target, so that its owner may scale it up."""
        return 2 * len(self.claims)

    @cache  # noqa: B019 - scenes are few
    def rule(self, *, paused: bool = False) -> Rule:
        """The spec."""
        return Rule(
            mode=Mode.ACT,
            cards=Cards(resource=XE, count=self.cards, node_selector=LABELS),
            serving=tuple(
                Serving(
                    api_version="apps/v1",
                    kind="Deployment",
                    namespace="ai",
                    name=ref.name,
                    demand=(Demand(query="waiting", up="up", visible_at_zero=True),),
                    lead_time=2 * MINUTE,
                )
                for ref in self.refs
            ),
            batch=Batch(
                queues=tuple(self.queue_class(i) for i in range(len(self.queues))),
                on_return=OnReturn.EVICT if self.evict else OnReturn.WAIT,
            ),
            window=WindowPolicy(min_serving=timedelta(), max_per_day=1000),
            paused=paused,
        )

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The targets."""
        return tuple(
            Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name=name)
            for name in ("qwen", "whisper")[: len(self.claims)]
        )

    def queue_class(self, index: int) -> QueueClass:
        """What a queue agreed to."""
        if self.queues[index] == "wait":
            return QueueClass(cluster_queue=self.queue_name(index), max_runtime=BOUND, grace=GRACE)
        return QueueClass(
            cluster_queue=self.queue_name(index), contract=Contract.CHECKPOINT, grace=GRACE
        )

    def queue_name(self, index: int) -> str:
        """Its ClusterQueue."""
        kind = self.queues[index]
        return kind if self.queues.index(kind) == index else f"{kind}-2"

    def agreed(self, index: int, queue: Queue) -> bool:
        """Whether a queue's work may be evicted."""
        return self.evict or (self.queues[index] != "wait" and not queue.odd)


@dataclass(frozen=True)
class Since:
    """How long things have lasted at a look, and what is forecast."""

    name: str = ""
    phase: timedelta = HOUR
    level: Level = Level.IDLE
    """Whether users are there: chosen anew at each look, for they come and go as they like."""
    long: bool = True
    """Idle, or unknown, for long enough."""
    ahead: timedelta = 8 * HOUR
    """How long demand is likely to stay away."""


#: Windows end so long before serving is wanted back: start-up, drain, margin. See ``near``.
NEAR = timedelta(minutes=25)


class Room:
    """One abstract cluster as objects of the simulator."""

    def __init__(self, scene: Scene, cluster: Cluster, statuses: Statuses, since: Since) -> None:
        self.scene, self.cluster = scene, cluster
        self.objects = Objects()
        self._since = since
        self.status = self._status(statuses.get(cluster.status))
        self._nodes()
        for index, target in enumerate(cluster.targets):
            self._target(index, target)
        for index, queue in enumerate(cluster.queues):
            self._queue(index, queue)
        self.objects.rules[NAME] = SimRule(
            name=NAME,
            uid="r1",
            pool=NAME,
            rule=scene.rule(paused=cluster.paused),
            created_at=NOW - 48 * HOUR,
            status=self.status,
            finalizer=True,
            deleting=cluster.deleting,
        )

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        """What would become of some writes."""
        return writes(self.objects, [], up=self.cluster.up).rehearse(actions)

    def rule(self) -> RuleObject:
        """The rule as it is stored."""
        return rule_object(self.objects.rules[NAME])

    def pool(self, rule: RuleObject) -> Pool:
        """What a look shows."""
        return pool_of(self.objects, scope_of(rule))

    def level(self) -> Level:
        """Demand."""
        return self._since.level

    # -- there

    def _status(self, plain: Status | None) -> Status | None:
        if plain is None:
            return None
        epoch, began = self.cluster.epochs
        window, owed = plain.window, plain.owed
        if window is not None:
            window = replace(window, give_back_epoch=began, opened_at=NOW - HOUR)
        owed = replace(
            owed,
            local_queues=tuple(
                replace(one, at=NOW - (HOUR if self._local(one.uid).local_settled else MOMENT))
                for one in owed.local_queues
            ),
        )
        until = None
        if plain.phase in (Phase.YIELDING, Phase.HARVESTING):
            until = NOW + self._since.ahead
        since = NOW - self._since.phase
        return replace(plain, epoch=epoch, window=window, owed=owed, until=until, since=since)

    def _local(self, uid: str) -> Queue:
        return self.cluster.queues[int(uid.rpartition("-")[2])]

    def _nodes(self) -> None:
        self.node = self.objects.nodes["node-1"] = SimNode(
            name="node-1",
            uid="n1",
            pool=NAME,
            labels=LABELS,
            resource=XE,
            cards=self.scene.cards,
            allocatable=self.scene.cards,
        )

    def _target(self, index: int, target: Target) -> None:
        ref, claims = self.scene.refs[index], self.scene.claims[index]
        record = None
        if target.record:
            replicas, epoch = target.record
            record = Record(
                rule=NAME,
                uid=f"t-{index}",
                replicas=replicas,
                epoch=epoch,
                resource=XE,
                nodes=LABELS,
            )
        made = self.objects.deployments[ref] = Deployment(
            name=ref.name,
            uid=f"t-{index}",
            pool=NAME,
            ref=ref,
            replicas=target.replicas,
            claims=claims,
            record=record,
            writer=target.writer,
            owner_wants=target.wants,
            at_our_zero=target.at_our_zero,
        )
        if target.pods != NO_PODS:
            for number in range(max(1, target.replicas)):
                name = f"s-{index}-{number}"
                self._pod(name, made, ending=target.pods == ENDING)
                if target.pods == PENDING:
                    pod = self.objects.pods[name]
                    pod.node, pod.running, pod.ready = None, False, False

    def _pod(self, name: str, owner: Deployment | Work, *, ending: bool) -> None:
        self.objects.pods[name] = SimPod(
            name=name,
            uid=name,
            pool=NAME,
            namespace="batch" if isinstance(owner, Work) else "ai",
            owner=owner,
            claims=owner.claims,
            created_at=NOW,
            grace=GRACE,
            node=self.node,
            running=True,
            ready=not ending,
            terminating=ending,
        )

    def _queue(self, index: int, queue: Queue) -> None:
        name = self.scene.queue_name(index)
        stopped = {0: None, 1: NOW - MOMENT, 2: NOW - HOUR}[queue.settled]
        self.objects.queues[name] = SimQueue(
            name=name,
            uid=f"q-{index}",
            pool=NAME,
            quota=self.scene.cards,
            stop_policy=queue.policy,
            writer=queue.writer,
            wrote_at=NOW if queue.policy is OPEN else stopped or NOW,
            adopted_by=NAME,
            epoch=queue.epoch or None,
            left=queue.left,
            stopped_since=None if queue.policy is OPEN else stopped,
        )
        self.objects.local_queues["batch", name] = SimLocalQueue(
            name=name,
            uid=f"l-{index}",
            pool=NAME,
            namespace="batch",
            cluster_queue=name,
            stop_policy=queue.local,
            writer=PERSON if queue.local is OPEN else US,
        )
        if queue.work != DONE:
            self._work(index, queue, name)

    def _work(self, index: int, queue: Queue, name: str) -> None:
        wait = self.scene.queues[index] == "wait"
        began = NOW - (BOUND + HOUR if queue.past else MINUTE)
        made = self.objects.works["batch", f"job-{index}"] = Work(
            name=f"job-{index}",
            uid=f"w-{index}",
            pool=NAME,
            namespace="batch",
            cluster_queue=name,
            local_queue=name,
            created_at=NOW - HOUR,
            runtime=BOUND,
            left=BOUND,
            contract=not wait and not queue.odd,
            grace=2 * GRACE,
            max_runtime=BOUND if wait else None,
            claims=self.scene.cards,
            active=queue.active,
            active_writer="" if queue.active else US,
            epoch=queue.woken or None,
            generation=0,  # What was written since a look: explore.py.
            admitted=queue.work in ADMITTED,
            admitted_at=began if queue.work in ADMITTED else None,
            evicted=queue.work in (EVICTED, UNPODDED),
        )
        if queue.work in ON_CARDS:
            self._pod(f"b-{index}", made, ending=queue.work != RUNNING)


def writes(objects: Objects, deleted: list[object], *, up: bool) -> Writes:
    """What carries out writes; ``deleted`` is told the pods."""
    quiet = SimpleNamespace(
        objects=objects,
        up=up,
        queue_written=lambda queue: None,
        local_queue_written=lambda local: None,
        active_written=lambda work: None,
        changed=lambda target: None,
        delete=deleted.append,
        now=lambda: NOW,
    )
    return Writes(quiet, quiet, quiet, quiet)  # type: ignore[arg-type]


def drains(queue: Queue) -> bool:
    """Whether Kueue, as it sees a queue, evicts what it has admitted."""
    return queue.local_seen is DRAIN or (queue.seen is DRAIN and queue.local_seen is OPEN)
