"""What demand costs with many rules: questions a tick, and the time that a tick of readings takes.

python -m tests.bench sources

A real Prometheus scrapes three exporters' metrics with a key for each rule. Each rule looks at a
front door, at running work, at its cards' activity, and at one query that all rules share. A tick
reads every rule once, one after the other. Time is ours (CPU) and whole (with Prometheus beside
us on the same cores).
"""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from statistics import median

from idlewin.adapters.clock import SystemClock
from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.adapters.prometheus_api import Answer
from idlewin.core.rule import Activity, Rule
from idlewin.core.target import Demand
from tests.bench.figures import Figure
from tests.contract.demand_rules import rule
from tests.labs.build import built
from tests.labs.kubelab.api import wait_for
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

SIZES = (1, 100, 10_000)
TICKS = 3
#: So far apart that no answer of one is young enough for the next.
APART_S = 15.5
SHARED = Demand(query="sum(my_gateway_waiting)", up='max(up{job="live"})', visible_at_zero=True)


def sources_figures(folder: Path) -> list[Figure]:
    """Questions and time of a tick, for each number of rules."""
    found: list[Figure] = []
    for size in SIZES:
        with (
            Exporter() as live,
            Prometheus(
                built("promlab"), folder / str(size), {"live": live.port}, scrape_interval="5s"
            ) as prometheus,
        ):
            _expose(live, size)
            _wait_for_all(prometheus, size)
            found += _ticks(prometheus.url, size)
    return found


def _wait_for_all(prometheus: Prometheus, size: int) -> None:
    """Until every key has two samples, so that counters can be compared."""
    query = "count(count_over_time(vllm:num_requests_running[1m]) >= 2)"
    wait_for("all keys", lambda: prometheus.value(query) == size)


def _expose(live: Exporter, size: int) -> None:
    live.set("traefik_config_last_reload_success", 1)
    live.set("my_gateway_waiting", 0)
    for number in range(size):
        live.set("traefik_router_requests_total", 5, router=f"r{number}@kubernetes")
        live.set("vllm:num_requests_running", 0, namespace="ai", model_name=f"m{number}")
        card = {"node": f"n{number}", "pci_bdf": "0000:03:00.0"}
        live.set("hw_gpu_info", 1, **card)
        live.set("hw_gpu_utilization_ratio", 0, **card)


def _rule(number: int) -> Rule:
    return rule(
        Demand(source="traefik-router", match={"router": f"r{number}@kubernetes"}),
        Demand(source="vllm-requests", match={"namespace": "ai", "model_name": f"m{number}"}),
        SHARED,
        activity=Activity(source="intel-xpumd", match={"node": f"n{number}"}),
    )


def _ticks(url: str, size: int) -> list[Figure]:
    metrics = PrometheusMetrics(url, SystemClock(), window=timedelta(seconds=20))
    asked: list[int] = []
    instant = metrics._api.instant

    def counted(query: str, *, lookback: timedelta | None = None) -> Answer:
        answer = instant(query, lookback=lookback)
        asked.append(len(answer.series))
        return answer

    metrics._api.instant = counted  # type: ignore[method-assign]
    rules = [_rule(number) for number in range(size)]
    whole, ours, questions, series = [], [], [], []
    for number in range(TICKS + 1):
        if number:
            time.sleep(APART_S)
        asked.clear()
        began, cpu = time.perf_counter(), time.process_time()
        readings = [reading for one in rules for reading in metrics.read(one)]
        if number:  # the first of all connects, and loads what is loaded once
            whole.append(time.perf_counter() - began)
            ours.append(time.process_time() - cpu)
            questions.append(len(asked))
            series.append(sum(asked))
        unknown = {reading.why for reading in readings if reading.value is None}
        if unknown:
            raise AssertionError(f"{len(unknown)} unknown, such as {unknown.pop()}")
    metrics.close()
    of = f"{size} rule{'' if size == 1 else 's'}"
    return [
        Figure(
            what=f"questions to Prometheus a tick, {of}, 4 demands each",
            value=f"{median(questions):.0f}",
            goal="at most 5",
            met=max(questions) <= 5,
        ),
        Figure(what="  series in the answers", value=f"{median(series):.0f}"),
        Figure(what="  time to read all rules, our CPU", value=f"{median(ours) * 1e3:.1f} ms"),
        Figure(what="  the same, whole", value=f"{median(whole) * 1e3:.1f} ms"),
    ]
