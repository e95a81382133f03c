"""Figures that need no cluster: what a cycle costs, and how fast simulated days go by."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from statistics import median

from idlewin import traces
from idlewin.cli.recorded import demo_rule, one_rule, recorded
from idlewin.controller import Controller
from idlewin.core.phase import Phase
from idlewin.core.rule import Cards, QueueClass
from idlewin.core.target import Ref
from idlewin.core.window import Span
from idlewin.replay import replay
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server
from idlewin.sim.world import Setup, World
from idlewin.wiring import replayed
from tests.bench.figures import Figure
from tests.simulation.scenario import HOURS
from tests.simulation.scenery import START, a_job, a_rule, minutes
from tests.simulation.swarm import controller, play

#: How often a cycle is timed, in so many batches; the median batch is told.
BATCHES, CYCLES = 9, 200


def cycle_figures() -> list[Figure]:
    """CPU time of one cycle that changes nothing, in the simulated cluster."""
    found = []
    for rules in (1, 50):
        for phase, idle in ((Phase.SERVING, False), (Phase.HARVESTING, True)):
            took = _cycle_cpu(_world(rules, idle=idle), phase)
            what = f"CPU time of a cycle without change, {phase.value}, {rules} rule(s), simulated"
            found.append(Figure(what=what, value=f"{took * 1000:.2f} ms"))
    return found


def days_figures(seeds: int) -> list[Figure]:
    """Simulated days a second of one core: the packaged trace, and the swarm's worlds, with what
    went wrong in them.
    """
    cases = recorded(one_rule(demo_rule())[1], traces.sample(), None)
    began = time.process_time()
    cycles = sum(replay(case, replayed, lambda _at, _phase: None).cycles for case in cases)
    took = time.process_time() - began
    days = sum(case.covers.length / timedelta(days=1) for case in cases)
    text = f"simulated days a CPU second, packaged trace, {len(cases)} cards ({cycles} cycles)"
    found = [Figure(what=text, value=f"{days / took:.1f}")]
    began = time.process_time()
    worlds = [play(seed) for seed in range(seeds)]
    took = time.process_time() - began
    cycles = sum(world.cycles for world in worlds)
    days = seeds * HOURS / 24
    broken = sum(bool(world.failure) for world in worlds)
    text = f"simulated days a CPU second, swarm with its checks ({seeds} worlds, {cycles} cycles)"
    return [
        *found,
        Figure(what=text, value=f"{days / took:.1f}"),
        Figure(what="  violations in these", value=str(broken), goal="0", met=not broken),
    ]


def _cycle_cpu(world: World, phase: Phase) -> float:
    """Seconds of CPU time of a cycle of the first rule, once it rests in a phase."""
    name = world.setups[0].name
    status = world.objects.rules[name].status
    assert status is not None
    assert status.phase == phase, status
    cycles = world.process and world.process.controller
    assert isinstance(cycles, Controller)
    batches = []
    for _ in range(BATCHES):
        version = world.objects.rules[name].version
        began = time.process_time()
        for _ in range(CYCLES):
            cycles.cycle(name)
        batches.append((time.process_time() - began) / CYCLES)
        assert world.objects.rules[name].version == version, "a cycle wrote the status"
    return median(batches)


def _world(rules: int, *, idle: bool) -> World:
    """Rules that have rested for a while: all with users, or all in an open window."""
    setups = [_setup(number, idle=idle) for number in range(rules)]
    world = World(seed=1, start=START, setups=setups, controller=controller)
    # The world begins half an hour after START; by then its users have long gone, or stay.
    world.run(world.clock.now() + minutes(45))
    return world


def _setup(number: int, *, idle: bool) -> Setup:
    name = f"pool-{number:02}"
    ref = Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name=name)
    queue = QueueClass(cluster_queue=name, max_runtime=minutes(10))
    base = a_rule()
    rule = replace(
        base,
        cards=Cards(resource="gpu.intel.com/xe", count=1, node_selector={"host": name}),
        serving=(replace(base.serving[0], name=name),),
        batch=replace(base.batch, queues=(queue,)),
    )
    until = START + (minutes(40) if idle else timedelta(days=1))
    return Setup(
        name=name,
        rule=rule,
        demand={ref: Demand([Span(START, until)])},
        servers={ref: Server(start_up=(20.0, 0.1), grace=timedelta(seconds=5))},
        jobs=(a_job(name, max_runtime=minutes(10)),),
    )
