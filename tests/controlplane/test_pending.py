"""A pod of serving that no node has: somebody wants serving, and no metric has to say so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.pools import NO_PROMETHEUS
from tests.controlplane.running import Running
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
#: From the pod's creation to the give-back; a tick of the back-stop would take 15 s.
AT_ONCE_S = 5
Json = dict[str, Any]


@dataclass(kw_only=True)
class Canary:
    """A ReplicaSet whose pod the target's selector matches, as a rollout tool makes one."""

    scene: Scene

    @property
    def path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.scene.namespace}/replicasets/canary"

    def start(self) -> None:
        """One pod, for a node that there is not."""
        labels = {"app": self.scene.name, "track": "canary"}
        pod = {
            "nodeSelector": {"kubernetes.io/hostname": "nowhere"},
            "containers": [{"name": "main", "image": "example/none"}],
        }
        spec = {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "canary"}}
        self.scene.api.post(self.path.rpartition("/")[0], {**body, "spec": spec})
        wait_for("the canary's pod", self.pods, every=0.02)

    def pods(self) -> list[Json]:
        return [p for p in self.scene.serving_pods() if p["metadata"]["name"].startswith("canary")]

    def end(self) -> None:
        self.scene.api.delete(self.path)
        wait_for("the end of the canary's pod", lambda: not self.pods())


@dataclass(kw_only=True)
class Pool:
    scene: Scene
    running: Running
    canary: Canary


@pytest.fixture(scope="module")
def pool(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A rule by the calendar only; its canary waits from before the rule is there."""
    things, folder = deploy(plane), tmp_path_factory.mktemp("pending")
    scene = Scene(plane=plane, demand="CalendarOnly")
    canary = Canary(scene=scene)
    scene.set_up(rule=False)
    canary.start()
    scene.make_rule()
    scene.make_job("train")
    with Running(plane, things, folder, NO_PROMETHEUS) as running:
        yield Pool(scene=scene, running=running, canary=canary)
    scene.clear()


def test_a_pod_of_serving_that_waits_keeps_the_window_shut_while_serving_itself_is_ready(
    pool: Pool,
) -> None:
    scene = pool.scene
    wait_for("the reason", lambda: scene.reason() == "ServingNotReady")

    lines = wait_for("the journal", lambda: pool.running.journal(scene.name))
    seen = {c["name"]: c["observed"] for c in lines[-1]["checks"]}
    assert seen["serving not ready"].startswith("pod serving/canary-")
    assert scene.target_ready()
    assert not pool.canary.pods()[0]["spec"].get("nodeName")


def test_a_pod_of_serving_that_waits_ends_a_window_at_once(pool: Pool) -> None:
    scene = pool.scene
    pool.canary.end()
    scene.wait_phase("Harvesting")
    wait_for("batch", lambda: scene.job_runs("train"))

    start = time.monotonic()
    pool.canary.start()
    status = scene.wait_phase("Reclaiming", "Restoring", "Serving", timeout=AT_ONCE_S)
    took = time.monotonic() - start

    print(f"given back {took:.2f} s after its ReplicaSet was made")
    assert status["window"]["giveBack"] == "ServingRaised"
    assert took < AT_ONCE_S
    scene.wait_phase("Serving")
    scene.wait_ready()
    pool.canary.end()
