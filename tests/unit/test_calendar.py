"""Calendars: local days, spans over midnight, clock changes, and what is refused at load.

Cases that other tools got wrong are cited as project #number.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from idlewin.core.calendar import HORIZON, Calendar, parse

MINUTE = timedelta(minutes=1)


def at(text, zone="UTC"):
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)


def is_open(calendar, now):
    return calendar.open_until(now) is not None


@pytest.mark.parametrize(
    ("zone", "utc_day_differs"),
    [("Pacific/Auckland", True), ("Pacific/Kiritimati", True), ("America/Los_Angeles", True)],
)
def test_a_weekday_is_the_zones_and_never_utcs(zone, utc_day_differs):
    # hjacobs/kube-downscaler #25: Monday in Auckland began at 13:00.
    monday = Calendar(time_zone=zone, allow=("Mon",))
    first, last = at("2026-06-01T00:00", zone), at("2026-06-01T23:59", zone)

    assert [is_open(monday, t) for t in (first - MINUTE, first, last, last + MINUTE)] == [
        False,
        True,
        True,
        False,
    ]
    assert (first.weekday() != 0 or (last + MINUTE).weekday() != 0) is utc_day_differs


def test_each_minute_of_two_weeks_is_what_a_list_of_intervals_says():
    # kedacore/keda #4677: a start on weekdays with a daily end stayed active over the weekend.
    texts = ("Mon-Fri 22:00-07:00", "Sat 09:30-24:00", "Sun 12:00-12:45")
    calendar = Calendar(time_zone="Europe/Vienna", allow=texts, deny=("Wed 23:00-01:00",))
    start = at("2026-06-01T00:00", "Europe/Vienna")

    def wanted(now):
        local = now.astimezone(ZoneInfo("Europe/Vienna"))
        day, minute = local.weekday(), local.hour * 60 + local.minute
        yesterday = (day - 1) % 7
        allowed = (
            (day <= 4 and minute >= 22 * 60)
            or (yesterday <= 4 and minute < 7 * 60)
            or (day == 5 and minute >= 9 * 60 + 30)
            or (day == 6 and 12 * 60 <= minute < 12 * 60 + 45)
        )
        denied = (day == 2 and minute >= 23 * 60) or (yesterday == 2 and minute < 60)
        return allowed and not denied

    wrong = [
        now
        for now in (start + MINUTE * n for n in range(14 * 24 * 60))
        if is_open(calendar, now) is not wanted(now)
    ]
    assert wrong == []


def test_a_rules_zone_counts_whatever_zone_the_process_has():
    # caas-team/GoKubeDownscaler #502: a default zone was accepted and UTC was used.
    script = (
        "from datetime import datetime, UTC; from idlewin.core.calendar import Calendar;"
        "c = Calendar(time_zone='America/Bogota', allow=('Mon-Sun 20:00-21:00',));"
        "print([c.open_until(datetime(2026, 6, 2, h, m, tzinfo=UTC)) is not None"
        " for h, m in ((0, 59), (1, 0), (1, 59), (2, 0))])"
    )
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TZ": "Asia/Tokyo"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert told.strip() == "[False, True, True, False]"


def test_a_rule_without_a_zone_is_in_utc():
    calendar = Calendar(allow=("Mon-Sun 20:00-21:00",))

    assert calendar.time_zone == "UTC"
    assert is_open(calendar, at("2026-06-02T20:00"))
    assert not is_open(calendar, at("2026-06-02T21:00"))


def test_zones_are_known_on_a_machine_that_has_none():
    # kedacore/keda #932, GoKubeDownscaler #62: no zone database in the image.
    script = (
        "from idlewin.core.calendar import Calendar;"
        "print(Calendar(time_zone='Pacific/Auckland', allow=('Mon',)).time_zone)"
    )
    told = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONTZPATH": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert told.strip() == "Pacific/Auckland"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Viena", "did you mean Europe/Vienna?"),
        ("berlin", "did you mean Europe/Berlin?"),
        ("New York", "did you mean America/New_York?"),
        ("", "write one such as"),
        ("../etc", "write one such as"),
        ("+02:00", "write one such as"),
        ("CEST", "write one such as"),
    ],
)
def test_an_unknown_zone_is_refused_at_load_with_the_nearest_place(name, hint):
    with pytest.raises(ValueError, match=r"timeZone .* is no known zone; ") as error:
        Calendar(time_zone=name)

    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("allow", "deny", "hours"),
    [
        (("22:00-07:00",), (), 9),
        (("07:00-22:00",), (), 15),
        (("Sun 22:00-24:00", "Sun 23:00-03:00"), (), 5 / 7),
        (("Sat,Sun",), ("Sat 12:00-24:00",), 36 / 7),
        ((), ("12:00-13:00",), 23),
        (("2026-12-24/2026-12-27",), (), 0),
    ],
)
def test_the_hours_of_an_average_day_are_those_of_the_week(allow, deny, hours):
    calendar = Calendar(time_zone="Europe/Vienna", allow=allow, deny=deny)

    assert calendar.a_day() / timedelta(hours=1) == pytest.approx(hours)


def test_a_range_of_days_goes_round_the_weeks_end():
    # hjacobs/kube-downscaler #84: Sun-Fri never matched.
    calendar = Calendar(allow=("Sun-Fri 10:00-11:00",))
    week = [at(f"2026-06-{day:02}T10:00") for day in range(1, 8)]  # Monday to Sunday

    assert [is_open(calendar, now) for now in week] == [True] * 5 + [False, True]


def test_midnight_as_an_end_is_the_days_end():
    # hjacobs/kube-downscaler #74: 11:36-00:00 was empty, without a word.
    for text in ("Mon 11:36-00:00", "Mon 11:36-24:00"):
        calendar = Calendar(allow=(text,))

        assert calendar.open_until(at("2026-06-01T12:00")) == at("2026-06-02T00:00")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Mon 03:00-03:00", "is empty; for a whole day leave the hours out"),
        ("24:00-03:00", "is empty"),
        ("Mon 22:00-24:30", "past the day's end"),
        ("Mon 25:00-26:00", "is not understood; write 'Mon-Fri 22:00-07:00'"),
        ("Mo 10:00-11:00", "'Mo' is no day; write Mon, Tue"),
        ("mon", "'mon' is no day"),
        ("Mon-Wed-Fri", "is no day"),
        ("", "is not understood"),
        ("22:00", "is not understood"),
        ("2026-12-24", "is not understood"),
        ("2026-12-27T06:00/2026-12-24T18:00", "ends before it starts"),
        ("2026-02-30T06:00/2026-03-24T18:00", "is not understood"),
        ("2026-12-24T18:00Z/2026-12-27T06:00Z", "has an offset; write local time"),
        ("2026-12-24T18:00:30/2026-12-27T06:00", "has seconds; write whole minutes"),
        ("0001-01-01/9999-12-31", "outside the years"),
    ],
)
def test_a_span_that_means_nothing_is_refused_with_a_hint(text, hint):
    # hjacobs/kube-downscaler #84, #74; caas-team/py-kube-downscaler #79.
    with pytest.raises(ValueError, match="calendar span") as error:
        Calendar(deny=(text,))

    assert hint in str(error.value)


@pytest.mark.parametrize(
    ("allow", "deny"),
    [
        (("Sat,Sun",), ("Sat-Sun",)),
        (("Mon 10:00-12:00",), ("09:00-13:00",)),
        ((), ("Mon-Sun",)),
        (("2026-12-24T18:00/2026-12-24T20:00",), ("Thu",)),
    ],
)
def test_a_calendar_that_never_opens_is_refused(allow, deny):
    # hjacobs/kube-downscaler #123: include and exclude of the same, and nothing was said.
    with pytest.raises(ValueError, match="never opens: deny covers all that is allowed"):
        Calendar(allow=allow, deny=deny)


@pytest.mark.parametrize(
    ("allow", "deny"),
    [
        (("2031-12-24T18:00/2031-12-27T06:00",), ()),
        (("Sat,Sun",), ("2024-01-01/2029-01-01",)),
        (("2031-12-24T18:00/2031-12-27T06:00",), ("2031-12-25/2040-01-01",)),
    ],
)
def test_a_calendar_that_opens_once_or_late_is_accepted(allow, deny):
    assert Calendar(allow=allow, deny=deny).longest() > timedelta()


def test_deny_wins_where_it_crosses_allow():
    # hjacobs/kube-downscaler #28: crossing spans went one way in one tool, and failed in another.
    calendar = Calendar(allow=("Mon 20:00-23:00",), deny=("Mon 22:50-23:30",))

    assert calendar.open_until(at("2026-06-01T22:00")) == at("2026-06-01T22:50")
    assert not is_open(calendar, at("2026-06-01T22:55"))


def test_where_the_clock_shows_an_hour_twice_the_calendar_is_open_in_neither_doubt():
    # 2026-10-25, Vienna: 02:00 to 03:00 comes twice, at 00:00Z and at 01:00Z.
    zone = "Europe/Vienna"
    opens = Calendar(time_zone=zone, allow=("Sun 02:00-05:00",))
    closes = Calendar(time_zone=zone, allow=("Sat 22:00-02:30",))
    denied = Calendar(time_zone=zone, deny=("Sun 02:00-02:30",))

    assert opens.opens_at(at("2026-10-24T12:00")) == at("2026-10-25T01:00")
    assert closes.open_until(at("2026-10-24T22:00")) == at("2026-10-25T00:30")
    assert denied.open_until(at("2026-10-24T22:00")) == at("2026-10-25T00:00")
    assert denied.opens_at(at("2026-10-25T00:15")) == at("2026-10-25T01:30")


def test_a_span_into_an_hour_that_the_clock_skips_ends_no_later_than_the_skip():
    # 2026-03-29, Vienna: at 01:00Z, 02:00 becomes 03:00.
    into = Calendar(time_zone="Europe/Vienna", allow=("Sat 22:00-02:30",))
    out = Calendar(time_zone="Europe/Vienna", allow=("Sun 02:30-05:00",))

    assert into.open_until(at("2026-03-28T22:00")) <= at("2026-03-29T01:00")
    assert out.opens_at(at("2026-03-28T22:00")) >= at("2026-03-29T01:00")


def test_a_calendar_without_spans_is_always_open():
    now = at("2026-06-01T12:00")

    assert Calendar().open_until(now) == now + HORIZON
    assert Calendar().opens_at(now) == now


def test_spans_that_touch_are_one():
    calendar = Calendar(allow=("Fri 22:00-24:00", "Sat,Sun"))

    assert calendar.open_until(at("2026-06-05T22:00")) == at("2026-06-08T00:00")
    assert calendar.longest() == timedelta(hours=50)


def test_a_span_is_read_once_and_equal_texts_are_equal():
    assert parse("Sat,Sun") == parse("Sun,Sat") == parse(" Sat-Sun ")
