"""Control: the price of each day, and which forecaster each card has, by what came before.

Each day takes the price that would have kept the budget on the days so far, recent days counting
most, because a young model back-tests worse than it later is; and corrects it by the account: late
returns so far less those that were allowed, in roots of the expected count. So the realised rate
holds the budget whatever the forecasts are worth, and single events are not chased. Of several
forecasters all cards have the one that would have harvested most at that price, save for a card
whose own past clearly speaks for another.

Source: adaptive conformal inference (Gibbs and Candes 2021) and conformal risk control
(Angelopoulos et al. 2022), on the scale of the logarithm of a price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from idlewin.forecasters.fleet import Minutes, Reals

#: In minutes of batch: what lends almost always, up to what lends almost never.
PRICES: Reals = np.exp(np.linspace(math.log(20), math.log(40_000), 40))
#: How strongly the account moves the price: by e to this for each root of the expected count.
GAIN = 0.35
#: After so many days a day counts half.
HALF_LIFE = 4.0
#: Days at the beginning that no price is learnt from: they have hardly any past.
YOUNG = 3
#: All cards change to another forecaster only if it would have harvested so much more.
BETTER = 1.05
#: A card has another than the rest only if that was better by so many standard errors: what the
#: luckiest of several brought on a card's few weeks is mostly luck.
SURE = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """What one forecaster would have brought and cost, price x day x card."""

    harvested: Reals
    late: Reals
    late_counted: Reals
    """Those of the late ones that a share counts."""

    def of(self, *, share: bool) -> Record:
        """With those late returns alone that a budget counts."""
        return replace(self, late=self.late_counted) if share else self

    def within(self, days: slice) -> Record:
        """On some of the days."""
        return Record(self.harvested[:, days], self.late[:, days], self.late_counted[:, days])


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """For each day: the forecaster of each card, and the number of the price; -1 lends nothing."""

    chosen: Minutes
    """Day x card."""
    number: Minutes


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Which forecaster each card has, which one those that are not among them, and the price."""

    usual: int
    chosen: Minutes
    number: int


def kept(late: Reals, allowed: Reals) -> int:
    """The number of the cheapest price that would have kept a budget; the dearest if none would.

    ``late`` is price x day, ``allowed`` a day, both in order of time up to now. What happened to be
    late at one price and not at a cheaper one counts for both.
    """
    weight = _weight(late.shape[1])
    owed = np.maximum.accumulate((late @ weight)[::-1])[::-1]
    fits = np.nonzero(owed <= allowed @ weight)[0]
    return int(fits[0]) if len(fits) else len(late) - 1


def mixed(records: Sequence[Record], allowed: Reals, before: int, prices: Reals) -> Mix:
    """The forecaster of each card, and the number of the price at which they keep a budget.

    ``before`` is the one that most had so far: another has to be better by something. Without a
    day behind it the price is the dearest.
    """
    cards = records[0].late.shape[2]
    if not len(allowed):
        return Mix(before, np.full(cards, before), len(prices) - 1)
    usual = _usual(records, allowed, before)
    chosen = _own(records, usual, prices)
    late = np.zeros((len(prices), len(allowed)))
    for number, record in enumerate(records):
        late += np.where((chosen == number)[:, None, :], record.late, 0).sum(axis=2)
    number = kept(late, allowed)
    return Mix(usual, chosen[number], number)


def _usual(records: Sequence[Record], allowed: Reals, before: int) -> int:
    """Which forecaster would have brought most if all cards had it."""
    weight = _weight(len(allowed))
    worth = [
        float(record.harvested[kept(record.late.sum(axis=2), allowed)].sum(axis=1) @ weight)
        for record in records
    ]
    most = int(np.argmax(worth))
    return most if worth[most] > BETTER * worth[before] else before


def _own(records: Sequence[Record], usual: int, prices: Reals) -> Minutes:
    """Which forecaster each card has at each price: another than the usual where that is sure."""
    price = prices[:, None, None]
    worth = [record.harvested - price * record.late for record in records]
    gains = [one - worth[usual] for one in worth]
    sure = np.array([gain.sum(axis=1) - SURE * np.sqrt((gain**2).sum(axis=1)) for gain in gains])
    return np.where(sure.max(axis=0) > 0, sure.argmax(axis=0), usual)


def corrected(number: int, late: float, allowed: float, prices: Reals) -> int:
    """The number of a price, corrected by the late returns so far against those allowed.

    In roots of the expected count; where not even one is expected yet, one is no sign of much.
    """
    wanted = math.log(prices[number]) + GAIN * (late - allowed) / math.sqrt(max(allowed, 1.0))
    return int(np.argmin(np.abs(np.log(prices) - wanted)))


def controlled(
    records: Sequence[Record],
    allowed: Reals,
    judged_from: int,
    realised: Callable[[Course, int], float],
    prices: Reals = PRICES,
) -> Course:
    """The course of all days; nothing of a day is looked at before the next one.

    ``allowed`` is how many may be late on each day. From the day ``judged_from`` on an account is
    kept: ``realised`` tells how many were late from then up to and with a day.
    """
    days, cards = len(allowed), records[0].late.shape[2]
    course = Course(np.zeros((days, cards), dtype=np.int64), np.full(days, -1, dtype=np.int64))
    course.number[YOUNG : YOUNG + 1] = len(prices) - 1
    usual = 0
    for day in range(YOUNG + 1, days):
        seen = slice(YOUNG, day)
        mix = mixed([record.within(seen) for record in records], allowed[seen], usual, prices)
        usual, course.chosen[day], number = mix.usual, mix.chosen, mix.number
        if day > judged_from:
            spent, so_far = realised(course, day - 1), float(allowed[judged_from:day].sum())
            number = corrected(number, spent, so_far, prices)
        course.number[day] = number
    return course


def _weight(days: int) -> Reals:
    weight: Reals = 0.5 ** (np.arange(days)[::-1] / HALF_LIFE)
    return weight
