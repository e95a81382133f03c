"""Proves that the control plane of the tests is real, and that its own tools tell the truth."""

from __future__ import annotations

import http.client
import signal
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.labs.kubelab.api import Api, ApiError, wait_for
from tests.labs.kubelab.audit import account
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.kubelab.proxy import Moment, Proxy

pytestmark = pytest.mark.controlplane
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = f"{KUEUE}/clusterqueues/gpus"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
CONTAINER = {
    "name": "main",
    "image": "example/none",
    "resources": {"requests": {GPU: "1"}, "limits": {GPU: "1"}},
}


def named(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


@pytest.fixture(scope="module")
def queue(plane: ControlPlane) -> ControlPlane:
    """The plane, with one GPU behind a held queue."""
    quota = [{"name": GPU, "nominalQuota": "1"}]
    group = {"coveredResources": [GPU], "flavors": [{"name": "plain", "resources": quota}]}
    spec = {"namespaceSelector": {}, "stopPolicy": "Hold", "resourceGroups": [group]}
    version = "kueue.x-k8s.io/v1beta2"
    plane.api.apply(named(version, "ResourceFlavor", "plain"))
    plane.api.apply(named(version, "ClusterQueue", "gpus", spec=spec))
    plane.api.apply(named(version, "LocalQueue", "lq", spec={"clusterQueue": "gpus"}))
    return plane


def submit(plane: ControlPlane, name: str, **annotations: str) -> Any:
    marks = {f"kubelab/{key.replace('_', '-')}": value for key, value in annotations.items()}
    template = {
        "metadata": {"annotations": marks},
        "spec": {"restartPolicy": "Never", "containers": [CONTAINER]},
    }
    job = named("batch/v1", "Job", name, spec={"backoffLimit": 0, "template": template})
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "lq"}
    return plane.api.post(JOBS, job)


def pods(plane: ControlPlane, job: str) -> list[dict[str, Any]]:
    return plane.api.list(PODS, labelSelector=f"job-name={job}")


def ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def done(plane: ControlPlane, job: str) -> bool:
    return plane.api.get(f"{JOBS}/{job}")["status"].get("succeeded") == 1


def test_a_held_queue_admits_nothing_then_admits_and_drains(queue: ControlPlane) -> None:
    assert submit(queue, "train")["spec"]["suspend"] is True
    wait_for("workload", lambda: queue.api.list(f"{KUEUE}/namespaces/default/workloads"))
    time.sleep(2)
    assert pods(queue, "train") == []

    queue.api.patch(QUEUE, {"spec": {"stopPolicy": "None"}})
    first = wait_for("ready pod", lambda: [p for p in pods(queue, "train") if ready(p)])[0]
    queue.api.patch(QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}})
    wait_for("pod's end", lambda: not pods(queue, "train"))
    queue.api.patch(QUEUE, {"spec": {"stopPolicy": "None"}})
    second = wait_for("second pod", lambda: [p for p in pods(queue, "train") if ready(p)])[0]

    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    mark = {"metadata": {"annotations": {"kubelab/finish": "succeeded"}}}
    queue.api.patch(f"{PODS}/{second['metadata']['name']}", mark)
    wait_for("finished job", lambda: done(queue, "train"))


def test_a_pod_is_ready_and_leaves_after_its_delays(plane: ControlPlane) -> None:
    pod = named("v1", "Pod", "slow", spec={"containers": [CONTAINER]})
    delays = {"kubelab/ready-after": "2s", "kubelab/terminate-after": "2s"}
    pod["metadata"]["annotations"] = delays
    plane.api.post(PODS, pod)

    def seen() -> Any:
        return plane.api.find(f"{PODS}/slow")

    wait_for("running pod", lambda: seen()["status"]["phase"] == "Running", every=0.02)
    begin = time.monotonic()
    assert not ready(seen())
    wait_for("ready pod", lambda: ready(seen()), every=0.02)
    assert 1.5 < time.monotonic() - begin < 6

    plane.api.delete(f"{PODS}/slow")
    begin, phases = time.monotonic(), []
    while pod := seen():
        phases.append((pod["status"]["phase"], "deletionTimestamp" in pod["metadata"]))
    assert 1.5 < time.monotonic() - begin < 6
    assert phases[0] == ("Running", True)
    assert set(phases) <= {("Running", True), ("Failed", True)}


def test_a_service_account_may_do_only_what_rbac_says_and_is_audited(plane: ControlPlane) -> None:
    begin = datetime.now(UTC)
    plane.service_account_kubeconfig("default", "default")
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = plane.api.post(path, request)["status"]["token"]
    who = Api(plane.ports["api"], plane.folder / "pki/ca.crt", token)

    with pytest.raises(ApiError) as refused:
        who.post(MAPS, named("v1", "ConfigMap", "mine"))
    with pytest.raises(ApiError):
        who.post(f"{MAPS}?dryRun=All", named("v1", "ConfigMap", "mine"))

    assert refused.value.status == 403
    user = account("default", "default")
    entries = plane.audit.entries(user=user, since=begin)
    assert [(e.verb, e.resource, e.code, e.dry_run) for e in entries] == [
        ("create", "configmaps", 403, False),
        ("create", "configmaps", 403, True),
    ]
    assert plane.audit.writes(user=user, since=begin) == entries[:1]
    assert plane.audit.entries(user=user, since=datetime.now(UTC)) == []


@pytest.mark.parametrize(("moment", "written"), [(Moment.BEFORE, False), (Moment.AFTER, True)])
def test_the_proxy_drops_a_write_before_or_after_it_happened(
    plane: ControlPlane, moment: Moment, written: bool
) -> None:
    name = f"by-proxy-{moment.name.lower()}"
    with Proxy(plane) as proxy:
        config = proxy.kubeconfig(plane.kubeconfig)
        assert proxy.url in config.read_text()
        through = Api(int(proxy.url.rpartition(":")[2]), plane.folder / "pki/ca.crt", plane.token)
        acted = proxy.at(2, moment, lambda: None)

        through.post(MAPS, named("v1", "ConfigMap", f"{name}-1"))
        through.post(f"{MAPS}?dryRun=All", named("v1", "ConfigMap", name))
        with pytest.raises((http.client.HTTPException, OSError)):
            through.post(MAPS, named("v1", "ConfigMap", name))

        assert acted.is_set()
        assert [write.number for write in proxy.writes] == [1, 2]
        assert (through.find(f"{MAPS}/{name}") is not None) is written


def test_the_proxy_streams_watches(plane: ControlPlane) -> None:
    with Proxy(plane) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        begin = plane.api.get(MAPS)["metadata"]["resourceVersion"]
        through = Api(port, plane.folder / "pki/ca.crt", plane.token)
        with through.stream(f"{MAPS}?watch=1&resourceVersion={begin}") as events:
            plane.api.post(MAPS, named("v1", "ConfigMap", "watched"))
            event = next(events)

    assert event["type"] == "ADDED"
    assert event["object"]["metadata"]["name"] == "watched"


def test_serving_namespaces_are_outside_kueues_webhooks_when_kueue_is_dead(
    queue: ControlPlane,
) -> None:
    queue.kill("kueue", signal.SIGKILL)
    pod = named("v1", "Pod", "server", spec={"containers": [CONTAINER]})

    queue.api.post(PODS.replace("default", "serving"), pod)
    with pytest.raises(ApiError, match="webhook"):
        submit(queue, "nobody-home")
    queue.run("kueue")
    queue.wait_ready("kueue")

    queue.api.delete(f"{PODS.replace('default', 'serving')}/server")
    submit(queue, "again", finish="succeeded")
    wait_for("the job's end", lambda: done(queue, "again"))


def test_the_api_server_and_etcd_come_back_after_a_kill(plane: ControlPlane) -> None:
    for part in ("etcd", "kube-apiserver"):
        plane.kill(part, signal.SIGKILL)
    with pytest.raises(OSError, match="refused"):
        plane.api.get("/version")

    for part in ("etcd", "kube-apiserver"):
        plane.run(part)
        plane.wait_ready(part)

    assert plane.api.get("/api/v1/nodes/node-1")["status"]["allocatable"][GPU] == "1"
