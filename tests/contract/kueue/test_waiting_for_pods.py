"""Kueue's waitForPodsReady: what it does to work whose pods get no card."""

from __future__ import annotations

from datetime import timedelta

import pytest

from idlewin.core.pool import StopPolicy
from tests.contract.kueue.cluster import Cluster, PodsReady
from tests.contract.kueue.fact import fact

PODS_READY = PodsReady(timeout=3, base=1, limit=1)
HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE


@pytest.fixture
def busy(cluster: Cluster) -> Cluster:
    """Serving has the card, and a job is admitted."""
    cluster.serve("llm", 1)
    cluster.until("serving", lambda: cluster.serves("llm"))
    cluster.make_queue("q")
    cluster.submit("job", "q")
    cluster.until("work", lambda: cluster.admitted("job"))
    return cluster


@fact("14.1", "Work whose pods are not ready in time is evicted and queued again; past its limit "
      "it is deactivated.")  # fmt: skip
@fact("14.2", "With blockAdmission no queue admits anything meanwhile.")
def test_work_that_gets_no_card_is_given_up(busy: Cluster):
    busy.make_queue("z")
    busy.submit("other", "z")
    busy.stays("it waits", lambda: not busy.admitted("other"), 0.5)

    busy.until("the first eviction", lambda: busy.cause("job") == "PodsReadyTimeout")
    seen = busy.until("its time", lambda: (w := busy.work("job")) and w.kept_out_until and w)
    assert seen.active
    assert seen.timed_out
    busy.until("the end", lambda: not busy.work("job").active)
    cause = "DeactivatedDueToRequeuingLimitExceeded"
    busy.until("its cause", lambda: busy.cause("job") == cause)
    busy.until("that it is told", lambda: busy.work("job").timed_out)


@fact("14.3", "Hold does not keep it from that; what was evicted stays out under Hold, and runs "
      "after an opening with the card free.")  # fmt: skip
def test_the_timeout_acts_under_hold(busy: Cluster):
    busy.set_policy("q", HOLD)

    busy.until("the eviction", lambda: busy.cause("job") == "PodsReadyTimeout")
    busy.until("free quota", lambda: not busy.admitted("job"))
    busy.wait(timedelta(seconds=1))
    busy.stays("it is out", lambda: not busy.admitted("job") and busy.work("job").active)
    busy.scale("llm", 0)
    busy.set_policy("q", NONE)

    busy.until("work", lambda: busy.runs("job"))
