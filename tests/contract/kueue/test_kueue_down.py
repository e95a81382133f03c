"""What can still be done with Kueue dead, and what it does when it is back."""

from __future__ import annotations

import pytest

from idlewin.core.decision import EvictPod, FenceQueue, ScaleToZero, SetActive, Verdict
from idlewin.core.pool import StopPolicy
from tests.contract.kueue.cluster import Cluster, RefusedError
from tests.contract.kueue.fact import fact

HOLD, DRAIN, NONE = StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN, StopPolicy.NONE


def to_zero(cluster: Cluster, name: str) -> Verdict:
    seen = cluster.target(name)
    action = ScaleToZero(seen.ref, seen.uid, seen.replicas, seen.resource_version, cluster.rule, 1)
    return cluster.apply(action).verdict


def evict(cluster: Cluster, job: str) -> Verdict:
    (pod,) = cluster.pods(job)
    return cluster.apply(EvictPod(pod)).verdict


@fact("8.1", "With Kueue down its webhooks refuse every write to a ClusterQueue and a Workload, "
      "new Jobs, and changes of Deployments in the namespaces that they cover.")  # fmt: skip
@fact("8.2", "LocalQueues can be stopped, pods evicted, and Deployments of other namespaces "
      "changed.")  # fmt: skip
@fact("8.3", "A covered Deployment can be scaled through /scale, and gets no pod until Kueue is "
      "back.")  # fmt: skip
@fact("8.4", "A batch pod that is evicted is not replaced until then: serving gets its card.")
@fact("8.5", "Back, Kueue honours the LocalQueues as they are: what runs is drained, what waits "
      "stays out.")  # fmt: skip
def test_the_ladder_below_a_dead_kueue(cluster: Cluster):
    cluster.serve("inside", 0, covered=True)
    cluster.serve("outside", 0)
    cluster.make_queue("q", 1)
    cluster.submit("job", "q")
    cluster.until("work", lambda: cluster.runs("job"))
    work, queue = cluster.work("job"), cluster.queue("q")
    cluster.kueue_down()
    try:
        with pytest.raises(RefusedError):
            cluster.set_policy("q", HOLD)
        with pytest.raises(RefusedError):
            cluster.submit("other", "q")
        fence = FenceQueue(queue.name, queue.uid, 7, cluster.rule)
        sleep = SetActive(work.namespace, work.name, work.uid, active=False, epoch=1)
        assert "webhook" in cluster.rehearse(fence)
        assert cluster.apply(fence).verdict is Verdict.REFUSED
        assert cluster.apply(sleep).verdict is Verdict.REFUSED
        cluster.scale("outside", 1)
        cluster.until("its look", lambda: cluster.target("outside").replicas == 1)
        cluster.set_local("q", DRAIN)
        assert evict(cluster, "job") is Verdict.DONE

        cluster.until("the card", lambda: cluster.serves("outside"))
        assert to_zero(cluster, "outside") is Verdict.DONE
        cluster.until("an empty card", lambda: not cluster.look().pods)
        cluster.scale("inside", 1)
        cluster.until("its size", lambda: cluster.target("inside").replicas == 1)
        cluster.stays("no pod of anybody", lambda: not cluster.look().pods, 2)
        assert cluster.admitted("job"), "nobody is there who could take its quota back"
        assert to_zero(cluster, "inside") is Verdict.REFUSED
    finally:
        cluster.kueue_up()

    cluster.until("the drain", lambda: not cluster.admitted("job"))
    cluster.until("covered serving", lambda: cluster.serves("inside"))
    cluster.submit("other", "q")
    cluster.stays("they are out", lambda: not cluster.admitted("other"))


@fact("8.6", "A job that has finished holds no quota, though its Workload goes on saying Admitted.")
def test_a_finished_job_holds_no_quota(cluster: Cluster):
    cluster.make_queue("q", 1)
    cluster.submit("one", "q")
    cluster.until("work", lambda: cluster.runs("one"))
    cluster.submit("two", "q")
    cluster.finish("one")

    cluster.until("the next", lambda: cluster.runs("two"))
    assert cluster.work("one") is None
