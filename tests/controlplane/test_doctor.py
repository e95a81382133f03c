"""``idlewin doctor`` before a real API server with real Kueue: bare, installed, and with a rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from idlewin.adapters.api import connect
from idlewin.cli.app import main
from tests.controlplane.deployed import deploy, render
from tests.controlplane.scene import Scene
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
    assert of(found, "CRD") == [
        ("error", "the cluster does not know IdleRule", "kubectl apply -k deploy/base")
    ]
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
