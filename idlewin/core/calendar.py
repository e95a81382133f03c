"""Hours in which a window may be open, in a zone's local time.

The one file of the core that uses pendulum. An instant is turned into local days first, so a
weekday is never UTC's; where a clock change makes a local time ambiguous or skips it, the
calendar opens at the later and closes at the earlier instant: what is allowed begins at the later
one, what is denied at the earlier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, ClassVar

import pendulum

from idlewin.core.text import camel
from idlewin.core.window import Span, merged, without

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: How far ahead a calendar looks; an opening or closing beyond it is as good as never.
HORIZON = timedelta(days=15)
_DAY = timedelta(days=1)
_WEEK = 7 * 24 * 60
_SOME_MONDAY = date(2024, 1, 1)
_CLOCK = r"([01]\d|2[0-4]):([0-5]\d)"
_WEEKLY = re.compile(rf"(?P<days>[A-Za-z,\-]+)?\s*(?:(?P<from>{_CLOCK})-(?P<to>{_CLOCK}))?")
_HINT = "write 'Mon-Fri 22:00-07:00', 'Sat,Sun', or '2026-12-24T18:00/2026-12-27T06:00'"


@dataclass(frozen=True, slots=True)
class Weekly:
    """A span that comes back each week; days are those on which it starts, minutes are local."""

    days: frozenset[int]
    start: int
    end: int

    def on(self, day: date, zone: pendulum.Timezone, *, wide: bool) -> tuple[Span, ...]:
        """Its span that starts on a local day, if any; wide where the clock leaves a choice."""
        if day.weekday() not in self.days:
            return ()
        start, end = (
            _instant(day, minutes, zone, fold)
            for minutes, fold in ((self.start, not wide), (self.end, wide))
        )
        return (Span(start, end),) if start < end else ()


@dataclass(frozen=True, slots=True)
class Fixed:
    """A span of local time that comes once; a date without a time is its midnight."""

    start: datetime
    end: datetime

    def on(self, day: date, zone: pendulum.Timezone, *, wide: bool) -> tuple[Span, ...]:
        """Its span, told on the local day on which it starts and on each that it covers."""
        if not self.start.date() <= day <= self.end.date():
            return ()
        ends = [
            _instant(at.date(), at.hour * 60 + at.minute, zone, fold)
            for at, fold in ((self.start, not wide), (self.end, wide))
        ]
        return (Span(ends[0], ends[1]),) if ends[0] < ends[1] else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Hours in which a window may be open. Without ``allow`` it is always open."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {
        "extra": "forbid",
        "alias_generator": camel,
        "strict": True,
        "use_attribute_docstrings": True,
    }

    time_zone: str = "UTC"
    """An IANA zone, such as Europe/Vienna."""
    allow: tuple[str, ...] = ()
    """Spans such as 'Sun-Thu 22:00-07:00' or 'Sat,Sun'; a day is the one on which a span starts."""
    deny: tuple[str, ...] = ()
    """Spans in which no window may be open, whatever is allowed."""

    def __post_init__(self) -> None:
        zone(self.time_zone)
        for text in (*self.allow, *self.deny):
            parse(text)
        if not self.longest():
            raise ValueError(
                "calendar never opens: deny covers all that is allowed; take something out of deny"
            )

    def longest(self) -> timedelta:
        """How long it is open at a stretch, at most; a calendar without spans, the horizon."""
        if not self.allow and not self.deny:
            return HORIZON
        allowed, denied = ([parse(text) for text in texts] for texts in (self.allow, self.deny))
        # Past the last fixed span each week is like the next; before it, what is allowed once.
        fixed = [span for span in (*allowed, *denied) if isinstance(span, Fixed)]
        days = [max((span.end.date() for span in fixed), default=_SOME_MONDAY) + 3 * _DAY]
        days += [span.start.date() for span in allowed if isinstance(span, Fixed)]
        lengths = (span.length for day in days for span in self._spans(day))
        return max(lengths, default=timedelta())

    def a_day(self) -> timedelta:
        """How long it is open in a day, on the average of a week; what comes once is left out."""
        allow, deny = ([parse(text) for text in texts] for texts in (self.allow, self.deny))
        open_ = set().union(*map(_of_week, allow)) if allow else set(range(_WEEK))
        return timedelta(minutes=len(open_.difference(*map(_of_week, deny)))) / 7

    def open_until(self, now: datetime) -> datetime | None:
        """When the calendar closes next; None while it is closed."""
        if not self.allow and not self.deny:
            return now + HORIZON
        return next((s.end for s in self._spans(self._today(now)) if now in s), None)

    def opens_at(self, now: datetime) -> datetime | None:
        """When it opens next, if within the horizon; now while it is open."""
        if self.open_until(now) is not None:
            return now
        return next((s.start for s in self._spans(self._today(now)) if s.start > now), None)

    def day_of(self, now: datetime) -> date:
        """The local day of an instant."""
        return self._today(now)

    def _today(self, now: datetime) -> date:
        return now.astimezone(zone(self.time_zone)).date()

    def _spans(self, today: date) -> tuple[Span, ...]:
        return _open_spans(self, today)


def _of_week(span: Weekly | Fixed) -> frozenset[int]:
    """The minutes of a week, from Monday on, that a span covers."""
    if isinstance(span, Fixed):
        return frozenset()
    minutes = (day * 24 * 60 + n for day in span.days for n in range(span.start, span.end))
    return frozenset(minute % _WEEK for minute in minutes)


@lru_cache(maxsize=4096)
def _open_spans(calendar: Calendar, today: date) -> tuple[Span, ...]:
    """When a calendar is open, from the day before a local day up to the horizon."""
    tz = zone(calendar.time_zone)
    days = [today + _DAY * n for n in range(-2, HORIZON.days + 1)]

    def spans(texts: tuple[str, ...], *, wide: bool) -> list[Span]:
        rules = [parse(text) for text in texts]
        return [span for rule in rules for day in days for span in rule.on(day, tz, wide=wide)]

    ends = _instant(days[0], 0, tz, later=True), _instant(days[-1], 0, tz, later=False)
    allowed = spans(calendar.allow, wide=False) if calendar.allow else [Span(*ends)]
    return without(merged(allowed), spans(calendar.deny, wide=True))


def zone(name: str) -> pendulum.Timezone:
    """The zone of a name. Raises ValueError where there is none."""
    try:
        return pendulum.timezone(name)
    except Exception:  # noqa: BLE001 - pendulum and zoneinfo raise many kinds
        near = _nearest_zone(name)
        hint = f"did you mean {near}?" if near else "write one such as Europe/Vienna or UTC"
        raise ValueError(f"calendar.timeZone {name!r} is no known zone; {hint}") from None


def _nearest_zone(name: str) -> str:
    """The zone that a name is likest to, or to the city of; empty where it is like none."""
    # Without those that are no place: CEST is like EST, and seven hours from it.
    places = (zone for zone in pendulum.timezones() if "/" in zone and zone[:4] != "Etc/")
    known = {"utc": "UTC", **{zone.lower(): zone for zone in places}}
    wanted = name.lower().replace(" ", "_")
    city = next((zone for low, zone in known.items() if low.endswith(f"/{wanted}")), "")
    close = get_close_matches(wanted, known, n=1, cutoff=0.75)
    return city or (known[close[0]] if close else "")


@lru_cache(maxsize=1024)
def parse(text: str) -> Weekly | Fixed:
    """A span of the calendar. Raises ValueError with a hint."""
    if "/" in text:
        return _fixed(text)
    found = _WEEKLY.fullmatch(text.strip())
    if not text.strip() or found is None:
        raise ValueError(f"calendar span {text!r} is not understood; {_HINT}")
    days = _days(found["days"], text)
    if found["from"] is None:
        return Weekly(days, 0, 24 * 60)
    start, end = _minutes(found["from"], text), _minutes(found["to"], text)
    if start in (end, 24 * 60):
        raise ValueError(
            f"calendar span {text!r} is empty; for a whole day leave the hours out, "
            "for midnight as an end write 24:00"
        )
    return Weekly(days, start, end if end > start else end + 24 * 60)


def _fixed(text: str) -> Fixed:
    try:
        start, end = (datetime.fromisoformat(part.strip()) for part in text.split("/"))
    except ValueError:
        raise ValueError(f"calendar span {text!r} is not understood; {_HINT}") from None
    if start.tzinfo or end.tzinfo:
        raise ValueError(f"calendar span {text!r} has an offset; write local time of the timeZone")
    if end <= start:
        raise ValueError(f"calendar span {text!r} ends before it starts")
    if any(at.second or at.microsecond for at in (start, end)):
        raise ValueError(f"calendar span {text!r} has seconds; write whole minutes")
    if start.year < 1970 or end.year > 2199:
        raise ValueError(f"calendar span {text!r} is outside the years 1970 to 2199")
    return Fixed(start, end)


def _days(text: str | None, whole: str) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        names = part.split("-")
        if not 1 <= len(names) <= 2 or any(name not in DAYS for name in names):
            raise ValueError(
                f"calendar span {whole!r}: {part!r} is no day; write Mon, Tue, Wed, Thu, Fri, "
                "Sat or Sun, or a range such as Sun-Thu"
            )
        first, last = DAYS.index(names[0]), DAYS.index(names[-1])
        days.update((first + n) % 7 for n in range((last - first) % 7 + 1))
    return frozenset(days)


def _minutes(clock: str, whole: str) -> int:
    hours, minutes = (int(part) for part in clock.split(":"))
    if hours == 24 and minutes:
        raise ValueError(f"calendar span {whole!r}: {clock} is past the day's end, 24:00")
    return hours * 60 + minutes


def _instant(day: date, minutes: int, tz: pendulum.Timezone, later: bool) -> datetime:  # noqa: FBT001
    """The instant of a local time, in UTC; of two, the later or the earlier.

    Python compares and subtracts times of one zone by the wall clock, as if it never changed.
    """
    day, minutes = day + _DAY * (minutes // (24 * 60)), minutes % (24 * 60)
    local = pendulum.datetime(
        day.year, day.month, day.day, minutes // 60, minutes % 60, tz=tz, fold=int(later)
    )
    return datetime.fromtimestamp(local.timestamp(), UTC)
