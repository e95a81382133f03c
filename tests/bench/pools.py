"""Fifty pools on the real control plane: each with its node, queue, serving, demand and rule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.promlab.exporters import Exporter

KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RULES = "/apis/idlewin.dev/v1alpha1/idlerules"
SERVING = "serving"
USERS = "users"
Json = dict[str, Any]


class Kind(StrEnum):
    """What a pool is up to all the while."""

    BUSY = "users are there"
    IDLE = "idle, no work waits"
    OBSERVE = "idle, work waits, Observe"
    LENT = "in an open window"


@dataclass(frozen=True, slots=True)
class PoolOf:
    """One pool: its name is that of its node, queue, Deployment, Job and rule."""

    name: str
    kind: Kind

    @property
    def queue_path(self) -> str:
        return f"{KUEUE}/clusterqueues/{self.name}"

    @property
    def rule_path(self) -> str:
        return f"{RULES}/{self.name}"


def pools(busy: int, idle: int, observe: int, lent: int) -> list[PoolOf]:
    """So many of each kind."""
    kinds = [Kind.BUSY] * busy + [Kind.IDLE] * idle + [Kind.OBSERVE] * observe + [Kind.LENT] * lent
    return [PoolOf(f"pool-{number:02}", kind) for number, kind in enumerate(kinds)]


def history(pools: list[PoolOf], now: int, days: int = 14) -> str:
    """Two weeks of users, there ten hours a day, and not around this time of the day."""
    day, every = 86400, 240
    lines = [f"# TYPE {USERS} gauge"]
    for pool in pools:
        if pool.kind is not Kind.LENT:
            for at in range(now - days * day, now - 600, every):
                there = 6 * 3600 <= (at - now) % day < 16 * 3600
                lines.append(f'{USERS}{{pool="{pool.name}"}} {int(there)} {at}')
    return "\n".join([*lines, "# EOF", ""])


def demand(pools: list[PoolOf], exporter: Exporter) -> None:
    """What the exporter says from now on."""
    for pool in pools:
        exporter.set(USERS, int(pool.kind is Kind.BUSY), pool=pool.name)


def furnish(plane: ControlPlane, pools: list[PoolOf]) -> None:
    """Make all of it but the rules, and wait until serving is ready."""
    for pool in pools:
        plane.add_node(pool.name, {GPU: "1"})
        for path, thing in _queue(pool.name):
            plane.api.post(path, thing)
        plane.api.post(f"/apis/apps/v1/namespaces/{SERVING}/deployments", _deployment(pool.name))
        if pool.kind in (Kind.OBSERVE, Kind.LENT):
            plane.api.post("/apis/batch/v1/namespaces/default/jobs", _job(pool.name))
    wait_for("ready serving", lambda: _ready(plane) == len(pools), timeout=120, every=0.5)


def rules(plane: ControlPlane, pools: list[PoolOf]) -> None:
    """Make the rules."""
    for pool in pools:
        plane.api.post(RULES, _rule(pool))


def spare_queue(plane: ControlPlane, name: str) -> str:
    """The path of a queue that no rule has: to be written to for comparison."""
    for path, thing in _queue(name):
        thing["metadata"].pop("annotations", None)
        plane.api.post(path, thing)
    return f"{KUEUE}/clusterqueues/{name}"


def _ready(plane: ControlPlane) -> int:
    found = plane.api.list(f"/apis/apps/v1/namespaces/{SERVING}/deployments")
    return sum(one.get("status", {}).get("readyReplicas", 0) for one in found)


def _rule(pool: PoolOf) -> Json:
    query = {
        "query": f'max({USERS}{{pool="{pool.name}"}})',
        "up": 'max(up{job="live"})',
        "visibleAtZero": True,
    }
    serving = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": SERVING,
        "name": pool.name,
        "demand": "CalendarOnly" if pool.kind is Kind.LENT else [query],
        "leadTime": "10s",
    }
    queue = {"clusterQueue": pool.name, "contract": "Checkpoint", "grace": "2s", "minSlice": "1s"}
    spec = {
        "mode": "Observe" if pool.kind is Kind.OBSERVE else "Act",
        "cards": {
            "resource": GPU,
            "count": 1,
            "nodeSelector": {"kubernetes.io/hostname": pool.name},
        },
        "serving": [serving],
        "batch": {"queues": [queue], "drainTimeout": "1m"},
        "window": {"idleFor": "10s", "min": "5m", "max": "12h", "minServing": "1s"},
    }
    return {**_named("idlewin.dev/v1alpha1", "IdleRule", pool.name), "spec": spec}


def _queue(name: str) -> list[tuple[str, Json]]:
    version = "kueue.x-k8s.io/v1beta2"
    flavor = _named(version, "ResourceFlavor", name)
    flavor["spec"] = {"nodeLabels": {"kubernetes.io/hostname": name}}
    queue = _named(version, "ClusterQueue", name)
    queue["metadata"]["annotations"] = {"idlewin.dev/rule": name}
    quota = {"name": name, "resources": [{"name": GPU, "nominalQuota": "1"}]}
    queue["spec"] = {
        "namespaceSelector": {},
        "stopPolicy": "Hold",
        "resourceGroups": [{"coveredResources": [GPU], "flavors": [quota]}],
    }
    local = _named(version, "LocalQueue", name)
    local["spec"] = {"clusterQueue": name}
    return [
        (f"{KUEUE}/resourceflavors", flavor),
        (f"{KUEUE}/clusterqueues", queue),
        (f"{KUEUE}/namespaces/default/localqueues", local),
    ]


def _deployment(name: str) -> Json:
    thing = _named("apps/v1", "Deployment", name)
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": name},
            "containers": [_container()],
        },
    }
    thing["spec"] = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": template,
    }
    return thing


def _job(name: str) -> Json:
    thing = _named("batch/v1", "Job", name)
    thing["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": name}
    template = {
        "metadata": {"annotations": {"idlewin.dev/contract": "Checkpoint"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "containers": [_container()],
        },
    }
    thing["spec"] = {"backoffLimit": 0, "suspend": True, "template": template}
    return thing


def _container() -> Json:
    cards = {GPU: "1"}
    return {
        "name": "main",
        "image": "example/none",
        "resources": {"requests": cards, "limits": cards},
    }


def _named(version: str, kind: str, name: str) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
