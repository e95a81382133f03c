"""The catalogue and free-form demands on a real Prometheus that scrapes what exporters expose."""

from __future__ import annotations

import pytest

from idlewin.core.load import Level, judge
from idlewin.core.rule import Activity
from idlewin.core.target import Demand
from tests.contract.demand_rules import rule
from tests.contract.prometheus_lab import (
    CARD,
    DOOR,
    MODEL,
    ROUTER,
    VLLM,
    first,
    reader,
    wait_for_value,
    wait_for_why,
)
from tests.labs.kubelab.api import wait_for
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane


def test_a_counter_that_is_born_at_one_is_demand_and_then_none(
    prometheus: Prometheus, live: Exporter
) -> None:
    live.set("traefik_config_last_reload_success", 1)
    metrics = reader(prometheus)
    wait_for_why(metrics, DOOR, "there never was a series with router=qwen3-8b@kubernetes")

    live.set("traefik_router_requests_total", 1, code="503", method="GET", **ROUTER)

    reading = wait_for_value(metrics, DOOR, 1)
    assert reading.visible_at_zero
    assert reading.name == "traefik-router{router=qwen3-8b@kubernetes}"
    wait_for_value(metrics, DOOR, 0)


def test_a_counter_that_rises_is_demand(prometheus: Prometheus, live: Exporter) -> None:
    live.set("traefik_config_last_reload_success", 1)
    live.set("traefik_router_requests_total", 40, code="200", **ROUTER)
    metrics = reader(prometheus)
    wait_for_value(metrics, DOOR, 0)

    live.set("traefik_router_requests_total", 43, code="200", **ROUTER)

    wait_for("demand", lambda: (first(metrics, DOOR).value or 0) > 1)


def test_a_router_that_had_requests_once_is_idle_while_traefik_lives(
    prometheus: Prometheus, live: Exporter
) -> None:
    live.set("traefik_config_last_reload_success", 1)
    live.set("traefik_router_requests_total", 1, code="200", **ROUTER)
    metrics = reader(prometheus)
    wait_for_value(metrics, DOOR, 1)

    live.drop("traefik_router_requests_total", code="200", **ROUTER)

    wait_for_value(metrics, DOOR, 0)
    assert first(metrics, Demand(source="traefik-router", match={"router": "qwen3"})).why == (
        "there never was a series with router=qwen3; there are: qwen3-8b@kubernetes; "
        "set metrics.prometheus.addRoutersLabels=true and allowEmptyServices=true in Traefik"
    )


def test_what_vllm_has_queued_is_demand(prometheus: Prometheus, live: Exporter) -> None:
    """mostlygeek/llama-swap #588: a swap happened with requests in the queue."""
    live.set("vllm:num_requests_running", 0, engine="0", **MODEL)
    live.set("vllm:num_requests_waiting", 9, engine="0", **MODEL)
    live.set("vllm:num_requests_waiting_by_reason", 9, engine="0", reason="capacity", **MODEL)

    reading = wait_for_value(reader(prometheus), VLLM, 9)

    assert judge([reading])[0] is Level.BUSY


def test_llama_server_is_the_sum_of_its_pods(prometheus: Prometheus, live: Exporter) -> None:
    for pod, processing, deferred in (("a", 1, 2), ("b", 0, 4)):
        live.set("llamacpp:requests_processing", processing, namespace="ai", pod=pod)
        live.set("llamacpp:requests_deferred", deferred, namespace="ai", pod=pod)

    wait_for_value(
        reader(prometheus),
        Demand(source="llamacpp-requests", match={"namespace": "ai", "job": "live"}),
        7,
    )


def test_a_card_is_as_busy_as_its_busiest_engine(prometheus: Prometheus, live: Exporter) -> None:
    """NVIDIA/DCGM #199, dcgm-exporter #418: one impossible sample must not decide."""
    live.set("hw_gpu_info", 1, **CARD)
    for task, value in (("compute-all", 0.07), ("media-all", 0.72), ("copy-all", 4294967295)):
        live.set("hw_gpu_utilization_ratio", value, hw_gpu_task=task, **CARD)
    live.set("hw_gpu_utilization_ratio", 0.2, hw_gpu_task="all", **{**CARD, "pci_bdf": "x"})
    activity = Activity(source="intel-xpumd", match={"node": "node-b580"})
    watched = rule(VLLM, activity=activity)
    metrics = reader(prometheus)

    wait_for("activity", lambda: metrics.read(watched)[-1].value == 0.72)

    cards = metrics.read(watched)[-1]
    assert (cards.target, cards.busy_above, cards.visible_at_zero) == ("cards", 0.05, False)


def test_a_card_without_utilisation_is_unknown_and_the_remedy_is_told(
    prometheus: Prometheus, live: Exporter
) -> None:
    """NVIDIA/dcgm-exporter #430, #700: a field that is not there is a fault of configuration."""
    live.set("hw_gpu_info", 1, **CARD)
    wait_for("info", lambda: prometheus.value("hw_gpu_info") == 1)

    cards = reader(prometheus).read(rule(VLLM, activity=Activity(source="intel-xpumd")))[-1]

    assert cards.value is None
    assert "SYS_ADMIN" in cards.why


def test_an_empty_query_is_zero_only_while_its_exporter_is_up(
    prometheus: Prometheus, live: Exporter
) -> None:
    asked = Demand(
        query='sum(my_gateway_waiting{service="qwen"})  # who waits',
        up='max(up{job="live"})',
        visible_at_zero=True,
    )
    metrics = reader(prometheus)

    reading = wait_for_value(metrics, asked, 0)
    assert reading.visible_at_zero
    live.set("my_gateway_waiting", 4, service="qwen")
    wait_for_value(metrics, asked, 4)
    live.silence()
    wait_for_why(metrics, asked, "up is 0, so its exporter is not known to be alive")


def test_a_scalar_and_a_long_query_are_answered(prometheus: Prometheus, live: Exporter) -> None:
    live.set("waiting", 2)
    metrics = reader(prometheus)
    wait_for("sample", lambda: prometheus.value("waiting") == 2)

    assert first(metrics, Demand(query="scalar(waiting) * 2")).value == 4
    assert first(metrics, Demand(query=" + ".join(["sum(waiting)"] * 2000))).value == 4000


def test_a_warning_and_a_mistake_of_the_query_are_told(prometheus: Prometheus) -> None:
    wait_for("up", lambda: prometheus.value("count(up)") == 2)
    metrics = reader(prometheus)

    assert "quantile" in first(metrics, Demand(query="quantile(2, up)")).why
    assert "400 bad_data" in first(metrics, Demand(query="sum(")).why
    assert "gives 2 series" in first(metrics, Demand(query="up")).why
