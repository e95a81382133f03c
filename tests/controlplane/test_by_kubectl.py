"""What docs/operations.md says to do by kubectl alone, done as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
RULE = "/apis/idlewin.dev/v1alpha1/idlerules/b580"
QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
TARGET = "/apis/apps/v1/namespaces/ai/deployments/qwen3-8b"


def blocks(heading: str, kind: str) -> list[str]:
    """The code blocks of one kind in a section of the page."""
    _, _, rest = PAGE.partition(f"\n{heading}\n")
    section = re.split(r"\n## ", rest)[0]
    return re.findall(rf"```{kind}\n(.*?)```", section, flags=re.DOTALL)


class Person:
    """Somebody who has kubectl, and the page."""

    def __init__(self, plane: ControlPlane, kubectl: Path) -> None:
        self.plane, self._kubectl = plane, kubectl

    def does(self, script: str) -> str:
        path = f"{self._kubectl.parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-eu"],
            input=script,
            env={**os.environ, "PATH": path, "KUBECONFIG": str(self.plane.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sees(self, path: str) -> Any:
        return self.plane.api.get(path)


@pytest.fixture(scope="module")
def person(plane: ControlPlane, kubectl: Path) -> Person:
    """The page's own queues, the rule that it speaks of in an open window, and serving at zero."""
    api = plane.api
    api.apply(yaml.safe_load((ROOT / "deploy/base/crd.yaml").read_text()))
    plane.add_namespace("ai")
    plane.add_namespace("batch")
    for thing in yaml.safe_load_all(blocks("## Before you start: Kueue", "yaml")[0]):
        api.apply(thing)
    person = Person(plane, kubectl)
    person.does("kubectl wait --for=condition=Established crd/idlerules.idlewin.dev\n")
    api.apply(yaml.safe_load((ROOT / "rules/b580.yaml").read_text()))
    labels = {"app": "qwen"}
    pod = {"containers": [{"name": "a", "image": "a"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    api.apply({**kind, "metadata": {"name": "qwen3-8b", "namespace": "ai"}, "spec": spec})
    ref = {**kind, "namespace": "ai", "name": "qwen3-8b"}
    window = {"epoch": 1, "targets": [{"ref": ref, "uid": "u", "replicas": 1}]}
    api.patch(f"{RULE}/status", {"status": {"phase": "Harvesting", "window": window}})
    return person


def test_a_rule_is_paused_woken_and_resumed(person: Person) -> None:
    pause, wake, resume = blocks("### By kubectl alone", "sh")[0].splitlines()

    person.does(pause)
    paused = person.sees(RULE)["spec"]["paused"]
    person.does(wake)
    person.does(resume)

    rule = person.sees(RULE)
    assert (paused, rule["spec"]["paused"]) == (True, False)
    assert "idlewin.dev/wake-until" in rule["metadata"]["annotations"]


def test_serving_is_brought_back_by_hand_to_what_it_was(person: Person) -> None:
    told = person.does(blocks("### By kubectl alone", "sh")[1])

    assert "b580-short \nb580-resumable Checkpoint\n" in told
    assert "Deployment ai/qwen3-8b 1\n" in told
    policies = {
        name: person.sees(f"{QUEUES}/{name}")["spec"]["stopPolicy"]
        for name in ("b580-short", "b580-resumable")
    }
    assert policies == {"b580-short": "Hold", "b580-resumable": "HoldAndDrain"}
    assert person.sees(RULE)["spec"]["paused"]
    assert person.sees(TARGET)["spec"]["replicas"] == 1
