"""What tests on a real Prometheus share: demands, history as text, waiting for a reading."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from idlewin.adapters.clock import SystemClock
from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.core.load import Reading
from idlewin.core.target import Demand
from tests.contract.demand_rules import rule
from tests.labs.kubelab.api import wait_for
from tests.labs.promlab.prometheus import Prometheus

ROUTER = {"router": "qwen3-8b@kubernetes"}
MODEL = {"namespace": "ai", "model_name": "qwen3-8b"}
CARD = {"node": "node-b580", "pci_bdf": "0000:03:00.0"}
DOOR = Demand(source="traefik-router", match=ROUTER)
VLLM = Demand(source="vllm-requests", match=MODEL)
WINDOW = timedelta(seconds=6)


def reader(prometheus: Prometheus) -> PrometheusMetrics:
    return PrometheusMetrics(prometheus.url, SystemClock(), window=WINDOW)


def first(metrics: PrometheusMetrics, demand: Demand, **more: timedelta) -> Reading:
    return metrics.read(rule(demand, **more))[0]


def wait_for_value(metrics: PrometheusMetrics, demand: Demand, value: float) -> Reading:
    seen: list[Reading] = []

    def there() -> bool:
        seen[:] = [first(metrics, demand)]
        return seen[0].value == value

    wait_for(f"{demand} at {value}", there)
    return seen[0]


def wait_for_why(metrics: PrometheusMetrics, demand: Demand, why: str) -> Reading:
    wait_for(f"{demand}: {why}", lambda: why in first(metrics, demand).why)
    return first(metrics, demand)


def open_metrics(series: Mapping[str, list[tuple[float, float]]]) -> str:
    """Samples by series as OpenMetrics text."""
    names = sorted({one.split("{")[0] for one in series})
    text = []
    for name in names:
        text.append(f"# TYPE {name} unknown\n")
        for one, samples in series.items():
            if one.split("{")[0] == name:
                text += [f"{one} {value} {at}\n" for at, value in samples]
    return "".join([*text, "# EOF\n"])
