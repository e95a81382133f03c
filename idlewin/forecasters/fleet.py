"""Many cards' demand as arrays of whole minutes since 1970, in UTC.

What forecasters learn from, and what the pricing replays. No method and no decision belongs here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from idlewin.core.load import History
from idlewin.core.window import Span

Minutes = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

DAY = 24 * 60
QUARTER = 15
#: How far outside of what is known an instant may lie and still be told apart.
_WIDEST = 30 * DAY
#: 1970 began on a Thursday, the fourth day of a week.
_THURSDAY = 3


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where demand lives by the clock: the zone's offsets, and days that are days of rest."""

    changes: Minutes
    """From when each offset holds; the first holds before it too."""
    offsets: Minutes
    holidays: Minutes = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Local days since 1970, sorted."""

    def local(self, at: Minutes) -> Minutes:
        """Minutes of the local clock."""
        which = self.changes.searchsorted(at, "right") - 1
        return at + self.offsets[np.maximum(which, 0)]

    def rests(self, local: Minutes) -> Flags:
        """Which local minutes lie on a Saturday, a Sunday or a holiday."""
        day = local // DAY
        weekend = (day + _THURSDAY) % 7 >= 5
        return weekend | np.isin(day, self.holidays) if len(self.holidays) else weekend


def place(
    local: Callable[[datetime], datetime], over: Span, holidays: Sequence[date] = ()
) -> Place:
    """The offsets of a zone over a stretch; ``local`` turns an instant into the zone's time.

    Raises ValueError where ``local`` gives a time without a zone.
    """
    changes: list[int] = []
    offsets: list[int] = []
    at = minute(over.start) // DAY * DAY
    end = minute(over.end) + 2 * DAY
    while at < end:
        # Two looks a day find a change; its quarter is looked for only on such a day.
        if (
            not offsets
            or _offset(local, at + DAY) != offsets[-1]
            or _offset(local, at) != offsets[-1]
        ):
            for quarter in range(at, at + DAY + 1, QUARTER):
                offset = _offset(local, quarter)
                if not offsets or offset != offsets[-1]:
                    changes.append(quarter)
                    offsets.append(offset)
        at += DAY
    days = sorted((day - date(1970, 1, 1)).days for day in holidays)
    return Place(np.array(changes), np.array(offsets), np.array(days, dtype=np.int64))


def _offset(local: Callable[[datetime], datetime], minute: int) -> int:
    offset = local(datetime.fromtimestamp(minute * 60, UTC)).utcoffset()
    if offset is None:
        raise ValueError("local gave a time without a zone; give an instant's astimezone(zone)")
    return round(offset / timedelta(minutes=1))


def minute(at: datetime) -> int:
    """Whole minutes since 1970."""
    return int(at.timestamp() // 60)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Gaps:
    """Idle stretches of cards, in order of card and time."""

    card: Minutes
    start: Minutes
    end: Minutes
    ended: Flags
    """Whether demand ended it; the last of a card may go on."""

    def __len__(self) -> int:
        return len(self.card)

    def of(self, first: int, end: int) -> Gaps:
        """Those of the cards from one up to another."""
        return self.where(slice(*np.searchsorted(self.card, (first, end))))

    def where(self, part: Flags | slice) -> Gaps:
        """Some of them, in the same order."""
        return Gaps(
            card=self.card[part],
            start=self.start[part],
            end=self.end[part],
            ended=self.ended[part],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Fleet:
    """Runs of demand of cards, in order of card and time, without overlaps."""

    cards: tuple[str, ...]
    since: Minutes
    """From when each card is known."""
    until: int
    """Up to where all of them are."""
    card: Minutes
    busy_from: Minutes
    busy_to: Minutes
    away: tuple[Minutes, Minutes, Minutes]
    """Windows of ours: card, from, to; not all demand can show in them."""
    places: tuple[Place, ...]
    place_of: Minutes
    group: Minutes
    """Cards of one served model, or of one pool, have one number."""

    @cached_property
    def start(self) -> int:
        """From when the first card is known."""
        return int(self.since.min(initial=self.until))

    def local(self, card: Minutes, at: Minutes) -> tuple[Minutes, Flags]:
        """The local clock of cards at instants, and whether those are days of rest."""
        if len(self.places) == 1:
            local = self.places[0].local(at)
            return local, self.places[0].rests(local)
        local, rests = np.empty_like(at), np.empty(at.shape, dtype=np.bool_)
        place_of = np.broadcast_to(self.place_of[card], at.shape)
        for number, where in enumerate(self.places):
            here = place_of == number
            local[here] = where.local(at[here])
            rests[here] = where.rests(local[here])
        return local, rests

    def runs_before(self, card: Minutes, at: Minutes) -> Minutes:
        """How many runs of demand of all cards up to this one began before an instant."""
        return self._begins.searchsorted(self._keys(card, at), "left")

    def busy_before(self, card: Minutes, at: Minutes) -> Minutes:
        """Minutes of demand of all cards up to this one before an instant: take differences."""
        return self.before(card, at)[1]

    def before(self, card: Minutes, at: Minutes) -> tuple[Minutes, Minutes]:
        """Both at once: runs, and minutes, of demand."""
        begun = self.runs_before(card, at)
        return begun, self._sums[begun] - self._left(card, begun, at)

    def is_busy(self, card: Minutes, at: Minutes) -> Flags:
        """Whether cards have demand in the minute of an instant."""
        busy: Flags = self._left(card, self.runs_before(card, at + 1), at) > 0
        return busy

    def _left(self, card: Minutes, begun: Minutes, at: Minutes) -> Minutes:
        """How much is left, at an instant, of the last of the runs that have begun."""
        # The last one of all stands in where there is none.
        own = self._cards[begun - 1] == card
        return np.where(own, np.maximum(self._ends[begun - 1] - at, 0), 0)

    def gaps(self, until: int | None = None) -> Gaps:
        """The idle stretches up to an instant; those that last until then have not ended."""
        until = self.until if until is None else until
        known = self.busy_from < until
        card = self.card[known]
        count = np.bincount(card, minlength=len(self.cards))
        # A gap before each run of a card, and one after its last.
        last = np.cumsum(count + 1) - 1
        before = np.arange(len(card)) + card
        size = len(card) + len(count)
        cards = np.repeat(np.arange(len(count)), count + 1)
        starts, ends = np.empty(size, dtype=np.int64), np.full(size, until)
        starts[last - count] = self.since
        starts[before + 1] = self.busy_to[known]
        ends[before] = self.busy_from[known]
        ended = np.ones(size, dtype=np.bool_)
        ended[last] = False
        kept = ends > starts
        return Gaps(card=cards[kept], start=starts[kept], end=ends[kept], ended=ended[kept])

    def is_away(self, card: Minutes, start: Minutes, end: Minutes) -> Flags:
        """Which stretches of cards overlap a window of ours."""
        cards, begin, finish = self.away
        if not len(cards):
            return np.zeros(card.shape, dtype=np.bool_)
        begun = np.searchsorted(self._keys(cards, begin), self._keys(card, end), "left")
        over = np.searchsorted(self._keys(cards, finish), self._keys(card, start), "right")
        return begun > over

    def _keys(self, card: Minutes, at: Minutes) -> Minutes:
        """Cards and instants in one number, in their order."""
        width = self.until - self.start + 4 * _WIDEST
        since = at - (self.start - _WIDEST)
        return card * width + np.minimum(np.maximum(since, 0), width - 1)

    @cached_property
    def _begins(self) -> Minutes:
        return self._keys(self.card, self.busy_from)

    @cached_property
    def _cards(self) -> Minutes:
        return np.append(self.card, -1)

    @cached_property
    def _ends(self) -> Minutes:
        return np.append(self.busy_to, 0)

    @cached_property
    def _sums(self) -> Minutes:
        return np.concatenate(([0], np.cumsum(self.busy_to - self.busy_from)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One card, or one pool that is lent as a whole: its history, where it is, and its kin."""

    name: str
    history: History
    place: Place
    group: str = ""
    """Cards that serve the same; empty: by itself."""


def fleet(cards: Sequence[Card]) -> Fleet:
    """Cards as arrays. What is unknown counts as demand, except at the very beginning of a card.

    Raises ValueError where there is no card.
    """
    if not cards:
        raise ValueError("a fleet of no cards; give it at least one")
    spans = [_runs((*card.history.busy, *card.history.unknown), card.history) for card in cards]
    away = [_runs(card.history.serving_away, card.history) for card in cards]
    places = tuple(dict.fromkeys(card.place for card in cards))
    groups = {name: n for n, name in enumerate(dict.fromkeys(c.group or c.name for c in cards))}
    return Fleet(
        cards=tuple(card.name for card in cards),
        since=np.array([_since(card.history) for card in cards]),
        until=max(minute(card.history.covers.end) for card in cards),
        card=_repeated([len(froms) for froms, _ in spans]),
        busy_from=np.concatenate([froms for froms, _ in spans]),
        busy_to=np.concatenate([tos for _, tos in spans]),
        away=(
            _repeated([len(froms) for froms, _ in away]),
            np.concatenate([froms for froms, _ in away]),
            np.concatenate([tos for _, tos in away]),
        ),
        places=places,
        place_of=np.array([places.index(card.place) for card in cards]),
        group=np.array([groups[card.group or card.name] for card in cards]),
    )


def _since(history: History) -> int:
    """From when a history is known: what is unknown at its very beginning was never recorded."""
    since = history.covers.start
    for gap in history.unknown[:1]:
        if gap.start <= since:
            since = min(gap.end, history.covers.end)
    return minute(since)


def _runs(spans: Sequence[Span], history: History) -> tuple[Minutes, Minutes]:
    """Spans as whole minutes, in order and joined; a minute with any of it counts in full."""
    since, end = _since(history), minute(history.covers.end)
    froms = (np.array([span.start.timestamp() for span in spans]) // 60).astype(np.int64)
    tos = -(np.array([-span.end.timestamp() for span in spans]) // 60).astype(np.int64)
    inside = (tos > since) & (froms < end)
    froms, tos = np.maximum(froms[inside], since), np.minimum(tos[inside], end)
    if not len(froms):
        return froms, tos
    order = np.argsort(froms, kind="stable")
    froms, tos = froms[order], np.maximum.accumulate(tos[order])
    first = np.concatenate(([True], froms[1:] > tos[:-1]))
    return froms[first], tos[np.concatenate((first[1:], [True]))]


def _repeated(counts: Sequence[int]) -> Minutes:
    return np.repeat(np.arange(len(counts)), counts)
