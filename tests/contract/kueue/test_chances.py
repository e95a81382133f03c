"""What the real Kueue does by chance happens both ways in simulated worlds: none is lucky."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from idlewin.core.pool import StopPolicy
from tests.contract.kueue.simulated import Simulated

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE
WORLDS = 12


def resumed_below_a_drain(cluster: Simulated) -> object:
    """Whether a job is drained whose LocalQueue comes back from Hold."""
    cluster.make_queue("q")
    cluster.submit("job", "q")
    cluster.until("work", lambda: cluster.admitted("job"))
    cluster.set_local("q", HOLD)
    cluster.wait(timedelta(seconds=1))
    cluster.set_policy("q", DRAIN)
    cluster.until("the stop", lambda: cluster.stopped("q"))
    cluster.set_local("q", NONE)
    cluster.wait(timedelta(seconds=10))
    return cluster.admitted("job")


def first_after_a_drain(cluster: Simulated) -> object:
    """Who has the first turn: the job that was drained, or one that was never admitted."""
    cluster.make_queue("q")
    cluster.submit("old", "q")
    cluster.until("work", lambda: cluster.admitted("old"))
    cluster.submit("new", "q")
    cluster.set_policy("q", DRAIN)
    cluster.until("the drain", lambda: not cluster.admitted("old"))
    cluster.set_policy("q", NONE)
    cluster.until("somebody", lambda: cluster.admitted("old") or cluster.admitted("new"))
    return cluster.admitted("old")


def first_drained(cluster: Simulated) -> object:
    """Which of two jobs a drain takes first."""
    cluster.make_queue("q", 2)
    for job in ("one", "two"):
        cluster.submit(job, "q")
    cluster.until("work", lambda: cluster.admitted("one") and cluster.admitted("two"))
    cluster.set_policy("q", DRAIN)
    cluster.until("the drain", lambda: cluster.evicted("one") or cluster.evicted("two"))
    return cluster.evicted("one")


@pytest.mark.parametrize("scene", [resumed_below_a_drain, first_after_a_drain, first_drained])
def test_what_is_chance_goes_both_ways(scene: Callable[[Simulated], object]):
    assert {scene(Simulated(seed)) for seed in range(WORLDS)} == {True, False}
