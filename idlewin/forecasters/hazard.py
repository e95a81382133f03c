"""Hazard: how likely the next demand is, minute by minute, by hour, day and time already idle.

A rate of returns for each card, as a product of factors that are learnt one after the other, each
from what the ones before it left unexplained, and each held to 1 by a prior that weighs some
returns: the whole population by the time already idle, and by the hour of a working day or of a
day of rest; then the card's own level, its own law of idle time, and its own hours. So a card
without history does what its fleet does, and a lone one without any what the prior says: gaps have
no length of their own (Lindy), the longer one lasts, the longer it will.

Source: discrete-time hazard (Cox 1972), factors as a Gamma-Poisson shrinkage (Clayton and Kaldor,
Biometrics 43, 1987).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from idlewin.forecasters.ahead import AHEAD, Asked
from idlewin.forecasters.fleet import DAY, QUARTER, Flags, Fleet, Gaps, Minutes, Reals

Table = NDArray[np.float32]

#: Idle for less than these minutes.
ELAPSED = np.array(
    [5, 10, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1080, 1440, 2160, 2880, 4320, 7200]
)
#: Half hours of the local day.
SLOT = 30
SLOTS = DAY // SLOT
#: How many returns the belief weighs that a factor is 1.
POPULATION_ELAPSED, POPULATION_HOURS = 1.0, 5.0
CARD_LEVEL, CARD_ELAPSED, CARD_HOURS, CARD_DAY_HOURS = 2.0, 4.0, 3.0, 3.0
#: How much a stretch in a window of ours counts: not all demand can show there, and to leave such
#: time out would forget the very nights that are lent.
AWAY_WEIGHT = 0.5
#: Cards that are counted at once.
_AT_ONCE = 64
_HOURS = np.array([0.25, 0.5, 1.0, 0.5, 0.25])
_LENGTHS = np.array([0.5, 1.0, 0.5])


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Idle time of a fleet and what ended it: card x day type x slot x bin of idle time so far."""

    exposed: Table
    """Minutes, by weight."""
    returned: Table
    """How often demand ended it, by weight."""


def counts(fleet: Fleet, gaps: Gaps) -> Counts:
    """All idle time, in quarters of an hour from the start of each gap."""
    lengths = len(ELAPSED) + 1
    shape = (len(fleet.cards), 2, SLOTS, lengths)
    # Halves of a minute are exact in them, for decades.
    found = Counts(np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32))
    for first in range(0, len(fleet.cards), _AT_ONCE):
        some = gaps.of(first, first + _AT_ONCE)
        times = -((some.start - some.end) // QUARTER)
        gap = np.repeat(np.arange(len(some)), times)
        elapsed = (np.arange(len(gap)) - np.repeat(np.cumsum(times) - times, times)) * QUARTER
        card, at = some.card[gap], some.start[gap] + elapsed
        end = np.minimum(at + QUARTER, some.end[gap])
        weight = np.where(fleet.is_away(card, at, end), AWAY_WEIGHT, 1.0)
        rest, slot, length = cells(*fleet.local(card, at), elapsed)
        cell = (((card - first) * 2 + rest) * SLOTS + slot) * lengths + length
        returned = some.ended[gap] & (end == some.end[gap])
        for part, what in ((found.exposed, end - at), (found.returned, returned)):
            into = part[first : first + _AT_ONCE]
            into[:] = np.bincount(cell, what * weight, into.size).reshape(into.shape)
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Hazard:
    """Returns a minute, as factors; arrays over cards, day type (0 work, 1 rest), slot, bin."""

    elapsed: Reals
    """Of the population, by the time already idle: the one that has a unit."""
    hours: Reals
    level: Reals
    card_elapsed: Reals
    card_hours: Reals
    card_day_hours: Reals
    lasted: Minutes
    """How many past gaps of each card ended in each bin of idle time."""

    @cached_property
    def _lasted(self) -> Minutes:
        of_all: Minutes = self.lasted.sum(axis=0)
        return of_all

    def rates(self, fleet: Fleet, asked: Asked) -> Reals:
        """Returns a minute for each step ahead, of each card that is asked for."""
        card = asked.card[:, None]
        local = fleet.local(card, asked.at[:, None] + AHEAD)
        return self.at(card, *cells(*local, asked.elapsed[:, None] + AHEAD))

    def rests_on(self, fleet: Fleet, card: int, elapsed: int) -> str:
        """In words: how many gaps lasted as long as this one, and from which cards."""
        length = int(np.searchsorted(ELAPSED, elapsed, "right"))
        own, every = (int(of[length:].sum()) for of in (self.lasted[card], self._lasted))
        others = (
            f", and {every - own} of the other {n} cards" if (n := len(fleet.cards) - 1) else ""
        )
        return f"{own} past gaps of this card lasted {elapsed} min or longer{others}"

    def at(self, card: Minutes, rest: Minutes, slot: Minutes, length: Minutes) -> Reals:
        """Returns a minute of idle cards, each in a cell of the tables."""
        return (
            self.elapsed[length]
            * self.hours[rest, slot]
            * self.level[card]
            * self.card_elapsed[card, length]
            * self.card_hours[card, slot]
            * self.card_day_hours[card, rest, slot]
        )


def cells(local: Minutes, rests: Flags, elapsed: Minutes) -> tuple[Minutes, Minutes, Minutes]:
    """Day type, slot and bin at instants of the local clock, after so many idle minutes."""
    return (
        rests.astype(np.int64),
        local % DAY // SLOT,
        ELAPSED.searchsorted(elapsed, "right"),
    )


@dataclass(frozen=True, slots=True)
class Hazards:
    """Learns tables of rates; without hours it knows idle time alone, as a keep-alive does."""

    name: str = "hazard"
    hours: bool = True

    def fit(self, fleet: Fleet, until: int) -> Hazard:
        """Learn from what was known before an instant."""
        return fit(fleet, until, hours=self.hours)


def fit(fleet: Fleet, until: int, *, hours: bool = True, since: Minutes | None = None) -> Hazard:
    """What a fleet's past up to an instant says; of a fleet without a past, what the prior says.

    Of its own past a card counts only gaps that end after its instant of ``since``.
    """
    gaps = fleet.gaps(until)
    seen = own = counts(fleet, gaps)
    if since is not None:
        own = counts(fleet, gaps.where(gaps.end > since[gaps.card]))
    cards, lengths = len(fleet.cards), len(ELAPSED) + 1
    idle, returns = (
        np.sum(part, axis=0, dtype=np.float64) for part in (seen.exposed, seen.returned)
    )
    lindy = _lindy()
    elapsed = lindy * _factor(
        returns.sum(axis=(0, 1)), idle.sum(axis=(0, 1)) * lindy, POPULATION_ELAPSED
    )
    population = np.ones((2, SLOTS))
    if hours:
        population = _factor(returns.sum(axis=2), idle @ elapsed, POPULATION_HOURS, _HOURS)
    came = own.returned.sum(axis=(1, 2), dtype=np.float64)
    expected = elapsed * np.einsum("crsl,rs->cl", own.exposed, population)
    level = _factor(came.sum(axis=1), expected.sum(axis=1), CARD_LEVEL)
    law = _factor(came, expected * level[:, None], CARD_ELAPSED, _LENGTHS)
    by_slot, by_day = np.ones((cards, SLOTS)), np.ones((cards, 2, SLOTS))
    if hours:
        came = own.returned.sum(axis=3, dtype=np.float64)
        rate = elapsed * level[:, None] * law
        expected = population * np.einsum("crsl,cl->crs", own.exposed, rate)
        by_slot = _factor(came.sum(axis=1), expected.sum(axis=1), CARD_HOURS, _HOURS)
        by_day = _factor(came, expected * by_slot[:, None], CARD_DAY_HOURS, _HOURS)
    length = np.searchsorted(ELAPSED, (gaps.end - gaps.start - 1) // QUARTER * QUARTER, "right")
    lasted = np.bincount((gaps.card * lengths + length)[gaps.ended], minlength=cards * lengths)
    return Hazard(
        elapsed=elapsed,
        hours=population,
        level=level,
        card_elapsed=law,
        card_hours=by_slot,
        card_day_hours=by_day,
        lasted=lasted.reshape(cards, lengths),
    )


def _factor(returns: Reals, expected: Reals, prior: float, kernel: Reals | None = None) -> Reals:
    """Returns over expected ones in each cell, both plus the prior."""
    if kernel is not None:
        returns, expected = _spread(returns, kernel), _spread(expected, kernel)
    return (returns + prior) / (expected + prior)


def _lindy() -> Reals:
    """The prior: the rate 1/a after a idle minutes, at the middle of each bin."""
    edges = np.concatenate(([0], ELAPSED, [2 * ELAPSED[-1]]))
    return 1.0 / np.maximum((edges[1:] + edges[:-1]) / 2, 1.0)


def _spread(counts: Reals, kernel: Reals) -> Reals:
    """Each cell with a part of its neighbours'; hours are a ring, lengths are not."""
    reach, size = len(kernel) // 2, counts.shape[-1]
    width = [(0, 0)] * (counts.ndim - 1) + [(reach, reach)]
    wide = np.pad(counts, width, mode="wrap" if size == SLOTS else "edge")
    parts = [wide[..., k : k + size] * weight for k, weight in enumerate(kernel)]
    total: Reals = np.sum(parts, axis=0)
    return total
