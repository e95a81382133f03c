"""The shorthand of series: as promtool writes it, and each series that there is can be written."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given, strategies as st

from idlewin.ruletest.shorthand import format_values, parse_values

NUMBERS = st.one_of(st.integers(-1000, 1000).map(float), st.floats(-1e9, 1e9))
COUNTS = st.integers(0, 50)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        # Those of Prometheus' own page.
        ("-2+4x3", (-2, 2, 6, 10)),
        (" 1-2x4", (1, -1, -3, -5, -7)),
        (" 1x4", (1, 1, 1, 1, 1)),
        (" 1 _x3 stale", (1, None, None, None, None)),
        # That of the issue that asked for it.
        ("0x2 5+0x1 _x2 stale", (0, 0, 0, 5, 5, None, None, None)),
        ("_", (None,)),
        ("0.5+0.25x1", (0.5, 0.75)),
        ("1e2x1", (100, 100)),
        ("Inf -inf", (math.inf, -math.inf)),
    ],
)
def test_a_series_is_read_as_promtool_reads_it(text, values):
    assert parse_values(text) == values


def test_nan_is_a_sample_and_no_gap():
    (value,) = parse_values("NaN")

    assert value is not None
    assert math.isnan(value)


@given(st.lists(st.one_of(st.none(), NUMBERS), min_size=1, max_size=50))
@example([None])
@example([-0.0, 1e-9, 123456789.125])
def test_whatever_is_written_is_read_the_same(values):
    assert parse_values(format_values(tuple(values))) == tuple(values)


@given(NUMBERS, NUMBERS, COUNTS)
def test_a_step_is_added_so_many_times(first, step, more):
    sign = "-" if step < 0 else "+"
    values = parse_values(f"{first!r}{sign}{abs(step)!r}x{more}")

    assert len(values) == more + 1
    assert values[0] == first
    assert values[-1] == pytest.approx(first + step * more)


@given(st.integers(1, 50), COUNTS)
def test_gaps_are_as_many_as_are_written_and_samples_one_more(gaps, more):
    assert parse_values(f"_x{gaps} 0x{more}") == (None,) * gaps + (0.0,) * (more + 1)


@given(st.text(alphabet="0123456789+-x_. staleINFnan", max_size=12))
def test_any_text_is_a_series_or_told_as_none(text):
    try:
        told = str(parse_values(text))
    except ValueError as error:
        told = str(error)

    assert re.match(r"\(.+\)|.*series", told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0x30 y", "'y' in the series '0x30 y' is none of a, axn, a+bxn"),
        ("1+2", "'1+2' in the series"),
        ("_+1x3", "'_+1x3' in the series"),
        ("stalex3", "'stalex3' in the series"),
        ("0x", "'0x' in the series"),
        ("", "a series is empty"),
        (48, "48 is no series; write it in quotes"),
        ("0x999999999", "more than 100000 samples"),
        ("0x60000 0x60000", "more than 100000 samples"),
    ],
)
def test_what_is_no_series_is_told(text, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_values(text)
