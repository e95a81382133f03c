"""Sources on the programs themselves: requests go through them, Prometheus scrapes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.core.rule import Activity
from idlewin.core.target import Demand
from tests.contract.demand_rules import rule
from tests.contract.prometheus_lab import first, reader, wait_for_value, wait_for_why
from tests.labs.exporters.doors import (
    EMPTY,
    FULL,
    Door,
    Server,
    asking,
    envoy,
    haproxy as run_haproxy,
)
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.processes import Processes, free_ports
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane


@contextmanager
def scraping(programs: Path, folder: Path, port: int, path: str) -> Iterator[Prometheus]:
    target = {"static_configs": [{"targets": [f"{HOST}:{port}"]}], "metrics_path": path}
    with Prometheus(programs, folder / "prometheus", {"door": target}) as prometheus:
        yield prometheus


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server
        server.let_go()


def rises(metrics: PrometheusMetrics, demand: Demand) -> None:
    wait_for(f"{demand} busy", lambda: (first(metrics, demand).value or 0) > 0.5)


@pytest.fixture
def front(
    haproxy: str, promlab_programs: Path, tmp_path: Path, server: Server
) -> Iterator[tuple[Door, Prometheus]]:
    """A HAProxy, and the Prometheus that scrapes it."""
    with (
        run_haproxy(haproxy, tmp_path / "haproxy", server) as door,
        scraping(promlab_programs, tmp_path, door.metrics, "/metrics") as prometheus,
    ):
        yield door, prometheus


def backend(proxy: str) -> Demand:
    return Demand(source="haproxy-backend", match={"proxy": proxy})


def test_haproxy_shows_a_request_for_a_backend_without_a_server(
    front: tuple[Door, Prometheus],
) -> None:
    door, prometheus = front
    metrics = reader(prometheus)
    wait_for_value(metrics, backend("ai-empty-http"), 0)
    wait_for_value(metrics, backend("ai-qwen-http"), 0)

    assert door.ask("/empty") == [503]

    rises(metrics, backend("ai-empty-http"))
    assert first(metrics, backend("ai-empty-http")).visible_at_zero
    assert first(metrics, backend("ai-qwen-http")).value == 0
    wait_for_value(metrics, backend("ai-empty-http"), 0)
    wait_for_why(metrics, backend("ai-gone"), "a backend that is not in its configuration")
    door.kill()
    wait_for_why(metrics, backend("ai-empty-http"), "the last scrape of an exporter")


def test_haproxy_shows_a_long_answer_and_who_waits_behind_it(
    front: tuple[Door, Prometheus], server: Server
) -> None:
    door, prometheus = front
    metrics = reader(prometheus)
    assert door.ask("/qwen", times=3) == [200] * 3
    wait_for_value(metrics, backend("ai-qwen-http"), 0)
    server.hold()

    with asking(door, "/qwen", 2):
        # Each once: who waits is a session too, and no counter shows them any more.
        wait_for_value(metrics, backend("ai-qwen-http"), 2)
        queued = 'haproxy_backend_current_queue{proxy="ai-qwen-http"}'
        assert prometheus.value(queued) == 1
        server.let_go()

    wait_for_value(metrics, backend("ai-qwen-http"), 0)
    total = 'haproxy_backend_sessions_total{proxy="ai-qwen-http"}'
    assert prometheus.value(total) == 5  # requests, not connections


def test_haproxy_has_sessions_alone_for_a_backend_in_tcp_mode(
    front: tuple[Door, Prometheus],
) -> None:
    _, prometheus = front

    wait_for_value(reader(prometheus), backend("ai-qwen-tcp"), 0)

    assert prometheus.query('haproxy_backend_http_requests_total{proxy="ai-qwen-tcp"}') == []


def cluster(name: str) -> Demand:
    return Demand(source="envoy-cluster", match={"envoy_cluster_name": name})


LISTENER = Demand(source="envoy-listener", match={"envoy_http_conn_manager_prefix": "http-10080"})


def test_envoy_shows_what_finds_no_endpoint_and_what_it_answers_itself(
    promlab_programs: Path, tmp_path: Path, server: Server
) -> None:
    with (
        envoy(tmp_path / "envoy", server) as door,
        scraping(promlab_programs, tmp_path, door.metrics, "/stats/prometheus") as prometheus,
    ):
        metrics = reader(prometheus)
        for demand in (cluster(FULL), cluster(EMPTY), LISTENER):
            wait_for_value(metrics, demand, 0)

        assert door.ask("/empty") == [503]
        rises(metrics, cluster(EMPTY))
        assert first(metrics, cluster(FULL)).value == 0
        never = f'envoy_cluster_upstream_rq_total{{envoy_cluster_name="{EMPTY}"}}'
        assert prometheus.value(never) == 0
        wait_for_value(metrics, LISTENER, 0)

        # As Envoy Gateway does while a route has no endpoint: no cluster sees it.
        assert door.ask("/direct") == [503]
        rises(metrics, LISTENER)
        assert first(metrics, cluster(EMPTY)).value == first(metrics, cluster(FULL)).value == 0

        server.hold()
        with asking(door, "/qwen", 1):
            wait_for_value(metrics, cluster(FULL), 1)
            wait_for_value(metrics, LISTENER, 1)
            server.let_go()
        wait_for_value(metrics, cluster(FULL), 0)
        wait_for_why(metrics, cluster("ai/gone"), "there take envoy-listener")

        door.kill()
        wait_for_why(metrics, cluster(FULL), "which can mean that it is busy")


def test_node_exporter_shows_an_amd_card(
    exporters_programs: Path, promlab_programs: Path, tmp_path: Path
) -> None:
    """The real program, on a sysfs that is made up: there is no card here."""
    port, busy = free_ports(1)[0], sysfs(tmp_path / "sys")
    processes = Processes(tmp_path)
    command = [str(exporters_programs / "node_exporter"), f"--path.sysfs={tmp_path / 'sys'}"]
    command += ["--collector.disable-defaults", "--collector.drm"]
    command += [f"--web.listen-address={HOST}:{port}"]
    processes.run("node_exporter", command)
    try:
        with scraping(promlab_programs, tmp_path, port, "/metrics") as prometheus:
            metrics = reader(prometheus)
            asked = rule(activity=Activity(source="amd-drm", match={"card": "card0"}))
            for percent in (5, 98):
                busy.write_text(f"{percent}\n")
                wait_for(
                    f"{percent} %",
                    lambda wanted=percent / 100: metrics.read(asked)[-1].value == wanted,
                )
            processes.kill("node_exporter")
            wait_for("unknown", lambda: "failed" in metrics.read(asked)[-1].why)
    finally:
        processes.end()


def sysfs(root: Path) -> Path:
    """What amdgpu shows of one card; the file that says how busy it is."""
    device = root / "class" / "drm" / "card0" / "device"
    device.mkdir(parents=True)
    (device / "uevent").write_text("DRIVER=amdgpu\n")
    for name in (
        "gtt_size",
        "gtt_used",
        "vis_vram_size",
        "vis_vram_used",
        "vram_size",
        "vram_used",
    ):
        stem, what = name.rsplit("_", 1)
        (device / f"mem_info_{stem}_{'total' if what == 'size' else what}").write_text(
            "8589934592\n"
        )
    (device / "mem_info_vram_vendor").write_text("samsung\n")
    (device / "power_dpm_force_performance_level").write_text("auto\n")
    (device / "unique_id").write_text("0123456789abcdef\n")
    busy = device / "gpu_busy_percent"
    busy.write_text("5\n")
    return busy
