"""How long serving takes to start is measured, kept on the rule, and outlives the controller."""

from __future__ import annotations

from idlewin.codec import read_status, write_status
from idlewin.core.status import Status
from idlewin.core.timing import LEAD_UNMEASURED, lead_time
from idlewin.sim.furnish import Server
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.scenery import NAME, REF, START, a_job, a_rule, a_setup, minutes, seconds
from tests.simulation.swarm import controller

#: What a server of these stories takes to start, give or take a tenth.
START_UP = 100


def a_life() -> World:
    servers = {REF: Server(start_up=(float(START_UP), 0.05), grace=seconds(5))}
    setup = a_setup(servers=servers, jobs=(a_job(),))
    world = World(seed=5, start=START, setups=[setup], controller=controller)
    Checks(world)
    return world


def measured(world: World) -> tuple[int, ...]:
    """As a controller that has just started reads it."""
    stored, _ = read_status(write_status(world.objects.rules[NAME].status))
    return next((lead.seconds for lead in stored.lead_times if lead.target == str(REF)), ())


def returns(world: World, hour: int, *, restarts: bool) -> None:
    """A claim ends the window at an hour; the controller is restarted while serving starts."""
    world.run(START + minutes(60 * hour))
    assert world.objects.rules[NAME].status.phase == "Harvesting"
    People(world).claim(NAME, minutes(10))
    # Batch has 30 s to stop; serving starts after that.
    world.run(START + minutes(60 * hour) + seconds(80))
    if restarts:
        assert world.objects.rules[NAME].status.phase == "Restoring"
        world.stop_controller()
        world.run(START + minutes(60 * hour) + seconds(90))
        world.start_controller()
    world.run(START + minutes(60 * hour + 9))


def test_start_ups_survive_restarts_and_decide_when_serving_is_wanted_back():
    world = a_life()
    rule = a_rule()
    unmeasured = lead_time(rule, Status())

    returns(world, 2, restarts=False)
    (whole,) = measured(world)
    world.stop_controller()
    world.start_controller()
    returns(world, 4, restarts=True)

    first, second = measured(world)
    assert unmeasured == LEAD_UNMEASURED
    assert first == whole
    assert all(0.8 * START_UP < took < 1.4 * START_UP for took in (first, second))
    assert lead_time(rule, world.objects.rules[NAME].status) == seconds(max(first, second))
