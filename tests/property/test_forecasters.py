"""Laws that hold for every forecast, whatever the history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings, strategies as st

from idlewin.core.load import History
from idlewin.core.window import Span, clipped, merged
from idlewin.forecasters import METHODS, forecaster

ORIGIN = datetime(2026, 3, 20, tzinfo=UTC)
COVERS = Span(ORIGIN, ORIGIN + timedelta(days=12))
ZONES = [
    ZoneInfo(name) for name in ("UTC", "Europe/Vienna", "Asia/Kathmandu", "Australia/Lord_Howe")
]


def _spans(pairs: list[tuple[int, int]]) -> tuple[Span, ...]:
    made = (
        Span(ORIGIN + timedelta(minutes=a), ORIGIN + timedelta(minutes=a + n)) for a, n in pairs
    )
    return clipped(merged(made), COVERS)


RUNS = st.lists(st.tuples(st.integers(-500, 13 * 1440), st.integers(1, 3000)), max_size=25).map(
    _spans
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    return History(covers=COVERS, busy=draw(RUNS), unknown=draw(RUNS), serving_away=draw(RUNS))


@settings(max_examples=60, deadline=None)
@given(
    known=histories(),
    method=st.sampled_from(METHODS),
    zone=st.sampled_from(ZONES),
    later=st.integers(-4, 5000),
    idle_for=st.integers(-600, 20 * 1440),
)
def test_chances_are_probabilities_that_never_rise(
    known: History, method: str, zone: ZoneInfo, later: int, idle_for: int
) -> None:
    made = forecaster(method, local=lambda at: at.astimezone(zone))
    now = COVERS.end + timedelta(minutes=later)

    found = made.forecast(known, now, now - timedelta(minutes=idle_for))

    chances = [chance for _, chance in found.chances]
    assert found.ready or found.rests_on.startswith("needs 7 d, has ")
    assert all(0 <= chance <= 1 for chance in chances)
    assert all(sooner >= afterwards for sooner, afterwards in pairwise(chances))


@settings(max_examples=40, deadline=None)
@given(known=histories(), method=st.sampled_from(METHODS), zone=st.sampled_from(ZONES))
def test_a_forecaster_that_was_asked_before_says_the_same_as_a_new_one(
    known: History, method: str, zone: ZoneInfo
) -> None:
    asked, new = (forecaster(method, local=lambda at: at.astimezone(zone)) for _ in range(2))
    first = known.busy[:1]
    other = History(covers=COVERS, busy=first + known.busy[2:], unknown=known.unknown)
    for history in (other, known, other):
        asked.forecast(history, COVERS.end, ORIGIN)

    assert asked.forecast(known, COVERS.end, ORIGIN) == new.forecast(known, COVERS.end, ORIGIN)
