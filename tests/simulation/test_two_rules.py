"""Two rules side by side: what is wrong with one is nothing to the other (promise P9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from idlewin.core.decision import Action, Outcome, ScaleToZero, Verdict
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import QueueClass, Rule
from idlewin.core.target import Ref
from idlewin.core.window import Span
from idlewin.sim.cluster import Calm
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server, add_queue, add_rule
from idlewin.sim.people import People
from idlewin.sim.world import Setup, World
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.scenario import RICH
from tests.simulation.scenery import NAME, SHORT, START, a_job, a_rule, minutes, seconds, short_of
from tests.simulation.swarm import controller, play, report
from tests.simulation.test_fences import until

OTHER = "a770"
USERS = Span(START + minutes(120), START + minutes(130))


def a_setup(name: str) -> Setup:
    ref = Ref(api_version="apps/v1", kind="Deployment", namespace=name, name="qwen")
    rule = a_rule()
    queue = QueueClass(cluster_queue=short_of(name), max_runtime=minutes(10))
    rule = replace(
        rule,
        cards=replace(rule.cards, node_selector={"host": name}),
        serving=(replace(rule.serving[0], namespace=name),),
        batch=replace(rule.batch, queues=(queue,)),
    )
    return Setup(
        name=name,
        rule=rule,
        demand={ref: Demand([USERS])},
        servers={ref: Server(start_up=(20.0, 0.1), grace=seconds(5))},
        jobs=(replace(a_job(SHORT), queue=short_of(name)),),
    )


def a_life(*names: str) -> World:
    setups = [a_setup(name) for name in names]
    world = World(seed=5, start=START, setups=setups, controller=controller)
    Conduct(Checks(world))
    return world


def phases(world: World, name: str) -> list[tuple[Phase, Reason]]:
    return [(c.after, c.reason) for c in world.chronicle.changes if c.rule == name]


def _unreadable(world: World) -> None:
    People(world).edit(NAME, None, "window.min: 'soon' is not a duration; write 30m")


def _stuck(world: World) -> None:
    for pod in world.objects.pods.values():
        pod.stuck = pod.stuck or pod.pool == NAME


def _fought_over(world: World) -> None:
    """Another writes its queue open every few seconds."""
    People(world).set_policy(short_of(NAME), StopPolicy.NONE)
    world.clock.after(7, lambda: _fought_over(world))


def _without_a_queue(world: World) -> None:
    People(world).delete_queue(short_of(NAME))


WRONG: list[Callable[[World], None]] = [_unreadable, _stuck, _fought_over, _without_a_queue]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("when", [31, 60])
def test_what_is_wrong_with_one_rule_is_nothing_to_another(
    wrong: Callable[[World], None], when: int
) -> None:
    world = a_life(NAME, OTHER)
    world.run(START + minutes(when))

    wrong(world)
    world.run(START + minutes(200))

    once = [Phase.YIELDING, Phase.HARVESTING, Phase.RECLAIMING, Phase.RESTORING, Phase.SERVING]
    found = [phase for phase, _ in phases(world, OTHER)]
    assert found[:7] == [*once, Phase.YIELDING, Phase.HARVESTING]
    assert world.chronicle.served[-1][1].end >= USERS.end


def newer(world: World, change: Callable[[Rule], Rule]) -> None:
    """A rule of somebody else, whose queue is adopted and has work."""
    setup = a_setup(OTHER)
    add_queue(world, OTHER, short_of(OTHER), 1)
    add_rule(world, replace(setup, rule=change(setup.rule)))
    for kind in setup.jobs:
        world.backlog.keep(kind)


def _serving(rule: Rule) -> Rule:
    return replace(rule, serving=a_setup(NAME).rule.serving, cards=a_setup(NAME).rule.cards)


def _cards(rule: Rule) -> Rule:
    return replace(rule, cards=a_setup(NAME).rule.cards)


def _queue(rule: Rule) -> Rule:
    return replace(rule, batch=a_setup(NAME).rule.batch)


@pytest.mark.parametrize("named", [_serving, _cards, _queue])
def test_a_newer_rule_that_names_what_is_anothers_is_refused_and_the_older_goes_on(
    named: Callable[[Rule], Rule],
) -> None:
    alone, world = a_life(NAME), a_life(NAME)
    world.run(START + minutes(31))

    newer(world, named)
    for one in (alone, world):
        one.run(START + minutes(200))

    assert phases(world, NAME) == phases(alone, NAME)
    assert phases(world, OTHER) == []
    status = world.objects.rules[OTHER].status
    assert status is not None
    # Of a queue it is consent that is missing first: it is adopted by the older.
    assert status.reason in (Reason.RULE_INVALID, Reason.NOT_ADOPTED)
    assert f"belongs to rule {NAME}, which is older" in repr(status)


class Stuck(Calm):
    """A policy does not let a target be lowered."""

    def __init__(self, target: Ref) -> None:
        self.target = target

    def before(self, action: Action) -> Outcome | None:
        no = isinstance(action, ScaleToZero) and action.target == self.target
        return Outcome(action, Verdict.REFUSED, "a policy") if no else None


@pytest.mark.parametrize("claims", [1, 0])
def test_a_target_that_another_rule_has_now_is_not_raised_in_its_window(claims: int) -> None:
    """One rule's window ended without lowering it; its record in the other's window is lost."""
    first, other = a_setup(NAME), a_setup(OTHER)
    (moved,) = other.rule.serving
    server = Server(start_up=(20.0, 0.1), grace=seconds(5), claims=claims)
    first = replace(first, rule=replace(first.rule, cards=replace(first.rule.cards, count=2)))
    other = replace(other, servers={moved.ref: server})
    setups = [
        replace(one, demand={ref: Demand([]) for ref in one.demand}) for one in (first, other)
    ]
    world = World(seed=5, start=START, setups=setups, controller=controller)
    rules, people = world.objects.rules, People(world)
    people.edit(OTHER, None, "not yet")
    people.edit(NAME, replace(first.rule, serving=(*first.rule.serving, moved)))
    world.cluster.interference = Stuck(moved.ref)
    until(world, lambda: rules[NAME].status and rules[NAME].status.not_lowered)

    people.edit(NAME, replace(first.rule, paused=True))
    people.edit(OTHER, other.rule)
    world.cluster.interference = Calm()
    until(world, lambda: rules[OTHER].status.phase == Phase.HARVESTING)
    world.run(world.clock.now() + seconds(30))
    people.lose_record(moved.ref)
    world.wake(NAME)
    world.run(world.clock.now() + seconds(5))

    assert rules[OTHER].status.phase == Phase.HARVESTING
    assert world.objects.deployments[moved.ref].replicas == 0


@pytest.mark.parametrize("seed", range(RICH, RICH + 6))
def test_no_promise_is_broken_in_a_rich_world(seed: int) -> None:
    result = play(seed)

    assert not result.failure, report(result)
