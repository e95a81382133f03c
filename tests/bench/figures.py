"""A figure: what was measured, with its unit and, where there is one, the goal it is held to."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table."""

    what: str
    value: str
    goal: str = ""
    met: bool | None = None
    """Whether the goal is met; None: there is none."""


def table(figures: Iterable[Figure]) -> str:
    """The figures as a Markdown table."""
    rows = [("figure", "value", "goal"), *((f.what, f.value, _goal(f)) for f in figures)]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    head, *body = [
        f"| {what.ljust(widths[0])} | {value.rjust(widths[1])} | {goal.ljust(widths[2])} |"
        for what, value, goal in rows
    ]
    rule = f"| {'-' * widths[0]} | {'-' * (widths[1] - 1)}: | {'-' * widths[2]} |"
    return "\n".join((head, rule, *body))


def machine() -> str:
    """On what it was measured, without any name."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores ({platform.machine()}), {memory:.0f} GiB, "
        f"{platform.system()}, Python {platform.python_version()}"
    )


def _goal(figure: Figure) -> str:
    if figure.met is None:
        return ""
    return f"{figure.goal}: {'met' if figure.met else 'MISSED'}"
