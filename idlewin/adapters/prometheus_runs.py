"""From numbers on a grid of steps to runs of busy and unknown: pure, no question is asked here.

A step ends at its number times the grid's width, counted from the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from idlewin.catalogue import described
from idlewin.core.load import History, Level, Reading, judge, level_of
from idlewin.core.target import Demand
from idlewin.core.window import Span

#: A demand's code for a step without any series: not unknown by itself where the target is at zero.
ABSENT = "Absent"
#: The number of a series that is there and says no more than one that is not.
NOTHING = -2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The steps after ``first`` up to and with ``last``, each ``width`` seconds long."""

    first: int
    last: int
    width: int

    def at(self, step: int) -> datetime:
        """When a step ends."""
        return datetime.fromtimestamp(step * self.width, tz=UTC)

    @property
    def span(self) -> Span:
        """All of it."""
        return Span(self.at(self.first), self.at(self.last))

    @property
    def unknown(self) -> History:
        """A history that knows nothing."""
        return History(covers=self.span, unknown=(self.span,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One demand's codes, a step each: a level, or absent."""

    target: str
    demand: Demand
    visible: bool
    """Whether it shows while the target has no pod."""
    codes: Sequence[str]


def codes(
    demand: Demand,
    values: Sequence[Sequence[float]],
    alive: Sequence[float],
    *,
    visible: bool,
) -> list[str]:
    """Busy, idle, unknown or absent for each step, of the series that a demand means.

    ``values``: a row of steps for each series, NaN where it has no point, below 0 where its points
    were impossible, or ``NOTHING``. ``alive``: for each step, 1 while the exporters are known to
    live. ``visible``: whether the demand shows while the target has no pod.
    """
    # A key that never was is a mistake in the rule, not a service that nobody ever wanted.
    seen = any(not math.isnan(value) for row in values for value in row)
    teller = _Teller(demand, visible=visible, empty_is_idle=seen or demand.source is None)
    rows: Iterable[tuple[float, ...]] = zip(*values, strict=True) if values else [()] * len(alive)
    return [teller.code(row, up) for row, up in zip(rows, alive, strict=True)]


class _Teller:
    """What one demand's numbers say; equal ones are thought about once."""

    def __init__(self, demand: Demand, *, visible: bool, empty_is_idle: bool) -> None:
        self._demand, self._visible, self._empty_is_idle = demand, visible, empty_is_idle
        self._told: dict[tuple[str, bool], str] = {}

    def code(self, row: tuple[float, ...], up: float) -> str:
        # As text: NaN is not equal to itself, so it would never be found again.
        key = (repr(row), up >= 1)
        if (code := self._told.get(key)) is None:
            code = self._told[key] = self._code(row, alive=up >= 1)
        return code

    def _code(self, row: tuple[float, ...], *, alive: bool) -> str:
        there = [value for value in row if not math.isnan(value) and value != NOTHING]
        free = self._demand.source is None
        if not there:
            if alive and self._empty_is_idle:
                return Level.IDLE
            return Level.UNKNOWN if self._visible else ABSENT
        if free and (len(there) > 1 or (self._demand.up is not None and not alive)):
            return Level.UNKNOWN
        good = [value for value in there if value >= 0]
        level = level_of(_reading("", self._demand, math.fsum(good), visible=self._visible))
        return level if level is Level.BUSY or len(good) == len(there) else Level.UNKNOWN


def runs(columns: Sequence[Column], grid: Grid) -> History:
    """When any demand was busy, or else any unknown; it begins where anything is known."""
    verdicts: dict[tuple[str, ...], Level] = {}
    levels = []
    steps = grid.last - grid.first
    rows: Iterable[tuple[str, ...]] = (
        zip(*(column.codes for column in columns), strict=True) if columns else [()] * steps
    )
    for row in rows:
        if row not in verdicts:
            verdicts[row] = _verdict(columns, row)
        levels.append(verdicts[row])
    begin = next((n for n, level in enumerate(levels) if level is not Level.UNKNOWN), None)
    if begin is None:
        return grid.unknown
    found: dict[Level, list[Span]] = {level: [] for level in Level}
    start = begin
    for n in range(begin + 1, len(levels) + 1):
        if n == len(levels) or levels[n] is not levels[start]:
            span = Span(grid.at(grid.first + start), grid.at(grid.first + n))
            found[levels[start]].append(span)
            start = n
    return History(
        covers=Span(grid.at(grid.first + begin), grid.at(grid.last)),
        busy=tuple(found[Level.BUSY]),
        unknown=tuple(found[Level.UNKNOWN]),
    )


def _verdict(columns: Sequence[Column], row: tuple[str, ...]) -> Level:
    """The judgement of one step, by the same words as that of now."""
    away: dict[str, bool] = {}
    values: dict[str, float] = {Level.BUSY: math.nextafter(math.inf, 0), Level.IDLE: 0.0}
    readings = []
    for column, code in zip(columns, row, strict=True):
        if not column.visible:
            away[column.target] = away.get(column.target, True) and code == ABSENT
        value = values.get(code)
        readings.append(_reading(column.target, column.demand, value, visible=column.visible))
    return judge(readings, at_zero={target for target, gone in away.items() if gone})[0]


def _reading(target: str, demand: Demand, value: float | None, *, visible: bool) -> Reading:
    return Reading(
        target=target,
        name=described(demand),
        value=value,
        busy_above=demand.busy_above,
        visible_at_zero=visible,
    )
