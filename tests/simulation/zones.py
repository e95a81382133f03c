"""Calendars of a story over a clock change, and whether they are open, as a clock on a wall tells.

The zone's rules are the standard library's here, and the product's are pendulum's.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

from idlewin.core.calendar import DAYS, Calendar

#: Where clocks change, and when: by an hour or half of one, at night, in spring and in autumn.
CHANGES = tuple(
    (zone, datetime.fromisoformat(at))
    for zone, at in (
        ("Europe/Vienna", "2026-03-29T01:00Z"),
        ("Europe/Vienna", "2026-10-25T01:00Z"),
        ("America/New_York", "2026-03-08T07:00Z"),
        ("America/New_York", "2026-11-01T06:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T15:30Z"),
        ("America/Santiago", "2026-04-05T03:00Z"),
        ("America/Santiago", "2026-09-06T04:00Z"),
    )
)
DAY = 24 * 60
SECOND = timedelta(seconds=1)


def a_calendar(random: Random) -> tuple[datetime, Calendar]:
    """When a story begins, and hours that begin, end, or pause near the clock change in it."""
    zone, change = random.choice(CHANGES)
    before = (change - SECOND).astimezone(ZoneInfo(zone))
    at = before.hour * 60 + before.minute + 1

    def near(least: int, most: int) -> int:
        return at + random.randrange(least, most, 5)

    early, near_it, late = near(-300, -60), near(-60, 65), near(90, 300)
    allow, deny = random.choice(
        (
            ((_span(early, near_it),), ()),
            ((_span(near_it, late),), ()),
            ((_span(early, near_it), _span(near_it + 10, late)), ()),
            ((), (_span(near_it, near_it + random.choice((15, 45, 90))),)),
            ((_span(early, late),), (_span(near(-60, 0), near(5, 65)),)),
        )
    )
    start = change - timedelta(hours=random.uniform(2, 6))
    return start.replace(microsecond=0), Calendar(time_zone=zone, allow=allow, deny=deny)


def open_at(calendar: Calendar, now: datetime) -> bool:
    """Whether a person who looks at a clock there calls it open."""
    local = now.astimezone(ZoneInfo(calendar.time_zone))
    allowed = not calendar.allow or any(_in(span, local) for span in calendar.allow)
    return allowed and not any(_in(span, local) for span in calendar.deny)


def _span(start: int, end: int) -> str:
    return "-".join(f"{at % DAY // 60:02}:{at % 60:02}" for at in (start, end))


def _in(span: str, local: datetime) -> bool:
    days, _, hours = span.rpartition(" ") if ":" in span else (span, "", "00:00-24:00")
    start, end = (int(at[:2]) * 60 + int(at[3:]) for at in hours.split("-"))
    minute, today = local.hour * 60 + local.minute, local.weekday()
    if start < end:
        return start <= minute < end and _on(days, today)
    return (minute >= start and _on(days, today)) or (minute < end and _on(days, today - 1))


def _on(days: str, day: int) -> bool:
    """Whether a day is meant: ``Mon-Fri``, ``Mon``, or nothing for all."""
    if not days:
        return True
    first, last = (DAYS.index(name) for name in (days[:3], days[-3:]))
    return (day - first) % 7 <= (last - first) % 7
