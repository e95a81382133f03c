"""Change: hours that moved, a service that doubled. What a card did before then counts no more.

Each card's returns of the last week are held against what a model from before it would have
expected, quarter by quarter, and against what others would: the same at a multiple, and one that
knows no hours, at a multiple. Where one of those is much likelier since some instant than the
model is, the card has changed there. Then its rates are the higher ones of two: those of the
method, and those of a table that has forgotten the card's own past before that instant. Both agree
once the change is learnt. Rates are never lowered: one that has died is told by the method itself.

Source: the cumulative sum of likelihood ratios (Page, Biometrika 41, 1954; for several ratios
Lorden, Annals of Mathematical Statistics 42, 1971), on the rates of a point process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from idlewin.forecasters import hazard
from idlewin.forecasters.ahead import Asked, Method, Model
from idlewin.forecasters.fleet import DAY, QUARTER, Fleet, Gaps, Minutes, Reals
from idlewin.forecasters.hazard import Hazard

#: How far back a change is looked for; and what must be known before, a working week.
PAST = 7 * DAY
LEAST = 5 * DAY
#: A return after less idle time says nothing: no card is lent over it.
COUNTS_FROM = 30
#: Multiples of the rates that are held against them.
TIMES = (1.0, 2.0, 4.0, 8.0)
#: The logarithm of how much likelier another rate has to be.
LIKELIER = 3.0
#: Cards that are looked at at once.
_AT_ONCE = 256


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Since when each card has not done what was expected of it; numbers are of that time."""

    likelier: Reals
    since: Minutes
    returned: Reals
    expected: Reals
    until: int

    def said(self, card: int) -> str:
        """In words; empty where nothing has changed."""
        if self.likelier[card] <= LIKELIER:
            return ""
        hours = -(-(self.until - int(self.since[card])) // 60)
        came, awaited = float(self.returned[card]), float(self.expected[card])
        what = f"{came:.0f} returns in the last {hours} h where {awaited:.1f} were expected"
        if came < 2 * awaited:
            what = f"returns came at other hours in the last {hours} h than were expected"
        return f"{what}: what it did before counts no more until this is learnt"


@dataclass(frozen=True, slots=True, eq=False)
class Wary:
    """A model, and a table that has forgotten what changed cards did before."""

    model: Model
    changes: Changes
    forgot: tuple[Hazard, ...]

    def rates(self, fleet: Fleet, asked: Asked) -> Reals:
        """Returns a minute for each step ahead, of each card that is asked for."""
        rates = self.model.rates(fleet, asked)
        some = np.nonzero(self.changes.likelier[asked.card] > LIKELIER)[0]
        if len(some):
            for table in self.forgot:
                rates[some] = np.maximum(rates[some], table.rates(fleet, asked.of(some)))
        return rates

    def rests_on(self, fleet: Fleet, card: int, elapsed: int) -> str:
        """In words: how many gaps that are like this one, and what has changed."""
        told = self.model.rests_on(fleet, card, elapsed)
        return "; ".join(filter(None, (told, self.changes.said(card))))


@dataclass(frozen=True, slots=True)
class Watched:
    """A method that is held against what came; it keeps the method's name."""

    method: Method
    hours: bool = True
    """Whether the method knows hours."""

    @property
    def name(self) -> str:
        """As a rule writes it."""
        return self.method.name

    def fit(self, fleet: Fleet, until: int) -> Model:
        """Learn from what was known before an instant."""
        model = self.method.fit(fleet, until)
        if until - PAST < fleet.start + LEAST:
            return model
        found = changes(fleet, until, hours=self.hours)
        changed = found.likelier > LIKELIER
        if not changed.any():
            return model
        since = np.where(changed, found.since, fleet.start)
        # Its hours may be others than its fleet's now, so a table without hours has a say too.
        forgot = [hazard.fit(fleet, until, hours=h, since=since) for h in {self.hours, False}]
        return Wary(model, found, tuple(forgot))


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Idle time of the last week in quarters of an hour, by the number of the quarter."""

    card: Minutes
    quarter: Minutes
    exposed: Reals
    returned: Reals
    own: Reals
    """The rate that was expected, and those that are held against it."""
    others: list[Reals]


def changes(fleet: Fleet, until: int, *, hours: bool = True) -> Changes:
    """What the last week says against what was known before it."""
    first = until - PAST
    gaps = fleet.gaps(until)
    gaps = gaps.where(gaps.end > first)
    tables = [hazard.fit(fleet, first, hours=h) for h in ((True, False) if hours else (False,))]
    parts = [
        _judged(_cells(fleet, gaps.of(card, card + _AT_ONCE), first, tables), card, first)
        for card in range(0, len(fleet.cards), _AT_ONCE)
    ]
    likelier, since, returned, expected = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    size = len(fleet.cards)
    return Changes(likelier[:size], since[:size], returned[:size], expected[:size], until)


def _cells(fleet: Fleet, gaps: Gaps, first: int, tables: list[Hazard]) -> _Cells:
    times = -((gaps.start - gaps.end) // QUARTER)
    gap = np.repeat(np.arange(len(gaps)), times)
    elapsed = (np.arange(len(gap)) - np.repeat(np.cumsum(times) - times, times)) * QUARTER
    at = gaps.start[gap] + elapsed
    told = (at >= first) & (elapsed >= COUNTS_FROM)
    gap, at, elapsed = gap[told], at[told], elapsed[told]
    card, end = gaps.card[gap], np.minimum(at + QUARTER, gaps.end[gap])
    where = hazard.cells(*fleet.local(card, at), elapsed)
    rates = [table.at(card, *where) for table in tables]
    weight = np.where(fleet.is_away(card, at, end), hazard.AWAY_WEIGHT, 1.0)
    return _Cells(
        card=card,
        quarter=(at - first) // QUARTER,
        exposed=(end - at) * weight,
        returned=(gaps.ended[gap] & (end == gaps.end[gap])) * weight,
        own=rates[0],
        others=[
            times * rate for rate in rates for times in TIMES if rate is not rates[0] or times > 1
        ],
    )


def _judged(seen: _Cells, first_card: int, first: int) -> tuple[Reals, Minutes, Reals, Reals]:
    """How much likelier another rate is and since when, returns since, and those expected."""
    quarters = PAST // QUARTER
    cell = (seen.card - first_card) * quarters + seen.quarter

    def by_quarter(what: Reals) -> Reals:
        """Sums of a card from the first quarter up to each."""
        each = np.bincount(cell, what, _AT_ONCE * quarters).reshape(_AT_ONCE, quarters)
        return np.concatenate((np.zeros((_AT_ONCE, 1)), each.cumsum(axis=1)), axis=1)

    likelier, begun = np.zeros(_AT_ONCE), np.full(_AT_ONCE, quarters)
    for other in seen.others:
        ratio = np.log(other / seen.own) * seen.returned - (other - seen.own) * seen.exposed
        sums = by_quarter(ratio)
        found = sums[:, -1] - sums.min(axis=1)
        begun = np.where(found > likelier, sums.argmin(axis=1), begun)
        likelier = np.maximum(likelier, found)
    every = np.arange(_AT_ONCE)
    returned, expected = by_quarter(seen.returned), by_quarter(seen.own * seen.exposed)
    return (
        likelier,
        first + begun * QUARTER,
        returned[:, -1] - returned[every, begun],
        expected[:, -1] - expected[every, begun],
    )
