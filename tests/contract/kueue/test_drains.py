"""Drains, the way back from them, and the two other ways in which a job is taken back."""

from __future__ import annotations

from datetime import timedelta

from idlewin.core.decision import SetActive, Verdict
from idlewin.core.pool import StopPolicy
from tests.contract.kueue.cluster import Cluster
from tests.contract.kueue.fact import fact

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE


def activate(cluster: Cluster, job: str, *, active: bool) -> None:
    work = cluster.work(job)
    assert work is not None
    action = SetActive(work.namespace, work.name, work.uid, active=active, epoch=1)
    assert cluster.apply(action).verdict is Verdict.DONE


@fact("5.1", "A drained job is evicted by ClusterQueueStopped, and admitted again once the queue "
      "is open, with no time to sit out.")  # fmt: skip
@fact("5.2", "A drain takes its jobs in any order, about one a second; all of them go.")
def test_a_drain_takes_all_and_an_opening_brings_them_back(cluster: Cluster):
    jobs = ("one", "two", "three")
    cluster.make_queue("q", 3)
    for job in jobs:
        cluster.submit(job, "q")
    cluster.until("work", lambda: all(cluster.admitted(job) for job in jobs))
    cluster.set_policy("q", DRAIN)

    cluster.until("the drain", lambda: not any(cluster.admitted(job) for job in jobs))
    assert {cluster.cause(job) for job in jobs} == {"ClusterQueueStopped"}
    cluster.set_policy("q", NONE)

    cluster.until("their return", lambda: all(cluster.admitted(job) for job in jobs))


@fact("5.3", "A drained job may lose its turn to jobs that were never admitted; it keeps its place "
      "for later, and is not forgotten.")  # fmt: skip
def test_a_drained_job_has_its_turn_in_the_end(cluster: Cluster):
    cluster.make_queue("q", 1)
    cluster.submit("old", "q")
    cluster.until("work", lambda: cluster.runs("old"))
    cluster.submit("new", "q")
    cluster.set_policy("q", DRAIN)
    cluster.until("the drain", lambda: not cluster.admitted("old"))
    cluster.set_policy("q", NONE)

    cluster.until("somebody", lambda: cluster.runs("old") or cluster.runs("new"))
    first, second = ("old", "new") if cluster.runs("old") else ("new", "old")
    assert not cluster.admitted(second)
    cluster.finish(first)

    cluster.until("the other", lambda: cluster.runs(second))


@fact("5.4", "Time that a job has had counts against its maximum execution time over drains.")
def test_time_that_was_had_counts_over_drains(cluster: Cluster):
    cluster.make_queue("q", 1)
    cluster.submit("job", "q", limit=600)
    cluster.until("work", lambda: cluster.runs("job"))
    cluster.wait(timedelta(seconds=2))
    cluster.set_policy("q", DRAIN)

    cluster.until("the drain", lambda: not cluster.admitted("job"))
    work = cluster.work("job")

    assert work.max_runtime is not None
    assert timedelta(seconds=500) < work.max_runtime < timedelta(seconds=600)


@fact("5.5", "At its maximum a job is deactivated, under Hold too, and evicted by "
      "DeactivatedDueToMaximumExecutionTimeExceeded.")  # fmt: skip
@fact("5.6", "Such a job cannot be activated again: it never comes back.")
def test_a_job_past_its_maximum_does_not_come_back(cluster: Cluster):
    cluster.make_queue("q", 1)
    cluster.submit("job", "q", limit=3)
    cluster.until("work", lambda: cluster.admitted("job"))
    cluster.set_policy("q", HOLD)

    cluster.until("its end", lambda: not cluster.admitted("job"))
    assert not cluster.work("job").active
    assert cluster.cause("job") == "DeactivatedDueToMaximumExecutionTimeExceeded"
    cluster.set_policy("q", NONE)
    activate(cluster, "job", active=True)

    cluster.stays("it is out", lambda: not cluster.admitted("job"), 3)


@fact("5.9", "That time runs from the admission, with a card or without.")
def test_a_job_without_a_card_runs_out_of_its_time(cluster: Cluster):
    cluster.serve("llm", 1)
    cluster.until("serving", lambda: cluster.serves("llm"))
    cluster.make_queue("q", 1)
    cluster.submit("job", "q", limit=2)

    cluster.until("its end", lambda: (work := cluster.work("job")) and not work.active)
    # Kueue writes the cause a moment later.
    cluster.until("its cause", lambda: cluster.cause("job"))
    assert cluster.cause("job") == "DeactivatedDueToMaximumExecutionTimeExceeded"


@fact("5.7", "A job that was deactivated by hand comes back when it is active again.")
@fact("6.1", "Quota is free while the pod still holds the card for its grace: the next job is "
      "admitted, and its pod waits.")  # fmt: skip
def test_quota_is_free_before_the_card_and_a_deactivated_job_comes_back(cluster: Cluster):
    cluster.make_queue("q", 1)
    cluster.submit("one", "q", grace=6)
    cluster.until("work", lambda: cluster.runs("one"))
    cluster.submit("two", "q")
    activate(cluster, "one", active=False)

    cluster.until("the next", lambda: cluster.admitted("two"))
    assert cluster.leaving("one")
    assert not cluster.runs("two")
    cluster.until("the card", lambda: cluster.runs("two"))
    assert not cluster.pods("one")
    activate(cluster, "one", active=True)
    cluster.finish("two")

    cluster.until("the first one's return", lambda: cluster.runs("one"))


@fact("6.2", "A drain frees the quota about a second later, and the card after the pod's grace.")
def test_a_drain_frees_quota_before_the_card(cluster: Cluster):
    cluster.make_queue("q", 1)
    cluster.submit("job", "q", grace=6)
    cluster.until("work", lambda: cluster.runs("job"))
    cluster.set_policy("q", DRAIN)

    cluster.until("free quota", lambda: not cluster.admitted("job"))
    assert cluster.leaving("job")

    cluster.until("the card", lambda: not cluster.look().pods)
