"""A page of replayed rules: figures, what they mean, and the days of each card, in one HTML file.

Plain data in, text out. It asks no network and runs no script; what it is told is escaped. The
only importer of jinja2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from idlewin.core.window import Span, clipped, without
from idlewin.picture.days import Days, figures, local_days

_HOUR = timedelta(hours=1)
# Units of the picture: a day is a row, and 24 hours are 960 wide.
_LEFT, _PER_HOUR, _ROW, _TOP, _FOOT = 104, 40, 22, 14, 22
_TALL, _BAR = 18, 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number with its unit, and what it means."""

    name: str
    value: str
    means: str
    bad: bool = False
    """It calls for a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text under their heads."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One card of a trace, or the pool of a rule."""

    days: Days
    figures: tuple[Figure, ...]
    waits: tuple[Span, ...] = ()
    """Late returns, each from its first user until serving was back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is told of one rule."""

    rule: str
    verdict: tuple[str, ...]
    tables: tuple[Table, ...]
    pools: tuple[Pool, ...]


def page(parts: Iterable[Part], history: str) -> str:
    """The page; ``history``: whose demand it was. The same parts give the same text."""
    jinja = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = resources.files("idlewin.picture").joinpath("page.html").read_text("utf-8")
    jinja.filters |= {
        "picture": _picture,
        "summary": figures,
        "instant": _instant,
        "waited": waited,
    }
    return jinja.from_string(template).render(parts=list(parts), history=history) + "\n"


def _instant(at: datetime, zone: str) -> str:
    return f"{at.astimezone(ZoneInfo(zone)):%a %d %b %Y %H:%M}"


def _picture(pool: Pool) -> Markup:
    """The days as SVG, in the colours of the page, a row each."""
    rows = local_days(pool.days)
    hours = max(row.length for row in rows) / _HOUR
    width, bottom = _LEFT + hours * _PER_HOUR + 24, _TOP + _ROW * len(rows)
    told = Markup('<svg viewBox="0 0 {:g} {}" role="img"><title>{}</title>').format(
        width, bottom + _FOOT, f"Days of {pool.days.card}: {figures(pool.days.score)}"
    )
    lines = [told, *_hours(int(hours), bottom)]
    for number, day in enumerate(rows):
        lines += _day(pool, day, _TOP + _ROW * number)
    return Markup("\n").join([*lines, Markup("</svg>")])


def _hours(last: int, bottom: int) -> Iterator[Markup]:
    for hour in range(0, last + 1, 3):
        x = _LEFT + hour * _PER_HOUR
        yield Markup('<path class="hour" d="M{} {}V{}"/>').format(x, _TOP - 4, bottom)
        yield Markup('<text x="{}" y="{}" class="mid">{:02d}:00</text>').format(
            x, bottom + 16, hour
        )


def _day(pool: Pool, day: Span, y: int) -> Iterator[Markup]:
    days = pool.days
    label = f"{day.start.astimezone(ZoneInfo(days.zone)):%a %d %b}"
    yield Markup('<text x="{}" y="{}" class="end">{}</text>').format(_LEFT - 10, y + 14, label)
    seen = clipped(without((days.over,), days.unknown), day)
    for name, spans, tall in (
        ("idle", seen, _TALL),
        ("batch", clipped(days.batch, day), _BAR),
        ("demand", clipped(days.busy, day), _BAR),
    ):
        if spans:
            top = y + (_ROW - tall) / 2
            bars = "".join(
                f"M{_x(span.start, day)} {top:g}H{_x(span.end, day)}v{tall}H{_x(span.start, day)}z"
                for span in clipped(spans, days.over)
            )
            yield Markup('<path class="{}" d="{}"/>').format(name, bars)
    for wait in pool.waits:
        if wait.start in day:
            x, told = _x(wait.start, day), f"{_instant(wait.start, days.zone)}, {waited(wait)}"
            yield Markup(
                '<path class="late" d="M{} {}l-6 -11h12z"><title>{}</title></path>'
            ).format(x, y + 10, f"late return {told}")


def _x(at: datetime, day: Span) -> str:
    """Where an instant is, to a tenth: three minutes are two units wide."""
    return f"{_LEFT + (at - day.start) / _HOUR * _PER_HOUR:.1f}".removesuffix(".0")


def waited(wait: Span) -> str:
    """How long a user waited, to the minute."""
    return f"{wait.length / timedelta(minutes=1):.0f} min"
