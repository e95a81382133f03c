"""Others who write what idlewin writes: people, a GitOps tool, an HPA, owners of other kinds.

Each writes under its own field manager, as its tool does; nothing here asserts.
"""

from __future__ import annotations

import contextlib
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from idlewin.cli.app import main
from tests.controlplane.scene import RECORD, Scene
from tests.controlplane.setting import KUEUE
from tests.labs.kubelab.api import Api, ApiError, wait_for

Json = dict[str, Any]
HPAS = "/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: How often the GitOps tool compares, in seconds.
SYNC_S = 0.2


def managers(raw: Json) -> set[str]:
    """Who has written an object."""
    return {entry["manager"] for entry in raw["metadata"]["managedFields"]}


# -- people


def edit(scene: Scene, path: str, patch: Json, who: str = "kubectl-edit") -> None:
    scene.api.patch(f"{path}?fieldManager={who}", patch)


def scale(scene: Scene, replicas: int, target: str = "", who: str = "kubectl-scale") -> None:
    """What ``kubectl scale`` writes; the scene knows it from then on."""
    target = target or next(iter(scene.targets))
    scene.targets[target] = replicas
    edit(scene, f"{scene.target_path(target)}/scale", {"spec": {"replicas": replicas}}, who)


def stop(scene: Scene, policy: str = "HoldAndDrain") -> None:
    """A person stops the queue."""
    edit(scene, f"{KUEUE}/clusterqueues/{scene.name}", {"spec": {"stopPolicy": policy}})


def wake(scene: Scene, seconds: float = 15) -> None:
    """What ``idlewin wake`` writes."""
    until = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()
    edit(scene, scene.rule_path, {"metadata": {"annotations": {"idlewin.dev/wake-until": until}}})


def resume(scene: Scene) -> None:
    """What a person types."""
    with contextlib.suppress(SystemExit):
        main(["resume", scene.name, "--kubeconfig", str(scene.plane.kubeconfig)])


def deploy_anew(scene: Scene) -> None:
    """Another image."""
    containers = scene.target()["spec"]["template"]["spec"]["containers"]
    containers[0]["image"] = "example/newer"
    patch = {"spec": {"template": {"spec": {"containers": containers}}}}
    edit(scene, scene.target_path(scene.name), patch, "kubectl-set")


def prune_record(scene: Scene) -> None:
    """Somebody takes annotations off that are not in Git."""
    patch = {"metadata": {"annotations": {RECORD: None}}}
    edit(scene, scene.target_path(scene.name), patch, "argocd-controller")


def lose_status(scene: Scene) -> None:
    """As a rule comes back from a backup."""
    scene.api.patch(f"{scene.rule_path}/status", {"status": None})


def restore_backup(scene: Scene) -> None:
    """The target is deleted, and made anew as it was in the window: at 0, with our record."""
    raw = scene.target()
    delete_target(scene)
    meta = {"name": scene.name, "annotations": {RECORD: raw["metadata"]["annotations"][RECORD]}}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": raw["spec"]}
    scene.api.post(f"{scene.target_path('').rstrip('/')}?fieldManager=velero-server", body)


def delete_target(scene: Scene) -> None:
    path = scene.target_path(scene.name)
    scene.api.delete(path)
    wait_for(f"end of {scene.name}", lambda: scene.api.find(path) is None)


def hold_pods(scene: Scene, pods: list[Json], *, held: bool = True) -> None:
    """Pods that take their time to go; ``held=False`` lets them."""
    for pod in pods:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        with contextlib.suppress(ApiError):
            finalizers = ["example.org/hold"] if held else None
            scene.api.patch(path, {"metadata": {"finalizers": finalizers}})


# -- controllers


class GitOps:
    """Writes each Deployment of a scene as it is in Git whenever that is not so, until told off."""

    def __init__(self, api: Api, scene: Scene) -> None:
        self._api, self._scene = api, scene
        self._in_git = dict(scene.targets)
        self.writes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sync, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ignore()

    def ignore(self) -> None:
        """The field is taken out of what it compares."""
        self._ended.set()
        self._thread.join(30)

    def _sync(self) -> None:
        while not self._ended.wait(SYNC_S):
            for target, replicas in self._in_git.items():
                with contextlib.suppress(ApiError, OSError):
                    if self._scene.target(target)["spec"]["replicas"] != replicas:
                        path = f"{self._scene.target_path(target)}?fieldManager=argocd-controller"
                        self._api.patch(path, {"spec": {"replicas": replicas}})
                        self.writes += 1


def make_hpa(scene: Scene, minimum: int, **metadata: Any) -> None:
    """An HPA of the scene's target, on a metric that nobody serves."""
    aim = {"apiVersion": "apps/v1", "kind": "Deployment", "name": scene.name}
    metric = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "1"}}
    spec = {
        "scaleTargetRef": aim,
        "minReplicas": minimum,
        "maxReplicas": 2,
        "metrics": [{"type": "External", "external": metric}],
    }
    scene.api.post(HPAS, {"metadata": {"name": scene.name, **metadata}, "spec": spec})


def make_kind(api: Api, group: str, kind: str) -> str:
    """A kind without a controller; where its objects are listed."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": kind, "plural": plural}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [version]}
    api.post(CRDS, {"metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    path = f"/apis/{group}/v1alpha1/namespaces/serving/{plural}"
    wait_for(f"kind {kind}", lambda: api.get(path))
    return path


def make_owner(scene: Scene, path: str, group: str, kind: str) -> Json:
    """An object of such a kind, and the reference of what it controls."""
    version = f"{group}/v1alpha1"
    meta = {"name": scene.name}
    made = scene.api.post(path, {"apiVersion": version, "kind": kind, "metadata": meta})
    uid = made["metadata"]["uid"]
    return {"apiVersion": version, "kind": kind, "name": scene.name, "uid": uid, "controller": True}
