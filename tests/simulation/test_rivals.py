"""A second writer that never gives up: what it writes is kept, and nobody fights it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from random import Random

import pytest

from idlewin.core.decision import Action, Outcome, SetStopPolicy, Verdict
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, Scope, StopPolicy
from idlewin.core.window import Span
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server
from idlewin.sim.people import People
from idlewin.sim.rivals import Autoscaler, GitOps, Keda, Operator, QueueReplacer, Rival
from idlewin.sim.world import World
from tests.simulation.checks import Checks
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

#: Nobody comes in that time.
LENGTH = timedelta(hours=6)
SIZE = 2


class Count:
    """Counts what we wrote, and when last."""

    def __init__(self, world: World) -> None:
        self._world, self.done = world, Counter[str]()
        world.cluster.witnesses.append(self)

    def looked(self, scope: Scope, pool: Pool, *, fresh: bool) -> None:
        """Looks do not count."""

    def writing(self, action: Action) -> None:
        """Nor what may be refused."""

    def wrote(self, outcome: Outcome) -> None:
        action = outcome.action
        if outcome.verdict is Verdict.DONE:
            self.done[type(action).__name__] += 1
            if isinstance(action, SetStopPolicy):
                self.done[action.policy] += 1


def a_night() -> tuple[World, Count]:
    setup = a_setup(
        a_rule(count=SIZE),
        demand={REF: Demand([Span(START + LENGTH * 2, START + LENGTH * 3)])},
        servers={REF: Server(replicas=SIZE, start_up=(20.0, 0.1), grace=seconds(5))},
        jobs=(a_job(),),
    )
    world = World(seed=1, start=START, setups=[setup], controller=controller)
    Checks(world)
    return world, Count(world)


def heals(world: World) -> Rival:
    return GitOps(world, NAME, Random(1), {REF: SIZE})


def replaces(world: World) -> Rival:
    return GitOps(world, NAME, Random(1), {REF: SIZE}, prunes=True)


def owns(world: World) -> Rival:
    return Operator(world, NAME, Random(1), {REF: SIZE}, prunes=True)


def polls(world: World) -> Rival:
    return Keda(world, NAME, Random(1), REF)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (heals, "argocd-controller"),
        (replaces, "argocd-controller"),
        (owns, "model-operator"),
        (polls, "keda-operator"),
    ],
)
def test_who_raises_serving_each_time_is_contested_after_three_windows(
    make: Callable[[World], Rival], name: str
):
    world, count = a_night()
    rival = make(world)
    world.run(START + LENGTH)

    status = world.objects.rules[NAME].status
    assert (status.contested_by, status.phase) == (name, Phase.SERVING)
    assert count.done["ScaleToZero"] == 3
    assert name in world.cluster.announced[-1].alarms[0] or any(
        name in alarm for told in world.cluster.announced for alarm in told.alarms
    )
    version = world.objects.deployments[REF].version

    world.run(START + LENGTH + minutes(60))
    assert world.objects.deployments[REF].version == version, "nothing is written any more"

    rival.end()
    People(world).resume(NAME)
    world.run(START + LENGTH + minutes(80))
    assert world.objects.rules[NAME].status.phase == Phase.HARVESTING


def test_an_autoscaler_is_quiet_at_our_zero_and_right_after_the_return():
    world, _ = a_night()
    rival = Autoscaler(world, NAME, Random(3), REF, (1, SIZE))

    world.run(START + LENGTH * 3)

    changes = [change.reason for change in world.chronicle.changes]
    assert "ServingRaised" not in changes
    assert rival.writes
    target = world.objects.deployments[REF]
    assert target.replicas == target.owner_wants
    assert world.objects.rules[NAME].status.counters.windows


def test_annotations_that_are_pruned_each_time_change_nothing():
    world, count = a_night()
    GitOps(world, NAME, Random(1), {}, prunes=True)

    world.run(START + LENGTH * 2 + minutes(30))

    assert count.done["ScaleToZero"] >= 1
    assert world.objects.rules[NAME].status.contested_by == ""
    assert world.objects.deployments[REF].replicas == SIZE


@pytest.mark.parametrize("policy", [StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN])
def test_a_queue_that_is_closed_and_pruned_each_time_is_contested(policy: StopPolicy):
    world, count = a_night()
    QueueReplacer(world, NAME, Random(1), policy)

    world.run(START + LENGTH)

    status = world.objects.rules[NAME].status
    assert (status.contested_by, status.counters.windows) == ("argocd-controller", 3)
    queues = len(world.setups[0].rule.batch.queues)
    assert count.done["None"] == 3 * queues, "each is opened once a window"


def test_a_queue_that_is_opened_and_pruned_each_time_is_contested():
    world, count = a_night()
    QueueReplacer(world, NAME, Random(1), StopPolicy.NONE)

    world.run(START + LENGTH)

    assert world.objects.rules[NAME].status.contested_by == "argocd-controller"
    assert any("argocd-controller" in a for told in world.cluster.announced for a in told.alarms)
    written = dict(count.done)
    world.run(START + LENGTH + minutes(60))
    assert count.done == written, "nothing is written any more"


def test_who_opens_a_queue_again_and_again_while_it_is_given_back_is_not_fought_with():
    world, count = a_night()
    world.run(START + minutes(60))
    for pod in world.objects.pods.values():
        pod.stuck = True
    People(world).pause(NAME, paused=True)
    queue = world.objects.queues[RESUMABLE]
    world.run(START + minutes(61))

    for _ in range(60):
        People(world).set_policy(RESUMABLE, StopPolicy.NONE)
        world.run(world.clock.now() + seconds(2))
        assert world.objects.rules[NAME].status.phase == Phase.RECLAIMING

    assert queue.stop_policy is StopPolicy.NONE
    assert count.done["Hold"] + count.done["HoldAndDrain"] < 20
    (local,) = world.objects.local_queues_of(RESUMABLE)
    assert local.stop_policy is not StopPolicy.NONE, "nothing comes in all the same"


def test_an_alarm_is_told_once_and_not_in_each_cycle():
    world, _ = a_night()
    QueueReplacer(world, NAME, Random(1), StopPolicy.NONE)

    world.run(START + LENGTH)

    stays = [told for told in world.cluster.announced if not told.changes_phase]
    kinds = Counter(alarm for told in stays for alarm in told.alarms if "keeps changing" in alarm)
    assert list(kinds.values()) == [1]


def test_a_deploy_in_a_window_gives_it_back_and_keeps_serving_for_a_while():
    world, count = a_night()
    world.run(START + minutes(60))
    assert world.objects.rules[NAME].status.phase == Phase.HARVESTING
    before = count.done["ScaleToZero"]

    People(world).deploy(REF)
    world.run(START + minutes(70))

    assert world.objects.deployments[REF].replicas == SIZE
    assert "TargetChanged" in [change.reason for change in world.chronicle.changes]
    assert count.done["ScaleToZero"] == before
