"""Wrong clocks: of the machine, of one of two leaders, of one of two API servers."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.window import Span
from idlewin.sim.demand import Demand
from idlewin.sim.faults import Trouble
from idlewin.sim.kinds import FaultKind
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import NAME, REF, SHORT, START, a_job, a_setup, minutes, seconds
from tests.simulation.swarm import controller

FAR = START + timedelta(hours=30)
#: A real process asks for demand so often.
POLL = seconds(15)


def a_life(until: timedelta) -> World:
    demand = {REF: Demand([Span(FAR, FAR + minutes(60))])}
    setup = a_setup(demand=demand, jobs=(a_job(), a_job(SHORT)))
    world = World(seed=3, start=START, setups=[setup], controller=controller)
    Conduct(Checks(world))
    world.run(START + until)
    return world


def phase(world: World) -> str:
    status = world.objects.rules[NAME].status
    return status.phase if status else Phase.SERVING


@pytest.mark.parametrize("off", [timedelta(hours=1), timedelta(hours=-6), timedelta(days=400)])
def test_a_machine_whose_clock_is_set_otherwise_misses_no_claim_and_ends_no_window(
    off: timedelta,
) -> None:
    world = a_life(minutes(45))
    assert (phase(world), world.process is not None) == (Phase.HARVESTING, True)

    world.process.machine.stepped = off
    world.run(START + minutes(50))
    assert phase(world) == Phase.HARVESTING
    People(world).claim(NAME, minutes(30))
    world.run(START + minutes(70))

    change = next(c for c in world.chronicle.changes if c.after is Phase.RECLAIMING)
    assert change.reason is Reason.WAKE_CLAIMED
    assert START + minutes(50) <= change.at < START + minutes(51)
    assert phase(world) == Phase.SERVING


def test_a_second_leader_with_another_clock_goes_on_where_the_first_one_was() -> None:
    world = a_life(minutes(45))
    before = world.objects.rules[NAME].status

    world.start_controller()
    world.process.machine.stepped = timedelta(hours=5)
    world.run(START + minutes(60))

    after = world.objects.rules[NAME].status
    assert before.phase == after.phase == Phase.HARVESTING
    assert before.window.opened_at == after.window.opened_at


def test_api_servers_that_do_not_agree_on_the_time_lend_nothing_and_give_back() -> None:
    world = a_life(minutes(45))
    trouble = world.cluster.interference = Trouble(world, Random(1), {})
    stale = world.setups[0].rule.stale_after

    trouble.begin(FaultKind.CLOCKS_APART, minutes(120))
    for _ in range((stale + seconds(60)) // POLL):
        world.wake(NAME)
        world.run(world.clock.now() + POLL)
    assert phase(world) != Phase.HARVESTING
    world.run(START + minutes(164))

    back = [c.reason for c in world.chronicle.changes if c.after is Phase.RECLAIMING]
    assert back == [Reason.LOAD_UNKNOWN]
    assert phase(world) == Phase.SERVING
    world.run(START + minutes(200))
    assert phase(world) == Phase.HARVESTING
