"""The past of demand, from history that was written into a real Prometheus beforehand."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.adapters.prometheus_api import Answer, Api
from idlewin.catalogue import Catalogue
from idlewin.cli.app import main
from idlewin.cli.recorded import demo_rule
from idlewin.core.load import History
from idlewin.core.target import Demand
from idlewin.core.window import Span, clipped, total
from idlewin.source import Source, SourceKind
from tests.contract.demand_rules import HandClock, rule
from tests.contract.prometheus_lab import DOOR, MODEL, ROUTER, VLLM, open_metrics
from tests.labs.kubelab.api import wait_for
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
NOW = datetime.fromtimestamp(time.time() // 7200 * 7200 - 7200, tz=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TARGET = 'job="live",instance="a"'
Value = Callable[[datetime], float | None]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[datetime, datetime]]:
    """The stretches of the range queries that are really sent."""
    sent: list[tuple[datetime, datetime]] = []
    over = Api.over

    def recorded(api: Api, query: str, start: datetime, end: datetime, step: timedelta) -> Answer:
        sent.append((start, end))
        return over(api, query, start, end, step)

    monkeypatch.setattr(Api, "over", recorded)
    return sent


def samples(past: timedelta, every: timedelta, value: Value) -> list[tuple[float, float]]:
    """Samples up to NOW and a little on; None is a gap."""
    count = int((past + HOUR) / every)
    times = (NOW - past + n * every for n in range(count + 1))
    return [(at.timestamp(), v) for at in times if (v := value(at)) is not None]


def vllm(past: timedelta, every: timedelta, value: Value) -> str:
    labels = ",".join(f'{label}="{text}"' for label, text in MODEL.items())
    series = f"vllm:num_requests_running{{{TARGET},{labels}}}"
    return open_metrics({series: samples(past, every, value)})


def history(server: Prometheus, *demand: Demand, past: timedelta, step: timedelta) -> History:
    return PrometheusMetrics(server.url, HandClock(NOW)).history(rule(*demand), past, step)


def working_hours(at: datetime) -> float:
    return 2 if 8 <= at.hour < 18 else 0


def clean(at: datetime) -> float:
    return 1 if at.minute == 30 else 0


def test_two_weeks_at_half_a_minute_come_in_pieces_and_then_only_their_end(
    server: Prometheus, asked: list[tuple[datetime, datetime]]
) -> None:
    past, step = 14 * DAY, timedelta(seconds=30)
    server.backfill(vllm(past, MINUTE, working_hours))
    server.start()
    clock = HandClock(NOW)
    metrics, watched = PrometheusMetrics(server.url, clock), rule(VLLM)

    whole = metrics.history(watched, past, step)

    assert len(asked) == 5  # 40,320 points, at most 10,000 a piece; Prometheus refuses 11,001
    assert all((end - start) / step < 10_000 for start, end in asked)
    assert whole.covers == Span(NOW - past, NOW)
    assert total(whole.busy) == pytest.approx(14 * 10 * HOUR, abs=15 * MINUTE)
    assert whole.unknown == ()

    asked.clear()
    assert metrics.history(watched, past, step) is whole
    clock.at += 5 * MINUTE
    later = metrics.history(watched, past, step)
    assert asked == [(NOW - 2 * MINUTE + step, NOW + 5 * MINUTE)]
    assert later.covers == Span(NOW - past + 5 * MINUTE, NOW + 5 * MINUTE)
    assert later == PrometheusMetrics(server.url, clock).history(watched, past, step)


def test_a_past_that_is_too_large_for_one_answer_comes_in_smaller_pieces(
    server: Prometheus,
    asked: list[tuple[datetime, datetime]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source with thousands of keys: what all of them did was unknown, and nothing was lent."""
    monkeypatch.setattr("idlewin.adapters.prometheus_api.LARGEST", 20_000)
    server.backfill(vllm(2 * DAY, MINUTE, working_hours))
    server.start()
    metrics = PrometheusMetrics(server.url, HandClock(NOW))

    whole = metrics.history(rule(VLLM), 2 * DAY, MINUTE)

    lengths = [(end - start) / MINUTE for start, end in asked]
    # All of it is refused, and a quarter of 10,000 steps; a quarter of these again is answered.
    assert lengths[:2] == [2879, 2499]
    assert len(lengths[2:]) == 5
    assert max(lengths[2:]) == 624
    assert whole.unknown == ()
    assert total(whole.busy) == pytest.approx(2 * 10 * HOUR, abs=15 * MINUTE)


def test_a_rule_is_tuned_on_what_prometheus_remembers(server: Prometheus, tmp_path: Path) -> None:
    server.backfill(vllm(3 * DAY, MINUTE, working_hours))
    server.start()
    file, out = tmp_path / "own.yaml", tmp_path / "out.json"
    running = "vllm:num_requests_running"
    query = f'{{query: "sum({running})", up: "min({running} >= bool 0)", visibleAtZero: true}}'
    demand = re.compile(r"demand:\n.*?(?= *leadTime)", re.DOTALL)
    file.write_text(demand.sub(f"demand: [{query}]\n", demo_rule().read_text()))
    asked_for = ["--vary", "window.min=30m", "--json", str(out), "--cores", "1"]

    with pytest.raises(SystemExit) as ended:
        main(["tune", str(file), "--prometheus", server.url, *asked_for])

    assert ended.value.code == 0
    told = json.loads(out.read_text())
    (card,) = told["cards"]
    assert card["card"] == "demo"
    known_to = datetime.fromisoformat(card["to"])
    # Without a mark that a series ended, Prometheus carries it on for five minutes.
    assert timedelta() <= known_to - (NOW + HOUR) <= 5 * MINUTE
    learnt = known_to - datetime.fromisoformat(card["from"])
    assert abs(learnt - (3 * DAY + HOUR) / 2) <= 5 * MINUTE
    assert [one["now"] for one in told["points"]] == [True]


def test_rules_are_replayed_on_what_prometheus_remembers_each_with_its_own_demand(
    server: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.backfill(vllm(4 * DAY, MINUTE, working_hours))
    server.start()
    out = tmp_path / "out.json"
    running = "vllm:num_requests_running"
    query = f'{{query: "sum({running})", up: "min({running} >= bool 0)", visibleAtZero: true}}'
    demand = re.compile(r"demand:\n.*?(?= *leadTime)", re.DOTALL)
    text = demand.sub(f"demand: [{query}]\n", demo_rule().read_text())
    (tmp_path / "rules").mkdir()
    for name in ("first", "second"):
        own = text.replace("demo", name).replace("language-model", name)
        own = own.replace("clusterQueue: ", f"clusterQueue: {name}-")
        (tmp_path / "rules" / f"{name}.yaml").write_text(own)
    history = ["--prometheus", server.url, "--days", "3", "--json", str(out)]

    with pytest.raises(SystemExit) as ended:
        main(["replay", str(tmp_path / "rules"), *history])

    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert told.count("that would have been lost, and was late") == 2
    assert [one["card"] for one in json.loads(out.read_text())] == ["first", "second"]


def test_rules_that_share_a_source_share_what_was_fetched(
    server: Prometheus, asked: list[tuple[datetime, datetime]]
) -> None:
    server.backfill(vllm(DAY, MINUTE, working_hours))
    server.start()
    metrics = PrometheusMetrics(server.url, HandClock(NOW))

    for busy_above in (0, 1, 5):
        demand = Demand(source="vllm-requests", match=MODEL, busy_above=busy_above)
        found = metrics.history(rule(demand), DAY, MINUTE)
        assert bool(found.busy) is (busy_above < 2)

    assert len(asked) == 1


def test_a_burst_between_two_steps_is_demand(server: Prometheus) -> None:
    burst = NOW - HOUR + timedelta(minutes=7, seconds=30)
    server.backfill(vllm(3 * HOUR, timedelta(seconds=15), lambda at: 1.0 if at == burst else 0.0))
    server.start()

    found = history(server, VLLM, past=2 * HOUR, step=5 * MINUTE)

    assert found.busy == (Span(NOW - HOUR + 5 * MINUTE, NOW - HOUR + 10 * MINUTE),)


@pytest.mark.parametrize("wrong", [4294967295.0, -3.0, float("nan"), float("inf")])
def test_three_impossible_samples_do_not_change_the_history(
    server: Prometheus, wrong: float
) -> None:
    """NVIDIA/DCGM #199, dcgm-exporter #418, kedacore/keda #7880: values that cannot be."""
    bad = {NOW - HOUR + timedelta(minutes=n, seconds=15) for n in (5, 17, 29)}
    every = timedelta(seconds=15)
    label = f'vllm:num_requests_running{{{TARGET},namespace="ai",model_name="'
    server.backfill(
        open_metrics(
            {
                f'{label}clean"}}': samples(3 * HOUR, every, clean),
                f'{label}dirty"}}': samples(
                    3 * HOUR, every, lambda at: wrong if at in bad else clean(at)
                ),
            }
        )
    )
    server.start()

    first, second = (
        history(
            server,
            Demand(source="vllm-requests", match={"model_name": name}),
            past=2 * HOUR,
            step=MINUTE,
        )
        for name in ("clean", "dirty")
    )

    assert first == second
    assert total(first.busy) == 4 * MINUTE  # two in each hour


def test_a_gap_is_unknown(server: Prometheus) -> None:
    gap = Span(NOW - 3 * HOUR, NOW - 2 * HOUR)
    server.backfill(vllm(DAY, MINUTE, lambda at: None if at in gap else 0.0))
    server.start()

    found = history(server, VLLM, past=6 * HOUR, step=MINUTE)

    assert found.busy == ()
    (unknown,) = found.unknown
    assert unknown.end == gap.end - MINUTE  # the step that ends with a sample
    # Without a mark that a series ended, Prometheus carries it on for five minutes.
    assert timedelta() <= unknown.start - gap.start <= 5 * MINUTE


def test_what_never_had_a_series_is_unknown_in_all_its_history(server: Prometheus) -> None:
    """NVIDIA/dcgm-exporter #430, #700: a metric that is not there is a fault, not rest."""
    server.backfill(vllm(DAY, MINUTE, lambda _: 0.0))
    server.start()
    other = Demand(source="vllm-requests", match={"model_name": "other"})

    for demand in (other, DOOR, Demand(query="no_such_metric")):
        found = history(server, demand, past=6 * HOUR, step=MINUTE)
        assert found.unknown == (found.covers,)


def test_a_metric_that_ends_is_unknown_from_then_on(server: Prometheus) -> None:
    """NVIDIA/dcgm-exporter #700: fields vanished with an upgrade of the exporter."""
    server.backfill(vllm(DAY, MINUTE, lambda at: 0.0 if at < NOW - HOUR else None))
    server.start()

    found = history(server, VLLM, past=6 * HOUR, step=MINUTE)

    (unknown,) = found.unknown
    assert unknown.end == NOW
    assert 55 * MINUTE <= unknown.length <= HOUR


def test_a_shorter_retention_begins_where_the_data_begin(server: Prometheus) -> None:
    server.backfill(vllm(2 * DAY, MINUTE, working_hours))
    server.start()

    found = history(server, VLLM, past=14 * DAY, step=5 * MINUTE)

    assert found.covers.end == NOW
    assert abs(found.covers.start - (NOW - 2 * DAY)) <= 5 * MINUTE
    assert found.unknown == ()


def door(past: timedelta, alive: Value) -> dict[str, list[tuple[float, float]]]:
    """A front door that had one request four hours ago, restarted since, and may be dead."""
    asked = NOW - 4 * HOUR
    labels = ",".join(f'{label}="{text}"' for label, text in ROUTER.items())
    return {
        f"up{{{TARGET}}}": samples(past, MINUTE, alive),
        f"traefik_config_last_reload_success{{{TARGET}}}": samples(past, MINUTE, lambda _: 1.0),
        f"traefik_router_requests_total{{{TARGET},{labels}}}": [
            ((asked + n * MINUTE).timestamp(), 1.0) for n in range(10)
        ],
    }


def test_serving_at_zero_is_idle_while_the_front_door_is_known_to_be_idle(
    server: Prometheus,
) -> None:
    away, dead = Span(NOW - 3 * HOUR, NOW - HOUR), Span(NOW - 2 * HOUR, NOW - 90 * MINUTE)
    past = 8 * HOUR
    labels = ",".join(f'{label}="{text}"' for label, text in MODEL.items())
    running = samples(past, MINUTE, lambda at: None if at in away else 0.0)
    server.backfill(
        open_metrics(
            {
                **door(past, lambda at: 0.0 if at in dead else 1.0),
                f"vllm:num_requests_running{{{TARGET},{labels}}}": running,
            }
        )
    )
    server.start()

    both = history(server, VLLM, DOOR, past=6 * HOUR, step=MINUTE)

    (request,) = both.busy
    assert NOW - 4 * HOUR - MINUTE <= request.start <= request.end <= NOW - 4 * HOUR + 3 * MINUTE
    assert clipped(both.unknown, away) == both.unknown
    assert total(both.unknown) == pytest.approx(dead.length, abs=2 * MINUTE)
    alone = history(server, VLLM, past=6 * HOUR, step=MINUTE)
    assert total(alone.unknown) == pytest.approx(away.length, abs=6 * MINUTE)


def test_a_free_form_demand_is_idle_where_it_is_empty_and_its_exporter_up(
    server: Prometheus,
) -> None:
    waited, dead = Span(NOW - 3 * HOUR, NOW - 2 * HOUR), Span(NOW - HOUR, NOW - 30 * MINUTE)
    server.backfill(
        open_metrics(
            {
                f"up{{{TARGET}}}": samples(8 * HOUR, MINUTE, lambda at: 0.0 if at in dead else 1.0),
                "waiting": samples(8 * HOUR, MINUTE, lambda at: 3.0 if at in waited else None),
            }
        )
    )
    server.start()
    demand = Demand(query="sum(waiting)", up="max(up)", visible_at_zero=True)
    scalar = Demand(query="scalar(max(up)) - 1 >= bool 0", busy_above=1)

    found = history(server, demand, past=6 * HOUR, step=MINUTE)

    assert total(found.busy) == pytest.approx(waited.length, abs=6 * MINUTE)
    assert total(found.unknown) == pytest.approx(dead.length, abs=2 * MINUTE)
    assert history(server, scalar, past=HOUR, step=MINUTE).unknown == ()


def test_a_router_that_was_asked_hours_ago_is_idle_now(server: Prometheus, live: Exporter) -> None:
    live.set("traefik_config_last_reload_success", 1)
    server.backfill(open_metrics(door(8 * HOUR, lambda _: 1.0)))
    server.start()
    wait_for("a scrape", lambda: server.value("traefik_config_last_reload_success") == 1)

    (reading,) = PrometheusMetrics(server.url, HandClock(NOW + 2 * HOUR)).read(rule(DOOR))

    assert (reading.value, reading.why) == (0, "")


def a_gateway(query: str) -> Catalogue:
    """A source of a person's own, a front door."""
    text = {"unit": "requests", "about": "requests", "remedy": "scrape it", "query": query}
    found = Source(
        name="my-gateway",
        kind=SourceKind.IN_PATH,
        keys=("service",),
        max=100,
        series="my_gateway_in_flight",
        exporter="my_gateway_info",
        **text,
    )
    return Catalogue(own=(found,))


def gateway_past(server: Prometheus, query: str, dead: Span, label: str) -> History:
    """An idle gateway whose series has another label in the last hour, and that was dead once."""

    def flights(*, late: bool) -> list[tuple[float, float]]:
        alive = samples(5 * HOUR, MINUTE, lambda at: None if at in dead else 0.0)
        return [one for one in alive if (one[0] >= (NOW - HOUR).timestamp()) is late]

    up = samples(5 * HOUR, MINUTE, lambda at: 0.0 if at in dead else 1.0)
    server.backfill(
        open_metrics(
            {
                f"up{{{TARGET}}}": up,
                f"my_gateway_info{{{TARGET}}}": samples(5 * HOUR, MINUTE, lambda _: 1.0),
                f'my_gateway_in_flight{{{TARGET},{label}="qwen",port="web"}}': flights(late=False),
                f'my_gateway_in_flight{{{TARGET},{label}="qwen"}}': flights(late=True),
            }
        )
    )
    server.start()
    metrics = PrometheusMetrics(server.url, HandClock(NOW), catalogue=a_gateway(query))
    demand = Demand(source="my-gateway", match={"service": "qwen"})
    return metrics.history(rule(demand), 4 * HOUR, MINUTE)


def test_a_key_that_the_query_has_lost_is_unknown_in_the_past_too(server: Prometheus) -> None:
    query, never = 'sum by (service) (my_gateway_in_flight{port="web"})', Span(NOW, NOW + MINUTE)

    found = gateway_past(server, query, never, "service")

    assert found.busy == ()
    # Without a mark that a series ended, Prometheus carries it on for five minutes.
    assert total(found.unknown) == pytest.approx(HOUR, abs=6 * MINUTE)
    assert clipped(found.unknown, Span(NOW - HOUR, NOW)) == found.unknown


def test_a_key_that_the_query_makes_is_idle_in_the_past_only_while_its_exporter_lives(
    server: Prometheus,
) -> None:
    query = 'label_replace(sum(my_gateway_in_flight) or vector(0), "service", "qwen", "", "")'
    dead = Span(NOW - 2 * HOUR, NOW - 90 * MINUTE)

    found = gateway_past(server, query, dead, "svc")

    assert found.busy == ()
    assert total(found.unknown) == pytest.approx(dead.length, abs=2 * MINUTE)


def test_a_rule_by_the_calendar_only_is_never_busy(server: Prometheus) -> None:
    found = history(server, past=DAY, step=HOUR)

    assert (found.covers, found.busy, found.unknown) == (Span(NOW - DAY, NOW), (), ())


def test_a_history_goes_on_where_prometheus_failed(
    server: Prometheus, asked: list[tuple[datetime, datetime]]
) -> None:
    server.backfill(vllm(3 * DAY, MINUTE, working_hours))
    server.start()
    clock = HandClock(NOW - DAY)
    metrics = PrometheusMetrics(server.url, clock)
    metrics.history(rule(VLLM), 2 * DAY, MINUTE)
    server.stop()
    clock.at = NOW

    broken = metrics.history(rule(VLLM), 2 * DAY, MINUTE)
    server.start()
    asked.clear()
    again = metrics.history(rule(VLLM), 2 * DAY, MINUTE)

    assert broken.unknown == (Span(NOW - DAY - 2 * MINUTE, NOW),)
    assert again.unknown == ()
    assert asked == [(NOW - DAY - MINUTE, NOW)]
