"""What a stop of a ClusterQueue and of its LocalQueues does, and what it leaves running."""

from __future__ import annotations

from datetime import timedelta

from idlewin.core.pool import StopPolicy
from idlewin.core.timing import SETTLE
from tests.contract.kueue.cluster import Cluster
from tests.contract.kueue.fact import fact

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE


def two_local_queues(cluster: Cluster) -> None:
    """A job runs from each; that of the first LocalQueue is on Hold."""
    cluster.make_queue("q", 2, local_queues=2)
    for number, job in enumerate(("held", "free")):
        cluster.submit(job, "q", number=number)
    cluster.until("work", lambda: cluster.admitted("held") and cluster.admitted("free"))
    cluster.set_local("q", HOLD, 0)
    # The LocalQueue shows no sign that a look would have; a second is ample.
    cluster.wait(timedelta(seconds=1))


@fact("2.1", "A drain of a ClusterQueue passes over the jobs of a LocalQueue on Hold.")
@fact("2.2", "Back from Hold below a drain, such a job is drained by chance only; the stop policy "
      "written anew, Hold and then HoldAndDrain, drains it for certain.")  # fmt: skip
def test_a_drain_passes_over_a_local_queue_on_hold(cluster: Cluster):
    two_local_queues(cluster)
    cluster.set_policy("q", DRAIN)

    cluster.until("the drain", lambda: cluster.evicted("free"))
    cluster.stays("it runs on", lambda: cluster.admitted("held") and not cluster.evicted("held"), 3)
    cluster.set_local("q", NONE, 0)
    cluster.wait(timedelta(seconds=1))
    cluster.set_policy("q", HOLD)
    cluster.until("the stop", lambda: cluster.stopped("q"))
    cluster.set_policy("q", DRAIN)

    cluster.until("the other drain", lambda: not cluster.admitted("held"))


@fact("2.3", "A LocalQueue at HoldAndDrain is always drained; its jobs stay out until it and its "
      "ClusterQueue are both open.")  # fmt: skip
def test_a_drained_local_queue_stays_out_until_both_are_open(cluster: Cluster):
    two_local_queues(cluster)
    cluster.set_policy("q", DRAIN)
    cluster.until("the drain", lambda: cluster.evicted("free"))

    cluster.set_local("q", DRAIN, 0)
    cluster.until("the other drain", lambda: not cluster.admitted("held"))
    assert cluster.cause("held") == "LocalQueueStopped"
    cluster.set_policy("q", NONE)
    cluster.until("the free one", lambda: cluster.admitted("free"))
    cluster.stays("it is out", lambda: not cluster.admitted("held"))
    cluster.set_local("q", NONE, 0)

    cluster.until("its return", lambda: cluster.admitted("held"))


@fact("3.1", "Work is admitted after a stop was accepted, and even after it shows; 5 s later no "
      "more, what came late runs on under Hold, and a drain catches all of it.")  # fmt: skip
def test_what_is_admitted_late_is_admitted_soon(cluster: Cluster):
    jobs = [f"job-{number}" for number in range(8)]
    cluster.make_queue("q", 8)
    for job in jobs:
        cluster.submit(job, "q")
    cluster.until("the first", lambda: any(cluster.admitted(job) for job in jobs))
    cluster.set_policy("q", HOLD)
    cluster.until("the stop", lambda: cluster.stopped("q"))

    cluster.wait(SETTLE)
    settled = [cluster.admitted(job) for job in jobs]
    cluster.stays("no more", lambda: [cluster.admitted(job) for job in jobs] == settled)
    cluster.set_policy("q", DRAIN)

    cluster.until("the drain", lambda: not any(cluster.admitted(job) for job in jobs))


@fact("4.1", "Hold leaves an admitted job whose pod does not run yet; HoldAndDrain takes it back.")
def test_hold_leaves_a_job_whose_pod_waits(cluster: Cluster):
    cluster.serve("llm", 1)
    cluster.until("serving", lambda: cluster.serves("llm"))
    cluster.make_queue("q", 1)
    cluster.submit("job", "q")
    cluster.until("work", lambda: cluster.admitted("job"))
    cluster.set_policy("q", HOLD)
    cluster.until("the stop", lambda: cluster.stopped("q"))

    cluster.stays("it stays", lambda: cluster.admitted("job") and not cluster.runs("job"), 2)
    cluster.set_policy("q", DRAIN)

    cluster.until("the drain", lambda: not cluster.admitted("job"))
