"""The traps of each exporter: what the query does about it, and what would be without that part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from idlewin.core.load import Level, level_of
from tests.contract.lived import Lived

pytestmark = pytest.mark.controlplane
RTX = "nvidia-smi/00000000-0000-0000-0000-000000000000"
H100 = "nvidia-smi/00000000-0000-0000-0000-000000000009"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """A key's value with the query as it ships, and without the part that deals with the trap."""

    what: str
    source: str
    at: tuple[str, str, bool]
    key: str
    right: object
    without: tuple[str, str]
    wrong: object


BLANK = 9223372036854775794
TRAPS = [
    Trap(
        what="a counter born at 1 has no increase",
        source="traefik-router",
        at=("traefik", "born", False),
        key="websecure-ai-qwen@kubernetes",
        right=1,
        without=(
            "traefik_router_requests_total unless traefik_router_requests_total offset $window",
            "traefik_router_requests_total * 0",
        ),
        wrong=0,
    ),
    Trap(
        what="the 503 of a service without a pod is a series of its own, born at 1",
        source="istio-requests",
        at=("istio", "born", False),
        key="ai/qwen",
        right=1,
        without=(" offset $window", ""),
        wrong=0,
    ),
    Trap(
        what="the receiving side counts what the sender counts, too",
        source="istio-requests",
        at=("istio", "asked", False),
        key="ai/qwen",
        right=6,
        without=('{reporter=~"source|waypoint"}', ""),
        wrong=12,
    ),
    Trap(
        what="without honorLabels the namespace is the controller's own",
        source="ingress-nginx",
        at=("nginx", "risen", False),
        key="ai/qwen",
        right=1,
        without=('"exported_namespace"', '"no_such_label"'),
        wrong=None,
    ),
    Trap(
        what="a new status is a series of its own, born at 1",
        source="ingress-nginx",
        at=("nginx", "risen", False),
        key="ai/qwen",
        right=1,
        without=(" offset $window", ""),
        wrong=0,
    ),
    Trap(
        what="a request that finds no endpoint never gets upstream",
        source="envoy-cluster",
        at=("envoy", "empty", False),
        key="httproute/ai/empty/rule/0",
        right=pytest.approx(3, rel=0.5),
        without=(
            "increase(envoy_cluster_upstream_cx_none_healthy[$window])",
            "envoy_cluster_upstream_rq_total * 0",
        ),
        wrong=0,
    ),
    Trap(
        what="a long answer does not end, so no counter shows it",
        source="haproxy-backend",
        at=("haproxy", "held", True),
        key="ai-qwen-http",
        right=2,
        without=("(haproxy_backend_current_sessions)", "(haproxy_backend_sessions_total * 0)"),
        wrong=0,
    ),
    Trap(
        what="a held request is in no counter yet",
        source="keda-http",
        at=("keda", "held", False),
        key="ai/qwen",
        right=1,
        without=(
            "or sum by (route_namespace, route_name) (interceptor_request_concurrency) * 0",
            "",
        ),
        wrong=None,
    ),
    Trap(
        what="a short request falls between two scrapes of the gauge",
        source="keda-http",
        at=("keda", "answered", False),
        key="ai/qwen",
        right=1,
        without=("unless interceptor_request_count_total offset $window", "* 0"),
        wrong=0,
    ),
    Trap(
        what="the waiting ones are counted once more by reason",
        source="vllm-requests",
        at=("vllm.1", "busy", False),
        key="ai/Qwen/Qwen2.5-0.5B-Instruct",
        right=50,
        without=("vllm:num_requests_running|vllm:num_requests_waiting", "vllm:num_requests_.*"),
        wrong=62,
    ),
    Trap(
        what="a request at work is in no queue",
        source="tei-requests",
        at=("tei", "born", False),
        key="ai/tei/tei-0",
        right=1,
        without=("te_request_count unless te_request_count offset $window", "te_request_count * 0"),
        wrong=0,
    ),
    Trap(
        what="nobody playing has no series",
        source="jellyfin-transcodes",
        at=("jellyfin", "nobody", False),
        key="media/jellyfin",
        right=0,
        without=(
            '(jellyfin_scrape_collector_success{collector="playing"} == 1)',
            "(jellyfin_up == 2)",
        ),
        wrong=None,
    ),
    Trap(
        what="sessions that could not be read are not nobody playing",
        source="jellyfin-transcodes",
        at=("jellyfin", "unread", False),
        key="media/jellyfin",
        right=None,
        without=('(jellyfin_scrape_collector_success{collector="playing"} == 1)', "(jellyfin_up)"),
        wrong=0,
    ),
    Trap(
        what="a Jellyfin that is down has an exporter that is up",
        source="jellyfin-transcodes",
        at=("jellyfin", "down", False),
        key="media/jellyfin",
        right=None,
        without=("(jellyfin_up == 1)", "jellyfin_up"),
        wrong=0,
    ),
    Trap(
        what="paused and direct play need no card",
        source="jellyfin-transcodes",
        at=("jellyfin", "playing", False),
        key="media/jellyfin",
        right=1,
        without=('{method="transcode"} == 1', ""),
        wrong=3,
    ),
    Trap(
        what="a transcoding card has idle compute",
        source="nvidia-smi",
        at=("nvidia-smi", "transcoding", True),
        key=RTX,
        right=0.72,
        without=("(gpu|encoder|decoder|jpeg|ofa)", "(gpu)"),
        wrong=0.07,
    ),
    Trap(
        what="the memory controller is no engine, and busiest at rest",
        source="nvidia-smi",
        at=("nvidia-smi", "idle", True),
        key=RTX,
        right=0,
        without=("(gpu|encoder|decoder|jpeg|ofa)", ".+"),
        wrong=0.23,
    ),
    Trap(
        what="a card in MIG mode has an encoder at rest and no utilisation",
        source="nvidia-smi",
        at=("nvidia-smi", "transcoding", True),
        key=H100,
        right=None,
        without=("and on (instance, uuid) (nvidia_smi_utilization_gpu_ratio >= 0 <= 1)", ""),
        wrong=0,
    ),
    Trap(
        what="a transcoding card has idle compute",
        source="nvidia-dcgm",
        at=("dcgm", "transcoding", True),
        key="node-l40s/GPU-604ac76c",
        right=0.71,
        without=("GPU|ENC|DEC", "GPU"),
        wrong=0.04,
    ),
    Trap(
        what="a blank value is the largest of all",
        source="nvidia-dcgm",
        at=("dcgm", "older", True),
        key="node-l40s/GPU-604ac76c",
        right=0.03,
        without=('_UTIL"} >= 0 <= 100', '_UTIL"} >= 0'),
        wrong=BLANK / 100,
    ),
    Trap(
        what="the label was Hostname up to 4.5.3",
        source="nvidia-dcgm",
        at=("dcgm", "older", True),
        key="node-l40s/GPU-604ac76c",
        right=0.03,
        without=('"Hostname"', '"no_such_label"'),
        wrong=None,
    ),
    Trap(
        what="a card in MIG mode has an encoder at rest and a blank utilisation",
        source="nvidia-dcgm",
        at=("dcgm-mig", "mig", True),
        key="node-h100/GPU-mig",
        right=None,
        without=(
            "label_replace(DCGM_FI_DEV_GPU_UTIL >= 0 <= 100",
            "label_replace(DCGM_FI_DEV_GPU_UTIL",
        ),
        wrong=0,
    ),
    Trap(
        what="a sample out of range stands for the whole stretch",
        source="intel-xpumd",
        at=("xpumd", "transcoding", True),
        key="node-b580/0000:03:00.0",
        right=0.6,
        without=(" >= 0 <= 1", ""),
        wrong=4294967295,
    ),
    Trap(
        what="a sample out of range stands for the whole stretch",
        source="intel-xpum",
        at=("xpum", "transcoding", True),
        key="node-flex/0000:4d:00.0",
        right=0.5,
        without=(" >= 0 <= 1", ""),
        wrong=42949672.95,
    ),
    Trap(
        what="the GPU's own ratio is not its busiest engine's",
        source="intel-xpum",
        at=("xpum", "transcoding", True),
        key="node-flex/0000:4d:00.0",
        right=0.5,
        without=("xpum_engine_ratio|xpum_engine_group_ratio", "xpum_engine_ratio"),
        wrong=0.3,
    ),
    Trap(
        what="what cannot be told is 65535",
        source="amd-gpu",
        at=("amd-gpu", "busy", True),
        key="node-mi300/0",
        right=0.87,
        without=('"} >= 0 <= 100', '"} >= 0'),
        wrong=655.35,
    ),
    Trap(
        what="a partition has a video engine at rest and no activity",
        source="amd-gpu",
        at=("amd-gpu", "busy", True),
        key="node-mi300/1",
        right=None,
        without=("label_replace(gpu_gfx_activity >= 0 <= 100", "label_replace(gpu_total_vram"),
        wrong=0,
    ),
    Trap(
        what="Prometheus' own hostname comes first",
        source="amd-gpu",
        at=("amd-gpu", "busy", True),
        key="node-mi300/0",
        right=0.87,
        without=('"exported_hostname"', '"no_such_label"'),
        wrong=None,
    ),
]


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: f"{trap.source}: {trap.what}")
def test_a_part_of_the_query_deals_with(lived: Lived, trap: Trap) -> None:
    sample, scene, later = trap.at
    at = lived.at(sample, scene, later=later)

    assert lived.of_source(trap.source, at).get(trap.key) == trap.right
    assert lived.of_source(trap.source, at, without=trap.without).get(trap.key) == trap.wrong


ROUTER = {"router": "websecure-ai-qwen@kubernetes"}
#: Sample, scene, whether a window later; source, match; what the shipped adapter judges, and why.
READINGS: list[tuple[str, str, bool, str, Mapping[str, str], Level, str]] = [
    ("traefik", "born", False, "traefik-router", ROUTER, Level.BUSY, ""),
    ("traefik", "born", True, "traefik-router", ROUTER, Level.IDLE, ""),
    ("traefik", "restarted", True, "traefik-router", ROUTER, Level.IDLE, ""),
    ("traefik", "gone", False, "traefik-router", ROUTER, Level.UNKNOWN, "failed"),
    ("nginx", "risen", False, "ingress-nginx", {"service": "qwen"}, Level.BUSY, ""),
    ("nginx", "restarted", True, "ingress-nginx", {"service": "qwen"}, Level.IDLE, ""),
    (
        "nginx",
        "restarted",
        True,
        "ingress-nginx",
        {"namespace": "ingress-nginx"},
        Level.UNKNOWN,
        "there never was a series with namespace=ingress-nginx; there are: ai/qwen, ai/whisper",
    ),
    ("haproxy", "held", True, "haproxy-backend", {"proxy": "ai-qwen-http"}, Level.BUSY, ""),
    ("haproxy", "held", True, "haproxy-backend", {"proxy": "ai-empty-http"}, Level.IDLE, ""),
    (
        "haproxy",
        "unconfigured",
        True,
        "haproxy-backend",
        {"proxy": "ai-qwen-http"},
        Level.UNKNOWN,
        "a backend that is not in its configuration",
    ),
    (
        "envoy",
        "without-cluster",
        True,
        "envoy-cluster",
        {"envoy_cluster_name": "httproute/ai/empty/rule/0"},
        Level.UNKNOWN,
        "there take envoy-listener",
    ),
    (
        "envoy",
        "without-cluster",
        False,
        "envoy-listener",
        {"envoy_http_conn_manager_prefix": "http-10080"},
        Level.BUSY,
        "",
    ),
    (
        "istio",
        "restarted",
        True,
        "istio-requests",
        {"destination_service_name": "qwen"},
        Level.IDLE,
        "",
    ),
    (
        "istio",
        "gone",
        False,
        "istio-requests",
        {"destination_service_name": "qwen"},
        Level.UNKNOWN,
        "failed",
    ),
    ("keda", "held", True, "keda-http", {"route_name": "qwen"}, Level.BUSY, ""),
    ("keda", "restarted", False, "keda-http", {"route_name": "qwen"}, Level.IDLE, ""),
    (
        "knative",
        "held",
        False,
        "knative-activator",
        {"kn_revision_name": "qwen-00001"},
        Level.BUSY,
        "",
    ),
    (
        "knative",
        "restarted",
        False,
        "knative-activator",
        {"k8s_namespace_name": "ai"},
        Level.IDLE,
        "",
    ),
    (
        "knative",
        "gone",
        False,
        "knative-activator",
        {"k8s_namespace_name": "ai"},
        Level.UNKNOWN,
        "failed",
    ),
    ("vllm.1", "idle", False, "vllm-requests", {"namespace": "ai"}, Level.IDLE, ""),
    ("vllm.1", "quiet", False, "vllm-requests", {"namespace": "ai"}, Level.UNKNOWN, "failed"),
    ("llamacpp", "quiet", False, "llamacpp-requests", {"pod": "llama-0"}, Level.IDLE, ""),
    (
        "llamacpp",
        "blocked",
        False,
        "llamacpp-requests",
        {"pod": "llama-0"},
        Level.UNKNOWN,
        "which can mean that it is busy",
    ),
    ("jellyfin", "nobody", False, "jellyfin-transcodes", {"job": "jellyfin"}, Level.IDLE, ""),
    ("jellyfin", "playing", False, "jellyfin-transcodes", {"job": "jellyfin"}, Level.BUSY, ""),
    (
        "jellyfin",
        "unread",
        False,
        "jellyfin-transcodes",
        {"job": "jellyfin"},
        Level.UNKNOWN,
        "token",
    ),
    ("jellyfin", "down", False, "jellyfin-transcodes", {"job": "jellyfin"}, Level.UNKNOWN, "token"),
    ("xpumd", "idle", True, "intel-xpumd", {"pci_bdf": "0000:03:00.0"}, Level.IDLE, ""),
    ("xpumd", "transcoding", True, "intel-xpumd", {"node": "node-b580"}, Level.BUSY, ""),
    ("xpumd", "idle", True, "intel-xpumd", {"node": "node-b580"}, Level.UNKNOWN, "SYS_ADMIN"),
    ("dcgm", "older", True, "nvidia-dcgm", {"hostname": "node-l40s"}, Level.IDLE, ""),
    ("dcgm", "transcoding", True, "nvidia-dcgm", {"hostname": "node-l40s"}, Level.BUSY, ""),
    ("dcgm-mig", "mig", True, "nvidia-dcgm", {"hostname": "node-h100"}, Level.UNKNOWN, "MIG"),
    ("nvidia-smi", "idle", True, "nvidia-smi", {"uuid": RTX.split("/")[1]}, Level.IDLE, ""),
    ("nvidia-smi", "idle", True, "nvidia-smi", {"uuid": H100.split("/")[1]}, Level.UNKNOWN, "MIG"),
    ("nvidia-smi", "idle", True, "nvidia-smi", {"instance": "nvidia-smi"}, Level.UNKNOWN, "MIG"),
    ("amd-gpu", "idle", True, "amd-gpu", {"gpu_id": "0"}, Level.IDLE, ""),
    ("amd-gpu", "busy", True, "amd-gpu", {"gpu_id": "1"}, Level.UNKNOWN, "partition"),
]


@pytest.mark.parametrize(
    ("sample", "scene", "later", "source", "match", "level", "why"),
    READINGS,
    ids=[f"{r[3]} {r[1]}{' later' if r[2] else ''} {'/'.join(r[4].values())}" for r in READINGS],
)
def test_the_adapter_judges(
    lived: Lived,
    sample: str,
    scene: str,
    later: bool,
    source: str,
    match: Mapping[str, str],
    level: Level,
    why: str,
) -> None:
    reading = lived.reading(source, match, lived.at(sample, scene, later=later))

    assert level_of(reading) is level, reading.why
    assert why in reading.why
