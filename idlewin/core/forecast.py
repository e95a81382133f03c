"""Forecast: how likely a pool stays idle, over the time ahead, and what that makes best to do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Protocol

from idlewin.core.load import History
from idlewin.core.pool import RuleObject
from idlewin.core.stopping import Handover, closing, verdicts

Chances = tuple[tuple[timedelta, float], ...]
MINUTE = timedelta(minutes=1)
#: So far ahead is weighed.
HORIZON = timedelta(hours=24)
#: In steps: so many in the shortest window, none finer or coarser than these.
STEPS_IN_MIN = 6
FINEST, COARSEST = MINUTE, 5 * MINUTE
#: Users are to be expected where staying idle is less likely than this.
LIKELY = 0.5
#: Longer than any window.
LONG = timedelta(days=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The chance that no demand comes before each of some instants ahead, and what risk costs.

    ``chances`` are (time from ``made_at``, probability from 0 to 1) in order of time, not
    rising; nothing is claimed past the last one.
    """

    method: str
    made_at: datetime
    chances: Chances
    rests_on: str
    """What it rests on, in words: how much history, how many similar gaps."""
    ready: bool = True
    """False: too little history, ``rests_on`` says how much is missing; nothing is lent."""
    price: float = 0.0
    """What a late return costs, in minutes of batch, so that the rule's budget holds; 0: nothing,
    as where the calendar alone is to be looked at."""
    allowed: float = 0.0
    """How many late returns the budget allows in the account's period, as far as it is known."""

    def chance(self, ahead: timedelta) -> float:
        """The chance of staying idle for so long; of two steps, the later and lower one."""
        return next((p for step, p in self.chances if step >= ahead), 0.0)


class Forecaster(Protocol):
    """Makes forecasts from history alone: no clock, no state that a restart would lose."""

    def forecast(
        self, rule: RuleObject, history: History, now: datetime, idle_since: datetime
    ) -> Forecast:
        """A forecast at an instant, for a rule's pool that has been idle since then."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """A forecast, and what is best at its price."""

    forecast: Forecast
    opens: bool
    """Lending now brings more than waiting."""
    back: datetime
    """If it is lent now: when serving is best wanted ready again."""


def outlook(
    forecast: Forecast, *, opening: timedelta, back: timedelta, least: timedelta
) -> Outlook:
    """What is best at a forecast's price; where a late return costs nothing, to lend for long.

    ``opening``: until batch runs; ``back``: until serving does; ``least``: the shortest window. The
    time ahead is weighed in steps of five minutes, in finer ones where windows are short.
    """
    if not forecast.price:
        return Outlook(forecast=forecast, opens=True, back=forecast.made_at + LONG)
    step = min(max(least / STEPS_IN_MIN, FINEST), COARSEST)
    costs = Handover(opening=opening / MINUTE, warming=back / MINUTE)
    opens, closes = _best(forecast.chances, forecast.price, step, costs)
    return Outlook(forecast=forecast, opens=opens, back=forecast.made_at + closes + back)


@lru_cache(maxsize=256)
def _best(
    chances: Chances, price: float, step: timedelta, costs: Handover
) -> tuple[bool, timedelta]:
    """Whether lending now is best, and after what time giving back is; at the latest at the end."""
    stays = list(_stays(chances, step))
    found = verdicts(stays, price, step=step / MINUTE, handover=costs)
    end = closing(found, step)
    # Where users likely come before serving could be there, each minute more is one they wait.
    warming = max(1, math.ceil(costs.warming * MINUTE / step))
    lost = (k for k in range(len(stays)) if math.prod(stays[k : k + warming]) < LIKELY)
    ends = [HORIZON, *([] if end is None else [end]), *(k * step for k in islice(lost, 1))]
    return bool(found.opens[0]), min(ends)


def _stays(chances: Chances, step: timedelta) -> Iterator[float]:
    """The chance that each step stays idle once it has begun idle."""
    known, before = iter(chances), 1.0
    until, chance = next(known, (HORIZON, 0.0))
    for k in range(1, HORIZON // step + 1):
        while until < k * step:
            until, chance = next(known, (HORIZON, 0.0))
        yield chance / before if before else 0.0
        before = chance
