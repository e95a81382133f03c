"""A history as arrays of minutes, and the grid on which chances are told.

What the methods share; no method and no decision belongs here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from idlewin.core.load import History
from idlewin.core.window import Span

Minutes = NDArray[np.float64]
"""Minutes since 1970 in UTC, or lengths in minutes."""

STEP = timedelta(minutes=5)
HORIZON = timedelta(hours=24)
#: Up to where each chance of a forecast reaches.
STEPS = tuple(STEP * n for n in range(1, HORIZON // STEP + 1))
STEP_MINUTES: Minutes = np.array([step / timedelta(minutes=1) for step in STEPS])
#: How much a window of ours counts, for idle and for demand alike. Not all demand can show there.
#: Nothing would forget the nights that are lent, and onsets alone would learn from failures only.
AWAY_WEIGHT = 0.5
#: How far a clock may be behind the newest sample before it is not believed.
SKEW = timedelta(minutes=5)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Runs of demand in order, without overlaps, and our own windows, over a stretch."""

    start: float
    end: float
    busy_from: Minutes
    busy_to: Minutes
    away_from: Minutes
    away_to: Minutes

    def away(self, start: Minutes, end: Minutes) -> NDArray[np.bool_]:
        """Which of some stretches overlap a window of ours."""
        return np.searchsorted(self.away_from, end, "left") > np.searchsorted(
            self.away_to, start, "right"
        )

    def weight(self, start: Minutes, end: Minutes) -> Minutes:
        """How much each of some stretches counts."""
        return np.where(self.away(start, end), AWAY_WEIGHT, 1.0)


def minutes(at: datetime) -> float:
    """An instant in minutes since 1970."""
    return (at - _EPOCH) / timedelta(minutes=1)


def past_of(history: History) -> Past:
    """A history as arrays; what is unknown counts as demand."""
    start, end = minutes(history.covers.start), minutes(history.covers.end)
    busy = _joined(*_arrays((*history.busy, *history.unknown), start, end))
    away = _joined(*_arrays(history.serving_away, start, end))
    return Past(
        start=start,
        end=end,
        busy_from=busy[0],
        busy_to=busy[1],
        away_from=away[0],
        away_to=away[1],
    )


def doubt(history: History, now: datetime) -> str:
    """Why a history cannot be read at an instant; empty where it can."""
    if now < history.covers.end - SKEW:
        behind = round((history.covers.end - now) / timedelta(minutes=1))
        return f"the clock is {behind} min behind the history's end; is it set right?"
    return ""


def told(chances: Minutes) -> tuple[tuple[timedelta, float], ...]:
    """Chances on the grid, as a forecast tells them."""
    return tuple(zip(STEPS, np.clip(chances, 0.0, 1.0).tolist(), strict=True))


def days(length: timedelta) -> str:
    """A length in days, as a sentence writes it."""
    return f"{length / timedelta(days=1):.3g} d"


def _arrays(spans: Sequence[Span], start: float, end: float) -> tuple[Minutes, Minutes]:
    froms = np.array([span.start.timestamp() for span in spans], dtype=np.float64) / 60
    tos = np.array([span.end.timestamp() for span in spans], dtype=np.float64) / 60
    inside = (tos > start) & (froms < end)
    return np.maximum(froms[inside], start), np.minimum(tos[inside], end)


def _joined(froms: Minutes, tos: Minutes) -> tuple[Minutes, Minutes]:
    """The same time in order; runs that overlap or touch are joined."""
    if froms.size == 0:
        return froms, tos
    order = np.argsort(froms, kind="stable")
    froms, tos = froms[order], np.maximum.accumulate(tos[order])
    first = np.concatenate(([True], froms[1:] > tos[:-1]))
    last = np.concatenate((first[1:], [True]))
    return froms[first], tos[last]
