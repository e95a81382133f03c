"""Kin: what other cards do that bears on one card.

Cards that serve the same fill up one after the other, so a card whose kin are all idle is not
needed soon, and one whose kin are all busy is next. Which cards those are is learnt, not told: the
kin of a card are those that were busy almost whenever it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from idlewin.forecasters.fleet import DAY, QUARTER, Fleet, Minutes, Reals

#: Busy in this share of a card's own busy time, and this much busier than it.
ALMOST = 0.95
BUSIER = 1.02
#: Less busy time than so many quarters of an hour tells nothing.
ENOUGH = 7
#: So many are looked at, the least busy first: in a stack, those that come right before.
MOST = 16
#: How far back is looked.
PAST = 14 * DAY
_AT_ONCE = 256
_NOBODY = np.iinfo(np.int64).max


def kin(fleet: Fleet, until: int) -> Minutes:
    """The kin of each card, by what was known before an instant; card x MOST, -1 is nobody."""
    cards = len(fleet.cards)
    found = np.full((cards, MOST), -1, dtype=np.int64)
    first = max(-((fleet.start + PAST - until) // QUARTER), 0)
    busy = _busy(fleet, fleet.start + first * QUARTER, until)
    size = busy.sum(axis=1)
    for first in range(0, cards, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        common = busy[some] @ busy.T
        contains = (
            (common >= ALMOST * np.maximum(size[some, None], 1))
            & (size > BUSIER * size[some, None])
            & (size > ENOUGH)
        )
        # By busy time, then by number: no two are alike.
        order = np.where(contains, size.astype(np.int64) * cards + np.arange(cards), _NOBODY)
        if cards > MOST:
            order = np.partition(order, MOST - 1, axis=1)[:, :MOST]
        order.sort(axis=1)
        found[some, : order.shape[1]] = np.where(order < _NOBODY, order % cards, -1)
    return found


def _busy(fleet: Fleet, since: int, until: int) -> NDArray[np.float32]:
    """Whether each card is busy at each quarter of an hour of a stretch."""
    count = max(-((since - until) // QUARTER), 0)
    turns = np.zeros((len(fleet.cards), count + 1), dtype=np.int8)
    some = (fleet.busy_to > since) & (fleet.busy_from < until)
    first = fleet.card[some] * (count + 1)
    for at, by in ((fleet.busy_from, 1), (fleet.busy_to, -1)):
        quarter = np.clip(-((since - at[some]) // QUARTER), 0, count)
        np.add.at(turns.reshape(-1), first + quarter, np.int8(by))
    return np.cumsum(turns[:, :-1], axis=1, dtype=np.int8).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Demand of cards with one number, taken together: how many were busy, how many began."""

    size: Minutes
    starts: Minutes
    ends: Minutes
    start_sums: Minutes
    end_sums: Minutes
    width: int
    since: int

    def busy(self, number: Minutes, start: Minutes, end: Minutes) -> Reals:
        """The mean share of them that was busy in a stretch."""
        minutes = self._before(number, end) - self._before(number, start)
        share: Reals = minutes / np.maximum((end - start) * self.size[number], 1)
        return share

    def begun(self, number: Minutes, start: Minutes, end: Minutes) -> Reals:
        """Runs of demand that began in a stretch, a card."""
        first, last = (self.starts.searchsorted(self._key(number, at)) for at in (start, end))
        share: Reals = (last - first) / self.size[number]
        return share

    def _before(self, number: Minutes, at: Minutes) -> Minutes:
        """Minutes of demand before an instant, of this number and all before it."""
        key = self._key(number, at)
        begun, ended = self.starts.searchsorted(key), self.ends.searchsorted(key)
        since = np.maximum(at - self.since, 0)
        return (begun - ended) * since - self.start_sums[begun] + self.end_sums[ended]

    def _key(self, number: Minutes, at: Minutes) -> Minutes:
        since = np.minimum(np.maximum(at - self.since, 0), self.width - 1)
        return number * self.width + since


def together(fleet: Fleet, *numbers: Minutes) -> Together:
    """Cards by a number each; by several, where those of one are all above those before."""
    since, runs = fleet.start, len(fleet.card)
    begin, end = fleet.busy_from - since, fleet.busy_to - since
    width = int(end.max(initial=0)) + 30 * DAY
    keys = [np.empty(len(numbers) * runs, dtype=np.int64) for _ in (begin, end)]
    sums = [np.zeros(len(numbers) * runs + 1, dtype=np.int64) for _ in (begin, end)]
    for place, of_card in enumerate(numbers):
        first, part = of_card[fleet.card] * width, slice(place * runs, (place + 1) * runs)
        for at, key, total in zip((begin, end), keys, sums, strict=True):
            order = np.argsort(first + at)
            key[part], total[1:][part] = (first + at)[order], at[order]
    return Together(
        size=np.bincount(np.concatenate(numbers)),
        starts=keys[0],
        ends=keys[1],
        start_sums=np.cumsum(sums[0], out=sums[0]),
        end_sums=np.cumsum(sums[1], out=sums[1]),
        width=width,
        since=since,
    )
