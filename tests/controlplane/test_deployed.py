"""The base can be applied as it is, and its account may do what it must and no more."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.deployed import Controller, Thing, deploy, render, the
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
PLANE = {"with_kueue": False}


@pytest.fixture(scope="module")
def things(plane: ControlPlane) -> list[Thing]:
    return deploy(plane)


def may(plane: ControlPlane, user: str, **attributes: Any) -> bool:
    """What the API server's authorizer says."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    return plane.api.post(path, review)["status"]["allowed"]


def test_the_account_may_write_what_a_handover_writes(
    plane: ControlPlane, things: list[Thing], tmp_path: Path
) -> None:
    user = Controller(plane, things, tmp_path).user

    for group, resource, subresource, verb in [
        ("idlewin.dev", "idlerules", "status", "patch"),
        ("kueue.x-k8s.io", "clusterqueues", "", "patch"),
        ("apps", "deployments", "", "patch"),
        ("", "pods", "eviction", "create"),
        ("events.k8s.io", "events", "", "create"),
    ]:
        asked = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
        assert may(plane, user, **asked, namespace="ai"), asked
    leases = {"group": "coordination.k8s.io", "resource": "leases", "verb": "update"}
    assert may(plane, user, **leases, namespace="idlewin-system")
    assert not may(plane, user, **leases, namespace="kube-system")


def test_the_account_may_destroy_nothing_but_pods(
    plane: ControlPlane, things: list[Thing], tmp_path: Path
) -> None:
    user = Controller(plane, things, tmp_path).user
    kinds = [
        ("idlewin.dev", "idlerules"),
        ("kueue.x-k8s.io", "clusterqueues"),
        ("kueue.x-k8s.io", "workloads"),
        ("apps", "deployments"),
        ("batch", "jobs"),
        ("", "secrets"),
        ("", "nodes"),
    ]

    for (group, resource), verb in itertools.product(kinds, ["delete", "update", "create"]):
        assert not may(plane, user, group=group, resource=resource, verb=verb), (resource, verb)
    assert may(plane, user, group="", resource="pods", verb="delete")


def test_the_child_process_is_what_the_manifest_says(
    plane: ControlPlane, things: list[Thing], tmp_path: Path
) -> None:
    container = the(render(), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    controller = Controller(
        plane, things, tmp_path, options={"--prometheus": "http://127.0.0.1:1", "--dry-run": None}
    )

    said = controller.command
    assert said[:3] == [*container["command"], "run", "--sources"]
    assert said[-3:] == ["--prometheus", "http://127.0.0.1:1", "--dry-run"]
    assert controller.environment["POD_NAMESPACE"] == "idlewin-system"
    assert controller.environment["IDLEWIN_PROMETHEUS"].startswith("http://prometheus-operated")
    assert plane.token not in controller.kubeconfig.read_text()
