"""Single stories with the shipped controller: what happens, in which order, and that it repeats."""

from __future__ import annotations

from datetime import timedelta

import pytest

from idlewin.cli.give_back import _cycle
from idlewin.core.condition import alarming
from idlewin.core.decision import Action, Outcome
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.window import Span
from idlewin.sim.cluster import Calm, Crash
from idlewin.sim.demand import Demand
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.scenery import (
    NAME,
    REF,
    RESUMABLE,
    SHORT,
    START,
    a_job,
    a_setup,
    minutes,
)
from tests.simulation.swarm import controller

JOBS = (a_job(), a_job(SHORT))
#: Users come back two hours after the world begins.
RETURN = START + timedelta(hours=2)


class CrashAt(Calm):
    """The process ends at its n-th write: before it, or after it and before the answer."""

    def __init__(self, write: int, *, after: bool) -> None:
        self.left, self.crash_after = write, after

    def before(self, action: Action) -> Outcome | None:  # noqa: ARG002
        self.left -= 1
        if self.left == 0 and not self.crash_after:
            raise Crash
        return None

    def after(self, outcome: Outcome) -> Outcome:
        if self.left == 0 and self.crash_after:
            raise Crash
        return outcome


def a_night(seed: int = 1, *, jobs=JOBS) -> World:
    demand = {REF: Demand([Span(RETURN, RETURN + minutes(120))])}
    setup = a_setup(demand=demand, jobs=jobs)
    world = World(seed=seed, start=START, setups=[setup], controller=controller)
    Checks(world)
    return world


def phases(world: World) -> list[Phase]:
    return [change.after for change in world.chronicle.changes]


WHOLE = [
    Phase.YIELDING,
    Phase.HARVESTING,
    Phase.RECLAIMING,
    Phase.RESTORING,
    Phase.SERVING,
]


def test_a_window_is_lent_and_given_back_before_users_come():
    world = a_night()

    world.run(RETURN)

    assert phases(world) == WHOLE
    assert world.objects.deployments[REF].replicas == 1
    ready = [span for _, span in world.chronicle.served]
    assert ready[-1].end == RETURN
    assert sum((span.length for _, span, _ in world.chronicle.batch), timedelta()) > minutes(30)


def test_a_world_with_a_controller_repeats_from_its_seed():
    first, second = a_night(7), a_night(7)

    changes = [world.run(RETURN).changes for world in (first, second)]

    assert changes[0]
    assert changes[0] == changes[1]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_write_ends_with_serving_back(after: bool):
    crashed = 0
    for write in range(1, 40):
        world = a_night(write)
        trap = world.cluster.interference = CrashAt(write, after=after)
        # The process that is running was given the cluster before the trap was.
        world.start_controller()
        world.run(RETURN + minutes(30))

        target = world.objects.deployments[REF]
        assert (target.replicas, target.record) == (1, None), f"crash at write {write}"
        assert world.objects.rules[NAME].status.phase == Phase.SERVING
        crashed += trap.left <= 0

    assert crashed >= 8


def test_users_who_come_early_get_serving_back():
    world = a_night()
    world.run(START + minutes(60))

    world.users_come(world.setups[0], minutes(30))
    world.run(world.clock.now() + minutes(15))

    assert world.chronicle.changes[2].reason is Reason.DEMAND_RETURNED
    assert phases(world) == WHOLE


def test_with_kueue_dead_in_a_window_serving_comes_back():
    world = a_night(jobs=(a_job(),))
    world.run(START + minutes(60))
    world.kueue.go_down()

    world.run(RETURN + minutes(10))

    assert phases(world)[-1] is Phase.SERVING
    locals_ = [local for local in world.objects.local_queues.values() if local.name == RESUMABLE]
    assert [local.stop_policy for local in locals_] == [StopPolicy.HOLD_AND_DRAIN]


@pytest.mark.parametrize("paused", [False, True])
def test_a_rule_that_is_deleted_while_kueue_is_dead_goes_once_kueue_is_back(paused: bool):
    world = a_night(jobs=(a_job(),))
    world.run(START + minutes(60))
    world.kueue.go_down()
    People(world).pause(NAME, paused=paused)
    world.run(START + minutes(80))
    People(world).delete_rule(NAME)
    world.run(START + minutes(100))
    world.kueue.come_back()

    world.run(RETURN)

    assert NAME not in world.objects.rules
    assert {queue.stop_policy for queue in world.objects.queues.values()} == {StopPolicy.HOLD}
    opened = {local.stop_policy for local in world.objects.local_queues.values()}
    assert opened == {StopPolicy.NONE}
    assert all(work.active for work in world.objects.works.values())


def kept_by_its_local_queues() -> World:
    """A rule that was deleted in a window, while Kueue takes writes and does nothing."""
    world = a_night(jobs=(a_job(),))
    world.run(START + minutes(60))
    world.kueue._works = False
    People(world).delete_rule(NAME)
    world.run(START + minutes(120))
    return world


def by_hand(world: World, *, force: bool) -> tuple[bool, str]:
    """What one step of ``idlewin give-back`` says: whether all is back, else what it waits for."""
    (process,) = world.processes()
    return _cycle(process.controller, NAME, "", force=force)


def test_a_rule_that_only_its_local_queues_keep_shut_says_so_and_goes_once_kueue_is_back():
    world = kept_by_its_local_queues()

    status = world.objects.rules[NAME].status
    (told,) = [one for one in status.conditions if one.type == "DeletionWaits"]
    assert status.phase == Phase.SERVING
    assert "DeletionWaits" in alarming(status)
    assert f"idlewin give-back {NAME} --force" in told.message
    back, waits = by_hand(world, force=False)
    assert not back
    assert told.message in waits
    world.kueue.come_back()
    world.run(START + minutes(130))
    assert NAME not in world.objects.rules


def test_a_person_lets_a_rule_go_whose_queues_kueue_never_shows_stopped():
    world = kept_by_its_local_queues()

    by_hand(world, force=True)
    world.run(START + minutes(121))

    assert NAME not in world.objects.rules
    assert StopPolicy.NONE not in {q.stop_policy for q in world.objects.queues.values()}
    opened = {local.stop_policy for local in world.objects.local_queues.values()}
    assert opened == {StopPolicy.NONE}


def test_no_force_opens_the_local_queues_of_a_queue_whose_stop_could_not_be_written():
    world = a_night(jobs=(a_job(),))
    world.run(START + minutes(60))
    world.kueue.go_down()
    People(world).delete_rule(NAME)
    world.run(START + minutes(120))

    by_hand(world, force=True)
    world.run(START + minutes(121))

    assert "DeletionWaits" in alarming(world.objects.rules[NAME].status)
    closed = {local.stop_policy for local in world.objects.local_queues.values()}
    assert StopPolicy.NONE not in closed


def test_a_rule_is_let_go_though_its_queue_was_taken_from_it_while_open():
    world = a_night(jobs=(a_job(),))
    people = People(world)
    world.run(START + minutes(60))
    people.adopt(RESUMABLE, "")
    world.kueue.go_down()
    world.run(START + minutes(80))
    world.kueue.come_back()
    people.delete_rule(NAME)

    world.run(START + minutes(100))

    assert NAME not in world.objects.rules
    assert {local.stop_policy for local in world.objects.local_queues.values()} == {StopPolicy.NONE}


def test_demand_that_cannot_be_told_gives_an_open_window_back():
    world = a_night()
    world.run(START + minutes(60))

    world.blind(minutes(60))
    world.run(world.clock.now() + minutes(20))

    assert world.chronicle.changes[2].reason is Reason.LOAD_UNKNOWN
    assert phases(world) == WHOLE


def test_a_paused_rule_gives_back_and_writes_nothing_more():
    world = a_night()
    world.run(START + minutes(60))
    People(world).pause(NAME, paused=True)
    world.run(world.clock.now() + minutes(20))
    versions = world.objects.rules[NAME].version, world.objects.queues[SHORT].version

    world.run(world.clock.now() + minutes(30))

    assert phases(world) == WHOLE
    assert versions == (world.objects.rules[NAME].version, world.objects.queues[SHORT].version)


def test_work_that_waits_is_never_cut_by_a_foreseen_return():
    world = a_night(jobs=(a_job(SHORT, runtime=(minutes(7), minutes(9))),))
    cut = []
    world.kueue.on_evict.append(lambda work, cause: cut.append((work.name, cause)))

    world.run(RETURN)

    assert phases(world) == WHOLE
    assert cut == []


def test_a_window_is_not_dry_because_one_long_job_has_ended():
    world = a_night(jobs=(a_job(runtime=(minutes(30), minutes(30))),))

    world.run(RETURN)

    assert Reason.QUEUE_DRY not in [change.reason for change in world.chronicle.changes]
    assert len(world.chronicle.batch) >= 2


def test_a_leader_that_leads_again_does_not_count_what_happened_under_another():
    calls = [Span(START + minutes(at), START + minutes(at + 60)) for at in (120, 420)]
    world = World(
        seed=1,
        start=START,
        setups=[a_setup(demand={REF: Demand(calls)}, jobs=JOBS)],
        controller=controller,
    )
    world.run(START + minutes(60))
    first = world.process
    world.start_controller()
    world.run(START + minutes(300))
    # As the tick has a standby do.
    first.running = True
    first.wake(NAME, 0)
    world.run(world.clock.now() + minutes(1))

    world.lease.mine, first.lease.mine = False, True
    world.process = first
    first.wake(NAME, 0)
    world.run(START + minutes(500))

    ran = sum((span.length for _, span, _ in world.chronicle.batch), timedelta())
    told = world.objects.rules[NAME].status.counters.harvested_card_seconds
    assert 0 < told <= ran.total_seconds()
