"""What the adapter tells of the real control plane, whom it wakes, and what it costs."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from queue import Empty, Queue

import pytest

from idlewin.adapters.kubernetes import KubernetesCluster
from idlewin.core.decision import Decision, Verdict
from idlewin.core.phase import Phase
from idlewin.core.pool import Role, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.status import Status
from idlewin.ports import LookError
from tests.controlplane.deployed import deploy
from tests.controlplane.place import NODE, Place, a_cluster, a_place
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

pytestmark = pytest.mark.controlplane
HPAS = "/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers"


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> Iterator[KubernetesCluster]:
    deploy(plane)
    cluster = a_cluster(plane.service_account_kubeconfig("idlewin-system", "idlewin"))
    yield cluster
    cluster.stop()


@pytest.fixture
def place(plane: ControlPlane, cluster: KubernetesCluster) -> Iterator[Place]:
    with a_place(plane, cluster) as place:
        yield place


# -- looks


def test_a_fresh_look_and_the_watches_tell_the_same(place: Place) -> None:
    place.make_queue()
    place.make_target()
    place.make_job()
    place.until("waiting work", lambda: place.queue().workloads)

    place.until("agreement", lambda: place.look(fresh=True) == place.look(fresh=False))
    pool = place.look()
    assert (pool.allocatable, pool.nodes) == (1, ("node-1",))
    (pod,) = pool.pods
    assert (pod.role, pod.on_cards, pod.running, pod.claims) == (Role.SERVING, True, True, 1)
    assert (pool.queues[0].adopted_by, pool.queues[0].leaks) == (place.name, ())
    assert not pool.targets[0].inside_kueue


def test_a_role_that_may_not_list_autoscalers_is_enough_to_look_and_that_is_told(
    place: Place, plane: ControlPlane
) -> None:
    place.make_target()
    roles = "/apis/rbac.authorization.k8s.io/v1"
    role = plane.api.get(f"{roles}/clusterroles/idlewin")
    rules = [one for one in role["rules"] if "horizontalpodautoscalers" not in one["resources"]]
    assert len(rules) < len(role["rules"])
    plane.api.post(f"{roles}/clusterroles", {"metadata": {"name": "half-blind"}, "rules": rules})
    who = {"kind": "ServiceAccount", "name": "half-blind", "namespace": "idlewin-system"}
    accounts = "/api/v1/namespaces/idlewin-system/serviceaccounts"
    plane.api.post(accounts, {"metadata": {"name": "half-blind"}})
    binding = {
        "metadata": {"name": "half-blind"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "half-blind",
        },
        "subjects": [who],
    }
    plane.api.post(f"{roles}/clusterrolebindings", binding)
    cluster = a_cluster(plane.service_account_kubeconfig("idlewin-system", "half-blind"))
    try:
        seen = cluster.look(place.scope, fresh=True)
    finally:
        cluster.stop()
    assert seen.targets
    (told,) = seen.unseen
    assert "horizontalpodautoscalers" in told
    assert "403" in told


def test_serving_that_opens_the_device_node_is_on_the_cards_without_a_claim(place: Place) -> None:
    place.make_target(claims=0)

    (pod,) = place.look().pods
    assert (place.target().claims, pod.claims, pod.on_cards) == (0, 0, True)


@pytest.mark.parametrize(
    ("marks", "role"), [({"kueue.x-k8s.io/workload": "w"}, Role.BATCH), ({}, Role.OTHER)]
)
def test_a_pod_that_mounts_the_device_node_is_on_the_cards_without_a_claim(
    place: Place, marks: dict[str, str], role: Role
) -> None:
    mount = {"name": "dri", "mountPath": "/dev/dri"}
    spec = {
        "nodeName": "node-1",
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "m", "image": "example/none", "volumeMounts": [mount]}],
        "volumes": [{"name": "dri", "hostPath": {"path": "/dev/dri"}}],
    }
    body = {"metadata": {"name": place.name, "annotations": marks}, "spec": spec}
    place.api.post("/api/v1/namespaces/default/pods", body)
    scope = replace(place.scope, device_nodes=("/dev/dri",))

    (pod,) = place.until("the pod", lambda: place.cluster.look(scope, fresh=False).pods)

    assert (pod.name, pod.role, pod.claims, pod.on_cards) == (place.name, role, 0, True)
    assert not place.look(fresh=True).pods
    place.api.delete(f"/api/v1/namespaces/default/pods/{place.name}")
    place.until("its end", lambda: not place.cluster.look(scope, fresh=False).pods)


def test_a_pod_of_nobodys_is_on_the_cards_as_other(place: Place) -> None:
    container = {"name": "m", "image": "example/none", "resources": {"limits": {GPU: "1"}}}
    body = {"metadata": {"name": place.name}, "spec": {"containers": [container]}}
    place.api.post("/api/v1/namespaces/default/pods", body)

    (pod,) = place.until("the pod", lambda: place.look().pods)
    assert (pod.role, pod.owner) == (Role.OTHER, f"Pod default/{place.name}")
    place.api.delete(f"/api/v1/namespaces/default/pods/{place.name}")
    place.until_free()


def test_a_record_and_an_epoch_are_found_though_the_scope_names_neither(place: Place) -> None:
    place.make_queue()
    place.make_target()
    place.apply(place.to_zero())
    place.apply(place.policy(StopPolicy.HOLD))
    bare = type(place.scope)(
        rule=place.name, targets=(), queues=(), resource=GPU, node_selector=NODE
    )

    pool = place.cluster.look(bare, fresh=True)
    assert [target.ref for target in pool.targets] == [place.ref]
    assert [queue.name for queue in pool.queues] == [place.name]


def test_a_namespace_inside_kueues_webhooks_is_told(place: Place) -> None:
    place.make_target()
    inside = place.cluster._stores.webhooks
    name = inside[0].all()[0]["metadata"]["name"]
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}"
    raw = place.api.get(path)
    hooks = [
        {**hook, "namespaceSelector": {}} if hook["name"] == "mdeployment.kb.io" else hook
        for hook in raw["webhooks"]
    ]
    assert not place.target().inside_kueue

    place.api.patch(path, {"webhooks": hooks})
    place.until("the webhook", lambda: place.target().inside_kueue)
    place.api.patch(path, {"webhooks": raw["webhooks"]})
    place.until("the webhook's end", lambda: not place.target().inside_kueue)


def test_an_autoscaler_of_keda_is_trouble(place: Place) -> None:
    place.make_target()
    aim = {"apiVersion": "apps/v1", "kind": "Deployment", "name": place.name}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    metric["resource"]["target"]["averageUtilization"] = 50
    labels = {"scaledobject.keda.sh/name": "so"}
    spec = {"scaleTargetRef": aim, "minReplicas": 1, "maxReplicas": 2, "metrics": [metric]}
    place.api.post(HPAS, {"metadata": {"name": place.name, "labels": labels}, "spec": spec})

    (trouble,) = place.until("trouble", lambda: place.target().trouble)
    assert "ScaledObject so" in trouble
    place.api.delete(f"{HPAS}/{place.name}")
    place.until("no trouble", lambda: not place.target().trouble)


def test_a_queue_in_a_cohort_with_another_leaks(place: Place, plane: ControlPlane) -> None:
    cohort = f"{place.name}-cohort"
    place.make_queue(cohortName=cohort)
    assert place.queue().leaks == ()
    assert place.look().quota == 1

    with a_place(plane, place.cluster) as other:
        other.make_queue(cohortName=cohort)
        (leak,) = place.until("a leak", lambda: place.queue().leaks)
        assert other.name in leak
        assert place.look().quota == 2
    place.until("no leak", lambda: not place.queue().leaks)


# -- wake-ups


class Woken:
    """Names that were woken."""

    def __init__(self, cluster: KubernetesCluster) -> None:
        self.names: Queue[str] = Queue()
        cluster.subscribe(self.names.put)

    def drain(self, quiet_s: float = 0.5) -> set[str]:
        found = set()
        while True:
            try:
                found.add(self.names.get(timeout=quiet_s))
            except Empty:
                return found

    def waits_for(self, name: str) -> None:
        while self.names.get(timeout=20) != name:
            pass


def test_a_rule_is_woken_by_what_is_in_its_pool_and_by_nothing_else(place: Place) -> None:
    place.make_queue()
    place.make_target()
    place.make_rule()
    woken = Woken(place.cluster)
    woken.drain(2)

    unrelated = {
        "metadata": {"name": f"{place.name}-cpu"},
        "spec": {"containers": [{"name": "m", "image": "x"}]},
    }
    place.api.post("/api/v1/namespaces/default/pods", unrelated)
    assert place.name not in woken.drain()
    for change in (
        lambda: place.edit(place.queue_path, spec={"stopPolicy": "HoldAndDrain"}),
        lambda: place.edit(place.local_path, spec={"stopPolicy": "Hold"}),
        lambda: place.edit(place.target_path, spec={"replicas": 2}),
        lambda: place.edit(place.rule_path, spec={"paused": True}),
        place.make_job,
        lambda: place.edit(
            "/api/v1/nodes/node-1", spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}
        ),
    ):
        change()
        woken.waits_for(place.name)
        woken.drain()
    place.edit("/api/v1/nodes/node-1", spec={"taints": None})
    place.api.delete(f"/api/v1/namespaces/default/pods/{place.name}-cpu")


# -- rehearsals and Events


def test_a_rehearsal_asks_for_everything_and_changes_nothing(place: Place) -> None:
    place.make_queue()
    place.make_target()
    actions = [place.to_zero(), place.policy(StopPolicy.NONE)]

    assert [one.verdict for one in place.cluster.rehearse(actions)] == [Verdict.DONE] * 2
    assert (place.look().targets[0].replicas, place.look().queues[0].epoch) == (1, None)
    place.edit(place.target_path, spec={"replicas": 2})
    refused, taken = place.cluster.rehearse(actions)
    assert "remembered" in refused.message
    assert taken.verdict is Verdict.DONE


def test_a_change_of_phase_is_an_event_on_the_rule(place: Place) -> None:
    place.make_rule()
    at = datetime.now(UTC)
    decision = Decision(
        rule=place.name,
        at=at,
        before=Phase.SERVING,
        after=Phase.YIELDING,
        reason=Reason.WINDOW_OPEN,
        checks=(),
        status=Status(message="Idle for 10m."),
        revisit_at=at,
    )

    place.cluster.announce(decision)
    events = place.api.list("/apis/events.k8s.io/v1/events")
    (event,) = [one for one in events if one["regarding"]["name"] == place.name]
    assert (event["reason"], event["action"], event["type"]) == ("WindowOpen", "Yielding", "Normal")
    assert "Idle for 10m." in event["note"]
    place.cluster.announce(decision)


# -- the cost, and the end


def test_nothing_is_asked_for_while_nothing_happens(place: Place, plane: ControlPlane) -> None:
    place.make_queue()
    place.make_target()
    place.make_rule()
    place.look(fresh=False)
    time.sleep(2)
    since = datetime.now(UTC)

    for _ in range(20):
        place.look(fresh=False)
        place.cluster.rule(place.name)
    time.sleep(5)
    ours = [e for e in plane.audit.entries() if e.agent.startswith("idlewin/") and e.at > since]
    assert any(entry.agent.startswith("idlewin/") for entry in plane.audit.entries())
    assert [entry for entry in ours if entry.verb != "watch"] == []


def test_an_api_server_that_is_away_is_unknown_not_idle(place: Place, plane: ControlPlane) -> None:
    place.make_target()
    plane.kill("kube-apiserver", signal.SIGKILL)
    try:
        with pytest.raises(LookError):
            place.look(fresh=True)
        assert place.apply(place.to_zero()).verdict.value == "Failed"
    finally:
        plane.run("kube-apiserver")
        plane.wait_ready("kube-apiserver")
    wait_for("sight", lambda: not place.cluster.trouble())
    assert place.look(fresh=True).targets
