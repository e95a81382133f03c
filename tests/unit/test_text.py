"""Durations, shares and instants as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from idlewin.core.text import (
    Duration,
    camel,
    format_duration,
    format_instant,
    format_share,
    parse_duration,
    parse_instant,
    parse_share,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("10m", 600), ("1h30m", 5400), ("2d", 172800), ("1w", 604800), ("250ms", 0.25)],
)
def test_a_duration_is_the_sum_of_its_units(text, seconds):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10 m",
        "10min",
        "10 minutes",
        "m",
        "30m1h",
        "1.5h",
        "-5m",
        "PT10M",
        "5M",
        "1m2m",
        "\u0661m",
    ],
)
def test_what_is_no_duration_is_refused_with_what_would_be_right(text):
    with pytest.raises(ValueError, match="is not a duration; write 90s, 10m, 1h30m or 2d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "hint"),
    [(30, "30m"), ("30", "30m"), (0, "10m"), (1.5, "10m"), (True, "10m"), (None, "10m"), ([], "1")],
)
def test_a_number_without_a_unit_is_no_duration_and_is_told_with_one(value, hint):
    with pytest.raises(ValueError, match=f"write a number with its unit, such as {hint}"):
        parse_duration(value)


@pytest.mark.parametrize("text", ["521w", "99999999999999999999s"])
def test_a_duration_of_more_than_ten_years_is_refused(text):
    with pytest.raises(ValueError, match="longer than ten years"):
        parse_duration(text)


def test_a_duration_is_written_in_its_largest_units():
    assert format_duration(timedelta(hours=25, seconds=90)) == "1d1h1m30s"
    assert format_duration(timedelta()) == "0s"
    assert format_duration(-timedelta(minutes=5)) == "-5m"


def test_the_api_servers_pattern_lets_every_duration_through():
    pattern = Duration.__metadata__[0].pattern

    for text in ("10m", "1h30m", "1w2d3h4m5s6ms"):
        parse_duration(text)
        assert re.search(pattern, text)
    assert not re.search(pattern, "10 minutes")


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.1%", 0.001), ("100%", 1.0)])
def test_a_share_is_written_as_per_cent(text, value):
    assert parse_share(text) == value
    assert format_share(value) == text


@pytest.mark.parametrize("value", ["5", 0.05, "0%", "101%", "-1%", "5 %", "1e1%", None, True])
def test_what_is_no_share_is_refused(value):
    with pytest.raises(ValueError, match="is not a share; write it as per cent, such as 5%"):
        parse_share(value)


def test_an_instant_needs_its_zone():
    assert parse_instant("2026-12-24T18:00:00+01:00") == datetime(2026, 12, 24, 17, tzinfo=UTC)
    assert format_instant(parse_instant("2026-12-24T18:00:00Z")) == "2026-12-24T18:00:00Z"
    for text in ("2026-12-24T18:00:00", "9999-12-31T23:59:59-05:00", "tomorrow", "", None, 3):
        with pytest.raises(ValueError, match="is no instant; write one such as 2026-12-24T18"):
            parse_instant(text)


def test_a_fields_name_in_yaml_is_in_camel_case():
    assert camel("max_per_day") == "maxPerDay"
    assert camel("min") == "min"
