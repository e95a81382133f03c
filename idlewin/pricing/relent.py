"""Relending: the last weeks as they would have gone at each price, for the price of today."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from idlewin.core.rule import Budget
from idlewin.core.stopping import Handover
from idlewin.forecasters.ahead import STEP, Method
from idlewin.forecasters.fleet import DAY, Fleet, Gaps, Minutes, Reals
from idlewin.forecasters.plans import EVERY, Plans, plans
from idlewin.pricing.control import PRICES, YOUNG, Record
from idlewin.pricing.judge import Judged, days_of, judged_on
from idlewin.pricing.lend import COUNTS_FROM, lent, tally

#: So many days are lent again: a day counts half after four of them.
DAYS = 21
Packed = NDArray[np.uint8]
_NONE = np.zeros(0, dtype=np.int64)
_STEPS = EVERY // STEP
_WIDTH = 1 << 32


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Past:
    """The last days of a fleet, as many as are no longer young, and what is to be judged there."""

    fleet: Fleet
    plans: Plans
    start: int
    days: int
    ids: Minutes
    """A number for each card that stays the same when others come and go."""

    @property
    def keys(self) -> Minutes:
        """Each plan as one number: its card and its instant."""
        return self.ids[self.plans.gaps.card[self.plans.gap]] * _WIDTH + self.plans.at

    def allowed(self, budget: Budget) -> Reals:
        """How many late returns a budget allows on each day."""
        if budget.per_week is not None:
            ends = self.start + DAY * np.arange(1, self.days + 1)
            known = (self.fleet.since[None, :] < ends[:, None]).sum(axis=1)
            found: Reals = budget.per_week / 7 * known
            return found
        return (budget.share or 0.0) * returns(self.plans.gaps, self.start, self.days)


def returns(gaps: Gaps, start: int, days: int) -> Reals:
    """Returns on each day since an instant that a share counts: those after enough idle time."""
    counted = gaps.ended & (gaps.end - gaps.start >= COUNTS_FROM) & (gaps.end >= start)
    day = (gaps.end[counted] - start) // DAY
    return np.bincount(day, minlength=days)[:days].astype(np.float64)


def past(fleet: Fleet, ids: Minutes, until: int) -> Past:
    """The days up to an instant that a price can be learnt from; none where all are young."""
    days = max(0, min(DAYS, (until - fleet.start) // DAY - YOUNG))
    start = until - days * DAY
    every = plans(fleet.gaps(until))
    late = np.nonzero(every.at >= start)[0]
    found = replace(
        every,
        gap=every.gap[late],
        at=every.at[late],
        elapsed=every.elapsed[late],
        steps=every.steps[late],
    )
    return Past(fleet=fleet, plans=found, start=start, days=days, ids=ids)


@dataclass(slots=True, eq=False)
class Relending:
    """What one forecaster said of the plans of the last days; each is judged once."""

    keys: Minutes = field(default_factory=lambda: _NONE)
    opens: Packed = field(default_factory=lambda: _packed(0))
    closes: Packed = field(default_factory=lambda: _packed(0))

    def record(self, seen: Past, method: Method, handover: Handover) -> Record:
        """What would have been harvested, and how often late, at each price, by day and card."""
        self._judge(seen, method, handover)
        judged = Judged(
            plans=seen.plans,
            opens=_unpacked(self.opens),
            closes=_unpacked(self.closes),
            handover=handover,
        )
        gaps, shape = seen.plans.gaps, (seen.days, len(seen.fleet.cards))
        rows = [
            tally(gaps, lent(judged, np.full(len(seen.plans), k)), handover, seen.start, shape)
            for k in range(len(PRICES))
        ]
        return Record(
            harvested=np.array([one.harvested for one in rows]),
            late=np.array([one.late for one in rows]),
            late_counted=np.array([one.late_counted for one in rows]),
        )

    def _judge(self, seen: Past, method: Method, handover: Handover) -> None:
        """Each plan that was not judged yet, by what was known when its day began."""
        keys = seen.keys
        opens, closes = _packed(len(keys)), _packed(len(keys))
        _, known, before = np.intersect1d(keys, self.keys, return_indices=True)
        opens[known], closes[known] = self.opens[before], self.closes[before]
        new = np.ones(len(keys), dtype=np.bool_)
        new[known] = False
        for until, which in days_of(seen.start, seen.plans):
            asked = which[new[which]]
            if len(asked):
                model = method.fit(seen.fleet, until)
                found = judged_on(seen.fleet, seen.plans.asked(asked), model, PRICES, handover)
                opens[asked], closes[asked] = (np.packbits(one, axis=2) for one in found)
        self.keys, self.opens, self.closes = keys, opens, closes


def _packed(plans_: int) -> Packed:
    return np.zeros((plans_, _STEPS, -(-len(PRICES) // 8)), dtype=np.uint8)


def _unpacked(packed: Packed) -> NDArray[np.bool_]:
    return np.unpackbits(packed, axis=2, count=len(PRICES)).astype(np.bool_)
