"""Each source of the catalogue on the exposition of its exporter, by hand-written expectations.

``sources/`` says of each sample where it is from. Prometheus extrapolates what a counter rose by,
so a rise is expected to half and to double; all else exactly.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from idlewin.catalogue import SHIPPED
from idlewin.source import SourceKind
from tests.contract.lived import Lived, samples

pytestmark = pytest.mark.controlplane


def rise(by: float) -> object:
    """About so much."""
    return pytest.approx(by, rel=0.5)


#: Source, sample, scene, whether at once or a window later: each key of this sample, its value.
CASES: list[tuple[str, str, str, bool, Mapping[str, object]]] = [
    ("traefik-router", "traefik", "asked", True, {"websecure-ai-whisper@kubernetes": 0}),
    (
        "traefik-router",
        "traefik",
        "born",
        False,
        {"websecure-ai-whisper@kubernetes": rise(3), "websecure-ai-qwen@kubernetes": 1},
    ),
    (
        "traefik-router",
        "traefik",
        "born",
        True,
        {"websecure-ai-whisper@kubernetes": 0, "websecure-ai-qwen@kubernetes": 0},
    ),
    ("traefik-router", "traefik", "restarted", False, {}),
    ("ingress-nginx", "nginx", "asked", True, {"ai/qwen": 0, "ai/whisper": 0}),
    ("ingress-nginx", "nginx", "risen", False, {"ai/qwen": 1, "ai/whisper": rise(3)}),
    ("ingress-nginx", "nginx", "risen", True, {"ai/qwen": 0, "ai/whisper": 0}),
    ("ingress-nginx", "nginx", "restarted", False, {"ai/whisper": 0}),
    ("haproxy-backend", "haproxy", "asked", True, {"ai-qwen-http": 0, "ai-empty-http": 0}),
    (
        "haproxy-backend",
        "haproxy",
        "held",
        False,
        {"ai-qwen-http": rise(4), "ai-empty-http": rise(3)},
    ),
    ("haproxy-backend", "haproxy", "held", True, {"ai-qwen-http": 2, "ai-empty-http": 0}),
    ("haproxy-backend", "haproxy", "unconfigured", True, {"ai-empty-http": 0}),
    (
        "envoy-cluster",
        "envoy",
        "asked",
        True,
        {"httproute/ai/qwen/rule/0": 0, "httproute/ai/empty/rule/0": 0},
    ),
    (
        "envoy-cluster",
        "envoy",
        "empty",
        False,
        {"httproute/ai/qwen/rule/0": rise(2), "httproute/ai/empty/rule/0": rise(3)},
    ),
    (
        "envoy-cluster",
        "envoy",
        "empty",
        True,
        {"httproute/ai/qwen/rule/0": 1, "httproute/ai/empty/rule/0": 0},
    ),
    ("envoy-cluster", "envoy", "without-cluster", True, {}),
    ("envoy-listener", "envoy", "asked", True, {"http-10080": 0, "admin": 1}),
    ("envoy-listener", "envoy", "empty", False, {"http-10080": rise(5), "admin": rise(2)}),
    ("envoy-listener", "envoy", "without-cluster", True, {"http-10080": 0}),
    ("istio-requests", "istio", "asked", True, {"ai/qwen": 0}),
    ("istio-requests", "istio", "born", False, {"ai/qwen": 1}),
    ("istio-requests", "istio", "born", True, {"ai/qwen": 0}),
    ("istio-requests", "istio", "restarted", False, {}),
    ("keda-http", "keda", "asked", True, {"ai/whisper": 0}),
    ("keda-http", "keda", "held", False, {"ai/whisper": 0, "ai/qwen": 1}),
    ("keda-http", "keda", "held", True, {"ai/whisper": 0, "ai/qwen": 1}),
    ("keda-http", "keda", "answered", False, {"ai/whisper": 0, "ai/qwen": 1}),
    ("keda-http", "keda", "answered", True, {"ai/whisper": 0, "ai/qwen": 0}),
    ("knative-activator", "knative", "asked", False, {"ai/qwen-00001": 0}),
    ("knative-activator", "knative", "held", False, {"ai/qwen-00001": 3}),
    ("knative-activator", "knative", "restarted", False, {}),
    ("vllm-requests", "vllm.1", "idle", False, {"ai/Qwen/Qwen2.5-0.5B-Instruct": 0}),
    ("vllm-requests", "vllm.1", "busy", False, {"ai/Qwen/Qwen2.5-0.5B-Instruct": 50}),
    ("vllm-requests", "vllm.1", "quiet", False, {"ai/Qwen/Qwen2.5-0.5B-Instruct": 0}),
    ("llamacpp-requests", "llamacpp", "idle", False, {"ai/llamacpp/llama-0": 0}),
    ("llamacpp-requests", "llamacpp", "busy", False, {"ai/llamacpp/llama-0": 3}),
    ("llamacpp-requests", "llamacpp", "blocked", False, {}),
    ("ovms-requests", "ovms", "idle", False, {"ai/resnet": 0}),
    ("ovms-requests", "ovms", "busy", False, {"ai/resnet": 3}),
    ("ovms-graphs", "ovms", "idle", False, {"ai/qwen3": 0}),
    ("ovms-graphs", "ovms", "busy", False, {"ai/qwen3": 4}),
    ("tgi-requests", "tgi", "idle", False, {"ai/tgi/tgi-0": 0}),
    ("tgi-requests", "tgi", "busy", False, {"ai/tgi/tgi-0": 5}),
    ("tei-requests", "tei", "idle", True, {"ai/tei/tei-0": 0}),
    ("tei-requests", "tei", "born", False, {"ai/tei/tei-0": 1}),
    ("tei-requests", "tei", "born", True, {"ai/tei/tei-0": 0}),
    ("tei-requests", "tei", "queued", True, {"ai/tei/tei-0": 5}),
    ("triton-requests", "triton", "idle", True, {"ai/resnet50": 0}),
    ("triton-requests", "triton", "ended", False, {"ai/resnet50": rise(4)}),
    ("triton-requests", "triton", "pending", True, {"ai/resnet50": 2}),
    ("jellyfin-transcodes", "jellyfin", "nobody", False, {"media/jellyfin": 0}),
    ("jellyfin-transcodes", "jellyfin", "playing", False, {"media/jellyfin": 1}),
    ("jellyfin-transcodes", "jellyfin", "unread", False, {}),
    ("jellyfin-transcodes", "jellyfin", "down", False, {}),
    ("immich-jobs", "immich", "idle", False, {"media/immich": 0}),
    ("immich-jobs", "immich", "busy", False, {"media/immich": 3}),
    ("intel-xpumd", "xpumd", "idle", True, {"node-b580/0000:03:00.0": 0.01}),
    ("intel-xpumd", "xpumd", "transcoding", True, {"node-b580/0000:03:00.0": 0.6}),
    ("intel-xpum", "xpum", "idle", True, {"node-flex/0000:4d:00.0": 0.02}),
    ("intel-xpum", "xpum", "transcoding", True, {"node-flex/0000:4d:00.0": 0.5}),
    ("nvidia-dcgm", "dcgm", "older", True, {"node-l40s/GPU-604ac76c": 0.03}),
    ("nvidia-dcgm", "dcgm", "transcoding", True, {"node-l40s/GPU-604ac76c": 0.71}),
    (
        "nvidia-smi",
        "nvidia-smi",
        "idle",
        True,
        {"nvidia-smi/00000000-0000-0000-0000-000000000000": 0},
    ),
    (
        "nvidia-smi",
        "nvidia-smi",
        "transcoding",
        True,
        {"nvidia-smi/00000000-0000-0000-0000-000000000000": 0.72},
    ),
    ("amd-drm", "amd-drm", "idle", True, {"amd-drm/card0": 0.05}),
    ("amd-drm", "amd-drm", "busy", True, {"amd-drm/card0": 0.98}),
    ("amd-gpu", "amd-gpu", "idle", True, {"node-mi300/0": 0}),
    ("amd-gpu", "amd-gpu", "busy", True, {"node-mi300/0": 0.87}),
]


@pytest.mark.parametrize(
    ("source", "sample", "scene", "later", "expected"),
    CASES,
    ids=[f"{case[0]} {case[2]}{' later' if case[3] else ''}" for case in CASES],
)
def test_a_source_gives_one_series_for_each_key(
    lived: Lived, source: str, sample: str, scene: str, later: bool, expected: Mapping[str, object]
) -> None:
    assert lived.of_source(source, lived.at(sample, scene, later=later)) == expected


@pytest.mark.parametrize(
    "source",
    [name for name, source in SHIPPED.sources.items() if source.kind is not SourceKind.ACTIVITY],
)
def test_the_past_of_a_source_shows_when_it_was_busy(lived: Lived, source: str) -> None:
    """Its query also stands inside of a subquery, with the values that cannot be told apart."""
    past = lived.past(source)

    assert past.busy
    assert past.covers.start <= past.busy[0].start


def test_each_source_has_cases_and_each_sample_says_where_it_is_from() -> None:
    assert {case[0] for case in CASES} == set(SHIPPED.sources)
    for sample in samples():
        assert {"project", "version", "origin"} <= set(sample.head), sample.name
