"""Pods of nobody's that have the cards' device node open: no window begins beside one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.phase import Phase
from idlewin.core.pool import Role, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import Rule
from idlewin.core.window import Span
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks, Violation
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import DEVICE, NAME, START, a_rule, a_setup, a_world, minutes
from tests.simulation.test_checks import look, remember
from tests.simulation.test_lending import JOBS, a_life, ended, entered


def exclusive() -> Rule:
    rule = a_rule()
    return replace(rule, cards=replace(rule.cards, device_nodes=(DEVICE,)))


def reason(world: World) -> str:
    status = world.objects.rules[NAME].status
    return status.reason if status else ""


def test_a_pod_of_nobodys_on_the_device_node_keeps_a_window_shut_until_it_is_gone():
    world = a_life(exclusive(), calls=(Span(START + minutes(25), START + minutes(32)),))
    pod = People(world).open_device(NAME, DEVICE)
    pod.stuck = True
    world.run(START + minutes(60))
    assert (entered(world, Phase.YIELDING), reason(world)) == ([], Reason.CARDS_HELD)

    world.nodes.delete(pod)
    world.run(START + minutes(70))
    assert (entered(world, Phase.YIELDING), reason(world)) == ([], Reason.CARDS_HELD)

    world.nodes.vanish(pod)
    world.run(START + minutes(80))
    (opened,) = entered(world, Phase.YIELDING)
    assert opened.at >= START + minutes(70)


def test_one_that_comes_while_serving_leaves_keeps_the_queues_shut():
    world = a_life(exclusive())
    while not entered(world, Phase.YIELDING):
        world.run(world.clock.now() + minutes(0.05))
    People(world).open_device(NAME, DEVICE)
    world.run(world.clock.now() + minutes(10))

    assert not entered(world, Phase.HARVESTING)
    assert all(q.stop_policy is not StopPolicy.NONE for q in world.objects.queues.values())


def test_one_that_comes_in_a_window_does_not_end_it_and_keeps_the_next_one_shut():
    users = Span(START + minutes(90), START + minutes(100))
    world = a_life(exclusive(), calls=(users,))
    world.run(START + minutes(60))
    People(world).open_device(NAME, DEVICE)
    world.run(users.start - minutes(10))
    assert (ended(world), len(entered(world, Phase.HARVESTING))) == ([], 1)

    world.run(users.end + minutes(60))
    assert len(ended(world)) == len(entered(world, Phase.SERVING)) == 1
    assert reason(world) == Reason.CARDS_HELD


def test_where_the_rule_names_no_device_node_it_is_not_seen():
    world = a_life()
    People(world).open_device(NAME, DEVICE)
    world.run(START + minutes(60))

    assert entered(world, Phase.HARVESTING)


def test_a_window_that_begins_beside_one_breaks_p2():
    world = a_world(setup=a_setup(exclusive(), jobs=JOBS))
    Conduct(Checks(world))
    People(world).open_device(NAME, DEVICE)
    world.run(world.clock.now() + minutes(1))
    (pod,) = look(world).on_cards(Role.OTHER)
    assert str(pod).startswith("media/transcoder")

    with pytest.raises(Violation, match="P2: others hold cards"):
        remember(world, Phase.YIELDING)
