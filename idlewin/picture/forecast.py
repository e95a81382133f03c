"""A picture of a forecast: the chance of staying idle over the time ahead, and what is made of it.

Plain data in, a PNG out; it asks no cluster and no Prometheus.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from idlewin.core.forecast import Forecast
from idlewin.picture import PictureError, canvas, save

# Okabe and Ito's colours, as in the picture of the days.
_CHANCE, _LENT, _BACK = "#0072B2", "#E69F00", "#B22222"
_HOUR = timedelta(hours=1)
#: Characters of a line of text at its size and the picture's width.
_LINE = 110
#: Hours that are drawn at most, and up to which each has its tick.
_LONGEST, _SHORT = 24.0, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What the picture shows of a pool at an instant."""

    rule: str
    forecast: Forecast
    idle_since: datetime | None
    """None: whether there is demand is not known."""
    lent: bool
    """Whether the cards are lent now; False: the two instants are those of a window from now on."""
    reclaim_at: datetime | None = None
    """When giving back begins; None: nothing would be lent."""
    wanted_at: datetime | None = None
    """When serving is wanted ready."""
    zone: str = "UTC"
    """The zone of the axis."""


def draw(drawn: Drawn, to: Path) -> None:
    """Draw it into a PNG, 1000 pixels wide. Raises PictureError."""
    forecast = drawn.forecast
    if not forecast.ready:
        raise PictureError(f"{drawn.rule} has no forecast: {forecast.rests_on}")
    figure = canvas()(figsize=(10, 4.6), dpi=100, layout="constrained")
    axes = figure.subplots()
    hours = [step / _HOUR for step, _ in forecast.chances]
    chances = [chance for _, chance in forecast.chances]
    # Where the calendar alone decides there is no chance to draw, only when the window ends.
    if hours:
        told = "chance that no demand comes before"
        axes.plot([0, *hours], [1, *chances], color=_CHANCE, linewidth=2, label=told)
    for start, end, colour, label in _marks(drawn):
        axes.axvspan(start, end, color=colour, alpha=0.3, linewidth=0, label=label)
    _dress(axes, drawn, min(hours[-1], _LONGEST) if hours else _LONGEST)
    figure.suptitle(_title(drawn), x=0.01, ha="left", fontsize=13, fontweight="bold")
    rests_on = textwrap.fill(f"{forecast.method}: {forecast.rests_on}", _LINE)
    axes.set_title(rests_on, loc="left", fontsize=9.5)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower left", ncols=3, frameon=False)
    save(figure, to)


def _marks(drawn: Drawn) -> Iterator[tuple[float, float, str, str]]:
    """Stretches to shade, in hours from the forecast on, each with its colour and its words."""
    made, reclaim, wanted = drawn.forecast.made_at, drawn.reclaim_at, drawn.wanted_at
    if reclaim is None or wanted is None or wanted <= made or not (drawn.lent or reclaim > made):
        return
    begins, end = max((reclaim - made) / _HOUR, 0), (wanted - made) / _HOUR
    lent = "lent" if drawn.lent else "if lent now"
    yield 0, begins, _LENT, f"{lent}: giving back begins {_clock(reclaim, drawn, '%a %H:%M')}"
    yield begins, end, _BACK, f"serving is wanted ready {_clock(wanted, drawn, '%a %H:%M')}"


def _dress(axes: Any, drawn: Drawn, last: float) -> None:
    made = drawn.forecast.made_at
    axes.set_xlim(0, last)
    axes.set_ylim(0, 1.02)
    begin = made.astimezone(ZoneInfo(drawn.zone))
    # Full hours of the zone's clock; counted in UTC, since a day may have 23 or 25.
    past = timedelta(minutes=begin.minute, seconds=begin.second, microseconds=begin.microsecond)
    full = [n * _HOUR - past for n in range(1, int(last) + 2)]
    every = 1 if last <= _SHORT else 3
    ticks = [
        ahead / _HOUR
        for ahead in full
        if ahead / _HOUR <= last and (made + ahead).astimezone(begin.tzinfo).hour % every == 0
    ]
    axes.set_xticks(ticks, [_clock(made + tick * _HOUR, drawn) for tick in ticks])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_xlabel(f"from {begin:%a %d %b %H:%M} on, {drawn.zone}")
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _title(drawn: Drawn) -> str:
    since = drawn.idle_since and drawn.idle_since.astimezone(ZoneInfo(drawn.zone))
    idle = f"idle since {since:%a %d %b %H:%M}" if since else "demand unknown"
    return f"{drawn.rule}  ·  {'lent' if drawn.lent else 'not lent'}, {idle}"


def _clock(instant: datetime, drawn: Drawn, how: str = "%H:%M") -> str:
    return instant.astimezone(ZoneInfo(drawn.zone)).strftime(how)
