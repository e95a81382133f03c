"""The catalogue and free-form demands on a real Prometheus that scrapes what exporters expose."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from idlewin.adapters.clock import SystemClock
from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.core.load import Level, Reading, judge
from idlewin.core.rule import Activity, Demand
from tests.contract.demand_rules import rule
from tests.labs.kubelab.api import wait_for
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
ROUTER = {"router": "qwen3-8b@kubernetes"}
MODEL = {"namespace": "ai", "model_name": "qwen3-8b"}
CARD = {"node": "node-b580", "pci_bdf": "0000:03:00.0"}
DOOR = Demand(source="traefik-router", match=ROUTER)
VLLM = Demand(source="vllm-requests", match=MODEL)
WINDOW = timedelta(seconds=6)


@pytest.fixture
def live() -> Iterator[Exporter]:
    with Exporter() as exporter:
        yield exporter


@pytest.fixture
def twin() -> Iterator[Exporter]:
    with Exporter() as exporter:
        yield exporter


@pytest.fixture
def server(
    promlab_programs: Path, live: Exporter, twin: Exporter, tmp_path: Path
) -> Iterator[Prometheus]:
    """A Prometheus that is not started, so that a test may backfill it; scrapes each second."""
    jobs = {"live": live.port, "twin": twin.port}
    server = Prometheus(promlab_programs, tmp_path / "prometheus", jobs)
    yield server
    server.stop()


@pytest.fixture
def prometheus(server: Prometheus) -> Prometheus:
    server.start()
    return server


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


# -- what the sources show


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


# -- what cannot be believed


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


# -- free-form demands


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
