"""Scenes whose serving is stopped by its own controller's switch: KServe's stop, KEDA's pause.

With what one life of them is: the controller of deploy/base, real Prometheus, and the real part.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import RECORD, Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU
from tests.labs.promlab.exporters import Exporter
from tests.labs.servinglab.serving import Part

STOP = "serving.kserve.io/stop"
PAUSED_AT = "autoscaling.keda.sh/paused-replicas"
Json = dict[str, Any]


class Switched(Scene):
    """What both have: marks on the target, and a Deployment below it."""

    def marks(self) -> dict[str, str]:
        """The annotations of the target, ours too."""
        found: dict[str, str] = self.target()["metadata"].get("annotations") or {}
        return found

    def annotate(self, **changes: str | None) -> None:
        """Write annotations as their owner does: ``stop``, ``paused_replicas``, ``record``."""
        names = {"stop": STOP, "paused_replicas": PAUSED_AT, "record": RECORD}
        marks = {names.get(key, key): value for key, value in changes.items()}
        path = self.target_path(next(iter(self.targets)))
        self.api.patch(path, {"metadata": {"annotations": marks}})

    def workload(self) -> Json | None:
        """The Deployment that has the target's pods, if there is one."""
        found: Json | None = self.api.find(self.workload_path(next(iter(self.targets))))
        return found

    def templates(self) -> set[str]:
        """The hashes of the pod templates of its ReplicaSets: a rollout is another one."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/replicasets"
        return {
            one["metadata"]["labels"]["pod-template-hash"]
            for one in self.api.list(path)
            if self.serves(one)
        }

    def target_ready(self, target: str = "") -> bool:
        target = target or next(iter(self.targets))
        raw, wanted = self.api.find(self.workload_path(target)), self.targets[target]
        return bool(
            raw
            and raw["spec"]["replicas"] == wanted
            and raw["status"].get("readyReplicas", 0) == wanted
            and raw["status"].get("observedGeneration") == raw["metadata"]["generation"]
        )

    def forget_status(self) -> None:
        """A status that is lost, as after a restore from a backup."""
        path = f"{self.rule_path}/status"
        self.api.patch(path, {"status": dict.fromkeys(self.status())})


class Inference(Switched):
    """Serving by InferenceServices of KServe."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.api_version, self.kind = "serving.kserve.io/v1beta1", "InferenceService"

    def make_target(self, target: str) -> None:
        card = {"requests": {"cpu": "1", GPU: "1"}, "limits": {"cpu": "1", GPU: "1"}}
        container = {"name": "kserve-container", "image": "example/none", "resources": card}
        predictor = {
            "minReplicas": self.targets[target],
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        body = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": target}}
        collection = self.target_path("").rstrip("/")
        self.api.post(collection, {**body, "spec": {"predictor": predictor}})

    def target_path(self, target: str) -> str:
        base = f"/apis/{self.api_version}/namespaces/{self.namespace}"
        return f"{base}/inferenceservices/{target}"

    def workload_path(self, target: str) -> str:
        return super().workload_path(f"{target}-predictor")

    def serves(self, pod: Json) -> bool:
        app = pod["metadata"].get("labels", {}).get("app", "")
        return app in {f"isvc.{target}-predictor" for target in self.targets}


class Scaled(Switched):
    """Serving by Deployments that ScaledObjects of KEDA scale, on a trigger that is active."""

    least = 1
    trigger = "vector(5)"
    prometheus = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.api_version, self.kind = "keda.sh/v1alpha1", "ScaledObject"

    def make_target(self, target: str) -> None:
        super().make_target(target)
        self.make_scaler(target, target)

    def make_scaler(self, name: str, target: str, **annotations: str) -> None:
        """A ScaledObject for a Deployment; ``annotations`` are those of KEDA."""
        spec = {
            "scaleTargetRef": {"name": target},
            "pollingInterval": 1,
            "minReplicaCount": self.least,
            "maxReplicaCount": 5,
            "triggers": [self.asked()],
        }
        marks = {f"autoscaling.keda.sh/{key}": text for key, text in annotations.items()}
        meta = {"name": name, "annotations": marks}
        body = {"apiVersion": self.api_version, "kind": self.kind, "metadata": meta}
        self.api.post(self.target_path("").rstrip("/"), {**body, "spec": spec})

    def asked(self) -> Json:
        """What KEDA scales it by."""
        asked = {"serverAddress": self.prometheus, "query": self.trigger, "threshold": "10"}
        return {"type": "prometheus", "metadata": asked}

    def target_path(self, target: str) -> str:
        return f"/apis/{self.api_version}/namespaces/{self.namespace}/scaledobjects/{target}"


@dataclass(kw_only=True)
class Life:
    """A scene at work."""

    scene: Switched
    part: Part
    running: Running
    exporter: Exporter
    recorder: Recorder

    def lend(self) -> None:
        """Users leave; returns once the Job runs on the card."""
        self.exporter.set("demand", 0, pool=self.scene.name)
        self.scene.wait_phase("Harvesting")
        wait_for("a running Job", lambda: self.scene.job_runs("train"))

    def users_come(self) -> None:
        self.exporter.set("demand", 1, pool=self.scene.name)

    def give_back(self) -> None:
        """Users come; returns once all is as it was."""
        self.users_come()
        wait_for("serving as it was", self.scene.served)

    def kill_part(self) -> None:
        """End the part's own controller without its leave, which may take long."""
        self.part.plane.kill(self.part.name, signal.SIGKILL)

    def restart_part(self) -> None:
        """Kill the part's own controller, and start it anew."""
        self.kill_part()
        self.part.plane.run(self.part.name)
        self.part.wait_ready()


@contextmanager
def living(part: Part, scene: Switched, promlab: Path, folder: Path, **spec: Any) -> Iterator[Life]:
    """A life of a scene whose part runs already; users are there at first."""
    things = deploy(part.plane)
    with (
        scraped(promlab, folder, history_of([scene.name]), {scene.name: 1}) as (exporter, found),
        Recorder(part.api) as recorder,
    ):
        if isinstance(scene, Scaled):
            scene.prometheus = found.url
        scene.set_up(**spec)
        scene.make_job("train")
        options: dict[str, str | None] = {"no_lease": None}
        with Running(part.plane, things, folder / "controller", found.url, **options) as running:
            scene.wait_phase("Serving")
            yield Life(
                scene=scene, part=part, running=running, exporter=exporter, recorder=recorder
            )
