"""A world: rules with their cards, serving, queues, work and demand, and a controller in it.

Everything follows from one seed. The controller is called at virtual instants, as wakeups.py
would call it: when something of its pool changed, when its ``revisit_at`` has come, when demand
shows or ends. Replay and tests use this same file; only what they put in differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from idlewin.core.decision import Decision, Outcome, Remember, Verdict
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, Scope
from idlewin.core.reason import Reason
from idlewin.core.rule import Rule
from idlewin.core.status import Status
from idlewin.core.target import Ref
from idlewin.core.window import Span
from idlewin.sim.backlog import Backlog, JobKind
from idlewin.sim.chronicle import Chronicle
from idlewin.sim.clock import Timeline
from idlewin.sim.cluster import SimCluster
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server, furnish
from idlewin.sim.jobs import Jobs
from idlewin.sim.kinds import FaultKind
from idlewin.sim.kueue import Kueue
from idlewin.sim.metrics import BELIEVED, SimMetrics
from idlewin.sim.nodes import Nodes
from idlewin.sim.objects import Objects
from idlewin.sim.process import Cycles, Machine, Process, SimLease
from idlewin.sim.serving import Serving
from idlewin.sim.writes import Writes

#: A controller that is called more often than this in a virtual minute runs in circles.
SPIN = 600
#: How long a world is there before its controller starts.
BEFORE = timedelta(minutes=30)
#: How much a clock may gain or lose, by the second.
DRIFT = 2e-4
_REASONS = {reason.value: reason for reason in Reason}


class SpinningError(Exception):
    """A controller runs in circles: it is woken by its own writes without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One rule and its surroundings."""

    name: str
    rule: Rule
    demand: Mapping[Ref, Demand]
    """Who is there, and when; of the targets whose demand is looked at."""
    servers: Mapping[Ref, Server] = field(default_factory=dict)
    jobs: tuple[JobKind, ...] = ()
    local_queues: int = 1
    """LocalQueues a queue."""


class World:
    """Builds the cluster of some rules, and runs it."""

    def __init__(
        self,
        *,
        seed: int,
        start: datetime,
        setups: Sequence[Setup],
        controller: Callable[[World, SimLease], Cycles] | None = None,
        reads_every: float = 15.0,
        looks_within: float = 0.2,
    ) -> None:
        """A world; ``reads_every``: seconds until demand is seen, ``looks_within``: a change."""
        self._looks_within = looks_within
        self.seed, self.setups, self.reads_every = seed, tuple(setups), reads_every
        self.clock, self.began = Timeline(start), start
        self.objects = Objects()
        self.random = Random(f"{seed} world")
        self.nodes = Nodes(self.objects, self.clock, Random(f"{seed} nodes"))
        self.jobs = Jobs(self.objects, self.clock, self.nodes, Random(f"{seed} jobs"))
        self.kueue = Kueue(self.objects, self.clock, self.jobs, Random(f"{seed} kueue"))
        self.serving = Serving(self.objects, self.clock, self.nodes, Random(f"{seed} serving"))
        self.kueue.on_up.append(self.serving.kueue_is_up)
        self.backlog = Backlog(self.objects, self.clock, self.kueue, Random(f"{seed} backlog"))
        self._writes = Writes(self.clock, self.kueue, self.serving, self.nodes)
        self.cluster = SimCluster(self.objects, self._writes)
        demand = {ref: spans for setup in setups for ref, spans in setup.demand.items()}
        self.metrics = SimMetrics(self.clock, demand, self._has_pod)
        self.chronicle = Chronicle(self.clock, self.objects)
        self.on_cycle: list[Callable[[str, Decision | None], None]] = []
        """Told before (without) and after (with) the decision of each cycle."""
        self._make = controller
        self._recent: deque[datetime] = deque(maxlen=SPIN)
        self.process: Process | None = None
        """The one that was started last."""
        self.others: list[Process] = []
        """Older ones that still run."""
        self.acting: Process | None = None
        """The one whose cycle is on; a frozen one's goes on when those below it have ended."""
        self.acting_on = ""
        """The rule that it looks at."""
        self._machines = Random(f"{seed} machines")
        self.lease, self.machine = SimLease(), Machine(self.clock, timedelta(), 1.0)
        self._build()

    def _build(self) -> None:
        self.nodes.started.append(self.chronicle.started)
        self.nodes.gone.append(self.chronicle.gone)
        self.cluster.witnesses.append(_Phases(self))
        self.objects.listeners.append(self.chronicle.look)
        for setup in self.setups:
            furnish(self, setup)
        # Serving has been up for long when a world begins.
        self.clock.run(self.clock.now() + BEFORE)
        self.objects.listeners.append(self._changed)
        self.start_controller()
        for setup in self.setups:
            for kind in setup.jobs:
                self.backlog.keep(kind)
            self._watch_demand(setup)

    def start_controller(self, *, alone: bool = True) -> None:
        """A new process, which remembers nothing, holds the lease and looks at everything.

        Not alone: the one before it goes on in the belief that the lease is its own.
        """
        if self._make is None:
            return
        if alone:
            self.stop_controller()
        elif self.process is not None:
            self.others.append(self.process)
        self.lease, self.machine = SimLease(), self._a_machine()
        self.cluster = self.cluster.anew()
        self.process = Process(self, self._make)
        self._wake_all(self._looks_within)

    def _a_machine(self) -> Machine:
        """One of the cluster's machines: none has the right time, and each goes at its own pace."""
        off = self._machines.choice(
            (0.0, self._machines.gauss(0, 1), self._machines.gauss(0, 3600))
        )
        rate = 1 + self._machines.uniform(-DRIFT, DRIFT)
        return Machine(self.clock, timedelta(seconds=off), rate)

    def stop_controller(self) -> None:
        """All processes end; nobody looks any more."""
        for process in self.processes():
            process.stop()
        self.process = None
        self.others.clear()

    def ended(self, process: Process) -> None:
        """A process has crashed: it is started again, unless another has taken its place."""
        process.stop()
        if process is self.process:
            self.process = None
            self.clock.after(self.random.uniform(1, 20), self._started_again)
        elif process in self.others:
            self.others.remove(process)

    def _started_again(self) -> None:
        if self.process is None:
            self.start_controller(alone=False)

    def processes(self) -> list[Process]:
        """All that run, the one that was started last at the end."""
        return [*self.others, *([self.process] if self.process else [])]

    def wake(self, name: str, within: float | None = None) -> None:
        """Something of a pool changed: it is looked at soon."""
        for process in self.processes():
            process.wake(name, self._looks_within if within is None else within)

    def _changed(self, name: str) -> None:
        if not self.cluster.interference.deaf():
            self.wake(name)

    @contextmanager
    def acts(self, process: Process, name: str) -> Iterator[None]:
        """A cycle of a process is on."""
        before = self.acting, self.acting_on
        self.acting, self.acting_on = process, name
        try:
            yield
        finally:
            self.acting, self.acting_on = before

    def blind(
        self,
        length: timedelta,
        kind: FaultKind = FaultKind.SILENT,
        ref: Ref | None = None,
    ) -> None:
        """Demand cannot be told for so long, from now on; of one target, or of all."""
        now = self.clock.now()
        self.metrics.blind(Span(now, now + length), kind, ref)
        for at in (now, now + min(BELIEVED, length), now + length):
            self.clock.at(at, lambda: self._wake_all(self.reads_every))

    def users_come(self, setup: Setup, length: timedelta) -> None:
        """Demand that nobody foresaw, from now on."""
        now = self.clock.now()
        for ref in setup.demand:
            self.metrics.demand[ref] = self.metrics.demand[ref].also([Span(now, now + length)])
        self.wake(setup.name, self.reads_every)
        self._watch_demand(setup)

    def run(
        self,
        until: datetime,
        progress: Callable[[datetime], None] | None = None,
        every: timedelta = timedelta(hours=6),
    ) -> Chronicle:
        """Run the world up to an instant; ``progress`` is told where it is, now and then."""
        while progress is not None and self.clock.now() + every < until:
            self.clock.run(self.clock.now() + every)
            progress(self.clock.now())
        self.clock.run(until)
        self.chronicle.close()
        if progress is not None:
            progress(self.clock.now())
        return self.chronicle

    def cycle_begins(self, name: str) -> None:
        """A controller looks at a pool."""
        self.chronicle.cycles += 1
        self._recent.append(self.clock.now())
        if len(self._recent) == SPIN and self._recent[-1] - self._recent[0] < timedelta(minutes=1):
            raise SpinningError(f"{SPIN} cycles within a minute at {self.clock.now()}")
        for told in self.on_cycle:
            told(name, None)

    def cycle_ended(self, name: str, decision: Decision) -> None:
        """It has decided, and acted."""
        for told in self.on_cycle:
            told(name, decision)

    def _has_pod(self, ref: Ref) -> bool:
        target = self.objects.deployments.get(ref)
        return target is not None and any(pod.running for pod in self.objects.pods_of(target))

    def _wake_all(self, within: float) -> None:
        for name in self.cluster.names():
            self.wake(name, within)

    def _watch_demand(self, setup: Setup) -> None:
        """Demand that shows or ends is seen at the next reading."""
        changes = (self.metrics.demand[ref].next_change(self.clock.now()) for ref in setup.demand)
        if due := min((change for change in changes if change), default=None):
            self.clock.at(due, lambda: self._demand_changed(setup))

    def _demand_changed(self, setup: Setup) -> None:
        self.wake(setup.name, self.reads_every)
        self._watch_demand(setup)


class _Phases:
    """Writes down each change of phase that the API server took."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before: Status | None = None

    def looked(self, scope: Scope, pool: Pool, *, fresh: bool) -> None:
        """Looks change nothing."""

    def writing(self, action: object) -> None:
        """What the status was."""
        if isinstance(action, Remember):
            rule = self._world.objects.rules.get(action.rule)
            self._before = rule.status if rule else None

    def wrote(self, outcome: Outcome) -> None:
        """What it is now."""
        action = outcome.action
        if isinstance(action, Remember) and outcome.verdict is Verdict.DONE:
            before, after = (self._before or Status()).phase, action.status.phase
            if before != after and before in list(Phase):
                reason = _REASONS[action.status.reason]
                self._world.chronicle.changed(action.rule, Phase(before), Phase(after), reason)
