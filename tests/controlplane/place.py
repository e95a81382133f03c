"""One rule's place on the real control plane: its queue, its serving, its jobs, and our adapter."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from idlewin.adapters.api import connect
from idlewin.adapters.clock import SystemClock
from idlewin.adapters.kubernetes import KubernetesCluster
from idlewin.adapters.reflector import Timing
from idlewin.core.decision import Action, Outcome, ScaleToZero, SetStopPolicy
from idlewin.core.pool import Pool, Queue, Role, Scope, StopPolicy, Target
from idlewin.core.target import Ref
from tests.controlplane.conftest import SERVING_NAMESPACE
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RULES = "/apis/idlewin.dev/v1alpha1/idlerules"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODE = {"kubernetes.io/hostname": "node-1"}
Json = dict[str, Any]
T = TypeVar("T")
_numbers = itertools.count(1)


def a_cluster(kubeconfig: Path, **timing: timedelta) -> KubernetesCluster:
    """Our adapter, watching; not stopped here."""
    cluster = KubernetesCluster(
        connect(kubeconfig), SystemClock(), instance="test", timing=Timing(**timing)
    )
    cluster.start()
    assert cluster.wait_synced(timedelta(seconds=30)), cluster.trouble()
    return cluster


class Place:
    """A rule with one queue and one Deployment, made under names of its own."""

    def __init__(self, plane: ControlPlane, cluster: KubernetesCluster) -> None:
        self.plane, self.api, self.cluster = plane, plane.api, cluster
        self.name = f"p{next(_numbers)}"
        self.ref = Ref(
            api_version="apps/v1", kind="Deployment", namespace=SERVING_NAMESPACE, name=self.name
        )
        self.queue_path = f"{KUEUE}/clusterqueues/{self.name}"
        self.local_path = f"{KUEUE}/namespaces/default/localqueues/{self.name}"
        self.target_path = f"/apis/apps/v1/namespaces/{SERVING_NAMESPACE}/deployments/{self.name}"
        self.rule_path = f"{RULES}/{self.name}"

    # what people set up

    def make_rule(self, **metadata: Any) -> Json:
        demand = [{"query": "up", "up": "up", "visibleAtZero": True}]
        serving = {**_ref(self.ref), "demand": demand}
        spec = {
            "cards": {"resource": GPU, "count": 1, "nodeSelector": NODE},
            "serving": [serving],
            "batch": {"queues": [{"clusterQueue": self.name, "maxRuntime": "30m"}]},
        }
        body = {"apiVersion": "idlewin.dev/v1alpha1", "kind": "IdleRule", "spec": spec}
        made: Json = self.api.post(RULES, {**body, "metadata": {"name": self.name, **metadata}})
        self.until("the rule", lambda: self.cluster.rule(self.name))
        return made

    def make_queue(self, policy: str = "Hold", *, adopted: bool = True, **spec: Any) -> None:
        meta = {"annotations": {"idlewin.dev/rule": self.name} if adopted else {}}
        quota = {"name": GPU, "nominalQuota": "1"}
        group = {"coveredResources": [GPU], "flavors": [{"name": "plain", "resources": [quota]}]}
        version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
        flavor = {**version, "kind": "ResourceFlavor", "metadata": {"name": "plain"}}
        self.api.apply(flavor)
        self.api.post(
            f"{KUEUE}/clusterqueues",
            {
                **version,
                "kind": "ClusterQueue",
                "metadata": {"name": self.name, **meta},
                "spec": {
                    "namespaceSelector": {},
                    "stopPolicy": policy,
                    "resourceGroups": [group],
                    **spec,
                },
            },
        )
        self.api.post(
            f"{KUEUE}/namespaces/default/localqueues",
            {
                **version,
                "kind": "LocalQueue",
                "metadata": {"name": self.name},
                "spec": {"clusterQueue": self.name},
            },
        )
        self.until("the queue", lambda: self.queue().local_queues)

    def make_target(self, replicas: int = 1, *, claims: int = 1, kind: str = "Deployment") -> None:
        self.ref = Ref(
            api_version="apps/v1", kind=kind, namespace=SERVING_NAMESPACE, name=self.name
        )
        plural = f"{kind.lower()}s"
        paths = f"/apis/apps/v1/namespaces/{SERVING_NAMESPACE}/{plural}"
        self.target_path = f"{paths}/{self.name}"
        cards = {"limits": {GPU: str(claims)}, "requests": {GPU: str(claims)}} if claims else {}
        container = {"name": "main", "image": "example/none", "resources": cards}
        labels = {"app": self.name}
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeSelector": NODE, "containers": [container]},
            },
        }
        if kind == "StatefulSet":
            spec["serviceName"] = self.name
        self.api.post(
            paths,
            {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": self.name}, "spec": spec},
        )
        self.until("ready serving", lambda: self.target().ready == replicas)

    def make_job(self, name: str = "", **labels: str) -> str:
        name = name or f"{self.name}-job"
        cards = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
        container = {"name": "main", "image": "example/none", "resources": cards}
        mark = {"annotations": {"idlewin.dev/contract": "Checkpoint"}}
        template = {
            "metadata": mark,
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "containers": [container],
            },
        }
        queue = {"kueue.x-k8s.io/queue-name": self.name}
        meta = {"name": name, "labels": {**queue, **labels}}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
        self.api.post(JOBS, {**body, "spec": {"backoffLimit": 0, "template": template}})
        return name

    def edit(self, path: str, **patch: Any) -> Json:
        """What a person does by kubectl."""
        edited: Json = self.api.patch(f"{path}?fieldManager=kubectl", patch)
        return edited

    # what our adapter sees and does

    @property
    def scope(self) -> Scope:
        return Scope(
            rule=self.name,
            targets=(self.ref,),
            queues=(self.name,),
            resource=GPU,
            node_selector=NODE,
        )

    def look(self, *, fresh: bool = True) -> Pool:
        return self.cluster.look(self.scope, fresh=fresh)

    def queue(self) -> Queue:
        found = self.look(fresh=False).queue(self.name)
        assert found is not None
        return found

    def target(self) -> Target:
        found = self.look(fresh=False).target(self.ref)
        assert found is not None
        return found

    def apply(self, action: Action) -> Outcome:
        return self.cluster.apply(action)

    def to_zero(self, epoch: int = 1) -> ScaleToZero:
        seen = self.target()
        return ScaleToZero(
            self.ref, seen.uid, seen.replicas, seen.resource_version, self.name, epoch
        )

    def policy(self, policy: StopPolicy, epoch: int = 1) -> SetStopPolicy:
        return SetStopPolicy(self.name, self.queue().uid, policy, epoch, self.name)

    def until(self, what: str, check: Callable[[], T]) -> T:
        def seen() -> T | None:
            with contextlib.suppress(AssertionError):
                return check()
            return None

        return wait_for(what, seen, timeout=30, every=0.05)

    def until_free(self) -> None:
        self.until("free cards", lambda: not self.look(fresh=False).pods)

    def until_batch(self) -> None:
        self.until("batch", lambda: self.look(fresh=False).on_cards(Role.BATCH))

    def clear(self) -> None:
        """Take all of it away, and wait until the card is free."""
        jobs = [job["metadata"]["name"] for job in self.api.list(JOBS)]
        for path in (
            *(f"{JOBS}/{name}" for name in jobs),
            self.target_path,
            self.local_path,
            self.queue_path,
            self.rule_path,
        ):
            with contextlib.suppress(ApiError):
                self.api.patch(path, {"metadata": {"finalizers": None}})
            with contextlib.suppress(ApiError):
                self.api.delete(path)
        self.until_free()


def _ref(ref: Ref) -> Json:
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "namespace": ref.namespace,
        "name": ref.name,
    }


@contextlib.contextmanager
def a_place(plane: ControlPlane, cluster: KubernetesCluster) -> Iterator[Place]:
    """A place that is cleared away afterwards."""
    place = Place(plane, cluster)
    try:
        yield place
    finally:
        place.clear()
