"""Writes that arrive after somebody else's: what was decided on an older look undoes nobody's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from idlewin.core.decision import (
    Action,
    FenceQueue,
    Outcome,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.sim.cluster import Calm, Crash
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import NAME, RESUMABLE, SHORT, START, a_job, a_setup, minutes, seconds
from tests.simulation.swarm import controller


class Meanwhile(Calm):
    """Something happens between a decision and the first of its writes of a kind."""

    def __init__(self, kind: Callable[[Action], bool], happens: Callable[[], object]) -> None:
        self._kind, self._happens, self.over = kind, happens, False
        self.answers: list[Outcome] = []

    def before(self, action: Action) -> Outcome | None:
        if not self.over and self._kind(action):
            self.over = True
            self._happens()
        return None

    def after(self, outcome: Outcome) -> Outcome:
        if self._kind(outcome.action):
            self.answers.append(outcome)
        return outcome


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


def taken_out(world: World) -> None:
    queue = world.objects.queues[RESUMABLE]
    People(world).adopt(RESUMABLE, "")
    queue.epoch = queue.left = None


@pytest.mark.parametrize("undo", [taken_out, lambda _: None], ids=["adopt --undo", "by hand"])
def test_a_leader_that_wakes_after_another_gave_all_back_closes_no_queue_of_a_person(undo):
    world = harvesting()

    def another_gives_back() -> None:
        world.start_controller(alone=True)
        world.clock.run(world.clock.now() + minutes(30))
        assert phase(world) == Phase.SERVING
        undo(world)
        People(world).set_policy(RESUMABLE, StopPolicy.NONE)

    late = Meanwhile(
        lambda action: isinstance(action, SetStopPolicy) and action.queue == RESUMABLE,
        another_gives_back,
    )
    world.cluster.interference = late
    People(world).pause(NAME, paused=True)
    world.run(START + minutes(120))

    queue = world.objects.queues[RESUMABLE]
    assert late.answers[-1].verdict is Verdict.REFUSED
    assert (queue.stop_policy, queue.writer) == (StopPolicy.NONE, "kubectl")


def test_a_leader_that_wakes_after_another_gave_all_back_closes_no_local_queue():
    world = harvesting()
    world.kueue.go_down()

    def another_gives_back() -> None:
        world.start_controller(alone=True)
        world.kueue.come_back()
        world.clock.run(world.clock.now() + minutes(30))
        assert phase(world) == Phase.SERVING

    late = Meanwhile(lambda action: isinstance(action, StopLocalQueue), another_gives_back)
    world.cluster.interference = late
    People(world).pause(NAME, paused=True)
    world.run(START + minutes(120))

    assert late.over
    policies = {local.name: local.stop_policy for local in world.objects.local_queues.values()}
    assert policies == dict.fromkeys((RESUMABLE, SHORT), StopPolicy.NONE)


def test_serving_is_not_restored_before_a_queue_carries_the_fence_of_this_return():
    """One leader is frozen before an opening, another dies before its fence, a third goes on."""
    world = World(seed=3, start=START, setups=[a_setup(jobs=(a_job(),))], controller=controller)
    Conduct(Checks(world))

    def dies() -> None:
        raise Crash

    def stops(action: Action) -> bool:
        return isinstance(action, SetStopPolicy | FenceQueue)

    def leads(until: Callable[[], bool]) -> None:
        """Another takes over, and dies before a stop or a fence once it is time."""
        world.start_controller(alone=False)
        died = Meanwhile(lambda action: stops(action) and until(), dies)
        world.cluster.interference = died
        while not died.over and phase(world) != Phase.SERVING:
            world.clock.run(world.clock.now() + seconds(0.2))

    def others_give_back() -> None:
        People(world).pause(NAME, paused=True)
        leads(until=lambda: phase(world) == Phase.RECLAIMING)
        leads(until=lambda: phase(world) == Phase.RESTORING)

    late = Meanwhile(
        lambda action: isinstance(action, SetStopPolicy) and action.policy is StopPolicy.NONE,
        others_give_back,
    )
    world.cluster.interference = late
    world.run(START + minutes(90))

    assert [answer.verdict for answer in late.answers] == [Verdict.REFUSED]
