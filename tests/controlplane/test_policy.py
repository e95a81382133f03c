"""deploy/policy on the real API server: whole windows as ever, and every other write is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from idlewin.adapters.api import Api, ApiError, connect
from tests.controlplane.deployed import BASE, deploy, render
from tests.controlplane.pools import NO_PROMETHEUS
from tests.controlplane.running import Running
from tests.controlplane.scene import PODS, Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
POLICY = BASE.parent / "policy"
ADMISSION = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def life(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Scene, Running]]:
    """A rule by the calendar only, with serving, a Job, and the policy in force."""
    things, folder = deploy(plane), tmp_path_factory.mktemp("policy")
    for thing in render(POLICY):
        plane.api.apply(thing)
    scene = Scene(plane=plane, demand="CalendarOnly")
    scene.set_up(window={"minServing": "2s"})
    scene.make_job("train")
    with Running(plane, things, folder, NO_PROMETHEUS) as running:
        yield scene, running
    scene.clear()
    for thing in render(POLICY):
        kind = f"{thing['kind'].lower()}s".replace("policys", "policies")
        plane.api.delete(f"{ADMISSION.rpartition('/')[0]}/{kind}/{thing['metadata']['name']}")


@pytest.fixture(scope="module")
def account(life: tuple[Scene, Running], plane: ControlPlane) -> Api:
    """The API as the controller's account has it, once the policy is in force for it."""
    api = connect(plane.service_account_kubeconfig("idlewin-system", "idlewin"))
    path = life[0].rule_path
    wait_for("the policy", lambda: "refused" in told(api, path, {"spec": {"paused": True}}))
    return api


def told(api: Api, path: str, patch: Json) -> str:
    """What the API server says to a write; by dry run, so that nothing is left of it."""
    try:
        api.rehearsing().merge(path, patch)
    except ApiError as error:
        return f"refused: {error.status} {error.message}"
    return "done"


def test_a_window_opens_and_is_given_back_under_the_policy(
    life: tuple[Scene, Running],
    account: Api,  # noqa: ARG001 - the policy is in force
) -> None:
    scene, running = life
    scene.wait_phase("Harvesting")
    wait_for("batch", lambda: scene.job_runs("train"))

    scene.api.patch(scene.rule_path, {"spec": {"paused": True}})
    scene.wait_phase("Serving")
    wait_for("all as it was", scene.served)

    verdicts = {
        outcome["verdict"] for line in running.journal(scene.name) for outcome in line["outcomes"]
    }
    assert "Refused" not in verdicts


def a_pod(name: str) -> Json:
    spec = {"containers": [{"name": "main", "image": "example/none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("what", "patch", "says"),
    [
        ("queue", {"spec": {"cohortName": "theirs"}}, "idlewin writes stopPolicy in the spec of"),
        ("queue", {"spec": {"namespaceSelector": None}}, "idlewin writes stopPolicy in the spec"),
        ("queue", {"metadata": {"labels": {"a": "b"}}}, "no labels"),
        ("queue", {"metadata": {"finalizers": ["x.example/y"]}}, "finalizers of its own rules"),
        ("queue", {"metadata": {"annotations": {"argocd/sync": "no"}}}, "its own annotations"),
        (
            "local",
            {"spec": {"fairSharing": {"weight": "2"}}},
            "idlewin writes stopPolicy in the spec",
        ),
        ("target", {"spec": {"minReadySeconds": 5}}, "idlewin writes replicas in the spec of"),
        (
            "target",
            {"spec": {"template": {"spec": {"hostNetwork": True}}}},
            "idlewin writes replicas in the spec of deployments",
        ),
        ("rule", {"spec": {"mode": "Observe"}}, "idlewin writes nothing in the spec of idlerules"),
    ],
)
def test_whatever_idlewin_does_not_write_is_refused(
    life: tuple[Scene, Running], account: Api, what: str, patch: Json, says: str
) -> None:
    said = told(account, path_of(life[0], what), patch)

    assert said.startswith("refused: 422")
    assert says in said


@pytest.mark.parametrize(
    ("what", "patch"),
    [
        ("queue", {"spec": {"stopPolicy": "HoldAndDrain"}}),
        ("queue", {"metadata": {"annotations": {"idlewin.dev/epoch": "7"}}}),
        ("local", {"spec": {"stopPolicy": "Hold"}}),
        ("target", {"spec": {"replicas": 0}}),
        ("target", {"metadata": {"annotations": {"idlewin.dev/record": "{}"}}}),
        ("rule", {"metadata": {"finalizers": ["idlewin.dev/serving"]}}),
    ],
)
def test_what_idlewin_writes_is_taken(
    life: tuple[Scene, Running], account: Api, what: str, patch: Json
) -> None:
    assert told(account, path_of(life[0], what), patch) == "done"


def path_of(scene: Scene, what: str) -> str:
    queue = next(iter(scene.queues))
    kueue = "/apis/kueue.x-k8s.io/v1beta2"
    return {
        "queue": f"{kueue}/clusterqueues/{queue}",
        "local": f"{kueue}/namespaces/default/localqueues/{queue}",
        "target": scene.target_path(next(iter(scene.targets))),
        "rule": scene.rule_path,
    }[what]


def test_work_is_put_to_sleep_and_nothing_else_of_it_is_written(
    life: tuple[Scene, Running], account: Api
) -> None:
    found = life[0].api.list(WORKLOADS)
    path = f"{WORKLOADS}/{found[0]['metadata']['name']}"

    assert told(account, path, {"spec": {"active": False}}) == "done"
    assert "idlewin writes active in the spec" in told(account, path, {"spec": {"priority": 9}})


def test_a_pod_that_is_neither_batch_nor_serving_is_not_deleted(
    life: tuple[Scene, Running], account: Api
) -> None:
    scene = life[0]
    scene.api.post(PODS, a_pod("somebody"))
    batch = a_pod("batch")
    batch["metadata"]["labels"] = {"kueue.x-k8s.io/podset": "main"}
    scene.api.post(PODS, batch)

    with pytest.raises(ApiError, match="idlewin deletes pods of batch that Kueue let in"):
        account.rehearsing().delete(f"{PODS}/somebody", {})
    account.rehearsing().delete(f"{PODS}/batch", {})
    for name in ("somebody", "batch"):
        scene.api.delete(f"{PODS}/{name}")


def test_others_write_as_they_did(life: tuple[Scene, Running], account: Api) -> None:  # noqa: ARG001
    scene = life[0]

    scene.api.patch(path_of(scene, "queue"), {"metadata": {"labels": {"team": "a"}}})
    scene.api.patch(path_of(scene, "queue"), {"metadata": {"labels": {"team": None}}})


def test_the_accounts_of_the_policy_are_those_of_the_base() -> None:
    text = Path(POLICY / "writes.yaml").read_text()

    for thing in render():
        if thing["kind"] == "ServiceAccount":
            meta = thing["metadata"]
            assert text.count(f":{meta['namespace']}:{meta['name']}'") == 2
