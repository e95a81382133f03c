"""Kin: what other cards do that bears on one card.

Cards that serve the same fill up one after the other, so a card whose kin are all idle is not
needed soon, and one whose kin are all busy is next. Which cards those are is learnt, not told: the
kin of a card are those that were busy almost whenever it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
_AT_ONCE = 1024


def kin(fleet: Fleet, until: int) -> Minutes:
    """The kin of each card, by what was known before an instant; card x MOST, -1 is nobody."""
    since = max(fleet.start, until - PAST)
    at = np.arange(since, until, QUARTER)
    cards = np.arange(len(fleet.cards))
    found = np.full((len(cards), MOST), -1, dtype=np.int64)
    if not len(at):
        return found
    busy = _busy(fleet, at).astype(np.float32)
    size = busy.sum(axis=1)
    for first in range(0, len(cards), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        common = busy[some] @ busy.T
        contains = (
            (common >= ALMOST * np.maximum(size[some, None], 1))
            & (size > BUSIER * size[some, None])
            & (size > ENOUGH)
        )
        order = np.where(contains, size, np.inf)
        nearest = np.argsort(order, axis=1, kind="stable")[:, :MOST]
        real = np.take_along_axis(contains, nearest, axis=1)
        found[some, : nearest.shape[1]] = np.where(real, nearest, -1)
    return found


def _busy(fleet: Fleet, at: Minutes) -> Reals:
    cards = np.repeat(np.arange(len(fleet.cards)), len(at))
    return fleet.is_busy(cards, np.tile(at, len(fleet.cards))).reshape(-1, len(at)).astype(float)


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
        first, last = (np.searchsorted(self.starts, self._key(number, at)) for at in (start, end))
        share: Reals = (last - first) / self.size[number]
        return share

    def _before(self, number: Minutes, at: Minutes) -> Minutes:
        """Minutes of demand before an instant, of this number and all before it."""
        key = self._key(number, at)
        begun, ended = np.searchsorted(self.starts, key), np.searchsorted(self.ends, key)
        since = np.maximum(at - self.since, 0)
        return (begun - ended) * since - self.start_sums[begun] + self.end_sums[ended]

    def _key(self, number: Minutes, at: Minutes) -> Minutes:
        return number * self.width + np.clip(at - self.since, 0, self.width - 1)


def together(fleet: Fleet, numbers: Minutes) -> Together:
    """Cards by a number each."""
    number = numbers[fleet.card]
    since = fleet.start
    begin, end = fleet.busy_from - since, fleet.busy_to - since
    width = int(end.max(initial=0)) + 30 * DAY
    starts, ends = np.argsort(number * width + begin), np.argsort(number * width + end)
    return Together(
        size=np.bincount(numbers),
        starts=(number * width + begin)[starts],
        ends=(number * width + end)[ends],
        start_sums=np.concatenate(([0], np.cumsum(begin[starts]))),
        end_sums=np.concatenate(([0], np.cumsum(end[ends]))),
        width=width,
        since=since,
    )
