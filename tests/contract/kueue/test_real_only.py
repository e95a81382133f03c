"""What idlewin keeps off in the real parts; the simulated cluster has nothing of it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from idlewin.core.decision import EvictPod, Verdict
from idlewin.core.pool import StopPolicy
from tests.contract.kueue.fact import fact
from tests.contract.kueue.real import CORE, KUEUE, Json, Real
from tests.labs.kubelab.api import ApiError

HOLD, NONE = StopPolicy.HOLD, StopPolicy.NONE


def reserved(cluster: Real, job: str) -> bool:
    found = cluster.condition(job, "QuotaReserved")
    return found is not None and found["status"] == "True"


def pending(cluster: Real, path: str) -> int:
    return (cluster.api.get(path).get("status") or {}).get("pendingWorkloads", 0)


@fact(
    "1.5",
    "Who lends cannot take them back by preemption while the borrower's queue is held.",
    not_simulated="no return of idlewin's waits for a preemption by quota",
)
def test_a_held_borrower_is_out_of_reach(cluster: Real):
    cluster.make_queue("a", 1, cohort="c")
    cluster.make_queue("b", 0, cohort="c")
    reclaims = {"spec": {"preemption": {"reclaimWithinCohort": "Any"}}}
    cluster.api.patch(cluster.of_queue("a"), reclaims)
    cluster.submit("other", "b")
    cluster.until("the loan", lambda: cluster.admitted("other"))
    cluster.set_policy("b", HOLD)
    cluster.until("the stop", lambda: cluster.stopped("b"))
    cluster.submit("own", "a")

    cluster.until("a look at it", lambda: cluster.passed_over("own"))
    cluster.stays("it waits", lambda: cluster.admitted("other") and not cluster.admitted("own"), 2)
    assert not cluster.evicted("other")
    cluster.set_policy("b", NONE)

    cluster.until("its return", lambda: cluster.admitted("own"))
    assert cluster.cause("other") == "Preempted"


@fact(
    "2.4",
    "pendingWorkloads of a ClusterQueue goes on counting jobs of a LocalQueue on Hold.",
    not_simulated="idlewin counts Workloads itself and reads no counter of a queue's status",
)
def test_a_cluster_queue_goes_on_counting_what_is_held(cluster: Real):
    cluster.make_queue("q", 0)
    local = f"{KUEUE}/namespaces/default/localqueues/{cluster.named('q')}-0"
    for job in ("one", "two"):
        cluster.submit(job, "q")
    cluster.until("its count", lambda: pending(cluster, cluster.of_queue("q")) == 2)
    cluster.until("theirs", lambda: pending(cluster, local) == 2)
    cluster.set_local("q", HOLD)

    cluster.until("none there", lambda: pending(cluster, local) == 0)
    cluster.stays("two here", lambda: pending(cluster, cluster.of_queue("q")) == 2, 2)


@fact(
    "4.2",
    "A job that has quota reserved and waits for admission checks loses it under Hold, "
    "and keeps checks that are Ready.",
    not_simulated="idlewin has no AdmissionCheck, and a job without admission holds no card",
)
def test_a_job_that_waits_for_checks_loses_its_quota_under_hold(cluster: Real):
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    x, y = (cluster.named(name) for name in ("x", "y"))
    for name in ("x", "y"):
        spec = {"controllerName": "example.com/nobody"}
        path = cluster.make("admissionchecks", "AdmissionCheck", name, spec)
        active = {"type": "Active", "status": "True", "reason": "Active", "message": "it is"}
        status = {"conditions": [{**active, "lastTransitionTime": now}]}
        cluster.api.patch(f"{path}/status", {"status": status})
    cluster.make_queue("q")
    checks = {"admissionChecks": [{"name": x}, {"name": y}]}
    cluster.api.patch(cluster.of_queue("q"), {"spec": {"admissionChecksStrategy": checks}})
    cluster.submit("job", "q")
    cluster.until("quota", lambda: reserved(cluster, "job"))

    def judge(**states: str) -> Json:
        """All of them in one write, over what is read only."""
        raw = cluster.api.get(cluster.of_work("job"))
        found = raw["status"]["admissionChecks"]
        for one in found:
            one["state"] = states.get("x" if one["name"] == x else "y", one["state"])
        meta = {"resourceVersion": raw["metadata"]["resourceVersion"]}
        body = {"metadata": meta, "status": {"admissionChecks": found}}
        return cluster.api.patch(f"{cluster.of_work('job')}/status", body)

    cluster.until("a Ready", lambda: judge(x="Ready"))
    cluster.set_policy("q", HOLD)

    cluster.until("its loss", lambda: not reserved(cluster, "job"))
    raw = cluster.api.get(cluster.of_work("job"))
    states = {one["name"]: one["state"] for one in raw["status"]["admissionChecks"]}
    assert states == {x: "Ready", y: "Pending"}
    cluster.set_policy("q", NONE)
    cluster.until("quota", lambda: reserved(cluster, "job"))
    assert not cluster.admitted("job")
    cluster.until("the other Ready", lambda: judge(y="Ready"))

    cluster.until("work, by the old Ready too", lambda: cluster.admitted("job"))


@fact(
    "5.8",
    "Deleting the Workload of a job that its maximum time ended makes a new one, which "
    "is admitted.",
    not_simulated="idlewin never deletes a Workload: the job agreed to that end",
)
def test_a_new_workload_brings_an_ended_job_back(cluster: Real):
    cluster.make_queue("q")
    cluster.submit("job", "q", limit=2)
    cluster.until("its end", lambda: (work := cluster.work("job")) and not work.active and work)
    cluster.until("free quota", lambda: not cluster.admitted("job"))
    ended = cluster.work("job")
    assert ended is not None
    cluster.api.delete(cluster.of_work("job"))

    cluster.until("work", lambda: cluster.admitted("job"))
    found = cluster.work("job")
    assert found is not None
    assert found.uid != ended.uid


@fact(
    "8.7",
    "Kueue's pod webhook keeps the finalizer on batch pods that ended without it.",
    not_simulated="a pod that has ended is off its card for the scheduler and for idlewin alike",
)
def test_a_pod_that_ends_below_a_dead_kueue_stays_as_a_name(cluster: Real):
    cluster.serve("llm", 0)
    cluster.make_queue("q")
    cluster.submit("job", "q")
    cluster.until("work", lambda: cluster.runs("job"))
    (pod,) = cluster.pods("job")
    path = f"{CORE}/pods/{pod.name}"
    cluster.kueue_down()
    try:
        assert cluster.apply(EvictPod(pod)).verdict is Verdict.DONE
        cluster.until("its end", lambda: cluster.api.get(path)["status"]["phase"] == "Failed")
        cluster.scale("llm", 1)

        cluster.until("its card for serving", lambda: cluster.serves("llm"))
        # The Job controller takes what has ended off its list about a second later.
        cluster.stays("it is kept", lambda: cluster.api.find(path) is not None, 4)
        kept = cluster.api.get(path)["metadata"]
        assert kept["deletionTimestamp"]
        assert kept["finalizers"] == ["batch.kubernetes.io/job-tracking"]
        assert not cluster.pods("job"), "a look shows it on no card"
    finally:
        cluster.kueue_up()

    cluster.until("its end in the store", lambda: cluster.api.find(path) is None)


@fact(
    "10.5",
    "Server-side apply of a stopPolicy makes a ClusterQueue that is not there, and is "
    "refused where another owns the field; without the field it opens a queue of its own.",
    not_simulated="idlewin writes merge patches with a resourceVersion only",
)
def test_an_apply_makes_a_queue_and_opens_one(cluster: Real):
    def write(name: str, spec: Json) -> Json:
        meta = {"name": cluster.named(name)}
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": meta}
        path = f"{cluster.of_queue(name)}?fieldManager=tester"
        return cluster.api.patch(path, {**body, "spec": spec}, "apply")["spec"]

    cluster.make_queue("q")
    with pytest.raises(ApiError, match="conflict"):
        write("q", {"stopPolicy": "Hold"})
    assert cluster.queue("q").stop_policy is NONE

    made = write("none", {"stopPolicy": "Hold"})
    try:
        assert made["stopPolicy"] == "Hold"
        assert not made.get("resourceGroups")
        assert write("none", {})["stopPolicy"] == "None"
    finally:
        cluster.api.delete(cluster.of_queue("none"))
