"""Every odd answer of Prometheus, or of what stands before it, is unknown and says why."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.core.load import Level, judge, level_of
from idlewin.core.target import Demand
from tests.contract.demand_rules import TARGET, HandClock, rule
from tests.labs.promlab.exporters import FakePrometheus, failure, vector

BUSY_AT_ONE = rule(Demand(query="demand"))
HISTOGRAM = json.dumps(
    {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": {}, "histogram": [1.0, {"count": "2", "sum": "3"}]}],
        },
    }
)
NO_RESULT = json.dumps({"status": "success", "data": {"resultType": "vector"}})
OLD_WARNING = json.dumps({"status": "success", "data": {"result": [], "warnings": ["store down"]}})


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with FakePrometheus() as fake:
        yield fake


def metrics(url: str, clock: HandClock | None = None, **options: timedelta) -> PrometheusMetrics:
    return PrometheusMetrics(url, clock or HandClock(), **options)


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        # kedacore/keda #3065: a series that is gone was taken for 0, and services were scaled down.
        pytest.param(200, vector(), "is empty, which is not 0", id="empty"),
        # kedacore/keda changelog 8036, 7742: errors and refused logins were read as empty queues.
        pytest.param(200, failure("internal", "boom"), "200 internal: boom", id="200-error"),
        pytest.param(401, "Unauthorized", "401 with what is no JSON", id="401"),
        pytest.param(422, failure("execution", "too many samples"), "too many samples", id="422"),
        pytest.param(
            400, failure("bad_data", "parse error"), "400 bad_data: parse error", id="400"
        ),
        pytest.param(503, failure("timeout", "query timed out"), "query timed out", id="503"),
        pytest.param(200, "<html>login</html>", "'<html>login</html>'", id="html"),
        pytest.param(302, "", "302 with what is no JSON", id="redirect"),
        pytest.param(200, vector(0)[:-9], "no JSON", id="truncated"),
        pytest.param(200, vector(0, warnings=("partial",)), "warning: partial", id="warning"),
        pytest.param(200, OLD_WARNING, "warning: store down", id="old-thanos-warning"),
        pytest.param(200, NO_RESULT, "success without data", id="no-result"),
        pytest.param(200, "[]", "no JSON of Prometheus", id="list"),
        pytest.param(200, '{"choices": []}', "no JSON of Prometheus", id="another server's"),
        pytest.param(200, vector("NaN"), "value is nan", id="nan"),
        pytest.param(200, vector("+Inf"), "value is inf", id="inf"),
        # kedacore/keda #7880: negative values became 0, or wrong replica counts.
        pytest.param(200, vector("-3"), "value is -3", id="negative"),
        pytest.param(200, vector("zero"), "no known shape", id="no-number"),
        pytest.param(200, HISTOGRAM, "histogram_count", id="histogram"),
        pytest.param(200, vector(0, 0), "gives 2 series", id="two-series"),
        pytest.param(200, vector(0).replace('"value"', '"values"'), "max_over_time", id="range"),
    ],
)
def test_an_odd_answer_is_unknown(fake: FakePrometheus, status: int, body: str, why: str) -> None:
    fake.answer(body, status=status)

    (reading,) = metrics(fake.url).read(BUSY_AT_ONE)

    assert level_of(reading) is Level.UNKNOWN
    assert reading.value is None
    assert why in reading.why


def test_one_number_is_a_reading(fake: FakePrometheus) -> None:
    fake.answer(vector(3))

    (reading,) = metrics(fake.url).read(BUSY_AT_ONE)

    assert (reading.target, reading.name, reading.value, reading.why) == (TARGET, "demand", 3, "")
    assert not reading.visible_at_zero


def test_a_reason_of_a_503_is_told_and_the_query_is_not_repeated(fake: FakePrometheus) -> None:
    fake.answer(failure("timeout", "query timed out"), status=503)

    (reading,) = metrics(fake.url).read(BUSY_AT_ONE)

    assert "503 timeout: query timed out" in reading.why
    assert fake.queries == ["demand"]


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        # NVIDIA/DCGM #199, NVIDIA/dcgm-exporter #418: a ratio of up to 2^32 - 1.
        ("value", "4294967295", "4294967295, which cannot be; it is from 0 to 1e+06"),
        ("value", "NaN", "nan, which cannot be"),
        ("age", "400", "400s old"),
        ("age", "NaN", "nans old"),
        ("alive", "0", "failed, which can mean that it is busy"),
        ("alive", None, "keep up in this Prometheus"),
        ("age", None, "no present value"),
    ],
)
def test_an_odd_part_of_a_source_is_unknown(
    fake: FakePrometheus, part: str, value: str | None, why: str
) -> None:
    parts = {"value": "0", "age": "1", "alive": "1"} | {part: value}
    key = {"namespace": "ai", "model_name": "m"}
    result = [
        {"metric": {"idlewin_part": name, **key}, "value": [1.0, number]}
        for name, number in parts.items()
        if number is not None
    ]
    fake.answer(json.dumps({"status": "success", "data": {"result": result}}))

    (reading,) = metrics(fake.url).read(rule(Demand(source="vllm-requests", match=key)))

    assert reading.value is None
    assert why in reading.why


def test_a_body_that_drips_is_given_up_by_the_time_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_drip, args=(server,), daemon=True).start()
        begin = time.monotonic()

        (reading,) = metrics(
            f"http://127.0.0.1:{server.getsockname()[1]}", timeout=timedelta(seconds=0.5)
        ).read(BUSY_AT_ONE)

    assert reading.value is None
    assert "did not answer within 0.5 s" in reading.why
    assert time.monotonic() - begin < 5


def _drip(server: socket.socket) -> None:
    """A byte now and then, each sooner than a time-out that begins anew."""
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            try:
                connection.sendall(b" ")
            except OSError:
                return
            time.sleep(0.05)


def test_a_silent_server_costs_one_time_out_for_all_demands_of_a_tick(
    fake: FakePrometheus,
) -> None:
    fake.answer(vector(0), delay_s=30)
    begin = time.monotonic()

    readings = metrics(fake.url, timeout=timedelta(seconds=0.5)).read(
        rule(*(Demand(query=f"demand_{n}") for n in range(10)))
    )

    assert {reading.value for reading in readings} == {None}
    assert time.monotonic() - begin < 2


def test_a_server_that_is_not_there_is_unknown_and_a_password_is_not_told() -> None:
    (reading,) = metrics("http://me:secret@127.0.0.1:9").read(BUSY_AT_ONE)

    assert reading.value is None
    assert "http://127.0.0.1:9" in reading.why
    assert "secret" not in reading.why


def test_pools_that_ask_the_same_ask_once_in_a_tick(fake: FakePrometheus) -> None:
    clock = HandClock()
    asked = metrics(fake.url, clock)
    fake.answer(vector(0), delay_s=0.3)
    same = rule(Demand(query="demand"), Demand(source="vllm-requests"))

    threads = [threading.Thread(target=asked.read, args=(same,)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(fake.queries) == 2
    clock.at += timedelta(seconds=1)
    asked.read(same)
    assert len(fake.queries) == 4


def test_a_clock_that_was_set_back_does_not_keep_old_answers(fake: FakePrometheus) -> None:
    clock = HandClock()
    asked = metrics(fake.url, clock)
    fake.answer(vector(0))
    asked.read(BUSY_AT_ONE)

    clock.at -= timedelta(days=1)
    fake.answer(vector(7))

    assert asked.read(BUSY_AT_ONE)[0].value == 7


def test_a_long_query_goes_in_the_body(fake: FakePrometheus) -> None:
    fake.answer(vector(0))
    paths: list[tuple[str, str]] = []
    respond = fake.respond
    fake.respond = lambda path, body: paths.append((path, body)) or respond(path, body)  # type: ignore[method-assign]
    long = "sum(" + " + ".join(["demand"] * 10_000) + ")"

    (reading,) = metrics(fake.url).read(rule(Demand(query=long)))

    ((path, body),) = paths
    assert reading.value == 0
    assert path == "/api/v1/query"
    asked = parse_qs(body)
    assert asked["query"] == [long]
    assert "time" not in asked  # the server's clock, not ours
    assert asked["partial_response"] == ["false"]
    assert len(reading.name) == 80


@pytest.mark.parametrize(
    ("body", "status"), [(failure("execution", "no"), 422), ("<html>", 200), (vector("x"), 200)]
)
def test_a_history_that_cannot_be_asked_is_unknown_all_of_it(
    fake: FakePrometheus, body: str, status: int
) -> None:
    fake.answer(body, status=status)

    history = metrics(fake.url).history(BUSY_AT_ONE, timedelta(days=14), timedelta(minutes=1))

    assert history.busy == ()
    assert history.unknown == (history.covers,)
    assert history.covers.length == timedelta(days=14)


def test_observing_asks_prometheus_and_nobody_else(fake: FakePrometheus) -> None:
    """mostlygeek/llama-swap #1135, ggml-org/llama.cpp #20227: asking a model kept it loaded."""
    paths: list[str] = []
    respond = fake.respond
    fake.respond = lambda path, body: paths.append(path) or respond(path, body)  # type: ignore[method-assign]
    asked = metrics(fake.url)
    watched = rule(Demand(source="llamacpp-requests"), Demand(source="traefik-router"))

    asked.read(watched)
    asked.history(watched, timedelta(hours=1), timedelta(minutes=1))

    assert {path.split("?")[0] for path in paths} <= {
        "/api/v1/query",
        "/api/v1/query_range",
        "/api/v1/series",
    }


def test_any_busy_is_busy_while_another_demand_is_unknown(fake: FakePrometheus) -> None:
    """mostlygeek/llama-swap #588: what is queued counts as busy, not only what runs."""
    key = {"namespace": "ai", "model_name": "m"}
    result = [
        {"metric": {"idlewin_part": name, **key}, "value": [1.0, number]}
        for name, number in {"value": "9", "age": "1", "alive": "1"}.items()
    ]
    fake.answer(json.dumps({"status": "success", "data": {"result": result}}))

    readings = metrics(fake.url).read(
        rule(Demand(source="vllm-requests", match=key), Demand(source="traefik-router"))
    )

    assert judge(readings)[0] is Level.BUSY


def test_a_token_is_read_anew_for_each_question(fake: FakePrometheus, tmp_path: Path) -> None:
    path = tmp_path / "token"
    fake.answer(vector(2))
    clock = HandClock()
    reader = PrometheusMetrics(fake.url, clock, token_file=path)

    (unread,) = reader.read(BUSY_AT_ONE)
    assert unread.value is None
    assert f"the token file {path} cannot be read" in unread.why
    for token in ("first", "second"):
        path.write_text(f"{token}\n")
        clock.at += timedelta(minutes=1)
        (told,) = reader.read(BUSY_AT_ONE)
        assert (told.value, fake.authorization) == (2, f"Bearer {token}")
