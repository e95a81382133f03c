"""Kueue dies at the worst moment of a return, or answers late: serving comes back, work leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.decision import (
    Action,
    FenceQueue,
    Outcome,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.rule import Mode
from idlewin.sim.cluster import Calm
from idlewin.sim.furnish import Server
from idlewin.sim.objects import Deployment, SimLocalQueue, SimQueue, Work
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.scenery import (
    NAME,
    REF,
    RESUMABLE,
    START,
    a_job,
    a_rule,
    a_setup,
    minutes,
    seconds,
)
from tests.simulation.swarm import controller

DRAIN = StopPolicy.HOLD_AND_DRAIN
LONG = (minutes(240), minutes(240))
AGREED = a_job(runtime=LONG, depth=1, total=1)
ODD = a_job(
    contract=False, max_runtime=minutes(45), runtime=(minutes(40), minutes(40)), depth=1, total=1
)
#: The grace of the contract, drainTimeout, and what a start-up and the rungs take.
IN_TIME = seconds(30) + minutes(5) + minutes(1)


def lent(*jobs, claims: int = 1, count: int = 1) -> World:
    """A window that is open for hours, with these jobs on the cards."""
    rule = a_rule(count=count)
    rule = replace(rule, batch=replace(rule.batch, queues=rule.batch.queues[1:]))
    server = Server(claims=claims, start_up=(20.0, 0.1), grace=seconds(5))
    setup = a_setup(rule, servers={REF: server}, jobs=jobs or (AGREED,))
    world = World(seed=3, start=START, setups=[setup], controller=controller)
    world.run(START + minutes(60))
    assert phase(world) == Phase.HARVESTING
    assert sum(work.admitted for work in world.objects.works.values()) == max(len(jobs), 1)
    return world


def phase(world: World) -> str:
    return world.objects.rules[NAME].status.phase


def queue_of(world: World) -> SimQueue:
    return world.objects.queues[RESUMABLE]


def target_of(world: World) -> Deployment:
    return world.objects.deployments[REF]


def served(world: World) -> bool:
    return any(pod.running for pod in world.objects.pods_of(target_of(world)))


def batch_on_cards(world: World) -> list[str]:
    pods = world.objects.pods.values()
    return [pod.name for pod in pods if isinstance(pod.owner, Work) and pod.node and pod.running]


def users_come(world: World) -> None:
    world.users_come(world.setups[0], minutes(600))


def until(
    world: World,
    holds: Callable[[], bool],
    within: timedelta = timedelta(minutes=30),
    step: timedelta = timedelta(seconds=0.02),
) -> timedelta:
    """Run on until something holds; how long that took."""
    begun = world.clock.now()
    while not holds():
        assert world.clock.now() < begun + within, "it did not happen"
        world.clock.run(world.clock.now() + step)
    return world.clock.now() - begun


class Once(Calm):
    """The API server answers the first write of a kind with an error, and does not carry it out."""

    def __init__(self, kind: Callable[[Action], bool]) -> None:
        self._kind, self.over = kind, False

    def before(self, action: Action) -> Outcome | None:
        if self.over or not self._kind(action):
            return None
        self.over = True
        return Outcome(action, Verdict.FAILED, "500: request timed out")


@pytest.mark.parametrize("claims", [1, 0], ids=["a claim", "the device node"])
def test_kueue_that_dies_with_the_drain_shown_is_not_waited_for(claims):
    """Nothing is left to be written that its webhook would have to refuse."""
    world = lent(claims=claims)
    queue = queue_of(world)
    users_come(world)
    until(world, lambda: queue.stop_policy is DRAIN and queue.observed == queue.generation)

    world.kueue.go_down()

    assert until(world, lambda: served(world), step=seconds(1)) < IN_TIME
    assert not batch_on_cards(world)


def test_kueue_that_dies_once_it_was_told_to_end_one_work_is_not_waited_for():
    """Work without a contract beside it: the queue is held, and who agreed is stopped alone."""
    world = lent(AGREED, ODD, count=2)
    agreed = next(work for work in world.objects.works.values() if work.contract)
    users_come(world)
    queue = queue_of(world)
    until(world, lambda: not agreed.active and queue.observed == queue.generation)
    assert not agreed.evicted

    world.kueue.go_down()

    gone = until(world, lambda: not world.objects.pods_of(agreed), step=seconds(1))
    assert gone < IN_TIME


@pytest.mark.parametrize("policy", [StopPolicy.HOLD, DRAIN])
def test_one_answer_that_did_not_come_ends_no_pod_while_kueue_is_up(policy):
    """Its Job has no retry: evicted instead of suspended, it has failed."""
    world = lent(a_job(runtime=LONG, depth=1, total=1, retries=False))
    (work,) = world.objects.works.values()
    work.stops_within = 0.1
    once = Once(lambda a: isinstance(a, SetStopPolicy) and a.policy is policy)
    world.cluster.interference = once
    users_come(world)

    world.run(world.clock.now() + minutes(10))

    assert once.over
    assert served(world)
    assert not work.lost


STOPS = {
    "paused": lambda world: People(world).pause(NAME, paused=True),
    "observe": lambda world: People(world).set_mode(NAME, Mode.OBSERVE),
    "unreadable": lambda world: People(world).edit(NAME, None, "spec.cards.count: 0"),
}


@pytest.mark.parametrize("how", STOPS)
def test_what_a_dead_kueue_kept_open_is_closed_whatever_the_rule_says_by_then(how):
    world = lent(claims=0)
    world.kueue.go_down()
    STOPS[how](world)
    until(world, lambda: phase(world) == Phase.SERVING, minutes(90), seconds(1))
    assert queue_of(world).stop_policy is StopPolicy.NONE

    world.kueue.come_back()
    world.run(world.clock.now() + minutes(1))

    assert queue_of(world).stop_policy is not StopPolicy.NONE
    assert policies_below(world) == {StopPolicy.NONE}
    theirs = SimLocalQueue(
        name="theirs", namespace="team", uid="l-9", pool=NAME, cluster_queue=RESUMABLE
    )
    world.objects.local_queues["team", "theirs"] = theirs
    world.objects.touch(theirs)
    world.backlog.keep(a_job(runtime=LONG, depth=6, total=4))
    world.run(world.clock.now() + minutes(30))
    assert not batch_on_cards(world)


def policies_below(world: World) -> set[StopPolicy]:
    return {local.stop_policy for local in world.objects.local_queues.values()}


def test_work_that_a_dead_kueue_did_not_end_is_ended_once_it_is_back_and_waits_then():
    """Its pod was evicted for the return; Kueue, back, would give its Job another."""
    world = lent(AGREED, ODD, count=2, claims=0)
    agreed = next(work for work in world.objects.works.values() if work.contract)
    world.kueue.go_down()
    users_come(world)
    until(world, lambda: phase(world) == Phase.SERVING, minutes(200), seconds(1))

    world.kueue.come_back()
    world.run(world.clock.now() + minutes(2))

    assert not batch_on_cards(world)
    assert (agreed.admitted, agreed.active) == (False, True)
    assert served(world)


def names_another(world: World) -> None:
    rule = a_rule()
    batch = replace(rule.batch, queues=rule.batch.queues[:1])
    People(world).edit(NAME, replace(rule, batch=batch))


@pytest.mark.parametrize("how", [STOPS["paused"], names_another], ids=["paused", "left out"])
def test_a_person_who_takes_the_queue_out_of_the_rule_and_opens_it_has_all_of_it(how):
    """We close what is below it until serving is back, and give that back too."""
    world = lent()
    for pod in world.objects.pods.values():
        pod.stuck = True
    how(world)
    world.run(world.clock.now() + seconds(3))
    for _ in range(20):
        People(world).set_policy(RESUMABLE, StopPolicy.NONE)
        world.run(world.clock.now() + seconds(2))
    assert policies_below(world) != {StopPolicy.NONE}
    for pod in list(world.objects.pods.values()):
        pod.stuck = False
        if pod.terminating:
            world.nodes.end(pod)
    until(world, lambda: phase(world) == Phase.SERVING, minutes(90), seconds(1))

    world.run(world.clock.now() + minutes(5))

    assert policies_below(world) == {StopPolicy.NONE}
    assert all(work.active for work in world.objects.works.values())
    assert queue_of(world).stop_policy is StopPolicy.NONE


@pytest.mark.parametrize("up", [True, False])
def test_what_was_closed_on_the_way_is_given_back_though_the_status_is_lost_then(up):
    world = lent(AGREED, ODD, count=2)
    agreed = next(work for work in world.objects.works.values() if work.contract)
    if not up:
        world.kueue.go_down()
    People(world).pause(NAME, paused=True)
    until(world, lambda: not agreed.active or policies_below(world) != {StopPolicy.NONE})

    stored = world.objects.rules[NAME]
    stored.status = None
    world.objects.touch(stored)
    world.run(world.clock.now() + seconds(30))
    world.kueue.come_back()
    until(world, lambda: phase(world) == Phase.SERVING, minutes(90), seconds(1))
    world.run(world.clock.now() + minutes(5))

    assert agreed.active, "asleep, and on nobody's record"
    assert policies_below(world) == {StopPolicy.NONE}


def test_work_that_could_not_be_woken_is_woken_though_the_rule_is_paused():
    world = lent(AGREED, ODD, count=2)
    agreed = next(work for work in world.objects.works.values() if work.contract)
    People(world).pause(NAME, paused=True)
    until(world, lambda: not agreed.active and not agreed.admitted)
    world.kueue.go_down()
    until(world, lambda: phase(world) == Phase.SERVING, minutes(90), seconds(1))
    assert not agreed.active

    world.kueue.come_back()
    world.run(world.clock.now() + minutes(5))

    assert agreed.active
    assert not agreed.admitted


def test_a_kueue_whose_clock_is_ahead_delays_no_return():
    """It stamps its conditions by its own machine's clock."""
    world = lent()
    see = world.kueue._see

    def ahead(queue: SimQueue) -> None:
        before = queue.stopped_since
        see(queue)
        if queue.stopped_since and queue.stopped_since != before:
            queue.stopped_since += minutes(40)

    world.kueue._see = ahead
    users_come(world)

    # Held, settled, drained and gone: no rung of the ladder had to wait for its time.
    assert until(world, lambda: served(world), minutes(90), seconds(0.5)) < minutes(1.2)


def test_a_drain_asks_what_is_there_now_where_the_watch_of_work_is_behind():
    """Work without a contract was let in meanwhile, and shows as one that waits."""
    world = lent(AGREED, count=2)
    evicted: list[bool] = []
    world.kueue.on_evict.append(lambda work, _: evicted.append(work.contract))
    look, known = world.cluster.look, {}

    def behind(scope, *, fresh: bool = False):
        pool = look(scope, fresh=fresh)
        for queue in pool.queues:
            if fresh or queue.name not in known:
                known[queue.name] = queue.workloads
        queues = (replace(queue, workloads=known[queue.name]) for queue in pool.queues)
        return replace(pool, queues=tuple(queues))

    world.cluster.look = behind
    world.run(world.clock.now() + seconds(5))
    world.backlog.keep(ODD)
    works = world.objects.works.values()
    until(world, lambda: any(work.admitted and not work.contract for work in works))
    world.run(world.clock.now() + seconds(10))

    users_come(world)
    world.run(world.clock.now() + minutes(3))

    assert evicted == [True]


class Undone(Calm):
    """A policy of the cluster takes out of our writes to queues what it does not want there."""

    def __init__(self, world: World, kind: type[Action]) -> None:
        self._world, self._kind = world, kind

    def before(self, action: Action) -> Outcome | None:
        refused = isinstance(action, FenceQueue) and not self._world.kueue.up
        mine = isinstance(action, self._kind) and not refused
        return Outcome(action, Verdict.DONE) if mine else None

    def after(self, outcome: Outcome) -> Outcome:
        if self._kind is FenceQueue and isinstance(outcome.action, SetStopPolicy):
            self._world.objects.queues[outcome.action.queue].epoch = None
        return outcome


@pytest.mark.parametrize("claims", [1, 0])
@pytest.mark.parametrize(
    ("kind", "up"), [(FenceQueue, True), (SetStopPolicy, True), (StopLocalQueue, False)]
)
def test_a_policy_that_takes_out_what_we_write_to_queues_does_not_keep_serving_out(
    kind, up, claims
):
    world = lent(claims=claims)
    world.cluster.interference = Undone(world, kind)
    if not up:
        world.kueue.go_down()
    users_come(world)

    # What opens the device node waits for drainTimeout once more, for it would be beside batch.
    bound = IN_TIME if claims else IN_TIME + minutes(5)
    assert until(world, lambda: served(world), minutes(60), seconds(1)) < bound


def test_a_policy_that_takes_our_epoch_off_a_queue_does_not_keep_its_local_queues_closed():
    world = lent()
    world.cluster.interference = Undone(world, FenceQueue)
    world.kueue.go_down()
    People(world).pause(NAME, paused=True)
    world.run(world.clock.now() + minutes(4))
    assert policies_below(world) != {StopPolicy.NONE}
    world.kueue.come_back()
    until(world, lambda: phase(world) == Phase.SERVING, minutes(60), seconds(1))

    world.run(world.clock.now() + minutes(2))

    assert policies_below(world) == {StopPolicy.NONE}


class TooLate(Calm):
    """Somebody writes each ClusterQueue all the time: each of our writes is a conflict."""

    def before(self, action: Action) -> Outcome | None:
        late = isinstance(action, SetStopPolicy | FenceQueue)
        return (
            Outcome(action, Verdict.CONFLICT, "409 the object has been modified") if late else None
        )


@pytest.mark.parametrize("claims", [1, 0])
def test_queues_whose_writes_are_all_conflicts_do_not_keep_serving_out(claims):
    world = lent(claims=claims)
    world.cluster.interference = TooLate()
    users_come(world)

    bound = IN_TIME if claims else IN_TIME + minutes(5)
    assert until(world, lambda: served(world), minutes(60), seconds(1)) < bound
    assert not batch_on_cards(world)


def test_a_fence_is_not_tried_while_a_dead_kueue_has_its_local_queues_closed_anyway():
    world = lent()
    queue, fences = queue_of(world), []
    apply = world.cluster.apply

    def counted(action: Action) -> Outcome:
        if isinstance(action, FenceQueue) and phase(world) == Phase.SERVING:
            fences.append(action)
        return apply(action)

    world.cluster.apply = counted
    users_come(world)
    until(world, lambda: queue.stop_policy is StopPolicy.HOLD)
    world.kueue.go_down()
    until(world, lambda: phase(world) == Phase.SERVING, minutes(60), seconds(1))
    world.run(world.clock.now() + minutes(30))

    assert policies_below(world) == {DRAIN}
    assert not fences
