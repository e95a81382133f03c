"""Judging: what is best at each plan of a fleet's past, by what was known before its day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from idlewin.core.stopping import Handover, verdicts
from idlewin.forecasters.ahead import STEP, Asked, Model
from idlewin.forecasters.fleet import DAY, Flags, Fleet, Minutes
from idlewin.forecasters.plans import EVERY, Plans

Prices = NDArray[np.float64]
#: So many plans are judged at once: more would leave the processor's cache.
_AT_ONCE = 2048


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Judged:
    """What is best at each step of each plan, at each of some prices: plan x step x price.

    Prices are in order: the last lends least.
    """

    plans: Plans
    opens: Flags
    closes: Flags
    handover: Handover


def judged_on(
    fleet: Fleet, asked: Asked, model: Model, prices: Prices, handover: Handover
) -> tuple[Flags, Flags]:
    """Whether to open and to close, at each step that a plan holds and at each price."""
    held = EVERY // STEP
    shape = (len(asked), held, len(prices))
    opens, closes = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    for first in range(0, len(asked), _AT_ONCE):
        some = np.arange(first, min(first + _AT_ONCE, len(asked)))
        stays = np.exp(-STEP * model.rates(fleet, asked.of(some))).astype(np.float32)
        best = verdicts(
            list(stays.T[:, :, None]),
            prices.astype(np.float32)[None, :],
            step=STEP,
            handover=handover,
            larger=np.maximum,
        )
        opens[some] = np.stack(best.opens[:held], axis=1)
        closes[some] = np.stack(best.closes[:held], axis=1)
    return opens, closes


def days_of(start: int, found: Plans, first_day: int = 0) -> Iterator[tuple[int, Minutes]]:
    """The start of each day since an instant that has plans, and which these are."""
    day = (found.at - start) // DAY
    order = np.argsort(day, kind="stable")
    edges = np.searchsorted(day[order], np.arange(first_day, day.max(initial=0) + 2))
    for number, (first, last) in enumerate(pairwise(edges.tolist()), start=first_day):
        if first < last:
            yield start + number * DAY, order[first:last]
