"""Many worlds, each from a seed: every promise is checked in each, and every row must fire.

Run as ``python -m tests.simulation.swarm --seeds 200``; one world again by ``--seed 17``.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from idlewin.adapters.clock import ServerClock, TimedMetrics
from idlewin.controller import Controller, Ports
from idlewin.core.decision import Decision
from idlewin.core.explain import explain, headline, wish
from idlewin.core.phase import TRANSITIONS, Phase, Row
from idlewin.sim.faults import Trouble
from idlewin.sim.kinds import FaultKind
from idlewin.sim.process import SimLease
from idlewin.sim.world import SpinningError, World
from tests.simulation.checks import Checks, Violation
from tests.simulation.conduct import Conduct
from tests.simulation.coverage import (
    Cause,
    cause_of,
    missing_causes,
    missing_faults,
    missing_rows,
    table,
)
from tests.simulation.guess import Guess
from tests.simulation.scenario import Cast, Story, draw

#: After faults stop, everything is back within the longest bound, drainTimeout, a start-up, and
#: the retries of the slowest parts.
SLACK = timedelta(minutes=6)
#: How often a Lease is renewed.
RENEWED = timedelta(seconds=5)


@dataclass(slots=True)
class Result:
    """What became of one world."""

    seed: int
    rows: Counter[Row] = field(default_factory=Counter)
    hits: Counter[tuple[FaultKind, str]] = field(default_factory=Counter)
    """How often each kind of fault was there in each phase."""
    causes: Counter[Cause] = field(default_factory=Counter)
    changes: int = 0
    """How many changes of phase were looked at for their cause."""
    writes: int = 0
    cycles: int = 0
    failure: str = ""
    last: list[str] = field(default_factory=list)
    """The last decisions in words, and what was done to the world."""


class Renewed:
    """A Lease whose renewals the API server answers: that tells the time as well."""

    def __init__(self, world: World, lease: SimLease, answered: Callable[[], object]) -> None:
        self._clock, self._lease, self._answered = world.clock, lease, answered
        self._due = world.clock.now()

    def held(self) -> bool:
        """Whether we may write now."""
        if (now := self._clock.now()) >= self._due:
            self._due = now + RENEWED
            self._answered()
        return self._lease.held()


def controller(world: World, lease: SimLease) -> Controller:
    """The shipped controller in a simulated world, by the shipped clock."""
    machine, cluster = world.machine, world.cluster
    machine.clock = clock = ServerClock(machine)

    def answered() -> None:
        date = int(world.clock.now().timestamp() + cluster.interference.apart())
        clock.shown(date, machine.monotonic())

    cluster.answered = answered
    return Controller(
        Ports(
            clock=clock,
            metrics=TimedMetrics(world.metrics, clock),
            cluster=cluster,
            journal=world.chronicle,
            lease=Renewed(world, lease, answered),
            forecaster=Guess(world),
        )
    )


def play(seed: int) -> Result:
    """One world from its seed to the end."""
    casts, result = draw(seed), Result(seed)
    first, setups = casts[0], [cast.setup for cast in casts]
    world = World(seed=seed, start=first.start, setups=setups, controller=controller)
    trouble = Trouble(world, Random(f"{seed} trouble"), first.rates)
    world.cluster.interference = trouble
    checks = Checks(world)
    conduct = Conduct(checks)
    checks.faults = lambda: trouble.injected
    stories = [Story(world, cast, trouble) for cast in casts]
    world.on_cycle.append(lambda _, decision: _count_cause(result, world, decision))
    try:
        for end in first.ends:
            world.run(max(end, world.clock.now()))
            for story in stories:
                story.end()
            _everybody_is_back(world, casts, checks, conduct)
            if end is not first.ends[-1]:
                for story in stories:
                    story.go_on()
    except (Violation, SpinningError) as broken:
        result.failure = str(broken)
        result.last = _last(world, stories)
    except Exception as error:  # noqa: BLE001 - an error of the controller is a finding too
        result.failure = f"{type(error).__name__}: {error}"
        result.last = _last(world, stories) + traceback.format_exc().splitlines()[-8:]
    changes = world.chronicle.changes
    result.rows.update(Row(change.before, change.after, change.reason) for change in changes)
    result.hits = trouble.hits
    result.writes, result.cycles = checks.writes, world.chronicle.cycles
    return result


def _count_cause(result: Result, world: World, decision: Decision | None) -> None:
    """Count what a change of phase came of, once it is written."""
    if decision is None:
        return
    fresh = world.chronicle.changes[result.changes :]
    result.changes += len(fresh)
    cause = cause_of(decision)
    if cause and any(Row(one.before, one.after, one.reason) == cause[0] for one in fresh):
        result.causes[cause] += 1


def _everybody_is_back(world: World, casts: list[Cast], checks: Checks, conduct: Conduct) -> None:
    wait = max(_bound(cast) for cast in casts)
    for cast in casts:
        world.users_come(cast.setup, wait * 2)
    world.run(world.clock.now() + wait)
    for cast in casts:
        checks.came_back(cast.setup.name)
        conduct.came_back(cast.setup.name)


def _bound(cast: Cast) -> timedelta:
    """By when serving has to be back, once faults are over."""
    batch = cast.setup.rule.batch
    bounds = [queue.max_runtime or timedelta() for queue in batch.queues]
    graces = [queue.grace for queue in batch.queues]
    start_up = max(server.start_up[0] for server in cast.setup.servers.values())
    wait = max(*bounds, *graces) + batch.drain_timeout + SLACK
    return wait + timedelta(seconds=start_up * 2.5)


def _last(world: World, stories: list[Story]) -> list[str]:
    """The last decisions of each rule, and what was done to it."""
    return [line for story in stories for line in (*_words(world, story.name), *story.told[-12:])]


def _words(world: World, name: str) -> list[str]:
    """The last ten decisions, the very last in full, and what became of their writes."""
    kept = list(world.chronicle.decisions.get(name, ()))[-10:]
    shown = []
    for decision, outcomes in kept:
        told = explain(decision) if decision is kept[-1][0] else headline(decision)
        writes = (f"    {wish(o.action)}: {o.verdict} {o.message}" for o in outcomes)
        shown.append("\n".join((told, *writes)))
    return shown


def report(result: Result) -> str:
    """A failure, what led to it, and how to see it again."""
    last = "\n".join(result.last)
    again = f"python -m tests.simulation.swarm --seed {result.seed}"
    return f"seed {result.seed}: {result.failure}\n{last}\nagain: {again}\n"


def run(seeds: Iterable[int], jobs: int = 1) -> list[Result]:
    """All worlds of some seeds."""
    if jobs == 1:
        return [play(seed) for seed in seeds]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(play, seeds, chunksize=4))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.swarm", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="one world only")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    seeds = (
        [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    )
    print(f"seeds {seeds[0]} to {seeds[-1]}", flush=True)
    began = time.process_time()
    results = run(seeds, asked.jobs)
    rows: Counter[Row] = sum((result.rows for result in results), Counter())
    failed = [result for result in results if result.failure]
    for result in failed[:5]:
        print(report(result))
    for row in TRANSITIONS:
        print(f"{rows[row]:6}  {Phase(row.source):<11} {Phase(row.target):<11} {row.reason}")
    cycles, writes = (sum(getattr(r, what) for r in results) for what in ("cycles", "writes"))
    took = time.process_time() - began
    print(f"{len(results)} worlds, {cycles} cycles, {writes} writes, {took:.0f} s of CPU")
    causes = Counter(result.failure.split(" at ")[0].split(":")[0] for result in failed)
    print(f"{len(failed)} failed:", dict(causes), "seeds", [result.seed for result in failed][:30])
    hits: Counter[tuple[FaultKind, str]] = sum((result.hits for result in results), Counter())
    fired: Counter[Cause] = sum((result.causes for result in results), Counter())
    print(table(hits, fired))
    whole = asked.seed is None
    short = missing_rows(rows) + missing_causes(fired) + missing_faults(hits) if whole else []
    for line in short:
        print(f"too seldom: {line}")
    return int(bool(failed or short))


if __name__ == "__main__":
    sys.exit(main())
