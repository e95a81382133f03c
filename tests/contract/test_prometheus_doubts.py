"""What a real Prometheus shows and nobody should believe: unknown, with the reason."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

from idlewin.core.load import Level, judge
from idlewin.core.target import Demand
from tests.contract.prometheus_lab import (
    DOOR,
    MODEL,
    ROUTER,
    VLLM,
    first,
    open_metrics,
    reader,
    wait_for_value,
    wait_for_why,
)
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane


def test_a_series_that_is_gone_is_unknown_not_zero(prometheus: Prometheus, live: Exporter) -> None:
    """kedacore/keda #3065, #1850, #2244, #965: an empty answer counted as 0 at peak time."""
    live.set("vllm:num_requests_running", 0, **MODEL)
    metrics = reader(prometheus)
    wait_for_value(metrics, VLLM, 0)

    live.drop("vllm:num_requests_running", **MODEL)

    reading = wait_for_why(metrics, VLLM, "no present value")
    assert judge([reading])[0] is Level.UNKNOWN


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -3, 4294967295])
def test_an_impossible_sample_is_unknown(
    prometheus: Prometheus, live: Exporter, value: float
) -> None:
    """kedacore/keda #7880: negative values were turned into others in silence."""
    live.set("vllm:num_requests_running", value, **MODEL)

    wait_for_why(reader(prometheus), VLLM, "which cannot be")


def test_a_dead_exporter_is_unknown_never_zero(prometheus: Prometheus, live: Exporter) -> None:
    llama = Demand(source="llamacpp-requests", match={"namespace": "ai"})
    live.set("traefik_config_last_reload_success", 1)
    live.set("traefik_router_requests_total", 1, code="200", **ROUTER)
    live.set("llamacpp:requests_processing", 0, namespace="ai", pod="a")
    metrics = reader(prometheus)
    wait_for_value(metrics, llama, 0)
    wait_for_value(metrics, DOOR, 0)

    live.silence()

    wait_for_why(metrics, llama, "which can mean that it is busy")
    wait_for_why(metrics, DOOR, "failed")


def test_a_sum_with_one_member_missing_is_unknown_unless_it_is_demand_anyway(
    prometheus: Prometheus, live: Exporter, twin: Exporter
) -> None:
    """koordinator-sh/koordinator #1906, #2118: what had no sample dropped out of a sum."""
    live.set("vllm:num_requests_running", 0, pod="a", **MODEL)
    twin.set("vllm:num_requests_running", 0, pod="b", **MODEL)
    for server, processing, pod in ((live, 2, "a"), (twin, 0, "b")):
        server.set("llamacpp:requests_processing", processing, namespace="ai", pod=pod)
    llama = Demand(source="llamacpp-requests", match={"namespace": "ai"})
    metrics = reader(prometheus)
    wait_for_value(metrics, VLLM, 0)
    wait_for_value(metrics, llama, 2)

    twin.silence()

    wait_for_why(metrics, VLLM, "failed")
    assert first(metrics, llama).value == 2


def test_a_front_door_of_which_one_replica_is_dead_is_unknown(
    prometheus: Prometheus, live: Exporter, twin: Exporter
) -> None:
    live.set("traefik_config_last_reload_success", 1)
    twin.set("traefik_config_last_reload_success", 1)
    live.set("traefik_router_requests_total", 5, code="200", **ROUTER)
    metrics = reader(prometheus)
    wait_for_value(metrics, DOOR, 0)
    live.drop("traefik_router_requests_total", code="200", **ROUTER)

    twin.silence()

    wait_for_why(metrics, DOOR, "an exporter of traefik-router failed")


def test_a_sample_that_is_too_old_is_unknown(server: Prometheus) -> None:
    """An instant query looks back five minutes, so a dead exporter looks alive."""
    at = time.time() - 60
    key = 'job="gone",instance="a"'
    model = ",".join(f'{label}="{value}"' for label, value in MODEL.items())
    server.backfill(
        open_metrics(
            {
                f"up{{{key}}}": [(at, 1)],
                f"vllm:num_requests_running{{{key},{model}}}": [(at, 0)],
            }
        )
    )
    server.start()
    metrics = reader(server)

    fresh = first(metrics, VLLM)
    old = first(metrics, VLLM, stale_after=timedelta(seconds=30))

    assert fresh.value == 0
    assert old.value is None
    assert "more than 30s is not believed" in old.why


def test_a_free_form_sample_that_is_too_old_does_not_show(server: Prometheus) -> None:
    server.backfill(open_metrics({"demand": [(time.time() - 60, 5)]}))
    server.start()
    metrics, asked = reader(server), Demand(query="sum(demand)")

    fresh = first(metrics, asked)
    old = first(metrics, asked, stale_after=timedelta(seconds=30))

    assert fresh.value == 5
    assert old.value is None
    assert "is empty" in old.why
