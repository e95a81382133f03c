"""``idlewin audit`` before a real API server with real Kueue: bare, with each fault, no rights."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.audit.checks import CHECKS, Id
from idlewin.cli.app import main
from tests.controlplane.deployed import deploy
from tests.docs import auditor
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
FAULTS = Path(__file__).parents[1] / "golden/audit/faults"
#: Of no kind that this cluster has; their settings are those of the plugin below.
NOT_HERE = {"GpuDevicePlugin", "HelmRelease"}
#: Of a time that no test waits for, and what only Prometheus tells.
LATER = {Id.NOBODY_MANAGES, Id.ORPHANED_QUOTA, Id.IDLE}
PLUGIN = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "intel-gpu-plugin", "namespace": "media"},
    "spec": {
        "selector": {"matchLabels": {"app": "plugin"}},
        "template": {
            "metadata": {"labels": {"app": "plugin"}},
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "image": "intel/intel-gpu-plugin",
                        "args": ["-shared-dev-num=2", "-resource-manager"],
                    }
                ]
            },
        },
    },
}
Json = dict[str, Any]
Ask = Callable[..., tuple[int, Json]]


@pytest.fixture
def audit(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> Ask:
    def ask(*arguments: object) -> tuple[int, Json]:
        code = 0
        own = () if "--kubeconfig" in arguments else ("--kubeconfig", str(plane.kubeconfig))
        try:
            main(["audit", "-o", "json", *map(str, (*own, *arguments))])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, json.loads(capsys.readouterr().out)

    return ask


@pytest.fixture(scope="module")
def faulty(plane: ControlPlane) -> ControlPlane:
    """The cluster with each fault that a cluster can have at once."""
    deploy(plane)
    for namespace in ("ai", "media", "lab"):
        plane.add_namespace(namespace)
    for thing in (*_faults(), PLUGIN):
        if thing["kind"] == "Node":
            has, meta = thing["status"]["allocatable"], thing["metadata"]
            plane.add_node(meta["name"], has, labels=meta["labels"])
        elif thing["kind"] == "Workload" or thing["metadata"].get("uid"):
            continue  # only the API server gives a uid: these are as it stores them
        elif thing["kind"] not in NOT_HERE:
            plane.api.apply(thing)
    return plane


def _faults() -> Iterator[Json]:
    for file in sorted(FAULTS.glob("*.yaml"), key=lambda path: path.name != "nodes.yaml"):
        for thing in yaml.safe_load_all(file.read_text()):
            yield from thing.get("items", [thing])


def of(found: Json, check: Id) -> list[str]:
    return [one["seen"] for one in found["findings"] if one["id"] == check]


def test_a_bare_cluster_has_no_finding_and_what_it_lacks_is_no_fault(audit: Ask) -> None:
    """The first of this file: nothing is there yet."""
    assert audit() == (0, {"findings": [], "exempted": [], "unseen": {}})


def test_how_long_cards_were_idle_is_asked_of_prometheus_and_without_an_answer_it_ends_with_3(
    plane: ControlPlane, prometheus: Prometheus, audit: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ("--kubeconfig", str(plane.kubeconfig))
    with pytest.raises(SystemExit) as end:
        main(["audit", *own, "--prometheus", "http://127.0.0.1:1"])
    assert end.value.code == 3
    assert "Prometheus" in capsys.readouterr().err

    prometheus.start()

    assert audit("--prometheus", prometheus.url)[0] == 0


def test_each_fault_is_found_once_and_whose_pods_are_where_is_said(
    faulty: ControlPlane,
    audit: Ask,
) -> None:
    there = set(CHECKS) - LATER
    wait_for("pods", lambda: _running(faulty, "ai") >= 2)
    wait_for("all of it", lambda: {one["id"] for one in audit()[1]["findings"]} >= there)

    code, found = audit()

    assert code == 1
    assert Counter(one["id"] for one in found["findings"]) == Counter(there)
    assert all(one["file"] == "" for one in found["findings"])
    assert found["unseen"] == {}
    (shared,) = of(found, Id.SHARED)
    assert shared.startswith("1 card on node-b60, and 2 are asked for: ")
    (bypass,) = of(found, Id.BYPASS)
    assert "1 pod on " in bypass


def _running(plane: ControlPlane, namespace: str) -> int:
    pods = plane.api.list(f"/api/v1/namespaces/{namespace}/pods")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def test_what_an_account_may_not_list_is_said_and_the_documented_role_lists_all(
    faulty: ControlPlane, audit: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    rbac = "rbac.authorization.k8s.io/v1"
    own = {"name": "auditor", "namespace": "lab"}
    faulty.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own})
    limited = faulty.service_account_kubeconfig("lab", "auditor")
    with pytest.raises(SystemExit) as end:
        main(["audit", "--kubeconfig", str(limited)])
    assert end.value.code == 4
    assert "nodes is forbidden" in capsys.readouterr().err
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list"]}]
    meta = {"name": "auditor"}
    faulty.api.apply({"apiVersion": rbac, "kind": "ClusterRole", "metadata": meta, "rules": rules})
    binding = {
        "apiVersion": rbac,
        "kind": "ClusterRoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": rbac.partition("/")[0], "kind": "ClusterRole", "name": "auditor"},
        "subjects": [{"kind": "ServiceAccount", **own}],
    }
    faulty.api.apply(binding)

    def allowed() -> tuple[int, Json] | None:
        try:
            return audit("--kubeconfig", limited)
        except ValueError:
            return None

    answer = wait_for("the authorizer", allowed)
    assert answer is not None
    _, found = answer
    assert "clusterqueues.kueue.x-k8s.io is forbidden" in found["unseen"]["clusterqueues"]
    assert of(found, Id.OVERSUBSCRIBED)
    assert not of(found, Id.QUOTA)

    whole = yaml.safe_load(auditor().strip("`").removeprefix("yaml"))
    faulty.api.apply({**whole, "metadata": meta})

    wait_for("all rights", lambda: audit("--kubeconfig", limited)[1]["unseen"] == {})
