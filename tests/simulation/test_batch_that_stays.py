"""Batch that stays longer, or elsewhere, than a rule says: serving does not come back beside it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from idlewin.core.condition import alarming
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.window import Span
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server
from idlewin.sim.objects import Work
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.scenery import (
    NAME,
    REF,
    SHORT,
    START,
    a_job,
    a_rule,
    a_setup,
    minutes,
    seconds,
)
from tests.simulation.swarm import controller
from tests.simulation.test_lending import FAR, JOBS, a_life, ended, entered, let_go, stick


def test_serving_that_opens_the_device_node_waits_for_batch_on_a_node_that_lost_its_labels():
    server = Server(claims=0, start_up=(20.0, 0.1), grace=seconds(5))
    world = a_life(servers={REF: server}, jobs=(a_job(runtime=(minutes(60), minutes(60))),))
    world.run(START + minutes(60))
    stick(world, Work)
    for node in world.objects.nodes.values():
        node.labels = {}
        world.objects.touch(node)

    world.run(START + minutes(80))

    assert ended(world) == [Reason.CARD_GONE]
    assert world.objects.deployments[REF].replicas == 0
    let_go(world)
    world.run(START + minutes(90))
    assert len(entered(world, Phase.SERVING)) == 1


def with_unbounded_work(runtime: timedelta, bounded: timedelta) -> World:
    """An open window, in which somebody submits a Job without a maximum execution time."""
    rule = a_rule()
    rule = replace(rule, batch=replace(rule.batch, queues=rule.batch.queues[:1]))
    server = Server(claims=0, start_up=(20.0, 0.1), grace=seconds(5))
    first = a_job(SHORT, runtime=(bounded, bounded), depth=1, total=1)
    world = a_life(rule, servers={REF: server}, jobs=(first,))
    world.objects.queues[SHORT].bound_enforced = False
    world.run(START + minutes(31.5))
    world.backlog.keep(a_job(SHORT, max_runtime=None, runtime=(runtime, runtime), total=1))
    return world


def test_work_that_nothing_ends_is_waited_for_and_never_evicted():
    world = with_unbounded_work(minutes(120), bounded=seconds(20))
    # Kueue is quicker than we are.
    world.stop_controller()
    world.run(START + minutes(32))
    world.start_controller()
    assert [work.max_runtime for work in world.objects.works.values() if work.admitted] == [None]
    world.users_come(world.setups[0], minutes(300))
    world.run(START + minutes(60))
    # Its Job makes a new one: a look at this very moment shows no pod.
    for pod in [pod for pod in world.objects.pods.values() if isinstance(pod.owner, Work)]:
        world.nodes.delete(pod)
    world.run(START + minutes(100))

    status = world.objects.rules[NAME].status

    assert status.phase == Phase.RECLAIMING
    assert "ReturnOverdue" in alarming(status)
    world.run(START + minutes(240))
    assert len(entered(world, Phase.SERVING)) == 1


def test_work_that_nothing_ends_keeps_the_queue_closed_that_it_waits_in():
    world = with_unbounded_work(minutes(120), bounded=minutes(9))

    world.run(START + minutes(300))

    assert not any(work.used for work in world.objects.works.values() if not work.max_runtime)
    assert ended(world) == [Reason.QUEUE_DRY]
    assert "BoundNotEnforced" in [c.reason for c in world.objects.rules[NAME].status.conditions]


def test_work_that_was_put_to_sleep_is_awake_when_serving_is_back():
    lacking = a_job(
        contract=False, max_runtime=minutes(30), runtime=(minutes(25), minutes(25)), total=1
    )
    agreed = a_job(runtime=(minutes(60), minutes(60)), depth=1, total=3)
    world = a_life(a_rule(count=2), jobs=(agreed, lacking))
    put_to_sleep = []
    world.kueue.on_evict.append(lambda work, _cause: put_to_sleep.append(not work.active))
    world.run(START + minutes(33))

    # Whatever becomes of the rule: it may be paused for good, and its queues opened by hand.
    world.users_come(world.setups[0], minutes(60))
    world.run(START + minutes(62))

    assert put_to_sleep == [True]
    assert all(work.active for work in world.objects.works.values())
    assert not world.objects.rules[NAME].status.owed.workloads


def test_cards_that_an_older_rule_names_now_are_given_back_to_it():
    ref = replace(REF, name="older")
    setup = a_setup(demand={REF: Demand([Span(FAR, FAR + minutes(60))])}, jobs=JOBS)
    serving = tuple(replace(one, name="older") for one in a_rule().serving)
    queues = tuple(replace(q, cluster_queue=f"o-{q.cluster_queue}") for q in a_rule().batch.queues)
    cards = replace(a_rule().cards, node_selector={"host": "older"})
    rule = replace(
        a_rule(), cards=cards, serving=serving, batch=replace(a_rule().batch, queues=queues)
    )
    older = a_setup(rule, name="a-older", demand={ref: Demand([])}, servers={ref: Server()})
    world = World(seed=3, start=START, setups=[older, setup], controller=controller)
    world.run(START + minutes(60))
    assert ended(world) == []

    People(world).edit("a-older", replace(rule, cards=a_rule().cards))
    world.run(START + minutes(90))

    assert ended(world) == [Reason.RULE_CHANGED]
    assert "RuleConflict" in [one.reason for one in world.objects.rules[NAME].status.conditions]
