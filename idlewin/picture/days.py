"""A picture of the days of a replay: demand, what batch used, and returns that were late.

Plain data in, a PNG out; it knows no controller and no replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from idlewin.core.score import Score
from idlewin.core.window import Span, clipped, without
from idlewin.picture import canvas, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours: told apart by colour-blind readers too.
_DEMAND, _BATCH, _LATE, _IDLE = "#0072B2", "#E69F00", "#B22222", "#EEEEEE"
_HOUR = timedelta(hours=1)
_BAR = 0.72
# Inches.
_WIDTH, _LEFT, _RIGHT, _ROW, _HEAD, _FOOT = 12.0, 1.1, 0.4, 0.36, 0.75, 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """What the picture of one card shows."""

    card: str
    method: str
    """What decided: a forecaster's name, or the rule of thumb."""
    over: Span
    """The days that are drawn."""
    busy: tuple[Span, ...]
    batch: tuple[Span, ...]
    """When batch ran on the card."""
    late: tuple[datetime, ...]
    """When demand found serving away."""
    unknown: tuple[Span, ...] = ()
    """When nothing was recorded; left blank."""
    score: Score
    zone: str = "UTC"
    """The zone whose days are the rows."""


def draw(days: Days, to: Path) -> None:
    """Draw one row per local day into a PNG, 1200 pixels wide. Raises PictureError."""
    figure_of = canvas()
    rows = local_days(days)
    height = _HEAD + _ROW * len(rows) + _FOOT
    figure = figure_of(figsize=(_WIDTH, height), dpi=100)
    # Margins in inches: an automatic layout moves the days when the legend is outside.
    axes = figure.add_axes(
        (
            _LEFT / _WIDTH,
            _FOOT / height,
            1 - (_LEFT + _RIGHT) / _WIDTH,
            1 - (_HEAD + _FOOT) / height,
        )
    )
    for row, day in enumerate(rows):
        _draw_day(axes, days, day, row)
    _dress(axes, days, rows)
    left = _LEFT / _WIDTH
    figure.text(left, 1 - 0.32 / height, _title(days), fontsize=14, fontweight="bold")
    figure.text(left, 1 - 0.60 / height, figures(days.score), fontsize=11)
    figure.legend(
        handles=_legend(),
        loc="lower left",
        bbox_to_anchor=(left, 0),
        ncols=4,
        frameon=False,
        fontsize=11,
        borderaxespad=0.4,
        borderpad=0,
    )
    save(figure, to)


def figures(score: Score) -> str:
    """A score in a sentence."""
    hours, best = score.harvested / _HOUR, score.oracle / _HOUR
    return (
        f"{hours:.1f} h harvested of the oracle's {best:.1f} h ({score.share:.0%})  ·  "
        f"{_count(score.windows, 'window')}  ·  {_count(score.late_returns, 'late return')}"
    )


def _draw_day(axes: Axes, days: Days, day: Span, row: int) -> None:
    def bars(spans: Sequence[Span], colour: str, height: float) -> None:
        pieces = [((s.start - day.start) / _HOUR, s.length / _HOUR) for s in clipped(spans, day)]
        axes.broken_barh(pieces, (row - height / 2, height), facecolors=colour, linewidth=0)

    seen = clipped(without((days.over,), days.unknown), day)
    bars(seen, _IDLE, 0.94)
    bars(days.batch, _BATCH, _BAR)
    bars(days.busy, _DEMAND, _BAR)
    late = [(at - day.start) / _HOUR for at in days.late if at in day]
    axes.plot(
        late,
        [row - 0.47] * len(late),
        linestyle="none",
        marker="v",
        markersize=8,
        color=_LATE,
        markeredgecolor="white",
        markeredgewidth=0.6,
        clip_on=False,
        zorder=3,
    )


def _dress(axes: Axes, days: Days, rows: Sequence[Span]) -> None:
    zone = ZoneInfo(days.zone)
    longest = max(day.length for day in rows) / _HOUR
    axes.set_xlim(0, longest)
    axes.set_ylim(len(rows) - 0.4, -0.75)
    hours = range(0, int(longest) + 1, 3)
    axes.set_xticks(list(hours), [f"{hour:02d}:00" for hour in hours])
    labels = [f"{day.start.astimezone(zone):%a %d %b}" for day in rows]
    axes.set_yticks(range(len(rows)), labels, family="monospace")
    axes.set_xlabel(f"time of day, {days.zone}")
    axes.grid(axis="x", color="#CCCCCC", linewidth=0.6, zorder=0)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D  # noqa: PLC0415 - an extra, and slow to import
    from matplotlib.patches import Patch  # noqa: PLC0415

    return [
        Patch(color=_DEMAND, label="demand"),
        Patch(color=_BATCH, label="batch runs"),
        Patch(color=_IDLE, label="idle, not lent"),
        Line2D(
            [],
            [],
            linestyle="none",
            marker="v",
            markersize=8,
            color=_LATE,
            label="late return: demand finds serving away",
        ),
    ]


def _title(days: Days) -> str:
    length = days.over.length / timedelta(days=1)
    return f"{days.card}  ·  {days.method}  ·  {length:.3g} days"


def local_days(days: Days) -> list[Span]:
    """The local days of the stretch; one with a clock change is 23 or 25 hours long."""
    zone = ZoneInfo(days.zone)
    day: date = days.over.start.astimezone(zone).date()
    found: list[Span] = []
    while (start := datetime.combine(day, time(), zone)) < days.over.end:
        day += timedelta(days=1)
        # In UTC, since Python subtracts wall clocks where both have the same zone.
        ends = (
            at.astimezone(days.over.start.tzinfo)
            for at in (start, datetime.combine(day, time(), zone))
        )
        found.append(Span(*ends))
    return found


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
