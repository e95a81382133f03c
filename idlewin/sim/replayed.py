"""A world for a replay: one card, its recorded users, and batch work without end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode, QueueClass, Rule
from idlewin.core.score import Timeline
from idlewin.core.target import Ref
from idlewin.core.window import Span, clipped
from idlewin.sim.backlog import JobKind
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server
from idlewin.sim.process import Cycles, SimLease
from idlewin.sim.world import Setup, World

#: A model server's start-up: median seconds, and the spread of their logarithm.
START_UP = (240.0, 0.15)
GRACE = timedelta(seconds=30)
#: Resumable work takes so long in all; it is cut short by each window's end.
LONG = (timedelta(hours=1), timedelta(hours=6))


class Replayed:
    """A world that runs a recording once, and then tells what happened in it."""

    def __init__(self, world: World, until: datetime) -> None:
        self._world, self._until = world, until
        self._began = world.clock.now()

    def run(self, tell: Callable[[datetime, str], None]) -> None:
        """Run it to its end, telling the instant and the phase now and then."""
        name = self._world.setups[0].name

        def progress(now: datetime) -> None:
            rule = self._world.objects.rules[name]
            tell(now, rule.status.phase if rule.status else Phase.SERVING.value)

        self._world.run(self._until, progress, timedelta(hours=3))

    @property
    def cycles(self) -> int:
        """How often the controller looked."""
        return self._world.chronicle.cycles

    def timeline(self) -> Timeline:
        """The phases of the pool, and when batch ran on its cards."""
        chronicle = self._world.chronicle
        changes = [(change.at, change.after) for change in chronicle.changes]
        return Timeline(
            phases=((self._began, Phase.SERVING), *changes),
            batch=tuple(span for _, span, _ in sorted(chronicle.batch, key=lambda b: b[1])),
        )

    def stays(self) -> tuple[tuple[datetime, Reason | None], ...]:
        """From when on it stayed with serving, and why; None: it was away."""
        return tuple((at, reason) for at, _, reason in self._world.chronicle.stays)

    def prices(self) -> tuple[tuple[datetime, float], ...]:
        """From when on a late return cost so many minutes of batch; 0: not known."""
        return tuple((at, price) for at, _, price in self._world.chronicle.prices)

    def reasons(self) -> dict[str, int]:
        """How often each transition was taken, by its reason."""
        return dict(Counter(change.reason.value for change in self._world.chronicle.changes))


def a_replay(
    rule: Rule,
    busy: tuple[Span, ...],
    unknown: tuple[Span, ...],
    covers: Span,
    seed: int,
    controller: Callable[[World, SimLease], Cycles],
) -> Replayed:
    """One card's recording as a world. All of a rule's targets share the recorded users."""
    refs = [serving.ref for serving in rule.serving]
    setup = Setup(
        name="replay",
        rule=acting(rule),
        demand={ref: Demand(busy) for ref in refs},
        servers={ref: server_of(rule, ref) for ref in refs},
        jobs=tuple(jobs_of(spec) for spec in rule.batch.queues),
    )
    world = World(seed=seed, start=covers.start, setups=[setup], controller=controller)
    world.metrics.known_from = covers.start
    for span in clipped(unknown, Span(world.clock.now(), covers.end)):
        world.clock.at(span.start, partial(world.blind, span.length))
    return Replayed(world, covers.end)


def acting(rule: Rule) -> Rule:
    """A rule as if a person had switched it on: the replay tells what it would do."""
    return replace(rule, mode=Mode.ACT, paused=False)


def server_of(rule: Rule, ref: Ref) -> Server:
    """A target; the first requests the cards, the others open the device node."""
    first = ref == rule.serving[0].ref
    return Server(
        replicas=1, claims=rule.cards.count if first else 0, grace=GRACE, start_up=START_UP
    )


def jobs_of(spec: QueueClass) -> JobKind:
    """Work of a queue that always waits."""
    if spec.contract is not None:
        return JobKind(
            queue=spec.cluster_queue, runtime=LONG, contract=True, grace=spec.grace, depth=2
        )
    bound = spec.max_runtime or timedelta(minutes=30)
    return JobKind(queue=spec.cluster_queue, runtime=(bound / 3, bound), max_runtime=bound, depth=2)
