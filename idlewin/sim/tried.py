"""A world for a test of a rule: its demand as given, sample by sample, and looks at its pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from idlewin.core.explain import explain
from idlewin.core.load import Level
from idlewin.core.pool import StopPolicy
from idlewin.core.target import Demand as DemandSpec, Ref, Serving
from idlewin.core.window import Span, without
from idlewin.ruletest.trial import Look, Seen, Series, Trial
from idlewin.ruletest.written import Event, Queues
from idlewin.sim.backlog import JobKind
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server
from idlewin.sim.people import People
from idlewin.sim.process import Cycles, SimLease
from idlewin.sim.replayed import START_UP, jobs_of, server_of
from idlewin.sim.world import BEFORE, Setup, World

#: Each test is the same whenever it is run.
SEED = 1
#: The pool is looked at so often at least, in seconds.
TICK = 60.0


class Tried:
    """Runs one test."""

    def __init__(self, trial: Trial, controller: Callable[[World, SimLease], Cycles]) -> None:
        self._trial = trial
        setup = Setup(
            name=trial.pool,
            rule=trial.rule,
            demand={ref: Demand(self._busy(ref)) for ref in trial.demand},
            servers={s.ref: self._server(s) for s in trial.rule.serving},
            jobs=tuple(self._jobs()),
        )
        self._world = World(
            seed=SEED, start=trial.start - BEFORE, setups=[setup], controller=controller
        )
        self._people = People(self._world)
        metrics = self._world.metrics
        metrics.samples, metrics.activity = trial.demand, trial.activity
        metrics.known_from, metrics.gaps = trial.known_from, self._gaps()
        # A rule is as old as its history: its budget counts from then.
        self._world.objects.rules[trial.pool].created_at = trial.known_from
        self._plan()

    def run(self) -> tuple[Seen, ...]:
        """Run it; what each look shows."""
        return tuple(map(self._look, self._trial.looks))

    def _look(self, look: Look) -> Seen:
        """What holds at an instant; the controller looks once more, if it has not just then."""
        world, pool = self._world, self._trial.pool
        world.clock.run(look.at)
        kept = world.chronicle.decisions.get(pool)
        if not kept or kept[-1][0].at < look.at:
            world.wake(pool, 0.0)
            world.clock.run(look.at)
        decision, _ = world.chronicle.decisions[pool][-1]
        names = [queue.cluster_queue for queue in self._trial.rule.batch.queues]
        policies = [world.objects.queues[name].stop_policy for name in names]
        return Seen(
            phase=decision.after,
            reason=decision.reason,
            serving=sum(
                any(pod.ready for pod in world.objects.pods_of(target))
                for target in world.objects.deployments.values()
            ),
            queues=Queues.OPEN if StopPolicy.NONE in policies else Queues.CLOSED,
            told=explain(decision),
        )

    # -- what is given

    def _given(self, ref: Ref) -> Iterator[tuple[Series, DemandSpec]]:
        for serving in self._trial.rule.serving:
            if serving.ref == ref and not isinstance(serving.demand, str):
                yield from zip(self._trial.demand[ref], serving.demand, strict=True)

    def _told(self, ref: Ref, level: Level) -> Iterator[Span]:
        """When what has a past says so; a llama-swap has none."""
        for series, spec in self._given(ref):
            if spec.llama_swap is None:
                yield from series.when(level, spec.busy_above)

    def _busy(self, ref: Ref) -> Iterator[Span]:
        return chain(self._trial.past, self._told(ref, Level.BUSY))

    def _gaps(self) -> tuple[Span, ...]:
        refs = list(self._trial.demand)
        unknown = [span for ref in refs for span in self._told(ref, Level.UNKNOWN)]
        return without(unknown, [span for ref in refs for span in self._busy(ref)])

    def _server(self, serving: Serving) -> Server:
        """It is ready again a little before its lead time."""
        lead = serving.lead_time
        seconds = START_UP[0] if isinstance(lead, str) else 0.9 * lead.total_seconds()
        return replace(server_of(self._trial.rule, serving.ref), start_up=(seconds, 0.0))

    def _jobs(self) -> Iterator[JobKind]:
        work = self._trial.work
        for spec in self._trial.rule.batch.queues:
            number = None if work is None else work.get(spec.cluster_queue, 0)
            yield replace(jobs_of(spec), total=number)

    # -- what happens

    def _plan(self) -> None:
        for ref in self._trial.demand:
            for series, _ in self._given(ref):
                self._seen_anew(series)
        if self._trial.activity is not None:
            self._seen_anew(self._trial.activity)
        for at, event in self._trial.events:
            self._world.clock.at(at, partial(self._happens, event))
        self._tick()

    def _tick(self) -> None:
        """A look now and then, as live: so one that a test asks for changes nothing."""
        self._world.wake(self._trial.pool, 0.0)
        self._world.clock.after(TICK, self._tick)

    def _seen_anew(self, series: Series) -> None:
        """Another value is seen at the next reading."""
        before: float | None = None
        for number, value in enumerate(series.values):
            if value != before:
                at = series.start + number * series.interval
                within = self._world.reads_every
                self._world.clock.at(at, partial(self._world.wake, self._trial.pool, within))
            before = value

    def _happens(self, event: Event) -> None:
        world, pool = self._world, self._trial.pool
        if event.wake is not None:
            self._people.claim(pool, event.wake)
        if event.pause is not None:
            self._people.pause(pool, paused=event.pause)
            if not event.pause:
                self._people.resume(pool)
        if event.prometheus_down is not None:
            world.blind(event.prometheus_down)
        if event.kueue_down is not None:
            world.kueue.go_down()
            world.clock.after(event.kueue_down.total_seconds(), world.kueue.come_back)
