"""A picture of backtests: what each policy harvests, over how many returns it is late for.

One panel a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from idlewin.picture import canvas, save

# Okabe and Ito's colours: told apart by colour-blind readers too.
_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7"),
    *("#E69F00", "#56B4E9", "#999999", "#6B4226"),
)
#: Budgets of late returns a card-week, from left to right.
_LEFT, _RIGHT = 0.1, 6.0


class Curve(Protocol):
    """What is drawn of a policy: points of late returns a card-week and share of the oracle's."""

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """In order."""
        ...

    @property
    def causal(self) -> bool:
        """Whether nothing was chosen in hindsight."""
        ...


def draw(traces: Mapping[str, Mapping[str, Curve]], to: Path) -> None:
    """Draw one panel a trace into a PNG. Raises PictureError."""
    figure = canvas()(figsize=(5.2 * len(traces) + 0.6, 4.6), dpi=100, layout="constrained")
    panels = figure.subplots(1, len(traces), squeeze=False, sharey=True)[0]
    names = list(dict.fromkeys(name for policies in traces.values() for name in policies))
    colours = dict(zip(names, _COLOURS * (1 + len(names) // len(_COLOURS)), strict=False))
    for axes, (trace, policies) in zip(panels, traces.items(), strict=True):
        _panel(axes, trace, policies, colours)
    panels[0].set_ylabel("harvest, as a share of the oracle's")
    handles, labels = panels[0].get_legend_handles_labels()
    columns = min(len(names), 2 * len(traces))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    save(figure, to)


def _panel(
    axes: Any, trace: str, policies: Mapping[str, Curve], colours: Mapping[str, str]
) -> None:
    drawn: set[tuple[float, float]] = set()
    for name, curve in policies.items():
        if not curve.points:
            continue
        # The mix of all is often one of them: thin, it does not hide which.
        broad = curve.causal and drawn.isdisjoint(curve.points)
        drawn.update(curve.points)
        late, share = zip(*curve.points, strict=True)
        axes.plot(
            late,
            share,
            label=name if curve.causal else f"{name}, in hindsight",
            color=colours[name],
            linestyle="-" if curve.causal else "--",
            marker="o" if curve.causal else None,
            markersize=7 if broad else 3.5,
            linewidth=2.6 if broad else 1.2,
        )
    axes.axvline(1, color="#CCCCCC", linewidth=1, zorder=0)
    axes.set_xscale("log")
    axes.set_xlim(_LEFT, _RIGHT)
    axes.set_xticks([0.1, 0.25, 0.5, 1, 3], ["0.1", "0.25", "0.5", "1", "3"])
    axes.minorticks_off()
    axes.set_ylim(0, None)
    axes.set_title(trace, loc="left", fontweight="bold")
    axes.set_xlabel("late returns a card-week")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
