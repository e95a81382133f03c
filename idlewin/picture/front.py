"""A picture of a tuned rule: what each point harvests, over how often it is late.

The points of the Pareto front are numbered as in the table; colour tells handovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from idlewin.picture import canvas, save

_OTHERS, _SUGGESTED, _LINE = "#BBBBBB", "#B22222", "#CCCCCC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A point of the grid, a card-week each."""

    late: float
    harvested: float
    """Hours."""
    handovers: float
    number: int | None = None
    """On the front."""
    now: bool = False
    """The rule as it is."""
    suggested: bool = False


def draw(dots: Sequence[Dot], title: str, budget: float | None, to: Path) -> None:
    """Draw all points into a PNG; ``budget``: late returns a card-week. Raises PictureError."""
    figure = canvas()(figsize=(9, 5.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    if budget is not None:
        axes.axvline(budget, color=_LINE, linewidth=1.2, zorder=0)
        axes.annotate(
            "budget",
            (budget, 0),
            xycoords=("data", "axes fraction"),
            xytext=(4, 5),
            textcoords="offset points",
            color="#777777",
        )
    _points(figure, axes, dots)
    _ringed(axes, dots)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel("late returns a card-week")
    axes.set_ylabel("harvested hours a card-week")
    # A dot at nothing is drawn whole.
    most_late = max(budget or 0, *(dot.late for dot in dots), 0) or 1
    axes.set_xlim(-0.03 * most_late, 1.08 * most_late)
    most = max(dot.harvested for dot in dots) or 1
    axes.set_ylim(-0.03 * most, 1.08 * most)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, labelspacing=1)
    save(figure, to)


def _points(figure: Any, axes: Any, dots: Sequence[Dot]) -> None:
    others = [dot for dot in dots if dot.number is None]
    best = [dot for dot in dots if dot.number is not None]
    axes.scatter(
        [dot.late for dot in others],
        [dot.harvested for dot in others],
        color=_OTHERS,
        s=26,
        label="the other points",
    )
    drawn = axes.scatter(
        [dot.late for dot in best],
        [dot.harvested for dot in best],
        c=[dot.handovers for dot in best],
        # Told apart by colour-blind readers too.
        cmap="cividis_r",
        vmin=0,
        vmax=max(dot.handovers for dot in best) or 1,
        edgecolors="black",
        linewidths=0.6,
        s=70,
        zorder=3,
        label="Pareto front, numbered as in the table",
    )
    figure.colorbar(drawn, ax=axes, label="handovers a card-week")
    for place, names in _names(best).items():
        axes.annotate(names, place, xytext=(12, 0), textcoords="offset points", va="center")


def _names(best: Sequence[Dot]) -> dict[tuple[float, float], str]:
    """The numbers at each place; those that differ in handovers alone share one."""
    found: dict[tuple[float, float], str] = {}
    for dot in best:
        place = (dot.late, dot.harvested)
        found[place] = f"{found[place]}, {dot.number}" if place in found else str(dot.number)
    return found


def _ringed(axes: Any, dots: Sequence[Dot]) -> None:
    for marked, marker, colour, size, label in (
        ([dot for dot in dots if dot.now], "D", "black", 150, "the rule as it is"),
        (
            [dot for dot in dots if dot.suggested],
            "o",
            _SUGGESTED,
            240,
            "most harvest within the budget",
        ),
    ):
        if not marked:
            continue
        axes.scatter(
            [dot.late for dot in marked],
            [dot.harvested for dot in marked],
            marker=marker,
            s=size,
            facecolors="none",
            edgecolors=colour,
            linewidths=1.6,
            zorder=4,
            label=label,
        )
