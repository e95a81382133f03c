"""The queues and the Jobs of docs/operations.md, on real Kueue: what a newcomer copies works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.adapters import quota
from idlewin.cli.app import main
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
ROOT = Path(__file__).parents[2]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES = ("b580-short", "b580-resumable")
WORKLOADS = f"{KUEUE}/namespaces/batch/workloads"


def documented(kind: str) -> list[dict[str, Any]]:
    page = (ROOT / "docs/operations.md").read_text()
    (block,) = re.findall(rf"```yaml\n(apiVersion: {kind}.*?)```", page, re.DOTALL)
    return list(yaml.safe_load_all(block.replace("<yours>", "example/none")))


def waiting(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    """Workloads by their LocalQueue."""
    return {work["spec"]["queueName"]: work for work in plane.api.list(WORKLOADS)}


def admitted(plane: ControlPlane, queue: str) -> Any:
    return waiting(plane)[queue].get("status", {}).get("admission")


def set_stop(plane: ControlPlane, queue: str, policy: str) -> None:
    plane.api.patch(f"{KUEUE}/clusterqueues/{queue}", {"spec": {"stopPolicy": policy}})


def test_the_documented_jobs_wait_and_share_the_one_card_of_the_documented_queues(
    plane: ControlPlane, capsys: Any
) -> None:
    plane.add_namespace("batch")
    plane.api.apply(yaml.safe_load((ROOT / "deploy/base/crd.yaml").read_text()))
    for thing in documented("kueue"):
        plane.api.apply(thing)
    wait_for("IdleRule", lambda: plane.api.find("/apis/idlewin.dev/v1alpha1/idlerules"))

    for queue in QUEUES:
        set_stop(plane, queue, "Hold")
        with pytest.raises(SystemExit) as end:
            main(["adopt", queue, "--rule", "b580", "--kubeconfig", str(plane.kubeconfig)])
        assert (end.value.code, "it was Hold" in capsys.readouterr().out) == (0, True)
    for job in documented("batch"):
        plane.api.post("/apis/batch/v1/namespaces/batch/jobs", job)
    wait_for("both workloads", lambda: len(waiting(plane)) == 2)

    works = waiting(plane)
    assert works["short"]["spec"]["maximumExecutionTimeSeconds"] == 1800
    assert "maximumExecutionTimeSeconds" not in works["resumable"]["spec"]
    (pods,) = works["resumable"]["spec"]["podSets"]
    marks = pods["template"]["metadata"]["annotations"]
    assert marks["idlewin.dev/contract"] == "Checkpoint"
    assert not any(admitted(plane, queue) for queue in works)

    set_stop(plane, "b580-resumable", "None")
    wait_for("admission", lambda: admitted(plane, "resumable"))
    set_stop(plane, "b580-short", "None")

    def refused() -> bool:
        told = waiting(plane)["short"].get("status", {}).get("conditions", ())
        return any("insufficient" in condition["message"] for condition in told)

    wait_for("no quota for a second card", refused)
    assert not admitted(plane, "short")


def test_the_documented_quota_is_neither_too_large_nor_leaks() -> None:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for thing in documented("kueue"):
        kinds.setdefault(thing["kind"], []).append(thing)
    queues, cohorts = kinds["ClusterQueue"], kinds["Cohort"]
    card, names = "gpu.intel.com/xe", frozenset(QUEUES)

    assert {queue["metadata"]["name"] for queue in queues} == names
    assert quota.reach(queues, queues, cohorts, card) == 1
    assert not [leak for q in queues for leak in quota.leaks(q, names, queues, cohorts, card)]
