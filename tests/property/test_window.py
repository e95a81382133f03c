"""Laws of spans, and of scores over them."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given, strategies as st

from idlewin.core.score import foreseen, gaps, reactive, score
from idlewin.core.window import Span, clipped, merged, total, without

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
OVER = Span(MIDNIGHT, MIDNIGHT + timedelta(minutes=600))


def _span(pair: tuple[int, int]) -> Span:
    start, length = pair
    return Span(MIDNIGHT + timedelta(minutes=start), MIDNIGHT + timedelta(minutes=start + length))


SPANS = st.lists(st.tuples(st.integers(-60, 650), st.integers(1, 120)).map(_span), max_size=12)


def _minutes(spans: object) -> set[datetime]:
    return {
        span.start + timedelta(minutes=n)
        for span in spans
        for n in range(int(span.length.total_seconds() // 60))
    }


@given(SPANS)
def test_merging_keeps_the_time_and_leaves_gaps_between(spans: list[Span]) -> None:
    joined = merged(spans)

    assert _minutes(joined) == _minutes(spans)
    assert all(a.end < b.start for a, b in itertools.pairwise(joined))
    assert merged(reversed(joined)) == joined


@given(SPANS, SPANS)
def test_what_is_left_lies_in_the_spans_and_in_no_hole(
    spans: list[Span], holes: list[Span]
) -> None:
    left = without(spans, holes)

    assert _minutes(left) == _minutes(spans) - _minutes(holes)
    assert total(left) == timedelta(minutes=len(_minutes(left)))


@given(SPANS)
def test_clipping_and_what_is_cut_off_make_the_whole(spans: list[Span]) -> None:
    inside = clipped(merged(spans), OVER)

    assert _minutes(inside) | _minutes(without(spans, [OVER])) == _minutes(spans)
    assert all(OVER.start <= span.start < span.end <= OVER.end for span in inside)


@given(SPANS)
def test_gaps_and_demand_fill_the_stretch_up_to_the_last_demand(spans: list[Span]) -> None:
    busy = clipped(merged(spans), OVER)
    idle = gaps(spans, OVER)

    judged = Span(OVER.start, busy[-1].end) if busy else None
    assert not _minutes(idle) & _minutes(busy)
    assert _minutes(idle) | _minutes(busy) == (_minutes([judged]) if judged else set())


@given(SPANS)
def test_no_rule_harvests_more_than_the_oracle(spans: list[Span]) -> None:
    best, simple = (score(spans, rule(spans, OVER), OVER) for rule in (foreseen, reactive))

    assert best.harvested == best.oracle
    assert best.late_returns == 0
    assert best.on_time == best.windows
    assert simple.oracle == best.oracle
    # Late each time, so without the lead time: at most that much more a window.
    assert simple.harvested <= best.oracle + simple.windows * timedelta(minutes=5)
    assert simple.on_time == 0
    assert simple.late_returns >= simple.windows
