"""Returns in which a look cannot be had, or a person and a late answer cross what we left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decision import Action, Outcome, SetActive, Verdict
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.rule import Mode
from idlewin.ports import LookError
from idlewin.sim.cluster import Calm
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.scenery import NAME, RESUMABLE, a_job, minutes, seconds
from tests.simulation.test_dying_kueue import (
    AGREED,
    LONG,
    ODD,
    batch_on_cards,
    lent,
    phase,
    queue_of,
    served,
    until,
    users_come,
)

SHORT_JOB = a_job(runtime=(minutes(45), minutes(45)), depth=1, total=1)
STOPS = {
    "paused": lambda world: People(world).pause(NAME, paused=True),
    "observe": lambda world: People(world).set_mode(NAME, Mode.OBSERVE),
}


class Blind(Calm):
    """A look that is asked for anew is not to be had; the watches live."""

    def looking(self, _scope, *, fresh: bool) -> None:
        if fresh:
            raise LookError("500 workloads cannot be listed")


class Evictions:
    """What Kueue evicts: whether it was under contract."""

    def __init__(self, world: World) -> None:
        self.contracts: list[bool] = []
        world.kueue.on_evict.append(lambda work, _: self.contracts.append(work.contract))


@pytest.mark.parametrize("claims", [1, 0], ids=["a claim", "the device node"])
def test_where_no_fresh_look_is_to_be_had_work_is_stopped_one_by_one(claims):
    """Kueue is away at first, too: what is not drained is to be held all the same."""
    world = lent(claims=claims)
    world.kueue.go_down()
    world.cluster.interference = Blind()
    users_come(world)
    world.run(world.clock.now() + seconds(30))
    world.kueue.come_back()

    assert until(world, lambda: served(world), step=seconds(1)) < minutes(5)
    assert queue_of(world).stop_policy is not StopPolicy.NONE


def test_no_rung_drains_on_a_look_that_failed():
    """Work without a contract came in while the watch was behind; then Kueue dies."""
    world = lent(AGREED, count=2)
    evicted, look, known, queue = Evictions(world), world.cluster.look, {}, queue_of(world)
    blind = [True]

    def behind(scope, *, fresh: bool = False):
        if not blind[0]:
            return look(scope, fresh=fresh)
        if fresh:
            raise LookError("500 workloads cannot be listed")
        pool = look(scope)
        queues = [replace(q, workloads=known.setdefault(q.name, q.workloads)) for q in pool.queues]
        return replace(pool, queues=tuple(queues))

    world.cluster.look = behind
    world.run(world.clock.now() + seconds(5))
    world.backlog.keep(ODD)
    works = world.objects.works.values()
    until(world, lambda: any(work.admitted and not work.contract for work in works))
    world.run(world.clock.now() + seconds(10))
    users_come(world)
    hold = StopPolicy.HOLD
    until(world, lambda: queue.stop_policy is hold and queue.observed == queue.generation)
    world.kueue.go_down()
    world.run(world.clock.now() + minutes(2))
    blind[0] = False
    world.kueue.come_back()

    world.run(world.clock.now() + minutes(2))

    assert False not in evicted.contracts


class Late(Calm):
    """A write that stops one work fails until an instant."""

    def __init__(self, world: World) -> None:
        self._now, self.until = world.clock.now, world.clock.now() + seconds(50)

    def before(self, action: Action) -> Outcome | None:
        if isinstance(action, SetActive) and self._now() < self.until:
            return Outcome(action, Verdict.FAILED, "500: request timed out")
        return None


def test_work_has_its_time_from_when_it_was_told_to_end():
    """Its Job has no retry: evicted instead of suspended, it has failed."""
    world = lent(a_job(runtime=LONG, depth=1, total=1, retries=False), ODD, count=2)
    work = next(work for work in world.objects.works.values() if work.contract)
    work.stops_within = 0.1
    world.cluster.interference = Late(world)
    users_come(world)
    until(world, lambda: not work.active)

    until(world, lambda: not world.objects.pods_of(work))

    assert not work.lost


@pytest.mark.parametrize("how", STOPS)
def test_a_hold_by_a_person_ends_no_work_of_that_persons(how):
    """It is what we wrote last, too: who wrote it tells them apart."""
    world = lent(SHORT_JOB)
    until(world, lambda: phase(world) == Phase.SERVING, minutes(120), seconds(1))
    queue, person, evicted = queue_of(world), People(world), Evictions(world)
    STOPS[how](world)
    world.run(world.clock.now() + minutes(1))
    person.set_policy(RESUMABLE, StopPolicy.NONE)
    person.scale(next(iter(world.objects.deployments)), 0)
    world.backlog.keep(AGREED)
    until(world, lambda: bool(batch_on_cards(world)))

    person.set_policy(RESUMABLE, StopPolicy.HOLD)
    world.run(world.clock.now() + minutes(5))

    assert queue.left is StopPolicy.HOLD
    assert not evicted.contracts


@pytest.mark.parametrize("how", STOPS)
def test_a_queue_that_a_person_opens_where_the_rule_does_nothing_stays_open(how):
    """They had closed it in the window: its last mark of ours says that we had opened it."""
    world = lent()
    queue, person = queue_of(world), People(world)
    person.set_policy(RESUMABLE, StopPolicy.HOLD)
    world.run(world.clock.now() + minutes(1))
    STOPS[how](world)
    until(world, lambda: phase(world) == Phase.SERVING, minutes(60), seconds(1))

    person.set_policy(RESUMABLE, StopPolicy.NONE)
    world.run(world.clock.now() + minutes(5))

    assert queue.stop_policy is StopPolicy.NONE
    assert queue.left is StopPolicy.NONE


def test_a_rule_does_not_go_with_a_stop_that_is_on_its_way():
    """Kueue was dead through the return; the rule is deleted; back, Kueue has work to be ended."""
    world = lent(AGREED, ODD, count=2, claims=0)
    agreed = next(work for work in world.objects.works.values() if work.contract)
    world.kueue.go_down()
    users_come(world)
    until(world, lambda: phase(world) == Phase.SERVING, minutes(200), seconds(1))
    People(world).delete_rule(NAME)
    world.kueue.come_back()

    until(world, lambda: NAME not in world.objects.rules, minutes(10), seconds(1))

    assert agreed.active
    assert not batch_on_cards(world)


def test_work_that_was_seen_to_wait_is_not_past_its_bound_by_a_clock_that_is_behind():
    odd = replace(ODD, runtime=(minutes(44), minutes(44)))
    world = lent(odd, AGREED, count=2)
    work = next(work for work in world.objects.works.values() if not work.contract)
    look = world.cluster.look

    def behind(scope, *, fresh: bool = False):
        pool = look(scope, fresh=fresh)
        queues = (
            replace(
                queue,
                workloads=tuple(
                    replace(one, admitted_at=one.admitted_at and one.admitted_at - minutes(10))
                    for one in queue.workloads
                ),
            )
            for queue in pool.queues
        )
        return replace(pool, queues=tuple(queues))

    world.cluster.look = behind
    users_come(world)
    until(world, lambda: not world.objects.pods_of(work), minutes(50), seconds(1))

    assert work.finished


@pytest.mark.parametrize("how", STOPS)
def test_a_queue_that_we_opened_is_closed_though_another_has_applied_the_same_value(how):
    """A co-owner of an equal value has opened nothing."""
    world = lent(claims=0)
    world.kueue.go_down()
    queue_of(world).writer = "argocd"
    STOPS[how](world)
    until(world, lambda: phase(world) == Phase.SERVING, minutes(90), seconds(1))
    world.kueue.come_back()
    world.backlog.keep(a_job(runtime=LONG, depth=6, total=4))

    world.run(world.clock.now() + minutes(30))

    assert queue_of(world).stop_policy is not StopPolicy.NONE
    assert not batch_on_cards(world)


def test_a_deleted_rule_goes_though_serving_never_gets_ready_and_its_work_is_awake():
    world = lent(AGREED, ODD, count=2)
    agreed = next(work for work in world.objects.works.values() if work.contract)
    for target in world.objects.deployments.values():
        target.start_up = (1e7, 0.1)
    users_come(world)
    until(world, lambda: phase(world) == Phase.RESTORING, minutes(100), seconds(1))
    world.run(world.clock.now() + minutes(5))
    assert not agreed.active

    People(world).delete_rule(NAME)
    world.run(world.clock.now() + minutes(5))

    assert NAME not in world.objects.rules
    assert agreed.active


def test_a_controller_that_is_started_again_and_again_waits_for_no_dead_kueue():
    """Since when work was told is looked at; when the stop was written stands on the queue."""
    world = lent(AGREED, ODD, count=2, claims=0)
    agreed = next(work for work in world.objects.works.values() if work.contract)
    users_come(world)
    queue = queue_of(world)
    until(world, lambda: not agreed.active and queue.observed == queue.generation)
    world.kueue.go_down()
    begun = world.clock.now()
    while world.objects.pods_of(agreed):
        assert world.clock.now() < begun + minutes(7)
        world.run(world.clock.now() + seconds(35))
        world.start_controller()
