"""Lending: the windows that come of a price, and what they bring and cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from idlewin.core.stopping import Handover
from idlewin.forecasters.ahead import STEP
from idlewin.forecasters.fleet import DAY, Flags, Gaps, Minutes, Reals
from idlewin.pricing.judge import Judged

#: A return after less idle time, in minutes, is none that a share could be of.
COUNTS_FROM = 30


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Windows:
    """Times that cards were lent, in minutes."""

    gap: Minutes
    open: Minutes
    close: Minutes
    """When giving back began, by plan or by demand."""
    ready: Minutes
    """When serving was ready again."""
    late: Flags
    """Demand found the card opening, lent or warming up."""

    def __len__(self) -> int:
        return len(self.gap)


def lent(judged: Judged, price: Minutes) -> Windows:
    """The windows at a price for each plan, told as its number; -1: the plan lends nothing."""
    found = judged.plans
    every = np.arange(len(found))
    steps = np.repeat(every, found.steps)
    nth = np.arange(len(steps)) - np.repeat(np.cumsum(found.steps) - found.steps, found.steps)
    at = found.at[steps] + nth * STEP
    chosen = price[steps]
    opens = judged.opens[steps, nth, chosen] & (chosen >= 0)
    closes = judged.closes[steps, nth, chosen] | (chosen < 0)
    gap = found.gap[steps]
    first = np.searchsorted(gap, np.arange(len(found.gaps) + 1))
    warming = math.ceil(judged.handover.warming)
    rows: list[tuple[int, int, int, int, bool]] = []
    for number in np.unique(gap[opens]).tolist():
        part = slice(int(first[number]), int(first[number + 1]))
        end = int(found.gaps.end[number])
        for opened, close, ready in _in_gap((at[part], opens[part], closes[part]), end, warming):
            late = bool(found.gaps.ended[number]) and ready > end
            rows.append((number, opened, close, ready, late))
    columns = list(zip(*rows, strict=True)) or [()] * 5
    gap, *minutes = (np.array(column, dtype=np.int64) for column in columns[:4])
    return Windows(
        gap=gap,
        open=minutes[0],
        close=minutes[1],
        ready=minutes[2],
        late=np.array(columns[4], dtype=np.bool_),
    )


def _in_gap(
    steps: tuple[Minutes, Flags, Flags], end: int, warming: int
) -> Iterator[tuple[int, int, int]]:
    """When each window of a gap opens, closes and has serving ready."""
    at, opens, closes = steps
    opening, closing = np.nonzero(opens)[0], np.nonzero(closes)[0]
    ready = int(at[0])
    while ready < end:
        k = int(np.searchsorted(at[opening], ready))
        if k == len(opening):
            return
        c = int(np.searchsorted(closing, opening[k] + 1))
        close = int(at[closing[c]]) if c < len(closing) else end
        ready = close + warming
        yield int(at[opening[k]]), close, ready


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tally:
    """What windows brought and cost, day x card; idle time at the end counts not."""

    harvested: Reals
    """Minutes."""
    late: Reals
    """Late returns."""
    late_counted: Reals
    """Those of them after enough idle time to count in a share."""


def tally(
    gaps: Gaps, windows: Windows, handover: Handover, start: int, shape: tuple[int, int]
) -> Tally:
    """Sum windows up by day since an instant and by card; ``shape`` is how many of each."""
    cells, card = math.prod(shape), gaps.card[windows.gap]
    end, length = gaps.end[windows.gap], (gaps.end - gaps.start)[windows.gap]
    counts = gaps.ended[windows.gap]

    def late(which: Flags) -> Reals:
        cell = (end[which] - start) // DAY * shape[1] + card[which]
        return np.bincount(cell, minlength=cells).astype(np.float64).reshape(shape)

    begin = windows.open[counts] + round(handover.opening) - start
    finish = np.minimum(windows.close, end)[counts] - start
    harvested = np.zeros(cells)
    for ahead in range(int(np.max(finish // DAY - begin // DAY, initial=0)) + 1):
        day = begin // DAY + ahead
        part = np.minimum(finish, (day + 1) * DAY) - np.maximum(begin, day * DAY)
        some = part > 0
        cell = day * shape[1] + card[counts]
        harvested += np.bincount(cell[some], part[some], cells)
    return Tally(
        harvested=harvested.reshape(shape),
        late=late(windows.late),
        late_counted=late(windows.late & (length >= COUNTS_FROM)),
    )
