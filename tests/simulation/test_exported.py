"""A rival that puts back what a ClusterQueue was in a window, with our marks: an old export."""

from __future__ import annotations

import pytest

from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.sim.furnish import Server
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.scenery import NAME, REF, RESUMABLE, START, a_job, a_setup, minutes, seconds
from tests.simulation.swarm import controller
from tests.simulation.test_rivals import Count


@pytest.mark.parametrize("paused", [True, False], ids=["paused", "in use"])
@pytest.mark.parametrize("claims", [0, 1], ids=["device node", "claimed"])
def test_who_puts_back_a_queue_with_our_marks_keeps_serving_out_no_more_than_others(claims, paused):
    servers = {REF: Server(claims=claims, start_up=(20.0, 0.1), grace=seconds(5))}
    setup = a_setup(jobs=(a_job(),), servers=servers)
    world = World(seed=3, start=START, setups=[setup], controller=controller)
    Checks(world)
    count, people = Count(world), People(world)
    world.run(START + minutes(60))
    assert world.objects.rules[NAME].status.phase == Phase.HARVESTING
    queue = world.objects.queues[RESUMABLE]
    exported = queue.left, queue.epoch

    def applied() -> None:
        if queue.stop_policy is not StopPolicy.NONE:
            people.set_policy(RESUMABLE, StopPolicy.NONE, "argocd")
            queue.left, queue.epoch = exported
            world.objects.touch(queue)
        world.clock.after(2.0, applied)

    applied()
    people.pause(NAME, paused=True)
    world.run(START + minutes(65))
    assert world.objects.rules[NAME].status.phase == Phase.SERVING
    assert queue.stop_policy is StopPolicy.NONE, "it is theirs by now"
    people.pause(NAME, paused=paused)
    world.run(START + minutes(70))
    done = dict(count.done)
    world.run(START + minutes(200))

    status = world.objects.rules[NAME].status
    assert status.phase == Phase.SERVING
    assert count.done[StopPolicy.HOLD] == done[StopPolicy.HOLD], "nobody is fought with for ever"
    assert status.contested_by == ("" if paused else "argocd")
