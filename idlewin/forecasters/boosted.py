"""Boosted: the hazard's rate, corrected by gradient boosting on what else is known.

What the factors cannot say: what the card did at this hour yesterday and a week ago, how its day
has gone so far, what its kin do now. Each past gap is an example, told with the table of its own
day, so that the correction learns how good a table is on days that it has not seen. The one
importer of LightGBM, which the extra ``boosting`` brings.

Source: LightGBM (Ke et al., NeurIPS 2017), on a discrete-time hazard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from idlewin.forecasters import hazard
from idlewin.forecasters.ahead import STEP, STEPS, Asked
from idlewin.forecasters.fleet import DAY, QUARTER, Flags, Fleet, Minutes, Reals
from idlewin.forecasters.kin import Together, kin, together
from idlewin.forecasters.plans import plans

Table = NDArray[np.float32]

#: Quarters ahead that are asked: each of the first hours, then one an hour.
_AHEAD = np.concatenate((np.arange(0, 6 * 60, QUARTER), np.arange(6 * 60, DAY, 60)))
_WHICH = np.searchsorted(_AHEAD, np.arange(STEPS) * STEP, "right") - 1
#: Examples of a fit at most.
MOST = 250_000
ROUNDS = 120
#: The mean time ahead of an example, in minutes.
SOON = 90.0
#: How many later ones each plan gives.
LATER = 6
SETTINGS: dict[str, Any] = {
    "objective": "binary",
    "num_leaves": 15,
    "learning_rate": 0.06,
    "min_child_samples": 100,
    "lambda_l2": 10.0,
    "feature_fraction": 0.6,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
    "seed": 1,
}


@dataclass(frozen=True, slots=True, eq=False)
class _Day:
    """What was known when a day began."""

    table: hazard.Hazard
    kin: Minutes


@dataclass(frozen=True, eq=False)
class _View:
    """A fleet's demand, card by card and together."""

    fleet: Fleet

    @cached_property
    def all(self) -> Together:
        return together(self.fleet, np.zeros(len(self.fleet.cards), dtype=np.int64))

    @cached_property
    def groups(self) -> Together:
        return together(self.fleet, self.fleet.group)

    def known(self, day: _Day, asked: Asked, ahead: Minutes) -> Table:
        """What is known at an instant of a card that idles, for a quarter of an hour from then.

        Of the fleet nothing is read that is later than the instant; NaN is not known.
        """
        fleet, card, now = self.fleet, asked.card, asked.at
        at, elapsed = now + ahead, asked.elapsed + ahead
        local, rests = fleet.local(card, at)
        rest, slot = rests.astype(np.int64), local % DAY // hazard.SLOT
        length = np.searchsorted(hazard.ELAPSED, elapsed, "right")
        table, group = day.table, fleet.group[card]
        columns: list[Any] = [
            np.log(table.at(fleet, card, at, elapsed)),
            np.log(table.level[card]),
            np.log(table.card_elapsed[card, length]),
            np.log(table.card_hours[card, slot] * table.card_day_hours[card, rest, slot]),
            np.log(table.hours[rest, slot]),
            np.log1p(elapsed),
            np.log1p(asked.elapsed),
            ahead,
            local % DAY,
            (local // DAY + 3) % 7,
            rest,
        ]
        for days in (1, 2, 3, 7):
            then = at - days * DAY
            known = then >= fleet.since[card] + 30
            busy = self._busy(card, then - 30, then + 60) / 90
            begun = self._begun(card, then - 15, then + 30)
            columns += [np.where(known, busy, np.nan), np.where(known, begun, np.nan)]
        for reach in (60, 6 * 60, DAY, 7 * DAY):
            since = np.maximum(now - reach, fleet.since[card])
            columns.append(self._busy(card, since, now) / np.maximum(now - since, 1))
        columns += [self._begun(card, now - 6 * 60, now), self._begun(card, now - DAY, now)]
        for view, number in ((self.all, np.zeros_like(group)), (self.groups, group)):
            columns += [
                view.busy(number, now - 15, now),
                view.busy(number, now - DAY - 15, now - DAY),
                view.begun(number, now - 60, now),
                view.busy(number, at - DAY - 15, at - DAY + 15),
            ]
        columns.append(self.groups.size[group])
        columns += self._kin(day.kin[card], now, at)
        return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1)

    def _kin(self, kin_: Minutes, now: Minutes, at: Minutes) -> list[Any]:
        """How many kin there are, and how many idle: now, an hour ago, at that time yesterday."""
        there = kin_ >= 0
        idle = []
        for then in (now - 1, now - 60, at - DAY):
            moments = np.broadcast_to(then[:, None], kin_.shape)
            busy = self.fleet.is_busy(np.maximum(kin_, 0), moments)
            idle.append((there & ~busy).sum(axis=1))
        return [there.sum(axis=1), *idle]

    def _busy(self, card: Minutes, start: Minutes, end: Minutes) -> Minutes:
        return self.fleet.busy_before(card, end) - self.fleet.busy_before(card, start)

    def _begun(self, card: Minutes, start: Minutes, end: Minutes) -> Minutes:
        return self.fleet.runs_before(card, end) - self.fleet.runs_before(card, start)


@dataclass(frozen=True, slots=True, eq=False)
class Boosted:
    """The hazard's table of a day, and the correction."""

    day: _Day
    view: _View
    booster: lightgbm.Booster | None
    """None: too little is known for a correction."""

    def rates(self, fleet: Fleet, asked: Asked) -> Reals:
        """Returns a minute for each step ahead, of each card that is asked for."""
        if self.booster is None:
            return self.day.table.rates(fleet, asked)
        view = self.view if fleet is self.view.fleet else _View(fleet)
        times = len(_AHEAD)
        each = Asked(
            np.repeat(asked.card, times),
            np.repeat(asked.at, times),
            np.repeat(asked.elapsed, times),
        )
        known = view.known(self.day, each, np.tile(_AHEAD, len(asked)))
        score = _odds(known) + self.booster.predict(known, raw_score=True)
        rate = np.logaddexp(0.0, score) / QUARTER
        return rate.reshape(-1, times)[:, _WHICH]

    def rests_on(self, fleet: Fleet, card: int, elapsed: int) -> str:
        """In words: how many gaps that are like this one, and from which cards."""
        return self.day.table.rests_on(fleet, card, elapsed)


def _odds(known: Table) -> Reals:
    """The logarithm of the table's odds that demand comes within a quarter of an hour."""
    expected = np.clip(QUARTER * np.exp(known[:, 0].astype(np.float64)), 1e-6, 20.0)
    odds: Reals = np.log(np.expm1(expected))
    return odds


@dataclass(slots=True, eq=False)
class Boosting:
    """Learns tables and their correction; keeps what it has learnt of one fleet's days."""

    name: str = "boosted"
    _view: _View | None = None
    _days: dict[int, _Day] = field(default_factory=dict)

    def fit(self, fleet: Fleet, until: int) -> Boosted:
        """Learn from what was known before an instant."""
        if self._view is None or self._view.fleet is not fleet:
            self._view, self._days = _View(fleet), {}
        asked, ahead, returned = _examples(fleet, until)
        if not returned.any():
            return Boosted(self._day(until), self._view, None)
        began = (asked.at - fleet.start) // DAY
        known = np.empty((0, 0), dtype=np.float32)
        for number in np.unique(began):
            # The first day has no past; its own is better than none.
            day = self._day(fleet.start + max(int(number), 1) * DAY)
            which = np.nonzero(began == number)[0]
            part = self._view.known(day, asked.of(which), ahead[which])
            if not known.size:
                known = np.empty((len(asked), part.shape[1]), dtype=np.float32)
            known[which] = part
        data = lightgbm.Dataset(known, returned, init_score=_odds(known))
        return Boosted(self._day(until), self._view, lightgbm.train(SETTINGS, data, ROUNDS))

    def _day(self, until: int) -> _Day:
        assert self._view is not None  # noqa: S101 - set by fit
        if until not in self._days:
            fleet = self._view.fleet
            self._days[until] = _Day(hazard.fit(fleet, until), kin(fleet, until))
        return self._days[until]


def _examples(fleet: Fleet, until: int) -> tuple[Asked, Minutes, Flags]:
    """Idle cards, how far ahead is asked, and whether demand came in the quarter from then."""
    gaps = fleet.gaps(until)
    found = plans(gaps)
    rng = np.random.default_rng(until)
    # Now, and some times at a later one: soon is asked more often than late.
    drawn = rng.exponential(SOON, (LATER, len(found))).astype(np.int64) // QUARTER * QUARTER
    ahead = [np.zeros(len(found), dtype=np.int64), *drawn]
    later = np.concatenate(ahead)
    which = np.tile(np.arange(len(found)), len(ahead))
    at, end = found.at[which] + later, gaps.end[found.gap[which]]
    ended = gaps.ended[found.gap[which]]
    # Still idle then, and the quarter is over, or demand has ended it.
    told = (at < end) & ((at + QUARTER <= end) | ended)
    # The first day has no table but its own.
    if until - fleet.start > 2 * DAY:
        told &= found.at[which] >= fleet.start + DAY
    kept = np.nonzero(told)[0]
    if len(kept) > MOST:
        kept = np.sort(rng.choice(kept, MOST, replace=False))
    returned = ended[kept] & (end[kept] < at[kept] + QUARTER)
    return found.asked(which[kept]), later[kept], returned
