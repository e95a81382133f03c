"""Whole clusters of which rules are drafted: a homelab, one box of eight cards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from idlewin.adapters.inventory import inventory
from idlewin.draft.facts import Facts, Seen
from tests.golden import cluster as c

XE, NVIDIA = "gpu.intel.com/xe", "nvidia.com/gpu"
PREDICTOR = {"serving.kserve.io/inferenceservice": "qwen3-8b", "app": "isvc.qwen3-8b-predictor"}
Json = dict[str, Any]

SWAP = {"containers": [c.container("ghcr.io/mostlygeek/llama-swap:intel", {XE: 1})]}
JELLYFIN = {
    "containers": [c.container("jellyfin/jellyfin:10.11")],
    "volumes": [{"name": "device", "hostPath": {"path": "/dev/dri"}}],
}
PLUGIN = {**JELLYFIN, "containers": [c.container("intel/intel-gpu-plugin")]}
VLLM = {"containers": [c.container("kserve/huggingfaceserver", {XE: 1}, "--model_name=qwen3-8b")]}


def homelab() -> Facts:
    """Two Arc cards: llama-swap and Jellyfin on the one, a predictor of KServe on the other."""
    facts = inventory(c.Listed({**c.BARE, **_nodes_and_serving(), **_queues()}))
    return replace(facts, sources=tuple(_prometheus()))


def _nodes_and_serving() -> dict[str, list[Json]]:
    owner = {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService"}
    made_by = [{**owner, "name": "qwen3-8b", "uid": "qwen3-8b", "controller": True}]
    plain = c.meta("ai", "qwen3-8b")
    isvc = {
        "metadata": plain,
        "spec": {"predictor": {"model": {"resources": {"limits": {XE: "1"}}}}},
        "status": {"conditions": [{"type": t, "status": "True"} for t in ("Ready", "Stopped")]},
    }
    return {
        c.NODES: [
            c.node("node-b580", {XE: 1, "gpu.intel.com/xe_monitoring": 1}),
            c.node("node-b60", {XE: 1}),
            c.node("node-plain", {}),
        ],
        c.PODS: [
            c.pod("ai/llama-swap-6f9c-x2x4z", "ReplicaSet a", "node-b580", SWAP, app="llama-swap"),
            c.pod("media/jellyfin-7-abcde", "ReplicaSet b", "node-b580", JELLYFIN, app="jellyfin"),
            c.pod("ai/qwen3-8b-predictor-5d-abcde", "ReplicaSet c", "node-b60", VLLM, **PREDICTOR),
            c.pod("kube-system/gpu-plugin-1", "DaemonSet gpu-plugin", "node-b580", PLUGIN),
        ],
        c.DEPLOYMENTS: [
            c.deployment("ai/llama-swap", SWAP),
            c.deployment("media/jellyfin", JELLYFIN),
            c.deployment("ai/qwen3-8b-predictor", VLLM, pods=PREDICTOR, ownerReferences=made_by),
        ],
        c.ISVCS: [isvc],
        c.SERVICES: [
            c.service("ai/swap", 8080, app="llama-swap"),
            c.service("media/jellyfin", 8096, app="jellyfin"),
            c.service("ai/qwen3-8b-predictor", 80, app="isvc.qwen3-8b-predictor"),
        ],
        c.INGRESSES: [c.ingress("ai/llm", "swap")],
    }


def _queues() -> dict[str, list[Json]]:
    return {
        c.QUEUES: [c.queue("b580-short", "b580", XE, 1), c.queue("elsewhere", "plain", "cpu", 1)],
        c.FLAVORS: [c.flavor("b580", {c.HOSTNAME: "node-b580"})],
        c.LOCAL_QUEUES: [c.local("b580-short")],
        c.WORKLOADS: [c.work("b580-short", 1800)],
    }


def _prometheus() -> Iterator[Seen]:
    yield c.seen(
        "traefik-router",
        {"router": "websecure-ai-llm-llm-example-com@kubernetes"},
        {"router": "websecure-media-films-films-example-com@kubernetes"},
    )
    yield c.seen("keda-http", {"route_namespace": "ai", "route_name": "qwen3-8b-predictor"})
    yield c.seen(
        "vllm-requests",
        {"namespace": "ai", "model_name": "qwen3-8b", "pod": "qwen3-8b-predictor-5d-abcde"},
    )
    yield c.seen("jellyfin-transcodes", {"namespace": "media", "job": "jellyfin-exporter"})
    yield c.seen(
        "intel-xpumd",
        {"node": "node-b580", "pci_bdf": "0000:03:00.0"},
        {"node": "node-b60", "pci_bdf": "0000:04:00.0"},
        doubts={("node-b60", "0000:04:00.0"): "it has no utilisation; run xpumd as uid 0"},
    )


def box() -> Facts:
    """Eight cards in one box: a server on six of them, a Job of Kueue, a bare pod."""
    server = {"containers": [c.container("vllm/vllm-openai", {NVIDIA: 3}, "serve", "org/big")]}
    one = {"containers": [c.container("train", {NVIDIA: 1})]}
    managed = {"kueue.x-k8s.io__managed": "true"}
    lists = {
        **c.BARE,
        c.NODES: [c.node("box-1", {NVIDIA: 8}, {"nvidia.com/gpu.replicas": "1"})],
        c.PODS: [
            c.pod("llm/big-7-aaaaa", "ReplicaSet r", "box-1", server, app="big"),
            c.pod("llm/big-7-bbbbb", "ReplicaSet r", "box-1", server, app="big"),
            c.pod("lab/train-x", "Job train", "box-1", one, **managed),
            c.pod("lab/shell", "", "box-1", one),
        ],
        c.DEPLOYMENTS: [
            c.deployment("llm/big", server, replicas=2),
            c.deployment("llm/old", server, replicas=0),
        ],
        c.HPAS: 403,
        c.SERVICES: 403,
    }
    sources = (
        c.seen("nvidia-dcgm", *({"Hostname": "box-1", "UUID": f"GPU-{n}"} for n in range(8))),
        c.seen("envoy-listener", {"envoy_http_conn_manager_prefix": "http-10080"}),
        c.seen("vllm-requests", {"namespace": "llm", "model_name": "big", "pod": "big-7-aaaaa"}),
    )
    return replace(inventory(c.Listed(lists)), sources=sources)
