"""Writes that arrive after somebody else's: what was decided on an older look undoes nobody's."""

from __future__ import annotations

from collections.abc import Callable

from idlewin.core.decision import Action, Outcome, SetStopPolicy
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.sim.cluster import Calm
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import NAME, RESUMABLE, SHORT, START, a_job, a_setup, minutes
from tests.simulation.swarm import controller


class Meanwhile(Calm):
    """Something happens between a decision and the first of its writes of a kind."""

    def __init__(self, kind: Callable[[Action], bool], happens: Callable[[], object]) -> None:
        self._kind, self._happens, self._over = kind, happens, False

    def before(self, action: Action) -> Outcome | None:
        if not self._over and self._kind(action):
            self._over = True
            self._happens()
        return None


def harvesting() -> World:
    """A world in which a window is open for the next hours."""
    setup = a_setup(jobs=(a_job(), a_job(SHORT)))
    world = World(seed=3, start=START, setups=[setup], controller=controller)
    Conduct(Checks(world))
    world.run(START + minutes(60))
    assert phase(world) == Phase.HARVESTING
    return world


def phase(world: World) -> str:
    return world.objects.rules[NAME].status.phase


def test_a_closing_that_was_decided_before_a_person_closed_the_queue_leaves_theirs():
    world, hold = harvesting(), StopPolicy.HOLD
    world.cluster.interference = Meanwhile(
        lambda action: isinstance(action, SetStopPolicy) and action.queue == RESUMABLE,
        lambda: People(world).set_policy(RESUMABLE, hold),
    )

    People(world).pause(NAME, paused=True)
    world.run(START + minutes(75))

    queue = world.objects.queues[RESUMABLE]
    assert (queue.stop_policy, queue.writer) == (hold, "kubectl")
    assert phase(world) == Phase.SERVING
