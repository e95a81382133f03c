"""What a stopped queue of a cohort lends, and what closes that."""

from __future__ import annotations

from idlewin.core.pool import StopPolicy
from tests.contract.kueue.cluster import Cluster
from tests.contract.kueue.fact import fact

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE


def waits(cluster: Cluster, *jobs: str) -> None:
    for job in jobs:
        cluster.until(f"a look at {job}", lambda job=job: cluster.passed_over(job))
    cluster.stays("it waits", lambda: not any(cluster.admitted(job) for job in jobs))


@fact("1.1", "A stopped ClusterQueue lends its whole quota to its cohort.")
def test_a_stopped_queue_lends(cluster: Cluster):
    cluster.make_queue("a", 1, cohort="c", policy=HOLD)
    cluster.make_queue("b", 0, cohort="c")
    cluster.until("the stop", lambda: cluster.stopped("a"))
    cluster.submit("own", "a")
    cluster.submit("other", "b")

    cluster.until("the loan", lambda: cluster.admitted("other"))

    assert cluster.stopped("a")
    assert not cluster.admitted("own")


@fact("1.2", "lendingLimit 0 closes that; raised, it acts at once, though the queue is stopped.")
def test_a_lending_limit_of_zero_ends_the_loans(cluster: Cluster):
    cluster.make_queue("a", 1, cohort="c", lends=0, policy=HOLD)
    cluster.make_queue("b", 0, cohort="c")
    cluster.submit("other", "b")

    waits(cluster, "other")
    cluster.lend("a", 1)

    cluster.until("the loan", lambda: cluster.admitted("other"))


@fact("1.3", "What runs in a queue on Hold counts against the cohort; a drain hands it over.")
def test_a_drain_hands_the_cards_to_the_sibling(cluster: Cluster):
    cluster.make_queue("a", 1, cohort="c")
    cluster.make_queue("b", 0, cohort="c")
    cluster.submit("own", "a")
    cluster.until("work", lambda: cluster.admitted("own"))
    cluster.set_policy("a", HOLD)
    cluster.until("the stop", lambda: cluster.stopped("a"))
    cluster.submit("other", "b")

    waits(cluster, "other")
    cluster.set_policy("a", DRAIN)

    cluster.until("the loan", lambda: cluster.admitted("other"))
    assert not cluster.admitted("own")


@fact("1.4", "Quota of a Cohort is closed while all its queues are; one open queue has all of it.")
def test_quota_on_a_cohort_is_open_to_every_open_queue(cluster: Cluster):
    cluster.make_cohort("c", 1)
    for name in ("a", "b"):
        cluster.make_queue(name, 0, cohort="c", policy=HOLD)
        cluster.submit(f"job-{name}", name)

    waits(cluster, "job-a", "job-b")
    cluster.set_policy("b", NONE)

    cluster.until("its work", lambda: cluster.admitted("job-b"))
    assert not cluster.admitted("job-a")
