"""A cluster as its API server lists it, and a Prometheus by its series, for drafts of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from idlewin.adapters.api import ApiError
from idlewin.catalogue import SHIPPED
from idlewin.draft.facts import Seen

Json = dict[str, Any]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
NODES, PODS, SERVICES = "/api/v1/nodes", "/api/v1/pods", "/api/v1/services"
DEPLOYMENTS, STATEFULSETS = "/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets"
HPAS = "/apis/autoscaling/v2/horizontalpodautoscalers"
INGRESSES = "/apis/networking.k8s.io/v1/ingresses"
RULES = "/apis/idlewin.dev/v1alpha1/idlerules"
ISVCS = "/apis/serving.kserve.io/v1beta1/inferenceservices"
SCALED = "/apis/keda.sh/v1alpha1/scaledobjects"
QUEUES, FLAVORS = f"{KUEUE}/clusterqueues", f"{KUEUE}/resourceflavors"
LOCAL_QUEUES, WORKLOADS = f"{KUEUE}/localqueues", f"{KUEUE}/workloads"
_OWNERS = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1"}
HOSTNAME = "kubernetes.io/hostname"


class Listed:
    """An API server by its lists; a path that has none is no kind of it."""

    def __init__(self, lists: Mapping[str, Sequence[Json] | int]) -> None:
        """A number in place of a list: the status by which it is refused."""
        self._lists = dict(lists)

    def pages(self, path: str) -> Iterator[tuple[list[Json], str]]:
        found = self._lists.get(path, 404)
        if isinstance(found, int):
            what = path.rpartition("/")[2]
            refused = f'{what} is forbidden: User "guest" cannot list resource "{what}"'
            raise ApiError(found, refused if found == 403 else f"GET {path}: {found}")
        yield list(found), "1"


def meta(namespace: str, name: str, **more: Any) -> Json:
    return {"namespace": namespace, "name": name, "uid": name, "resourceVersion": "1", **more}


def node(name: str, cards: Mapping[str, int], labels: Mapping[str, str] | None = None) -> Json:
    has = {"cpu": "15800m", "memory": "65400000Ki", **{r: str(n) for r, n in cards.items()}}
    return {
        "metadata": {"name": name, "labels": {HOSTNAME: name, **(labels or {})}},
        "status": {"allocatable": has},
    }


def container(image: str, cards: Mapping[str, int] | None = None, *args: str) -> Json:
    limits = {resource: str(count) for resource, count in (cards or {}).items()}
    return {
        "name": "main",
        "image": image,
        "args": list(args),
        "resources": {"limits": limits, "requests": limits},
        "volumeMounts": [{"name": "device", "mountPath": "/dev/dri"}],
    }


def pod(name: str, owner: str, on: str, spec: Json, **labels: str) -> Json:
    """``name``: with its namespace; ``owner``: kind and name, or nothing."""
    namespace, _, own = name.partition("/")
    kind, _, owned_by = owner.partition(" ")
    more: Json = {"labels": {key.replace("__", "/"): text for key, text in labels.items()}}
    if kind:
        version = _OWNERS.get(kind, "batch/v1")
        named = {"apiVersion": version, "kind": kind, "name": owned_by, "uid": owned_by}
        more["ownerReferences"] = [{**named, "controller": True}]
    placed = {**spec, "nodeName": on} if on else spec
    return {
        "metadata": meta(namespace, own, **more),
        "spec": placed,
        "status": {"phase": "Running" if on else "Pending"},
    }


def deployment(name: str, spec: Json, *, replicas: int = 1, **more: Any) -> Json:
    namespace, _, own = name.partition("/")
    labels = more.pop("pods", {"app": own})
    return {
        "metadata": meta(namespace, own, **more),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def service(name: str, port: int, **selector: str) -> Json:
    namespace, _, own = name.partition("/")
    spec = {"selector": selector, "ports": [{"name": "http", "port": port}]}
    return {"metadata": meta(namespace, own), "spec": spec}


def ingress(name: str, leads_to: str) -> Json:
    namespace, _, own = name.partition("/")
    path = {"backend": {"service": {"name": leads_to, "port": {"number": 80}}}}
    return {"metadata": meta(namespace, own), "spec": {"rules": [{"http": {"paths": [path]}}]}}


def queue(name: str, flavor: str, resource: str, quota: int, rule: str = "") -> Json:
    quotas = [{"name": resource, "nominalQuota": str(quota)}]
    group = {"coveredResources": [resource], "flavors": [{"name": flavor, "resources": quotas}]}
    marks = {"annotations": {"idlewin.dev/rule": rule}} if rule else {}
    return {"metadata": {"name": name, **marks}, "spec": {"resourceGroups": [group]}}


def flavor(name: str, labels: Mapping[str, str]) -> Json:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": dict(labels)}}


def work(queue: str, seconds: int | None, *, contract: bool = False) -> Json:
    """A Workload that has ended, of a LocalQueue of the same name as its ClusterQueue."""
    limit = {} if seconds is None else {"maximumExecutionTimeSeconds": seconds}
    marks = {"annotations": {"idlewin.dev/contract": "Checkpoint"}} if contract else {}
    return {
        "metadata": meta("batch", f"{queue}-work", **marks),
        "spec": {"queueName": queue, "podSets": [], **limit},
        "status": {"conditions": [{"type": "Finished", "status": "True"}]},
    }


def local(queue: str) -> Json:
    return {"metadata": meta("batch", queue), "spec": {"clusterQueue": queue}}


def seen(name: str, *series: Mapping[str, str], **more: Any) -> Seen:
    return Seen(source=SHIPPED.sources[name], alive=True, series=series, **more)


#: What every cluster lists, if it has nothing of it.
BARE: Mapping[str, Sequence[Json] | int] = {
    path: [] for path in (NODES, PODS, SERVICES, DEPLOYMENTS, STATEFULSETS, HPAS, INGRESSES)
}
