"""``idlewin doctor`` before a real API server with real Kueue: bare, installed, and with a rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from idlewin.adapters.api import connect
from idlewin.cli.app import main
from idlewin.errors import DEFINE
from tests.controlplane.deployed import deploy, render
from tests.controlplane.scene import Scene
from tests.controlplane.setting import JOBS
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
ACCOUNT = ("--account", "idlewin-system/idlewin")
Json = dict[str, Any]
Ask = Callable[..., tuple[int, list[Json]]]


@pytest.fixture
def doctor(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(*arguments: str) -> tuple[int, list[Json]]:
        with pytest.raises(SystemExit) as end:
            main(["doctor", "-o", "json", "--kubeconfig", str(plane.kubeconfig), *arguments])
        return int(end.value.code or 0), json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture(scope="module")
def installed(plane: ControlPlane) -> ControlPlane:
    deploy(plane)
    return plane


@pytest.fixture
def scene(installed: ControlPlane) -> Iterator[Scene]:
    scene = Scene(plane=installed, demand="CalendarOnly")
    scene.set_up(mode="Observe")
    yield scene
    scene.clear()


def of(found: list[Json], about: str) -> list[tuple[str, str, str]]:
    return [(f["severity"], f["seen"], f["remedy"]) for f in found if f["about"] == about]


def test_a_cluster_without_idlewin_is_told_what_to_apply(plane: ControlPlane, doctor: Ask) -> None:
    """The first of this file: the definition is not there yet."""
    code, found = doctor()

    assert code == 1
    assert of(found, "CRD") == [("error", "the cluster does not know IdleRule", DEFINE)]
    assert of(found, "Kubernetes")[0][:2] == ("ok", f"API server {version(plane)}")
    assert of(found, "Kueue") == [("ok", "kueue.x-k8s.io/v1beta2", "")]
    assert of(found, "InferenceService") == [("ok", "not in this cluster", "")]


def version(plane: ControlPlane) -> str:
    return str(connect(plane.kubeconfig).get("/version")["gitVersion"])


def test_an_installed_one_has_all_that_it_needs_and_no_rule(
    installed: ControlPlane,  # noqa: ARG001 - it is there
    doctor: Ask,
) -> None:
    code, found = doctor(*ACCOUNT)

    assert code == 0
    user = "system:serviceaccount:idlewin-system:idlewin"
    assert of(found, "permissions") == [("ok", f"{user} may do all of it", "")]
    assert of(found, "CRD")[0][0] == "ok"
    assert of(found, "rules")[0][:2] == ("warning", "there is none")
    assert of(found, "Prometheus")[0][0] == "unknown"


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("kueue.x-k8s.io", "clusterqueues", "patch"),
        ("", "pods/eviction", "create"),
        ("idlewin.dev", "idlerules/status", "patch"),
    ],
)
def test_a_verb_that_was_taken_out_of_the_role_is_named(
    installed: ControlPlane, doctor: Ask, group: str, resource: str, verb: str
) -> None:
    for role in (t for t in render() if t["kind"] == "ClusterRole"):
        for rule in role["rules"]:
            if rule["apiGroups"] == [group] and resource in rule["resources"]:
                rule["verbs"] = [one for one in rule["verbs"] if one != verb]
        rules = [rule for rule in role["rules"] if rule["verbs"]]
        installed.api.patch(f"{ROLES}/{role['metadata']['name']}", {"rules": rules})
    try:
        wait_for("the authorizer", lambda: of(doctor(*ACCOUNT)[1], "permissions")[0][0] == "error")
        code, found = doctor(*ACCOUNT)
    finally:
        deploy(installed)

    assert code == 1
    assert any(f"may not {verb} {resource}" in seen for _, seen, _ in of(found, "permissions"))


def test_a_rule_that_agrees_with_its_cluster_is_ok(scene: Scene, doctor: Ask) -> None:
    code, found = doctor()

    assert of(found, f"rule {scene.name}") == [("ok", "agrees with its cluster", "")]
    assert code == 0


def test_who_owns_the_stop_policy_too_is_named_with_what_to_do(scene: Scene, doctor: Ask) -> None:
    queue = next(iter(scene.queues))
    path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}"
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
    applied = {**kind, "metadata": {"name": queue}, "spec": {"stopPolicy": "HoldAndDrain"}}
    how = "fieldManager=argocd&force=true"
    scene.api.request("PATCH", f"{path}?{how}", applied, "application/apply-patch+yaml")

    (told,) = of(doctor()[1], f"rule {scene.name}")

    assert told[0] == "warning"
    assert f"argocd has stopPolicy of ClusterQueue {queue}, " in told[1]


def test_a_queue_that_is_not_adopted_keeps_windows_shut(scene: Scene, doctor: Ask) -> None:
    queue = next(iter(scene.queues))
    path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{queue}"
    scene.api.patch(path, {"metadata": {"annotations": {"idlewin.dev/rule": None}}})

    code, found = doctor()

    assert code == 1
    told = of(found, f"rule {scene.name}")
    assert any(one[0] == "error" and "adopt" in f"{one[1]} {one[2]}" for one in told)


CONFIG = "/api/v1/namespaces/kueue-system/configmaps"


def test_kueues_own_configuration_and_version_are_read_where_it_runs(
    installed: ControlPlane, doctor: Ask
) -> None:
    api = installed.api
    assert of(doctor()[1], "waitForPodsReady")[0][0] == "unknown", "the lab runs it from a file"
    text = "waitForPodsReady: {timeout: 20s, blockAdmission: true}"
    meta = {"name": "kueue-manager-config", "namespace": "kueue-system"}
    data = {"controller_manager_config.yaml": text}
    api.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data})
    labels = {"control-plane": "controller-manager"}
    container = {"name": "manager", "image": "registry.k8s.io/kueue/kueue:v0.18.3"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    meta = {"name": "kueue-controller-manager", "namespace": "kueue-system"}
    # The lab's Kueue is no Deployment; in a cluster one tells its version.
    api.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})
    try:
        code, found = doctor()
        api.patch(f"{CONFIG}/kueue-manager-config", {"data": {next(iter(data)): "kind: X"}})
        off = doctor()[1]
    finally:
        api.delete(f"{CONFIG}/kueue-manager-config")

    assert of(found, "Kueue's version") == [("ok", "image kueue:v0.18.3", "")]
    told = of(found, "waitForPodsReady")
    assert [one[0] for one in told] == ["warning", "warning"]
    assert [one[1].split()[0] for one in told] == ["timeout", "with"], told
    assert code == 0
    assert of(off, "waitForPodsReady") == [("ok", "it is off", "")]


def test_batch_that_would_preempt_serving_is_an_error_and_of_equal_priority_none(
    scene: Scene, doctor: Ask
) -> None:
    about = f"priorities of {scene.name}"
    assert of(doctor()[1], about)[0][0] == "ok"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    scene.api.post(classes, {"metadata": {"name": "urgent"}, "value": 1000})
    pod = {
        "priorityClassName": "urgent",
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "example/none"}],
    }
    labels = {"kueue.x-k8s.io/queue-name": next(iter(scene.queues))}
    job = {"metadata": {"name": "urgent", "labels": labels}, "spec": {"template": {"spec": pod}}}
    scene.api.post(JOBS, job)
    wait_for("its Workload", lambda: of(doctor()[1], about)[0][0] == "error")
    try:
        code, found = doctor()
    finally:
        scene.api.delete(f"{classes}/urgent")

    ((_, seen, remedy),) = of(found, about)
    assert code == 1
    assert f"would take the card from Deployment {scene.namespace}/{scene.name} (0)" in seen
    assert remedy.startswith("give serving a PriorityClass of no less")


def test_the_text_has_a_line_for_each_and_what_to_do_below(
    scene: Scene,  # noqa: ARG001 - its rule is looked at
    plane: ControlPlane,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["doctor", "--kubeconfig", str(plane.kubeconfig)])

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("ok       Kubernetes: API server v")
    assert "         -> add --prometheus http://HOST:9090" in lines
