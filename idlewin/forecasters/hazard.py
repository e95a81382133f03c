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

import numpy as np

from idlewin.forecasters.ahead import AHEAD, Asked
from idlewin.forecasters.fleet import DAY, QUARTER, Fleet, Minutes, Reals

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
_HOURS = np.array([0.25, 0.5, 1.0, 0.5, 0.25])
_LENGTHS = np.array([0.5, 1.0, 0.5])


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Idle time of a fleet in quarters of an hour, counted from the start of each gap."""

    card: Minutes
    at: Minutes
    elapsed: Minutes
    exposed: Reals
    """Minutes of it, by weight."""
    returned: Reals
    """Whether demand ended it, by weight."""


def cells(fleet: Fleet, until: int) -> Cells:
    """All idle time up to an instant."""
    gaps = fleet.gaps(until)
    counts = -((gaps.start - gaps.end) // QUARTER)
    gap = np.repeat(np.arange(len(gaps)), counts)
    nth = np.arange(len(gap)) - np.repeat(np.cumsum(counts) - counts, counts)
    elapsed = nth * QUARTER
    at = gaps.start[gap] + elapsed
    end = np.minimum(at + QUARTER, gaps.end[gap])
    card = gaps.card[gap]
    weight = np.where(fleet.is_away(card, at, end), AWAY_WEIGHT, 1.0)
    return Cells(
        card=card,
        at=at,
        elapsed=elapsed,
        exposed=(end - at) * weight,
        returned=(gaps.ended[gap] & (end == gaps.end[gap])) * weight,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
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

    def rates(self, fleet: Fleet, asked: Asked) -> Reals:
        """Returns a minute for each step ahead, of each card that is asked for."""
        at = asked.at[:, None] + AHEAD
        card = np.broadcast_to(asked.card[:, None], at.shape)
        return self.at(fleet, card, at, asked.elapsed[:, None] + AHEAD)

    def rests_on(self, fleet: Fleet, card: int, elapsed: int) -> str:
        """In words: how many gaps lasted as long as this one, and from which cards."""
        of_card, of_all = self.lasted[card], self.lasted.sum(axis=0)
        length = int(np.searchsorted(ELAPSED, elapsed, "right"))
        own, every = int(of_card[length:].sum()), int(of_all[length:].sum())
        others = (
            f", and {every - own} of the other {n} cards" if (n := len(fleet.cards) - 1) else ""
        )
        return f"{own} past gaps of this card lasted {elapsed} min or longer{others}"

    def at(self, fleet: Fleet, card: Minutes, at: Minutes, elapsed: Minutes) -> Reals:
        """Returns a minute of cards that idle at instants, after so many idle minutes."""
        local, rests = fleet.local(card, at)
        slot, rest = local % DAY // SLOT, rests.astype(np.int64)
        length = np.searchsorted(ELAPSED, elapsed, "right")
        return (
            self.elapsed[length]
            * self.hours[rest, slot]
            * self.level[card]
            * self.card_elapsed[card, length]
            * self.card_hours[card, slot]
            * self.card_day_hours[card, rest, slot]
        )


@dataclass(frozen=True, slots=True)
class Hazards:
    """Learns tables of rates; without hours it knows idle time alone, as a keep-alive does."""

    name: str = "hazard"
    hours: bool = True

    def fit(self, fleet: Fleet, until: int) -> Hazard:
        """Learn from what was known before an instant."""
        return fit(fleet, until, hours=self.hours)


def fit(fleet: Fleet, until: int, *, hours: bool = True) -> Hazard:
    """What a fleet's past up to an instant says; of a fleet without a past, what the prior says."""
    seen = cells(fleet, until)
    cards, lengths = len(fleet.cards), len(ELAPSED) + 1
    local, rests = fleet.local(seen.card, seen.at)
    slot, rest = local % DAY // SLOT, rests.astype(np.int64)
    length = np.searchsorted(ELAPSED, seen.elapsed, "right")
    expected = seen.exposed.copy()

    def factor(shape: tuple[int, ...], cell: Minutes, kernel: Reals | None, prior: float) -> Reals:
        """Returns over expected ones in each cell, both plus the prior; the rest is updated."""
        size = int(np.prod(shape))
        counts: list[Reals] = [
            np.bincount(cell, what, size).astype(np.float64).reshape(shape)
            for what in (seen.returned, expected)
        ]
        if kernel is not None:
            counts = [_spread(count, kernel, ring=shape[-1] == SLOTS) for count in counts]
        found: Reals = (counts[0] + prior) / (counts[1] + prior)
        np.multiply(expected, found.reshape(-1)[cell], out=expected)
        return found

    lindy = _lindy()
    expected *= lindy[length]
    elapsed = lindy * factor((lengths,), length, None, POPULATION_ELAPSED)
    population = np.ones((2, SLOTS))
    if hours:
        population = factor((2, SLOTS), rest * SLOTS + slot, _HOURS, POPULATION_HOURS)
    level = factor((cards,), seen.card, None, CARD_LEVEL)
    law = factor((cards, lengths), seen.card * lengths + length, _LENGTHS, CARD_ELAPSED)
    own = np.ones((cards, SLOTS)), np.ones((cards, 2, SLOTS))
    if hours:
        of_slot, of_day = seen.card * SLOTS + slot, (seen.card * 2 + rest) * SLOTS + slot
        own = (
            factor((cards, SLOTS), of_slot, _HOURS, CARD_HOURS),
            factor((cards, 2, SLOTS), of_day, _HOURS, CARD_DAY_HOURS),
        )
    ended = np.bincount(seen.card * lengths + length, seen.returned > 0, cards * lengths)
    return Hazard(
        elapsed=elapsed,
        hours=population,
        level=level,
        card_elapsed=law,
        card_hours=own[0],
        card_day_hours=own[1],
        lasted=ended.astype(np.int64).reshape(cards, lengths),
    )


def _lindy() -> Reals:
    """The prior: the rate 1/a after a idle minutes, at the middle of each bin."""
    edges = np.concatenate(([0], ELAPSED, [2 * ELAPSED[-1]]))
    return 1.0 / np.maximum((edges[1:] + edges[:-1]) / 2, 1.0)


def _spread(counts: Reals, kernel: Reals, *, ring: bool) -> Reals:
    """Each cell with a part of its neighbours'; hours are a ring, lengths are not."""
    reach = len(kernel) // 2
    width = [(0, 0)] * (counts.ndim - 1) + [(reach, reach)]
    wide = np.pad(counts, width, mode="wrap" if ring else "edge")
    size = counts.shape[-1]
    parts = [wide[..., k : k + size] * weight for k, weight in enumerate(kernel)]
    total: Reals = np.sum(parts, axis=0)
    return total
