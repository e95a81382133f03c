"""The real cluster under test: API server, Kueue and KWOK, looked at through our adapter."""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from idlewin.adapters.kubernetes import KubernetesCluster
from idlewin.core.decision import Action, Outcome
from idlewin.core.pool import Pool, Scope, StopPolicy, Workload
from idlewin.core.target import Ref
from tests.contract.kueue.cluster import Cluster, PodsReady, RefusedError
from tests.controlplane.conftest import SERVING_NAMESPACE
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
CORE = "/api/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
NODES = [f"node-{number}" for number in range(1, 41)]
FIRST = "serving-first"
CARD = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
Json = dict[str, Any]
T = TypeVar("T")
_numbers = itertools.count()


class Real(Cluster):
    """A node with one card that nobody else has had; all of it under names of one test's own."""

    simulated = False

    def __init__(self, plane: ControlPlane, cluster: KubernetesCluster) -> None:
        self.plane, self.api, self.cluster = plane, plane.api, cluster
        number = next(_numbers)
        self.prefix, self.node = f"f{number}", NODES[number]
        self._queues: list[str] = []
        self._targets: list[Ref] = []
        self._made: list[str] = []
        self.make("resourceflavors", "ResourceFlavor", "", {"nodeLabels": self._selector})

    @property
    def _selector(self) -> Json:
        return {"kubernetes.io/hostname": self.node}

    # -- what people do

    def make_cohort(self, name: str, cards: int) -> None:
        self.make("cohorts", "Cohort", name, {"resourceGroups": [self._quota(cards)]})

    def make_queue(
        self,
        name: str,
        cards: int = 1,
        *,
        cohort: str = "",
        lends: int | None = None,
        policy: StopPolicy = StopPolicy.NONE,
        local_queues: int = 1,
    ) -> None:
        spec = {
            "namespaceSelector": {},
            "stopPolicy": policy.value,
            "resourceGroups": [self._quota(cards, lends)],
            **({"cohortName": self.named(cohort)} if cohort else {}),
        }
        self.make("clusterqueues", "ClusterQueue", name, spec)
        for number in range(local_queues):
            local = {"clusterQueue": self.named(name)}
            path = "namespaces/default/localqueues"
            self.make(path, "LocalQueue", f"{name}-{number}", local)
        self._queues.append(self.named(name))
        self.until(f"queue {name}", lambda: self._seen(name, local_queues))

    def _seen(self, name: str, local_queues: int) -> bool:
        found = self.look().queue(self.named(name))
        return found is not None and len(found.local_queues) == local_queues

    def lend(self, queue: str, cards: int) -> None:
        path = self.of_queue(queue)
        raw = self.api.get(path)
        raw["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = str(cards)
        self.api.patch(path, {"spec": {"resourceGroups": raw["spec"]["resourceGroups"]}})

    def set_policy(self, queue: str, policy: StopPolicy) -> None:
        self._patch(self.of_queue(queue), stopPolicy=policy.value)

    def set_local(self, queue: str, policy: StopPolicy, number: int = 0) -> None:
        path = f"{KUEUE}/namespaces/default/localqueues/{self.named(queue)}-{number}"
        self._patch(path, stopPolicy=policy.value)

    def submit(
        self,
        job: str,
        queue: str,
        *,
        number: int = 0,
        grace: int = 1,
        limit: int | None = None,
        fragile: bool = False,
    ) -> None:
        labels = {"kueue.x-k8s.io/queue-name": f"{self.named(queue)}-{number}"}
        if limit is not None:
            labels["kueue.x-k8s.io/max-exec-time-seconds"] = str(limit)
        notes = {"kubelab/terminate-after": f"{grace}s", "idlewin.dev/contract": "Checkpoint"}
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "main", "image": "example/none", "resources": CARD}],
        }
        template = {"metadata": {"annotations": notes}, "spec": pod}
        meta = {"name": self.named(job), "labels": labels}
        spec: Json = {"backoffLimit": 0, "template": template}
        if not fragile:
            rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
            spec["podFailurePolicy"] = {"rules": [rule]}
        body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}
        with _refused():
            self.api.post(JOBS, body)

    def activate(self, job: str, *, active: bool) -> None:
        self._patch(self.of_work(job), active=active)

    def finish(self, job: str) -> None:
        (pod,) = self.pods(job)
        notes = {"annotations": {"kubelab/finish": "succeeded"}}
        self.api.patch(f"{CORE}/pods/{pod.name}", {"metadata": notes})

    def serve(
        self, name: str, replicas: int, *, first: bool = False, covered: bool = False
    ) -> None:
        space = "default" if covered else SERVING_NAMESPACE
        labels = {"app": self.named(name)}
        pod = {
            "nodeSelector": self._selector,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example/none", "resources": CARD}],
            **({"priorityClassName": FIRST} if first else {}),
        }
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }
        ref = Ref(api_version="apps/v1", kind="Deployment", namespace=space, name=self.named(name))
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": ref.name}}
        self.api.post(self._path(ref).rpartition("/")[0], {**body, "spec": spec})
        self._made.append(self._path(ref))
        self._targets.append(ref)
        self.until(f"serving {name}", lambda: self.look().target(ref))

    def scale(self, name: str, replicas: int) -> None:
        self._patch(f"{self._path(self.target(name).ref)}/scale", replicas=replicas)

    def restart(self, name: str) -> None:
        ref = self.target(name).ref
        pods = [pod for pod in self.look().pods if pod.owner == str(ref)]
        self.api.delete(f"/api/v1/namespaces/{ref.namespace}/pods/{pods[0].name}")

    def kueue_down(self) -> None:
        self.plane.kill("kueue", signal.SIGKILL)

    def kueue_up(self) -> None:
        self.plane.run("kueue")
        self.plane.wait_ready("kueue")

    def wait_for_pods(self, ready: PodsReady | None) -> None:
        wanted: Json = {}
        if ready:
            again = {"backoffBaseSeconds": ready.base, "backoffLimitCount": ready.limit}
            wanted["waitForPodsReady"] = {
                "timeout": f"{ready.timeout}s",
                "blockAdmission": ready.block,
                "requeuingStrategy": {"timestamp": "Eviction", **again},
            }
        if wanted != self.plane.kueue_options:
            self.plane.configure_kueue(wanted)

    # -- what idlewin sees and does

    def look(self) -> Pool:
        return self.cluster.look(
            Scope(
                rule=self.rule,
                targets=tuple(self._targets),
                queues=tuple(self._queues),
                resource=GPU,
                node_selector=self._selector,
            )
        )

    def apply(self, action: Action) -> Outcome:
        return self.cluster.apply(action)

    def rehearse(self, action: Action) -> str:
        return "".join(refused.message for refused in self.cluster.rehearse([action]))

    def passed_over(self, job: str) -> bool:
        reserved = self.condition(job, "QuotaReserved")
        return reserved is not None and reserved["status"] == "False"

    def cause(self, job: str) -> str:
        evicted = self.condition(job, "Evicted")
        return str(evicted["reason"]) if evicted and evicted["status"] == "True" else ""

    # -- what only the real one has

    def make(self, plural: str, kind: str, name: str, spec: Json) -> str:
        """Any object of Kueue's, gone after the test; its path."""
        meta: Json = {"name": self.named(name)}
        if kind == "ClusterQueue":
            meta["annotations"] = {"idlewin.dev/rule": self.rule}
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta}
        self.api.post(f"{KUEUE}/{plural}?fieldManager=kubectl", {**body, "spec": spec})
        path = f"{KUEUE}/{plural}/{self.named(name)}"
        self._made.append(path)
        return path

    def of_queue(self, name: str) -> str:
        """The path of a ClusterQueue."""
        return f"{KUEUE}/clusterqueues/{self.named(name)}"

    def of_work(self, job: str) -> str:
        """The path of a job's Workload. Raises LookupError."""
        work = self.work(job)
        if work is None:
            raise LookupError(job)
        return f"{KUEUE}/namespaces/default/workloads/{work.name}"

    def condition(self, job: str, kind: str) -> Json | None:
        """A condition of its Workload."""
        work = self.work(job)
        if work is None:
            return None
        raw = self.api.get(self.of_work(job))
        found = (raw.get("status") or {}).get("conditions") or ()
        return next((one for one in found if one["type"] == kind), None)

    # -- time and names

    def until(self, what: str, check: Callable[[], T]) -> T:
        return wait_for(what, check, timeout=60, every=0.05)

    def wait(self, length: timedelta) -> None:
        time.sleep(length.total_seconds())

    def named(self, name: str) -> str:
        return f"{self.prefix}-{name}" if name else self.prefix

    def is_of(self, work: Workload, job: str) -> bool:
        return work.name.startswith(f"job-{self.named(job)}-")

    # -- the end

    def clear(self) -> None:
        """Take all of it away; nobody else uses the node, so nothing is waited for."""
        for job in self.api.list(JOBS):
            if job["metadata"]["name"].startswith(f"{self.prefix}-"):
                self.api.delete(f"{JOBS}/{job['metadata']['name']}")
        for path in self._made[::-1]:
            with contextlib.suppress(ApiError):
                self.api.delete(path)

    # -- parts

    def _quota(self, cards: int, lends: int | None = None) -> Json:
        quota = {"name": GPU, "nominalQuota": str(cards)}
        if lends is not None:
            quota["lendingLimit"] = str(lends)
        flavors = [{"name": self.prefix, "resources": [quota]}]
        return {"coveredResources": [GPU], "flavors": flavors}

    def _patch(self, path: str, **spec: Any) -> None:
        with _refused():
            self.api.patch(f"{path}?fieldManager=kubectl", {"spec": spec})

    def _path(self, ref: Ref) -> str:
        return f"/apis/apps/v1/namespaces/{ref.namespace}/deployments/{ref.name}"


@contextlib.contextmanager
def _refused():
    try:
        yield
    except ApiError as error:
        if "webhook" not in str(error):
            raise
        raise RefusedError from error
