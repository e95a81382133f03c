"""Cases of time and calendar that other tools were asked, and what each of them made of them.

Measured on GoKubeDownscaler v1.3.4, py-kube-downscaler v26.4.0 and kube-green v0.7.1, by their own
functions called with chosen instants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from idlewin.core.calendar import Calendar

MINUTE = timedelta(minutes=1)
NIGHT = "20:00-06:00"
#: The clocks of Vienna: 02:00 becomes 03:00 on the first, 03:00 becomes 02:00 on the second.
SPRING, AUTUMN = "2026-03-29", "2026-10-25"


@dataclass(frozen=True, slots=True)
class Case:
    """A case, what the three made of it, and whether idlewin does as a person means it."""

    name: str
    go: str
    py: str
    green: str
    says: str
    """What idlewin does, in a word."""
    holds: Callable[[], bool]


def at(text: str, zone: str = "Europe/Vienna", fold: int = 0) -> datetime:
    """The instant of a local time."""
    local = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return local.astimezone(UTC)


def down(spans: str | tuple[str, ...], *instants: datetime, zone: str = "Europe/Vienna") -> bool:
    """Whether a calendar is open at all of the instants."""
    allow = (spans,) if isinstance(spans, str) else spans
    calendar = Calendar(time_zone=zone, allow=allow)
    return all(calendar.open_until(now) is not None for now in instants)


def up(spans: str, *instants: datetime, zone: str = "Europe/Vienna") -> bool:
    """Whether a calendar is closed at all of the instants."""
    return not any(down(spans, now, zone=zone) for now in instants)


def refused(*spans: str) -> bool:
    """Whether a calendar is refused, with a hint at what to write."""
    try:
        Calendar(allow=spans)
    except ValueError as error:
        return "write" in str(error)
    return False


def _zones() -> bool:
    """Whether Monday is that of the zone: a minute before it, its first, its last, one after."""
    found = []
    for zone in ("Asia/Tokyo", "America/Los_Angeles"):
        first, end = at("2026-06-01", zone), at("2026-06-02", zone)
        found += [
            up("Mon", first - MINUTE, end, zone=zone),
            down("Mon", first, end - MINUTE, zone=zone),
        ]
    return all(found)


def _wake_in_the_gap() -> bool:
    closes = Calendar(time_zone="Europe/Vienna", allow=("20:00-02:30",))
    until = closes.open_until(at("2026-03-28T22:00"))
    gap = at(f"{SPRING}T03:00")
    return until is not None and until <= gap and up("20:00-02:30", gap, at(f"{SPRING}T12:00"))


def _short() -> bool:
    span, start = "10:00-10:01", at("2026-06-01T10:00")
    return down(span, start) and up(span, start - MINUTE, start + MINUTE)


CASES = (
    Case(
        "20:00-06:00 every day, at 23:00 and at 03:00",
        *("right", "**never matches, no error**", "right", "right"),
        lambda: (
            down(NIGHT, at("2026-06-01T23:00"), at("2026-06-02T03:00"))
            and up(NIGHT, at("2026-06-01T12:00"), at("2026-06-02T06:00"))
        ),
    ),
    Case(
        "Mon-Fri 20:00-06:00, Sat 03:00 (Friday's night)",
        *("**up**", "**up**", "down until Mon 06:00", "down until Sat 06:00"),
        lambda: (
            down(f"Mon-Fri {NIGHT}", at("2026-06-06T03:00"))
            and up(f"Mon-Fri {NIGHT}", at("2026-06-06T06:00"))
        ),
    ),
    Case(
        "Mon-Fri 20:00-06:00, Mon 03:00 (Sunday's night)",
        *("**down**", "up", "down since Friday", "up"),
        lambda: up(f"Mon-Fri {NIGHT}", at("2026-06-01T03:00"), at("2026-06-07T23:00")),
    ),
    Case(
        "a weekday is the rule's zone's (Tokyo, Los Angeles)",
        *("right", "right", "right", "right"),
        _zones,
    ),
    Case(
        "spring, the hour after the change",
        *("right", "right", "right", "right"),
        lambda: (
            down(NIGHT, at(f"{SPRING}T03:30"), at(f"{SPRING}T05:59"))
            and up(NIGHT, at(f"{SPRING}T06:00"))
        ),
    ),
    Case(
        "spring, wake-up at 02:30, which does not exist",
        *("at once", "at once", "**a day late**", "at the change, at the latest"),
        _wake_in_the_gap,
    ),
    Case(
        "spring, sleep at 02:30, which does not exist",
        *("not that day", "not that day", "not that day", "from the change on"),
        lambda: (
            down("02:30-05:00", at(f"{SPRING}T04:00")) and up("02:30-05:00", at(f"{SPRING}T01:59"))
        ),
    ),
    Case(
        "autumn, 02:30 comes twice",
        *("down in both", "down in both", "once, at the first", "down in both"),
        lambda: down(NIGHT, at(f"{AUTUMN}T02:30"), at(f"{AUTUMN}T02:30", fold=1)),
    ),
    Case(
        "zone Etc/GMT+3",
        *("right", "**error**", "right", "right"),
        # By POSIX' sign: three hours behind UTC.
        lambda: down("20:00-21:00", at("2026-06-01T23:30", "UTC"), zone="Etc/GMT+3"),
    ),
    Case(
        "no zone given",
        *("error when it matches", "error when it matches", "UTC", "UTC"),
        lambda: (
            Calendar(allow=("20:00-21:00",)).open_until(at("2026-06-01T20:30", "UTC"))
            == at("2026-06-01T21:00", "UTC")
        ),
    ),
    Case(
        "25:00-26:99",
        *("error", "**silently never**", "error", "error, with a hint"),
        lambda: refused("25:00-26:99"),
    ),
    Case(
        "a good item, then rubbish",
        *("error", "**not noticed**", "-", "error, with a hint"),
        lambda: refused("Mon 20:00-21:00", "rubbish"),
    ),
    Case(
        "08:00-08:00",
        *("**never**", "not run", "-", "error, with a hint"),
        lambda: refused("08:00-08:00"),
    ),
    Case(
        "a window of one minute",
        *("right", "right", "**wakes on the next day**", "right"),
        _short,
    ),
)
