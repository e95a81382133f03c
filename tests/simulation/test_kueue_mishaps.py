"""Work that Kueue keeps out is no reason to take serving away."""

from __future__ import annotations

import pytest

from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.sim.people import People
from idlewin.sim.ready import PodsReady
from idlewin.sim.world import World
from tests.simulation.scenery import NAME, RESUMABLE, START, a_job, a_setup, minutes, seconds
from tests.simulation.swarm import controller


def a_night(job=None) -> World:
    setup = a_setup(jobs=(job or a_job(total=2),))
    return World(seed=1, start=START, setups=[setup], controller=controller)


def windows(world: World) -> int:
    return sum(change.after is Phase.YIELDING for change in world.chronicle.changes)


@pytest.mark.parametrize("policy", [StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN])
def test_no_window_for_work_of_a_local_queue_that_a_person_stopped(policy: StopPolicy):
    world = a_night()
    People(world).set_local_policy("team-0", RESUMABLE, policy)
    world.run(START + minutes(300))
    assert windows(world) == 0

    People(world).set_local_policy("team-0", RESUMABLE, StopPolicy.NONE)
    world.run(START + minutes(400))

    assert windows(world) == 1


def test_no_window_for_work_that_is_kept_out_or_given_up_by_kueue():
    world = a_night(a_job(total=1, depth=1))
    (work,) = world.objects.works.values()
    work.kept_out_until = START + minutes(300)
    world.run(START + minutes(200))
    assert windows(world) == 0

    work.kept_out_until, work.active, work.timed_out = None, False, True
    world.objects.touch(work)
    world.run(START + minutes(210))

    assert windows(world) == 0
    status = world.objects.rules[NAME].status
    assert "PodsNotReadyInTime" in [one.type for one in status.conditions]


def test_a_window_is_not_lost_on_pods_that_kueue_waits_for():
    world = a_night(a_job(depth=2))
    world.kueue.ready.policy = PodsReady(timeout=seconds(10), limit=1)

    world.run(START + minutes(300))

    assert world.chronicle.batch
    assert not any(work.timed_out for work in world.objects.works.values())
