"""The checks themselves: each broken promise is seen, by the write that breaks it."""

from __future__ import annotations

import pytest

from idlewin.core.decision import (
    EvictPod,
    Remember,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
)
from idlewin.core.phase import Phase
from idlewin.core.pool import Role, StopPolicy
from idlewin.core.status import Remembered, Status, Window, WindowQueue
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks, Violation
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import (
    NAME,
    REF,
    RESUMABLE,
    SHORT,
    a_job,
    a_rule,
    a_scope,
    a_setup,
    a_world,
    minutes,
    seconds,
)


def watched(setup=None) -> tuple[World, Checks]:
    world = a_world(setup=setup)
    return world, Checks(world)


def look(world: World):
    return world.cluster.look(a_scope(world), fresh=True)


def remember(world: World, phase: Phase, replicas: int | None = 1) -> None:
    pool, rule = look(world), world.cluster.rule(NAME)
    target, spec = pool.targets[0], rule.rule
    entry = Remembered(ref=REF, uid=target.uid, replicas=replicas or 0, claims=target.claims)
    window = Window(
        epoch=1,
        generation=1,
        opened_at=world.clock.now(),
        resource=spec.cards.resource,
        node_selector=spec.cards.node_selector,
        count=1,
        targets=(entry,) if replicas is not None else (),
        queues=tuple(
            WindowQueue(spec=queue, uid=pool.queue(queue.cluster_queue).uid)
            for queue in spec.batch.queues
        ),
    )
    status = Status(phase=phase.value, reason="WindowOpen", epoch=1, window=window)
    world.cluster.apply(Remember(NAME, rule.resource_version, rule.status, status))


def lower(world: World) -> None:
    target = look(world).targets[0]
    world.cluster.apply(
        ScaleToZero(REF, target.uid, target.replicas, target.resource_version, NAME, 1)
    )


def set_policy(world: World, queue: str, policy: StopPolicy) -> None:
    uid = look(world).queue(queue).uid
    world.cluster.apply(SetStopPolicy(queue, uid, policy, 1, NAME))


def run(world: World, length: float) -> None:
    world.run(world.clock.now() + seconds(length))


def lent(setup=None) -> World:
    """Lent as it should be: on record, serving gone, both queues open."""
    world, _ = watched(setup)
    remember(world, Phase.YIELDING)
    lower(world)
    run(world, 30)
    remember(world, Phase.HARVESTING)
    for queue in (SHORT, RESUMABLE):
        set_policy(world, queue, StopPolicy.NONE)
    run(world, 20)
    return world


def test_a_handover_by_the_book_breaks_nothing():
    world = lent(a_setup(jobs=(a_job(),)))

    assert len(look(world).on_cards(Role.BATCH)) == 1


def test_lowering_without_a_record_breaks_p1():
    world, _ = watched()

    with pytest.raises(Violation, match="P1"):
        lower(world)


def test_remembering_another_size_breaks_p1():
    world, _ = watched()
    remember(world, Phase.YIELDING, replicas=2)

    with pytest.raises(Violation, match="P1"):
        lower(world)


def test_giving_back_another_size_breaks_p1():
    world = lent()

    with pytest.raises(Violation, match="P1"):
        world.cluster.apply(ScaleBack(REF, look(world).targets[0].uid, 2, NAME, 9))


def test_forgetting_a_window_with_serving_at_zero_and_no_record_breaks_p1():
    world = lent()
    People(world).lose_record(REF)
    rule, forgotten = world.cluster.rule(NAME), Status(reason="HandoverComplete")

    with pytest.raises(Violation, match="P1"):
        world.cluster.apply(Remember(NAME, rule.resource_version, rule.status, forgotten))


def test_opening_beside_serving_breaks_p2():
    world, _ = watched()
    remember(world, Phase.HARVESTING)

    with pytest.raises(Violation, match="P2"):
        set_policy(world, SHORT, StopPolicy.NONE)


def test_raising_serving_on_the_device_node_beside_batch_breaks_p2():
    from dataclasses import replace

    server = replace(a_setup().servers[REF], claims=0)
    world = lent(a_setup(servers={REF: server}, jobs=(a_job(),)))

    with pytest.raises(Violation, match="P2"):
        world.cluster.apply(ScaleBack(REF, look(world).targets[0].uid, 1, NAME, 9))


def test_draining_work_that_waits_breaks_p4():
    world = lent(a_setup(jobs=(a_job(SHORT, runtime=(minutes(9), minutes(9))),)))
    set_policy(world, SHORT, StopPolicy.HOLD_AND_DRAIN)

    with pytest.raises(Violation, match="P4"):
        run(world, 10)


@pytest.mark.parametrize("how", ["deactivate", "evict"])
def test_stopping_one_work_that_waits_breaks_p4(how: str):
    world = lent(a_setup(jobs=(a_job(SHORT, runtime=(minutes(9), minutes(9))),)))
    work = next(w for w in look(world).queue(SHORT).workloads if w.admitted)
    pod = look(world).on_cards(Role.BATCH)[0]
    sleep = SetActive(work.namespace, work.name, work.uid, active=False, epoch=1)

    with pytest.raises(Violation, match="P4"):
        world.cluster.apply(sleep if how == "deactivate" else EvictPod(pod))


def test_opening_a_window_on_unknown_demand_breaks_p5():
    world, _ = watched()
    world.blind(minutes(5))

    with pytest.raises(Violation, match="P5"):
        remember(world, Phase.YIELDING)


def test_opening_a_window_on_demand_breaks_p5():
    world, _ = watched()
    world.users_come(world.setups[0], minutes(5))

    with pytest.raises(Violation, match="P5"):
        remember(world, Phase.YIELDING)


def test_opening_what_a_person_closed_breaks_p6():
    world = lent()
    People(world).set_policy(SHORT, StopPolicy.HOLD)

    with pytest.raises(Violation, match="P6"):
        set_policy(world, SHORT, StopPolicy.NONE)


def test_writing_a_queue_that_is_not_adopted_breaks_p6():
    world, _ = watched()
    People(world).adopt(SHORT, "")

    with pytest.raises(Violation, match="P6"):
        set_policy(world, SHORT, StopPolicy.HOLD_AND_DRAIN)


def test_a_pool_that_did_not_come_back_breaks_p3():
    world, checks = watched(a_setup(a_rule()))
    remember(world, Phase.YIELDING)
    lower(world)

    with pytest.raises(Violation, match="P3"):
        checks.came_back(NAME)


def test_opening_while_giving_back_breaks_p2_unless_by_a_leader_that_no_fence_could_stop_yet():
    world = lent()
    set_policy(world, SHORT, StopPolicy.HOLD)
    remember(world, Phase.RECLAIMING)

    with pytest.raises(Violation, match="P2"):
        set_policy(world, SHORT, StopPolicy.NONE)


def test_a_queue_that_stays_open_beside_serving_breaks_p2_unless_it_is_shut_below():
    world, checks = watched()
    remember(world, Phase.RECLAIMING)
    people = People(world)
    people.set_policy(SHORT, StopPolicy.NONE)
    look(world)

    with pytest.raises(Violation, match="P2"):
        checks._kept_open(NAME)
    for local in world.objects.local_queues_of(SHORT):
        people.set_local_policy(local.namespace, local.name, StopPolicy.HOLD)
    checks._kept_open(NAME)


def close_again(world: World, times: int) -> None:
    for _ in range(times):
        People(world).set_policy(SHORT, StopPolicy.NONE)
        set_policy(world, SHORT, StopPolicy.HOLD)


def test_closing_what_another_opens_again_and_again_is_a_fight_unless_a_person_says_resume():
    world, checks = watched()
    Conduct(checks)
    set_policy(world, SHORT, StopPolicy.HOLD)
    close_again(world, 10)
    run(world, 1)
    People(world).resume(NAME)
    run(world, 1)
    close_again(world, 10)

    with pytest.raises(Violation, match=r"P6.*a fight"):
        close_again(world, 1)


def test_what_a_stale_leader_closes_in_a_local_queue_is_owed_like_any_other():
    world, checks = watched()
    conduct = Conduct(checks)
    local = look(world).queue(SHORT).local_queues[0]
    world.cluster.apply(StopLocalQueue(local, SHORT, StopPolicy.HOLD, 1))

    with pytest.raises(Violation, match=r"P1.*before us"):
        conduct.came_back(NAME)
