"""Forecast: how likely a pool stays idle, over the time ahead."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from idlewin.core.load import History
from idlewin.core.rule import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The chance that no demand comes before each of some instants ahead.

    ``chances`` are (time from ``made_at``, probability from 0 to 1) in order of time, not
    rising; nothing is claimed past the last one.
    """

    method: str
    made_at: datetime
    chances: tuple[tuple[timedelta, float], ...]
    rests_on: str
    """What it rests on, in words: how much history, how many similar gaps."""
    ready: bool = True
    """False: too little history, ``rests_on`` says how much is missing; nothing is lent."""

    def chance(self, ahead: timedelta) -> float:
        """The chance of staying idle for so long; of two steps, the later and lower one."""
        return next((p for step, p in self.chances if step >= ahead), 0.0)

    def idle_until(self, at_least: float) -> datetime:
        """The latest instant up to which idle is at least so likely; now, if none is."""
        likely = [step for step, p in self.chances if p >= at_least]
        return self.made_at + (likely[-1] if likely else timedelta())


class Forecaster(Protocol):
    """Makes forecasts from history alone: no clock, no state that a restart would lose."""

    name: str

    def forecast(self, history: History, now: datetime, idle_since: datetime) -> Forecast:
        """A forecast at an instant, for a pool that has been idle since then."""
        ...


def least_chance(budget: Budget, max_per_day: int) -> float:
    """The chance of staying idle that a window must have for a budget to hold.

    ``share``: so many of the returns may be late. ``perWeek``: the most that one window may risk
    if every window that is allowed were opened; never worse than even odds.
    """
    if budget.share is not None:
        return 1 - budget.share
    assert budget.per_week is not None  # noqa: S101 - Budget checks that it has one of the two
    return 1 - min(0.5, budget.per_week / (7 * max_per_day))
