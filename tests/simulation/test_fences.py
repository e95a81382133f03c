"""What a leader that wakes late must not write, and what it takes for ours that is another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.decision import (
    Action,
    Outcome,
    ReopenLocalQueue,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.sim.cluster import Calm
from idlewin.sim.demand import Demand
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
from tests.simulation.test_late_writes import Meanwhile, phase

AGREED = a_job(runtime=(minutes(240), minutes(240)), depth=1, total=1)
DRAIN = StopPolicy.HOLD_AND_DRAIN
#: In a queue whose work is to be under contract it has none.
ODD = a_job(contract=False, max_runtime=minutes(45), runtime=(minutes(40), minutes(40)), depth=1,
            total=1)  # fmt: skip


class Fails(Calm):
    """The first write of a kind is not done, and something else happens instead."""

    def __init__(self, kind: Callable[[Action], bool], happens: Callable[[], object]) -> None:
        self._kind, self._happens, self.over = kind, happens, False

    def before(self, action: Action) -> Outcome | None:
        if self.over or not self._kind(action):
            return None
        self.over = True
        self._happens()
        return Outcome(action, Verdict.FAILED, "500 etcdserver: request timed out")


def lent(*jobs, seed: int = 3) -> World:
    """A window is open, and jobs of one queue run in it."""
    rule = a_rule(count=len(jobs))
    queues = tuple(one for one in rule.batch.queues if one.cluster_queue == jobs[0].queue)
    rule = replace(rule, batch=replace(rule.batch, queues=queues))
    world = World(seed=seed, start=START, setups=[a_setup(rule, jobs=jobs)], controller=controller)
    world.run(START + minutes(60))
    assert phase(world) == Phase.HARVESTING
    return world


def until(world: World, holds: Callable[[], object]) -> None:
    end = world.clock.now() + minutes(60)
    while not holds():
        assert world.clock.now() < end
        world.clock.run(world.clock.now() + seconds(0.1))


def on(world: World, length: timedelta) -> None:
    world.run(world.clock.now() + length)


def agreed(world: World) -> Work:
    return next(work for work in world.objects.works.values() if work.contract)


def test_work_is_not_put_to_sleep_by_a_leader_that_wakes_after_another_gave_all_back():
    world = lent(AGREED, ODD)

    def another_gives_back() -> None:
        world.start_controller(alone=False)
        until(world, lambda: phase(world) == Phase.SERVING)
        assert not world.objects.rules[NAME].status.owed.workloads

    late = Meanwhile(
        lambda action: isinstance(action, SetActive) and not action.active, another_gives_back
    )
    world.cluster.interference = late
    People(world).pause(NAME, paused=True)
    on(world, minutes(120))

    assert late.answers[-1].verdict is Verdict.REFUSED
    assert agreed(world).active, "asleep, and on nobody's record"


def test_a_drain_of_a_leader_that_wakes_in_a_later_window_evicts_nothing():
    world = lent(AGREED, seed=5)
    evicted: list[str] = []

    def another_goes_on() -> None:
        world.start_controller(alone=False)
        until(world, lambda: phase(world) == Phase.SERVING)
        for work in list(world.objects.works.values()):
            world.kueue.finish(work)
        world.backlog.keep(ODD)
        People(world).pause(NAME, paused=False)
        until(world, lambda: any(work.admitted for work in world.objects.works.values()))
        world.kueue.on_evict.append(lambda work, _: evicted.append(work.name))

    late = Meanwhile(
        lambda action: isinstance(action, SetStopPolicy) and action.policy is DRAIN, another_goes_on
    )
    world.cluster.interference = late
    People(world).pause(NAME, paused=True)
    on(world, minutes(160))

    assert late.answers[-1].verdict is Verdict.REFUSED
    assert not evicted, "evicted, and never agreed to that"


def test_a_leader_that_wakes_in_a_later_return_opens_no_local_queue_that_it_rests_on():
    """Kueue is down in both returns; its LocalQueue alone keeps the queue shut beside serving."""
    world = lent(AGREED)
    (local,) = world.objects.local_queues.values()

    def closed() -> bool:
        return local.stop_policy is not StopPolicy.NONE

    def returns_without_kueue() -> None:
        world.kueue.go_down()
        People(world).pause(NAME, paused=True)
        until(world, lambda: closed() and phase(world) == Phase.SERVING)

    def another_goes_on() -> None:
        world.start_controller(alone=False)
        until(world, lambda: not closed())
        People(world).pause(NAME, paused=False)
        until(world, lambda: phase(world) == Phase.HARVESTING)
        returns_without_kueue()

    late = Meanwhile(lambda action: isinstance(action, ReopenLocalQueue), another_goes_on)
    returns_without_kueue()
    world.cluster.interference = late
    world.kueue.come_back()
    until(world, lambda: late.over)

    assert late.answers[-1].verdict is Verdict.REFUSED
    assert closed()


def test_work_that_a_person_stopped_where_our_stop_failed_is_left_to_that_person():
    world = lent(AGREED, ODD)
    world.cluster.interference = stop = Fails(
        lambda action: isinstance(action, SetActive),
        lambda: People(world).activate(agreed(world), active=False),
    )
    People(world).pause(NAME, paused=True)
    on(world, minutes(90))

    assert stop.over
    assert not agreed(world).active, "a person's stop was undone"
    assert not world.objects.rules[NAME].status.owed.workloads, "it is off our books"


def test_a_local_queue_that_its_tenant_held_where_our_hold_failed_is_left_to_its_tenant():
    world = lent(a_job(SHORT, depth=1))
    (local,) = world.objects.local_queues.values()
    world.cluster.interference = hold = Fails(
        lambda action: isinstance(action, StopLocalQueue),
        lambda: People(world).set_local_policy(local.namespace, local.name, StopPolicy.HOLD),
    )
    world.kueue.go_down()
    People(world).pause(NAME, paused=True)
    until(world, lambda: hold.over)
    on(world, seconds(5))
    world.kueue.come_back()
    on(world, minutes(60))

    assert phase(world) == Phase.SERVING
    assert local.stop_policy is StopPolicy.HOLD, "the tenant's Hold was taken off"
    assert not world.objects.rules[NAME].status.owed.local_queues, "it is off our books"


EDITS = {
    "unreadable": None,
    "it names another": replace(a_rule(), serving=(replace(a_rule().serving[0], name="new"),)),
}


@pytest.mark.parametrize("how", EDITS)
def test_who_is_lowered_once_the_rule_names_it_no_more_comes_back_though_its_record_is_lost(how):
    world = World(seed=3, start=START, setups=[a_setup(jobs=(a_job(),))], controller=controller)

    def another_gives_back() -> None:
        People(world).edit(NAME, EDITS[how], "" if EDITS[how] else "spec.cards.count: 0")
        world.start_controller(alone=False)
        until(world, lambda: phase(world) == Phase.SERVING)

    class Stripped(Meanwhile):
        def after(self, outcome: Outcome) -> Outcome:
            if isinstance(outcome.action, ScaleToZero) and outcome.verdict is Verdict.DONE:
                People(world).lose_record(REF)
            return super().after(outcome)

    late = Stripped(lambda action: isinstance(action, ScaleToZero), another_gives_back)
    world.cluster.interference = late
    on(world, minutes(120))

    assert late.answers[0].verdict is Verdict.DONE
    assert world.objects.deployments[REF].replicas == 1


def test_a_target_that_the_rule_names_no_more_and_that_waits_keeps_no_window_shut():
    """It was not lowered in the last window; by now its pod fits nowhere, and is nobody's card."""
    broken = replace(REF, name="broken")
    rule = a_rule(count=2)
    both = replace(rule, serving=(*rule.serving, replace(rule.serving[0], name="broken")))
    setup = a_setup(both, jobs=(a_job(),), demand={REF: Demand([]), broken: Demand([])})
    world = World(seed=3, start=START, setups=[setup], controller=controller)
    world.cluster.interference = Fails(
        lambda action: isinstance(action, ScaleToZero) and action.target == broken,
        lambda: People(world).pause(NAME, paused=True),
    )
    until(world, lambda: (now := world.objects.rules[NAME].status) and now.not_lowered)

    target = world.objects.deployments[broken]
    target.claims = 5
    for pod in world.objects.pods_of(target):
        world.nodes.delete(pod)
    People(world).edit(NAME, rule)

    until(world, lambda: phase(world) == Phase.HARVESTING)
    assert [pod.node for pod in world.objects.pods_of(target)] == [None]
