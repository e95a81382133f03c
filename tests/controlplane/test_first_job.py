"""The queue and the Job of docs/operations.md, on real Kueue: what a newcomer copies works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.cli.app import main
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
ROOT = Path(__file__).parents[2]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE = f"{KUEUE}/clusterqueues/b580-resumable"
WORKLOADS = f"{KUEUE}/namespaces/batch/workloads"


def documented() -> list[dict[str, Any]]:
    page = (ROOT / "docs/operations.md").read_text()
    (block,) = re.findall(r"```yaml\n(apiVersion: kueue.*?)```", page, re.DOTALL)
    return list(yaml.safe_load_all(block.replace("<yours>", "example/none")))


def test_the_documented_job_waits_in_the_documented_queue_under_its_contract(
    plane: ControlPlane, capsys: Any
) -> None:
    *queues, job = documented()
    plane.add_namespace("batch")
    plane.api.apply(yaml.safe_load((ROOT / "deploy/base/crd.yaml").read_text()))
    for thing in queues:
        plane.api.apply(thing)
    plane.api.patch(QUEUE, {"spec": {"stopPolicy": "Hold"}})
    wait_for("IdleRule", lambda: plane.api.find("/apis/idlewin.dev/v1alpha1/idlerules"))

    adopt = ["adopt", "b580-resumable", "--rule", "b580", "--kubeconfig", str(plane.kubeconfig)]
    with pytest.raises(SystemExit) as end:
        main(adopt)
    plane.api.post("/apis/batch/v1/namespaces/batch/jobs", job)
    (work,) = wait_for("a workload", lambda: plane.api.list(WORKLOADS))

    assert (end.value.code, "it was Hold" in capsys.readouterr().out) == (0, True)
    assert work["spec"]["maximumExecutionTimeSeconds"] == 1800
    (pods,) = work["spec"]["podSets"]
    marks = pods["template"]["metadata"]["annotations"]
    assert marks["idlewin.dev/contract"] == "Checkpoint"
    assert "admission" not in work.get("status", {})

    plane.api.patch(QUEUE, {"spec": {"stopPolicy": "None"}})

    wait_for("admission", lambda: plane.api.list(WORKLOADS)[0]["status"].get("admission"))
