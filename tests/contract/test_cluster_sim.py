"""The simulated cluster does what Kueue and Kubernetes were measured to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decision import (
    EvictPod,
    ForgetRecord,
    HoldRule,
    ReleaseRule,
    Remember,
    ScaleBack,
    ScaleToZero,
    SetStopPolicy,
    Verdict,
)
from idlewin.core.pool import MANAGER, Role, StopPolicy
from idlewin.core.status import Status
from idlewin.sim.people import People
from idlewin.sim.world import World
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


def look(world: World):
    return world.cluster.look(a_scope(world), fresh=True)


def to_zero(world: World, epoch: int = 1):
    target = look(world).targets[0]
    action = ScaleToZero(REF, target.uid, target.replicas, target.resource_version, NAME, epoch)
    return world.cluster.apply(action)


def back(world: World, replicas: int = 1):
    return world.cluster.apply(ScaleBack(REF, look(world).targets[0].uid, replicas, NAME, 9))


def policy(world: World, name: str, wanted: StopPolicy, epoch: int = 1):
    queue = look(world).queue(name)
    assert queue is not None
    return world.cluster.apply(SetStopPolicy(name, queue.uid, wanted, epoch, NAME))


def run(world: World, length: float) -> None:
    world.run(world.clock.now() + seconds(length))


def harvesting(*kinds, rule=None, seed: int = 1, local_queues: int = 1) -> World:
    """Serving away, both queues open, jobs running."""
    setup = a_setup(rule, jobs=kinds, local_queues=local_queues)
    world = a_world(seed, setup)
    to_zero(world)
    run(world, 30)
    for queue in (SHORT, RESUMABLE):
        policy(world, queue, StopPolicy.NONE)
    run(world, 20)
    return world


# -- the rule


def test_a_status_is_written_only_over_the_version_that_was_read():
    world = a_world()
    rule = world.cluster.rule(NAME)
    assert rule is not None
    write = Remember(NAME, rule.resource_version, None, Status(epoch=1))

    first, second = world.cluster.apply(write), world.cluster.apply(write)

    assert (first.verdict, second.verdict) == (Verdict.DONE, Verdict.CONFLICT)
    again = replace(write, resource_version=first.resource_version)
    assert world.cluster.apply(again).verdict is Verdict.DONE


def test_a_deleted_rule_stays_until_its_finalizer_goes():
    world = a_world()
    looked = world.cluster.rule(NAME).resource_version
    world.cluster.apply(HoldRule(NAME, looked))
    People(world).delete_rule(NAME)

    stored = world.cluster.rule(NAME)
    assert stored is not None
    assert stored.deleting
    late = [world.cluster.apply(kind(NAME, looked)) for kind in (HoldRule, ReleaseRule)]
    assert [one.verdict for one in late] == [Verdict.CONFLICT, Verdict.CONFLICT]

    world.cluster.apply(ReleaseRule(NAME, stored.resource_version))

    assert world.cluster.rule(NAME) is None


# -- serving


def test_scaling_to_zero_leaves_our_record_and_takes_the_pods_grace():
    world = a_world()

    outcome = to_zero(world)
    run(world, 3)
    leaving = look(world)
    run(world, 10)

    assert outcome.verdict is Verdict.DONE
    assert leaving.targets[0].record is not None
    assert leaving.targets[0].record.replicas == 1
    assert [pod.terminating for pod in leaving.on_cards(Role.SERVING)] == [True]
    assert look(world).pods == ()


def test_a_raise_to_the_same_size_is_not_overwritten_with_zero():
    world = a_world()
    target = look(world).targets[0]
    to_zero(world)
    People(world).scale(REF, 1)

    action = ScaleToZero(REF, target.uid, 1, target.resource_version, NAME, 1)

    assert world.cluster.apply(action).verdict is Verdict.CONFLICT


def test_serving_comes_back_after_its_start_up_without_our_record():
    world = a_world()
    to_zero(world)
    run(world, 20)

    outcome = back(world)
    run(world, 5)
    starting = look(world).targets[0]
    run(world, 60)

    assert outcome.verdict is Verdict.DONE
    assert (starting.record, starting.ready) == (None, 0)
    assert look(world).targets[0].ready == 1


def test_a_target_that_was_raised_is_not_given_back_a_second_time():
    world = a_world()
    to_zero(world)
    People(world).scale(REF, 3)

    assert back(world).verdict is Verdict.REFUSED
    assert look(world).targets[0].replicas == 3
    forgotten = world.cluster.apply(ForgetRecord(REF, look(world).targets[0].uid, NAME, 9))
    assert forgotten.verdict is Verdict.DONE
    assert look(world).targets[0].record is None


def test_a_recreated_target_is_another_object():
    world = a_world()
    target = look(world).targets[0]
    People(world).recreate_target(REF, NAME, a_setup().servers[REF])

    action = ScaleToZero(REF, target.uid, 1, target.resource_version, NAME, 1)

    assert world.cluster.apply(action).verdict is Verdict.GONE


# -- queues


def test_a_stop_is_seen_a_moment_after_it_is_written():
    world = harvesting()
    policy(world, SHORT, StopPolicy.HOLD)

    at_once = look(world).queue(SHORT)
    run(world, 2.5)
    later = look(world).queue(SHORT)

    assert at_once is not None
    assert at_once.stopped_since is None
    assert at_once.stop_writer == MANAGER
    assert later is not None
    assert later.stopped_since is not None


def test_hold_lets_admitted_work_run_to_its_end():
    world = harvesting(a_job(SHORT, total=1))
    policy(world, SHORT, StopPolicy.HOLD)

    run(world, 60)
    running = look(world).on_cards(Role.BATCH)
    run(world, 600)

    assert len(running) == 1
    assert look(world).pods == ()
    assert world.objects.works == {}


def test_some_stops_admit_late_and_never_later_than_half_a_second():
    late = []
    for seed in range(40):
        world = harvesting(a_job(depth=6), rule=a_rule(count=4), seed=seed)
        for pod in list(world.objects.pods.values()):
            world.nodes.delete(pod)
        for work in list(world.objects.works.values()):
            work.admitted = False
        policy(world, RESUMABLE, StopPolicy.HOLD)
        run(world, 15)
        stopped = look(world).queue(RESUMABLE)
        late += [
            work.admitted_at - stopped.stopped_since
            for work in stopped.workloads
            if work.admitted and work.admitted_at > stopped.stopped_since
        ]

    assert late
    assert max(late) <= seconds(0.5)


def test_an_opening_of_an_older_epoch_is_refused():
    world = a_world()
    policy(world, SHORT, StopPolicy.HOLD, epoch=5)

    assert policy(world, SHORT, StopPolicy.NONE, epoch=4).verdict is Verdict.REFUSED
    assert policy(world, SHORT, StopPolicy.NONE, epoch=5).verdict is Verdict.DONE


def test_writing_the_same_value_again_leaves_the_field_with_who_wrote_it():
    world = a_world()
    policy(world, SHORT, StopPolicy.HOLD, epoch=5)

    queue = look(world).queue(SHORT)

    assert (queue.stop_writer, queue.epoch) == ("kubectl", 5)


def test_work_under_a_contract_resumes_where_it_was():
    world = harvesting(a_job(total=1, runtime=(minutes(8), minutes(8))))
    work = next(iter(world.objects.works.values()))
    run(world, 200)
    policy(world, RESUMABLE, StopPolicy.HOLD_AND_DRAIN)

    run(world, 60)

    assert minutes(3) < work.left < minutes(5)


# -- Kueue down


def test_a_pod_evicted_with_kueue_down_is_replaced_only_when_kueue_is_back():
    world = harvesting(a_job())
    pod = look(world).on_cards(Role.BATCH)[0]
    world.kueue.go_down()
    world.cluster.apply(EvictPod(pod))

    run(world, 120)
    emptied = look(world).on_cards(Role.BATCH)
    world.kueue.come_back()
    run(world, 30)

    assert emptied == ()
    assert len(look(world).on_cards(Role.BATCH)) == 1


def test_serving_inside_kueues_webhooks_cannot_come_back_while_kueue_is_down():
    server = replace(a_setup().servers[REF], inside_kueue=True)
    world = a_world(setup=a_setup(servers={REF: server}))
    to_zero(world)
    run(world, 20)
    world.kueue.go_down()

    assert back(world).verdict is Verdict.REFUSED
    world.kueue.come_back()
    assert back(world).verdict is Verdict.DONE


# -- cards


def test_serving_that_opens_the_device_node_waits_for_nobody():
    server = replace(a_setup().servers[REF], claims=0)
    world = a_world(setup=a_setup(servers={REF: server}, jobs=(a_job(),)))
    policy(world, RESUMABLE, StopPolicy.HOLD)
    People(world).set_policy(RESUMABLE, StopPolicy.NONE)

    run(world, 30)

    pool = look(world)
    assert len(pool.on_cards(Role.BATCH)) == 1
    assert len(pool.on_cards(Role.SERVING)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_world_repeats_from_its_seed(seed: int):
    def history(world: World):
        run(world, 3600)
        return [(rule, span) for rule, span, _ in world.chronicle.batch]

    first, second = (history(harvesting(a_job(), a_job(SHORT), seed=seed)) for _ in range(2))

    assert first
    assert first == second
