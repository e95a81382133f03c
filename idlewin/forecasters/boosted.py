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
from idlewin.forecasters.sample import sample

Table = NDArray[np.float32]

#: Quarters ahead that are asked: each of the first hours, then one an hour.
_AHEAD = np.concatenate((np.arange(0, 6 * 60, QUARTER), np.arange(6 * 60, DAY, 60)))
_WHICH = np.searchsorted(_AHEAD, np.arange(STEPS) * STEP, "right") - 1
#: Earlier days that are looked at, and around what time; how far back; now and an hour
#: ago; today and yesterday.
_DAYS = np.array([[1], [2], [3], [7]]) * DAY
_AROUND = np.array([-30, -15, 30, 60])[:, None, None]
_REACH = np.array([[0], [60], [6 * 60], [DAY], [7 * DAY]])
_LATELY = np.array([[1], [60]])
_TODAY = np.array([0, DAY])[:, None, None]
#: Examples of a fit at most, and cards that they are taken from: more tell hardly more.
MOST = 250_000
MOST_CARDS = 1_000
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
    def together(self) -> Together:
        """By group, and all cards as one number more."""
        group = self.fleet.group
        return together(self.fleet, group, np.full_like(group, self.everybody))

    @cached_property
    def everybody(self) -> int:
        return int(self.fleet.group.max()) + 1

    def known(self, day: _Day, asked: Asked, row: Minutes, ahead: Minutes) -> Table:
        """What is known of cards that idle, for a quarter of an hour from some time ahead of now.

        A line of it for each ``ahead``; ``row`` says of which one that is asked. Of the fleet
        nothing is read that is later than the instant that is asked for; NaN is not known.
        """
        fleet, table = self.fleet, day.table
        card, at, elapsed = asked.card[row], asked.at[row] + ahead, asked.elapsed[row] + ahead
        local, rests = fleet.local(card, at)
        rest, slot, length = hazard.cells(local, rests, elapsed)
        columns: list[Any] = [
            np.log(table.at(card, rest, slot, length)),
            np.log(table.level[card]),
            np.log(table.card_elapsed[card, length]),
            np.log(table.card_hours[card, slot] * table.card_day_hours[card, rest, slot]),
            np.log(table.hours[rest, slot]),
            np.log1p(elapsed),
            np.log1p(asked.elapsed)[row],
            ahead,
            local % DAY,
            (local // DAY + 3) % 7,
            rest,
            *self._days_before(card, at),
            *self._so_far(asked.card, asked.at)[:, row],
        ]
        columns += self._others(fleet.group[asked.card], asked.at, row, at)
        columns.append(self.together.size[fleet.group[card]])
        columns += self._kin(day.kin[asked.card], asked.at, row, at)
        found = np.empty((len(row), len(columns)), dtype=np.float32)
        for number, column in enumerate(columns):
            found[:, number] = column
        return found

    def _days_before(self, card: Minutes, at: Minutes) -> list[Reals]:
        """How busy it was, and how often demand began, around that time on earlier days."""
        then = at - _DAYS
        known = then >= self.fleet.since[card] + 30
        runs, minutes = self.fleet.before(card, then + _AROUND)
        busy = np.where(known, (minutes[3] - minutes[0]) / 90, np.nan)
        begun = np.where(known, runs[2] - runs[1], np.nan)
        return [column for pair in zip(busy, begun, strict=True) for column in pair]

    def _so_far(self, card: Minutes, now: Minutes) -> Reals:
        """How busy it was in the last hours and days, and how often demand began."""
        since = np.maximum(now - _REACH, self.fleet.since[card])
        runs, minutes = self.fleet.before(card, since)
        busy = (minutes[0] - minutes[1:]) / np.maximum(now - since[1:], 1)
        return np.concatenate((busy, runs[0] - runs[2:4]))

    def _others(self, group: Minutes, now: Minutes, row: Minutes, at: Minutes) -> list[Any]:
        """How busy all cards, and those of the group, are and lately were, and were yesterday."""
        number = np.stack((np.full_like(group, self.everybody), group))
        then = now - _TODAY
        busy = self.together.busy(number, then - 15, then)[:, :, row]
        begun = self.together.begun(number, now - 60, now)[:, row]
        later = self.together.busy(number[:, row], at - DAY - 15, at - DAY + 15)
        return [*busy[:, 0], begun[0], later[0], *busy[:, 1], begun[1], later[1]]

    def _kin(self, kin_: Minutes, now: Minutes, row: Minutes, at: Minutes) -> list[Any]:
        """How many kin there are, and how many idle: now, an hour ago, at that time yesterday."""
        there = (kin_ >= 0).sum(axis=1)
        idle = self._idle(kin_, now - _LATELY)
        return [there[row], *idle[:, row], self._idle(kin_[row], at - DAY)]

    def _idle(self, kin_: Minutes, at: Minutes) -> Minutes:
        busy = self.fleet.is_busy(np.maximum(kin_, 0), at[..., None])
        idle: Minutes = ((kin_ >= 0) & ~busy).sum(axis=-1)
        return idle


@dataclass(slots=True, eq=False)
class Boosted:
    """The hazard's table of a day, and the correction."""

    day: _Day
    booster: lightgbm.Booster | None
    """None: too little is known for a correction."""
    view: _View
    """Of the fleet that was asked about last: to make one takes long."""

    def rates(self, fleet: Fleet, asked: Asked) -> Reals:
        """Returns a minute for each step ahead, of each card that is asked for."""
        if self.booster is None:
            return self.day.table.rates(fleet, asked)
        view = self.view
        if fleet is not view.fleet:
            view = self.view = _View(fleet)
        row, ahead = np.repeat(np.arange(len(asked)), len(_AHEAD)), np.tile(_AHEAD, len(asked))
        known = view.known(self.day, asked, row, ahead)
        score = _odds(known) + self.booster.predict(known, raw_score=True, num_threads=1)
        rate = np.logaddexp(0.0, score) / QUARTER
        return rate.reshape(-1, len(_AHEAD))[:, _WHICH]

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
    _whole: _View | None = None
    _some: _View | None = None
    """Of those cards that the correction is learnt from."""
    _days: dict[int, _Day] = field(default_factory=dict)

    def fit(self, fleet: Fleet, until: int) -> Boosted:
        """Learn from what was known before an instant."""
        if self._whole is None or self._some is None or self._whole.fleet is not fleet:
            self._whole, some = _View(fleet), sample(fleet, MOST_CARDS)
            self._some = self._whole if some is fleet else _View(some)
            self._days = {}
        booster = self._trained(self._some, until)
        day = self._day(fleet, until) if self._some is self._whole else _known_on(fleet, until)
        return Boosted(day, booster, self._whole)

    def _trained(self, view: _View, until: int) -> lightgbm.Booster | None:
        fleet = view.fleet
        asked, ahead, returned = _examples(fleet, until)
        if not returned.any():
            return None
        began = (asked.at - fleet.start) // DAY
        known = np.empty((0, 0), dtype=np.float32)
        for number in np.unique(began):
            # The first day has no past; its own is better than none.
            day = self._day(fleet, fleet.start + max(int(number), 1) * DAY)
            which = np.nonzero(began == number)[0]
            part = view.known(day, asked.of(which), np.arange(len(which)), ahead[which])
            if not known.size:
                known = np.empty((len(asked), part.shape[1]), dtype=np.float32)
            known[which] = part
        data = lightgbm.Dataset(known, returned, init_score=_odds(known))
        return lightgbm.train(SETTINGS, data, ROUNDS)

    def _day(self, fleet: Fleet, until: int) -> _Day:
        if until not in self._days:
            self._days[until] = _known_on(fleet, until)
        return self._days[until]


def _known_on(fleet: Fleet, until: int) -> _Day:
    return _Day(hazard.fit(fleet, until), kin(fleet, until))


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
    # As in the tables: a gap is a quarter long when demand ends it at the quarter's end.
    returned = ended[kept] & (end[kept] <= at[kept] + QUARTER)
    return found.asked(which[kept]), later[kept], returned
