"""A world: rules with their cards, serving, queues, work and demand, and a controller in it.

Everything follows from one seed. The controller is called at virtual instants, as wakeups.py
would call it: when something of its pool changed, when its ``revisit_at`` has come, when demand
shows or ends. Replay and tests use this same file; only what they put in differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

from idlewin.core.decision import Decision, Outcome, Remember, Verdict
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, Scope
from idlewin.core.reason import Reason
from idlewin.core.rule import Rule
from idlewin.core.status import Status
from idlewin.core.target import Ref
from idlewin.core.window import Span
from idlewin.ports import LookError
from idlewin.sim.backlog import Backlog, JobKind
from idlewin.sim.chronicle import Chronicle
from idlewin.sim.clock import Timeline, Timer
from idlewin.sim.cluster import Crash, SimCluster
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server, furnish
from idlewin.sim.jobs import Jobs
from idlewin.sim.kueue import Kueue
from idlewin.sim.metrics import SimMetrics
from idlewin.sim.nodes import Nodes
from idlewin.sim.objects import Objects
from idlewin.sim.serving import Serving
from idlewin.sim.writes import Writes

#: A controller that is called more often than this in a virtual minute runs in circles.
SPIN = 600
_REASONS = {reason.value: reason for reason in Reason}


class Cycles(Protocol):
    """What the world wants of a controller."""

    def cycle(self, name: str) -> Decision | None:
        """One pool, once."""
        ...


class SimLease:
    """Who may act: held, until somebody takes it."""

    def __init__(self) -> None:
        self.mine = True

    def held(self) -> bool:
        """Whether we may write now."""
        return self.mine


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
        self.clock = Timeline(start)
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
        self._timers: dict[str, Timer] = {}
        self._recent: deque[datetime] = deque(maxlen=SPIN)
        self.controller: Cycles | None = None
        self.lease = SimLease()
        self._build()

    def _build(self) -> None:
        self.nodes.started.append(self.chronicle.started)
        self.nodes.gone.append(self.chronicle.gone)
        self.cluster.witnesses.append(_Phases(self))
        self.objects.listeners.append(self.chronicle.look)
        for setup in self.setups:
            furnish(self, setup)
        # Serving has been up for long when a world begins.
        self.clock.run(self.clock.now() + timedelta(minutes=30))
        self.objects.listeners.append(self.wake)
        for setup in self.setups:
            for kind in setup.jobs:
                self.backlog.keep(kind)
            self._watch_demand(setup)
        self.start_controller()

    def start_controller(self) -> None:
        """A new process, which remembers nothing, holds the lease and looks at everything."""
        if self._make is not None:
            self.lease.mine = False
            self.lease = SimLease()
            self.cluster = self.cluster.anew()
            self.controller = self._make(self, self.lease)
            for name in self.cluster.names():
                self.wake(name)

    def stop_controller(self) -> None:
        """Its process ends; nobody looks any more."""
        self.controller = None
        self.lease.mine = False

    def wake(self, name: str, within: float | None = None) -> None:
        """Something of a pool changed: it is looked at soon."""
        seconds = self.random.uniform(0, self._looks_within if within is None else within)
        self._look_at(name, self.clock.now() + timedelta(seconds=seconds))

    def blind(self, length: timedelta) -> None:
        """Demand cannot be told for so long, from now on."""
        now = self.clock.now()
        self.metrics.blind(Span(now, now + length))
        for at in (now, now + length):
            self.clock.at(at, self._wake_all)

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

    def _look_at(self, name: str, when: datetime) -> None:
        timer = self._timers.get(name)
        if timer is not None and not timer.cancelled and timer.when <= when:
            return
        if timer is not None:
            timer.cancel()
        self._timers[name] = self.clock.at(when, lambda: self._cycle(name))

    def _cycle(self, name: str) -> None:
        self._timers.pop(name, None)
        if self.controller is None:
            return
        self._count()
        for told in self.on_cycle:
            told(name, None)
        try:
            decision = self.controller.cycle(name)
        except Crash:
            self.stop_controller()
            self.clock.after(self.random.uniform(1, 20), self.start_controller)
            return
        except LookError:
            self.wake(name, 5.0)
            return
        if decision is not None:
            for told in self.on_cycle:
                told(name, decision)
            self._look_at(name, max(decision.revisit_at, self.clock.now() + timedelta(seconds=1)))

    def _count(self) -> None:
        self.chronicle.cycles += 1
        self._recent.append(self.clock.now())
        if len(self._recent) == SPIN and self._recent[-1] - self._recent[0] < timedelta(minutes=1):
            raise SpinningError(f"{SPIN} cycles within a minute at {self.clock.now()}")

    def _has_pod(self, ref: Ref) -> bool:
        target = self.objects.deployments.get(ref)
        return target is not None and any(pod.running for pod in self.objects.pods_of(target))

    def _wake_all(self) -> None:
        for name in self.cluster.names():
            self.wake(name, self.reads_every)

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
