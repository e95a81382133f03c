"""A night on which Kueue dies: when serving begins to come back, as docs/operations.md tells it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.phase import Phase
from idlewin.core.rule import OnReturn
from idlewin.sim.backlog import JobKind
from idlewin.sim.furnish import Server
from idlewin.sim.objects import Work
from idlewin.sim.world import World
from tests.simulation.scenery import REF, SHORT, START, a_job, a_rule, minutes, seconds
from tests.simulation.test_lending import a_life, entered

LONG = (minutes(200), minutes(200))
CONTRACT, BOUNDED = a_job(runtime=LONG), a_job(SHORT, runtime=LONG)
ENDS = a_job(SHORT, runtime=(minutes(8), minutes(8)))
DIES = START + minutes(45)
DRAIN = minutes(5)
LOOK = seconds(20)
CLAIMS = pytest.mark.parametrize("claims", [0, 1])


def a_night(job: JobKind, on_return: OnReturn, claims: int) -> World:
    """A window in which a job runs, on cards of which serving claims so many, or none at all."""
    rule = a_rule(drain_timeout=DRAIN)
    server = Server(claims=claims, start_up=(20.0, 0.1), grace=seconds(5))
    asked = replace(rule, batch=replace(rule.batch, on_return=on_return))
    world = a_life(asked, jobs=(replace(job, depth=1),), servers={REF: server})
    world.run(DIES)
    world.kueue.go_down()
    return world


def back(world: World) -> timedelta:
    """How long after its users came serving was scaled back."""
    world.users_come(world.setups[0], minutes(60))
    world.run(DIES + minutes(60))
    (came,), (back,) = entered(world, Phase.RECLAIMING), entered(world, Phase.RESTORING)
    return back.at - came.at


def left(world: World) -> timedelta:
    """How long what runs may run yet, by its maximum execution time."""
    (at,) = [work.admitted_at for work in world.objects.works.values() if work.admitted]
    assert at is not None
    return at + minutes(10) - DIES


@CLAIMS
@pytest.mark.parametrize(
    ("job", "on_return"), [(CONTRACT, OnReturn.WAIT), (BOUNDED, OnReturn.EVICT)]
)
def test_work_that_agreed_is_evicted_and_its_admission_counts_for_drain_timeout(
    job: JobKind, on_return: OnReturn, claims: int
) -> None:
    world = a_night(job, on_return, claims)

    took = back(world)

    assert DRAIN <= took <= DRAIN + LOOK


@CLAIMS
@pytest.mark.parametrize("job", [BOUNDED, ENDS], ids=["evicted past its bound", "ended by itself"])
def test_work_that_waits_counts_up_to_its_bound_and_drain_timeout(
    job: JobKind, claims: int
) -> None:
    world = a_night(job, OnReturn.WAIT, claims)
    bound = left(world)

    took = back(world)

    assert minutes(1) < bound < minutes(9)
    assert bound + DRAIN - LOOK <= took <= bound + DRAIN + LOOK


def test_a_window_in_which_the_last_job_ended_is_not_dry_for_a_dead_kueue_has_not_seen_it() -> None:
    world = a_night(ENDS, OnReturn.WAIT, claims=1)

    world.run(DIES + minutes(40))

    assert not [pod for pod in world.objects.pods.values() if isinstance(pod.owner, Work)]
    assert entered(world, Phase.RECLAIMING) == []
