"""What people make for one rule on the real control plane, in seconds instead of minutes.

Serving, queues, jobs and the rule itself. How they then look is scene.py's. Every duration is one
that a rule may have: no shorter way through the code is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.controlplane.conftest import SERVING_NAMESPACE
from tests.labs.kubelab.controlplane import GPU, ControlPlane

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RULES = "/apis/idlewin.dev/v1alpha1/idlerules"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
#: A queue of each class, as short as it can be; RESUMABLE's grace is that of its jobs' pods.
RESUMABLE = {"contract": "Checkpoint", "grace": "1s", "minSlice": "1s"}
SHORT = {"maxRuntime": "5s", "grace": "1s"}
Json = dict[str, Any]
_numbers = itertools.count(1)


def demand_of(pool: str) -> Json:
    """A demand that the test's exporter plays: ``demand{pool="..."}``."""
    return {
        "query": f'max(demand{{pool="{pool}"}})',
        "up": 'max(up{job="live"})',
        "visibleAtZero": True,
    }


@dataclass(kw_only=True)
class Setting:
    """The objects of one rule, all under one name; nothing is made before they are asked for."""

    plane: ControlPlane
    name: str = field(default_factory=lambda: f"pool-{next(_numbers)}")
    node: str = "node-1"
    cards: int = 1
    targets: Mapping[str, int] = field(default_factory=dict)
    """Deployments and their replicas; none: one of the scene's name that takes every card."""
    queues: Mapping[str, Json] = field(default_factory=dict)
    """ClusterQueues and their class; none: one for resumable work, of the scene's name."""
    namespace: str = SERVING_NAMESPACE
    ready_after: str = ""
    claims: bool = True
    """Whether a serving pod claims its card from the scheduler."""
    api_version: str = "apps/v1"
    kind: str = "Deployment"
    """The kind of the targets, as the rule names it."""
    demand: Any = None
    """The demand of each target; none: what the exporter plays for this scene."""

    def __post_init__(self) -> None:
        self.api = self.plane.api
        self.targets = dict(self.targets or {self.name: self.cards})
        self.queues = dict(self.queues or {self.name: RESUMABLE})

    # -- what people make

    def make_flavor(self) -> None:
        labels = {"nodeLabels": {"kubernetes.io/hostname": self.node}}
        self._apply("kueue.x-k8s.io/v1beta2", "ResourceFlavor", self.name, spec=labels)

    def make_queues(self) -> None:
        self.make_flavor()
        several = len(self.queues) > 1
        if several:
            cohort = {"resourceGroups": [self._quota(self.cards)]}
            self._apply("kueue.x-k8s.io/v1beta2", "Cohort", self.name, spec=cohort)
        for queue in self.queues:
            self.make_queue(queue)

    def cluster_queue(self, queue: str) -> Json:
        """A ClusterQueue as it stands in Git: without stopPolicy, which is idlewin's."""
        several = len(self.queues) > 1
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [self._quota(0 if several else self.cards)],
            **({"cohortName": self.name} if several else {}),
        }
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
        return {**kind, "metadata": {"name": queue}, "spec": spec}

    def make_queue(self, queue: str) -> None:
        """An adopted ClusterQueue on Hold, with its LocalQueue in ``default``."""
        body = self.cluster_queue(queue)
        body["spec"]["stopPolicy"] = "Hold"
        body["metadata"]["annotations"] = {"idlewin.dev/rule": self.name}
        # Made, not applied: a later apply of the test's would own stopPolicy.
        self.api.post(f"{KUEUE}/clusterqueues", body)
        self.make_local_queue(queue)

    def make_local_queue(self, queue: str) -> None:
        local = {"clusterQueue": queue}
        self._apply("kueue.x-k8s.io/v1beta2", "LocalQueue", queue, namespace="default", spec=local)

    def make_target(self, target: str) -> None:
        self.api.post(self.workload_path("").rstrip("/"), self.deployment(target))

    def deployment(self, target: str) -> Json:
        """A target's Deployment as it stands in Git."""
        labels = {"app": target}
        container = {"name": "main", "image": "example/none"}
        if self.claims:
            container["resources"] = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
        marks = {"kubelab/ready-after": self.ready_after} if self.ready_after else {}
        pod = {
            "nodeSelector": {"kubernetes.io/hostname": self.node},
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
        }
        spec = {
            "replicas": self.targets[target],
            "selector": {"matchLabels": labels},
            "strategy": {"type": "Recreate"},
            "template": {"metadata": {"labels": labels, "annotations": marks}, "spec": pod},
        }
        meta = {"name": target, "namespace": self.namespace}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}

    def spec(self, **changes: Any) -> Json:
        """The rule's spec; ``changes`` are merged into it, as a JSON merge patch is."""
        demand = [demand_of(self.name)] if self.demand is None else self.demand
        spec = {
            "mode": "Act",
            "cards": {
                "resource": GPU,
                "count": self.cards,
                "nodeSelector": {"kubernetes.io/hostname": self.node},
            },
            "serving": [
                {
                    "apiVersion": self.api_version,
                    "kind": self.kind,
                    "namespace": self.namespace,
                    "name": target,
                    "demand": demand,
                    "leadTime": "2s",
                    "readyTimeout": "1m",
                }
                for target in self.targets
            ],
            "batch": {
                "queues": [{"clusterQueue": name, **kind} for name, kind in self.queues.items()],
                "drainTimeout": "10s",
                "dryAfter": "5m",
            },
            "window": {
                "idleFor": "1s",
                "min": "5s",
                "maxPerDay": 1000,
                "minServing": "1s",
                "yieldTimeout": "1m",
            },
            "forecast": {"budget": {"share": "100%"}},
            "staleAfter": "4s",
        }
        return _merged(spec, changes)

    def make_rule(self, **changes: Any) -> Json:
        kind = {"apiVersion": "idlewin.dev/v1alpha1", "kind": "IdleRule"}
        spec = self.spec(**changes)
        made: Json = self.api.post(RULES, {**kind, "metadata": {"name": self.name}, "spec": spec})
        return made

    def make_job(
        self, name: str, *, queue: str = "", contract: bool = True, retries: int = 0, **marks: str
    ) -> Json:
        """A Job for one card; ``finish="succeeded", finish_after="3s"`` has its pod end so."""
        queue = queue or next(iter(self.queues))
        notes = {f"kubelab/{key.replace('_', '-')}": value for key, value in marks.items()}
        if contract:
            notes["idlewin.dev/contract"] = "Checkpoint"
        labels = {"kueue.x-k8s.io/queue-name": queue}
        if bound := self.queues[queue].get("maxRuntime"):
            labels["kueue.x-k8s.io/max-exec-time-seconds"] = str(bound).removesuffix("s")
        card = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example/none", "resources": card}],
        }
        spec = {
            "backoffLimit": retries,
            "template": {"metadata": {"annotations": notes}, "spec": pod},
        }
        body = {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}
        made: Json = self.api.post(JOBS, {**body, "metadata": {"name": name, "labels": labels}})
        return made

    # -- where it is

    def target_path(self, target: str) -> str:
        return self.workload_path(target)

    def workload_path(self, target: str) -> str:
        """The Deployment that has a target's pods."""
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{target}"

    @property
    def rule_path(self) -> str:
        return f"{RULES}/{self.name}"

    def _apply(self, version: str, kind: str, name: str, **rest: Any) -> None:
        meta = {"name": name}
        if "namespace" in rest:
            meta["namespace"] = rest.pop("namespace")
        self.api.apply({"apiVersion": version, "kind": kind, "metadata": meta, **rest})

    def _quota(self, cards: int) -> Json:
        quota = {"name": GPU, "nominalQuota": str(cards)}
        flavors = [{"name": self.name, "resources": [quota]}]
        return {"coveredResources": [GPU], "flavors": flavors}


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(new, Mapping):
        return new
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
