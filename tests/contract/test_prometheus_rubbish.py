"""Whatever a server says, the port gives a reading and a history, and never raises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from hypothesis import given, settings, strategies as st

from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.core.target import Demand
from tests.contract.demand_rules import HandClock, rule
from tests.labs.promlab.exporters import FakePrometheus

BUSY_AT_ONE = rule(Demand(query="demand"))
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.just(["1", "2"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metric", "value", "values", "result", "data", "histogram", "warnings"]
            ),
            inner,
            max_size=3,
        )
    ),
)


@pytest.fixture(scope="module")
def liar() -> Iterator[FakePrometheus]:
    with FakePrometheus() as liar:
        yield liar


@given(data=JSON)
@settings(max_examples=100, deadline=None)
def test_any_document_gives_a_reading_and_a_history(liar: FakePrometheus, data: object) -> None:
    asked = PrometheusMetrics(liar.url, HandClock())
    liar.answer(json.dumps({"status": "success", "data": data}))

    (reading,) = asked.read(BUSY_AT_ONE)
    asked.history(BUSY_AT_ONE, timedelta(hours=1), timedelta(minutes=1))

    assert (reading.value is None) == bool(reading.why)
    assert "could not be read" not in reading.why
