"""Proves that the Prometheus of the tests is real, and that a test can play with it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request

import pytest

from tests.labs.kubelab.api import wait_for
from tests.labs.promlab.exporters import Exporter, FakePrometheus, failure, vector
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
DAY_S = 86400


def test_history_live_values_and_silence_are_told_apart(
    prometheus: Prometheus, exporter: Exporter
) -> None:
    now = int(time.time())
    lines = [f"demand {n % 7} {now - 14 * DAY_S + n * 600}\n" for n in range(14 * 144 - 6)]
    prometheus.backfill("".join(["# TYPE demand gauge\n", *lines, "# EOF\n"]))
    exporter.set("demand", 3, queue="a")

    prometheus.start()

    assert prometheus.value("count_over_time(demand[15d] offset 30m)") == len(lines)
    wait_for("live value", lambda: prometheus.value('demand{queue="a"}') == 3)
    exporter.set("demand", 0, queue="a")
    wait_for("new value", lambda: prometheus.value('demand{queue="a"}') == 0)
    exporter.silence()
    wait_for("up at 0", lambda: prometheus.value('up{job="live"}') == 0)
    assert prometheus.query('demand{queue="a"}') == []


def test_a_killed_prometheus_comes_back_with_what_it_had(
    prometheus: Prometheus, exporter: Exporter
) -> None:
    exporter.set("demand", 3)
    prometheus.start()
    wait_for("live value", lambda: prometheus.value("demand") == 3)

    prometheus.kill()
    exporter.drop("demand")
    with pytest.raises(ConnectionRefusedError):
        prometheus.query("demand")
    prometheus.start()

    assert prometheus.value("max_over_time(demand[5m])") == 3


def test_a_fake_prometheus_says_what_it_is_told() -> None:
    def ask(fake: FakePrometheus) -> tuple[int, dict[str, object]]:
        request = urllib.request.Request(f"{fake.url}/api/v1/query?query=up")
        try:
            with urllib.request.urlopen(request) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    with FakePrometheus() as fake:
        fake.answer(vector("NaN", warnings=("partial",)))
        status, said = ask(fake)
        assert (status, said["warnings"]) == (200, ["partial"])

        fake.answer(failure("timeout", "too slow"), status=503)
        assert ask(fake)[0] == 503
        assert fake.queries == ["up", "up"]
