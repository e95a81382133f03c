"""What becomes of writes that come late, to what others have written or taken away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from idlewin.core.decision import (
    ForgetRecord,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.pool import MANAGER, StopPolicy
from tests.contract.kueue.cluster import Cluster
from tests.contract.kueue.fact import fact

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE


def a_policy(cluster: Cluster, policy: StopPolicy) -> SetStopPolicy:
    seen = cluster.queue("q")
    return SetStopPolicy(seen.name, seen.uid, policy, 1, cluster.rule)


@fact("10.1", "A stop policy is written over the version that was read only: after another's write "
      "an opening that did not see it is refused.")  # fmt: skip
@fact("10.2", "A patch brings no ClusterQueue into being: one that is gone, or made anew, is not "
      "written.")  # fmt: skip
def test_a_late_opening_opens_nothing(cluster: Cluster):
    cluster.make_queue("q", policy=HOLD)
    opening = a_policy(cluster, NONE)
    cluster.set_policy("q", DRAIN)

    assert cluster.apply(opening).verdict is Verdict.REFUSED
    assert cluster.apply(replace(opening, uid="another")).verdict is Verdict.GONE
    missing = replace(opening, queue=cluster.named("none"))
    assert cluster.apply(missing).verdict is Verdict.GONE
    assert cluster.look().queue(missing.queue) is None
    cluster.until("their stop", lambda: cluster.queue("q").stop_policy is DRAIN)


@fact("10.6", "A closing that was decided before somebody closed the queue is not written over "
      "theirs; over an opening it is.")  # fmt: skip
def test_a_late_closing_closes_nothing_anew(cluster: Cluster):
    cluster.make_queue("q")
    assert cluster.apply(a_policy(cluster, HOLD)).verdict is Verdict.DONE
    cluster.set_policy("q", NONE)
    cluster.until("their opening", lambda: cluster.queue("q").stop_policy is NONE)
    closing = a_policy(cluster, HOLD)
    cluster.set_policy("q", DRAIN)

    assert cluster.apply(closing).verdict is Verdict.CONFLICT
    assert (cluster.queue("q").stop_policy, cluster.queue("q").stop_writer) == (DRAIN, "kubectl")
    cluster.set_policy("q", NONE)
    assert cluster.apply(closing).verdict is Verdict.DONE
    assert (cluster.queue("q").stop_policy, cluster.queue("q").left) == (HOLD, HOLD)


@fact("10.7", "A LocalQueue carries our epoch: a closing that was decided before another gave it "
      "back is refused, though nothing of it had to be changed.")  # fmt: skip
def test_a_late_closing_of_a_local_queue_finds_the_fence(cluster: Cluster):
    cluster.make_queue("q")
    (local,) = cluster.queue("q").local_queues
    give = ReopenLocalQueue(
        local.namespace, local.name, local.uid, "Hold", "None", epoch=4, rule="b580"
    )
    assert cluster.apply(give).verdict is Verdict.DONE

    late = StopLocalQueue(local, cluster.queue("q").name, HOLD, epoch=3)
    assert cluster.apply(late).verdict is Verdict.REFUSED
    (after,) = cluster.queue("q").local_queues
    assert (after.stop_policy, after.epoch, after.stop_writer) == (NONE, 4, local.stop_writer)
    assert cluster.apply(replace(give, epoch=2)).verdict is Verdict.DONE
    (after,) = cluster.queue("q").local_queues
    assert after.epoch == 4, "a return that comes late never takes the fence down"
    assert cluster.apply(replace(late, epoch=4)).verdict is Verdict.DONE
    (after,) = cluster.queue("q").local_queues
    assert after.stop_policy is HOLD


@fact("10.11", "A drain of an earlier return than the epoch on a ClusterQueue is refused; a hold "
      "is written, and the epoch stays.")  # fmt: skip
def test_a_late_drain_evicts_nothing(cluster: Cluster):
    cluster.make_queue("q")
    later, late = replace(a_policy(cluster, NONE), epoch=4), a_policy(cluster, DRAIN)
    assert cluster.apply(later).verdict is Verdict.DONE

    assert cluster.apply(replace(late, epoch=3)).verdict is Verdict.REFUSED
    assert (cluster.queue("q").stop_policy, cluster.queue("q").epoch) == (NONE, 4)
    assert cluster.apply(replace(late, epoch=3, policy=HOLD)).verdict is Verdict.DONE
    assert (cluster.queue("q").stop_policy, cluster.queue("q").epoch) == (HOLD, 4)
    assert cluster.apply(replace(late, epoch=4)).verdict is Verdict.DONE
    assert cluster.queue("q").stop_policy is DRAIN


@fact("10.8", "What a tenant has stopped is not opened when idlewin gives back, though it is the "
      "value that idlewin wanted to write.")  # fmt: skip
def test_a_local_queue_that_its_tenant_stopped_stays_stopped(cluster: Cluster):
    cluster.make_queue("q")
    (local,) = cluster.queue("q").local_queues
    cluster.set_local("q", HOLD)
    stop = StopLocalQueue(local, cluster.queue("q").name, HOLD, epoch=3)
    give = ReopenLocalQueue(
        local.namespace, local.name, local.uid, "Hold", "None", epoch=4, rule="b580"
    )

    assert [cluster.apply(one).verdict for one in (stop, give)] == [Verdict.DONE] * 2
    (after,) = cluster.queue("q").local_queues
    assert (after.stop_policy, after.stop_writer, after.epoch) == (HOLD, "kubectl", 4)
    cluster.set_local("q", NONE)
    cluster.until("theirs", lambda: cluster.queue("q").local_queues[0].stop_policy is NONE)
    assert cluster.apply(replace(stop, epoch=5)).verdict is Verdict.DONE
    assert cluster.apply(replace(give, epoch=6)).verdict is Verdict.DONE
    (after,) = cluster.queue("q").local_queues
    assert after.stop_policy is NONE, "it was ours this time"


@fact("10.9", "A Workload carries our epoch: a stop that was decided before another woke it is "
      "refused, though nothing of it had to be changed.")  # fmt: skip
def test_a_late_stop_of_work_finds_the_fence(cluster: Cluster):
    sleep, wake = a_job_that_runs(cluster)
    assert cluster.apply(replace(wake, epoch=4)).verdict is Verdict.DONE

    assert cluster.apply(replace(sleep, epoch=3)).verdict is Verdict.REFUSED
    assert cluster.apply(replace(wake, epoch=2)).verdict is Verdict.DONE
    seen = cluster.work("job")
    assert (seen.active, seen.epoch) == (True, 4), "a newer fence stays"
    assert cluster.runs("job"), "the fence is nothing to Kueue"
    assert cluster.apply(replace(sleep, epoch=4)).verdict is Verdict.DONE
    cluster.until("the stop", lambda: cluster.evicted("job"))
    assert cluster.apply(replace(wake, epoch=5)).verdict is Verdict.DONE
    cluster.until("its return", lambda: cluster.runs("job"))


@fact("10.12", "A stop of work that was decided before another stopped and woke it, in the same "
      "phase, is a conflict: the Workload's generation tells, or the epoch on it.")  # fmt: skip
def test_a_late_stop_of_work_that_was_woken_meanwhile_is_a_conflict(cluster: Cluster):
    sleep, wake = a_job_that_runs(cluster)
    seen = cluster.work("job")
    late = replace(sleep, generation=seen.generation, woken=seen.epoch or 0)
    assert seen.generation > 0
    for one in (late, wake):
        assert cluster.apply(one).verdict is Verdict.DONE

    assert cluster.apply(late).verdict is Verdict.CONFLICT
    seen = cluster.work("job")
    assert seen.active
    again = replace(sleep, generation=seen.generation, woken=seen.epoch or 0)
    assert cluster.apply(again).verdict is Verdict.DONE
    assert cluster.apply(late).verdict is Verdict.DONE, "it is so already"


@fact("10.10", "A person's stop of a Workload is not undone when idlewin gives back, though "
      "idlewin wanted to stop it, too.")  # fmt: skip
def test_work_that_a_person_stopped_is_not_woken(cluster: Cluster):
    sleep, wake = a_job_that_runs(cluster)
    cluster.activate("job", active=False)

    assert [cluster.apply(one).verdict for one in (sleep, wake)] == [Verdict.DONE] * 2
    assert not cluster.work("job").active
    cluster.activate("job", active=True)
    cluster.until("its return", lambda: cluster.runs("job"))
    assert [cluster.apply(one).verdict for one in (sleep, wake)] == [Verdict.DONE] * 2
    assert cluster.work("job").active, "it was ours this time"


def a_job_that_runs(cluster: Cluster) -> tuple[SetActive, SetActive]:
    """Its stop, and its undoing."""
    cluster.make_queue("q")
    cluster.submit("job", "q")
    cluster.until("a pod", lambda: cluster.runs("job"))
    work = cluster.work("job")
    sleep = SetActive(work.namespace, work.name, work.uid, active=False, epoch=1)
    return sleep, replace(sleep, active=True)


@fact("10.3", "Whoever writes None opens a queue that idlewin closed, and is known by name.")
@fact("10.4", "A stop shows soon after it is written, at its generation.")
def test_anybody_can_open_a_queue_that_is_ours(cluster: Cluster):
    cluster.make_queue("q")
    assert cluster.apply(a_policy(cluster, HOLD)).verdict is Verdict.DONE
    cluster.until("the stop", lambda: cluster.stopped("q"))
    assert cluster.queue("q").stop_writer == MANAGER
    cluster.submit("job", "q")
    cluster.set_policy("q", NONE)

    cluster.until("work", lambda: cluster.admitted("job"))
    queue = cluster.queue("q")
    assert (queue.stop_writer, queue.left, queue.stopped_since) == ("kubectl", HOLD, None)


@fact("13.1", "Record and zero are one patch, and pods go at once.")
@fact("13.2", "A pod that restarts makes another version and no other size: the zero is written "
      "all the same.")  # fmt: skip
@fact("13.4", "The record of a later window is not taken off by a leader that wakes late.")
@fact("13.3", "After its owner's change of size the zero is a conflict, and nothing is stored.")
def test_record_and_zero_are_one_write(cluster: Cluster):
    cluster.serve("llm", 1)
    cluster.until("serving", lambda: cluster.serves("llm"))
    seen = cluster.target("llm")
    zero = ScaleToZero(seen.ref, seen.uid, 1, seen.resource_version, cluster.rule, 1)
    cluster.scale("llm", 2)
    cluster.until("their size", lambda: cluster.target("llm").replicas == 2)

    assert cluster.apply(zero).verdict is Verdict.CONFLICT
    assert (cluster.target("llm").replicas, cluster.target("llm").record) == (2, None)
    cluster.scale("llm", 1)
    cluster.until("one of them", lambda: cluster.target("llm").replicas == 1)
    cluster.restart("llm")
    cluster.until(
        "a new version", lambda: cluster.target("llm").resource_version != seen.resource_version
    )
    cluster.until("ready serving", lambda: cluster.serves("llm"))
    # The last status of the new pod; while versions fly a zero may well be a conflict.
    cluster.wait(timedelta(seconds=1))
    assert cluster.apply(zero).verdict is Verdict.DONE
    lowered = cluster.target("llm")
    assert (lowered.replicas, lowered.record.replicas) == (0, 1)
    cluster.until("no pods", lambda: not cluster.look().pods)
    late = ForgetRecord(seen.ref, seen.uid, cluster.rule, 0)
    assert cluster.apply(late).verdict is Verdict.REFUSED
    back = ScaleBack(seen.ref, seen.uid, 1, cluster.rule, 2)
    assert cluster.apply(back).verdict is Verdict.DONE
    assert cluster.target("llm").record is None
