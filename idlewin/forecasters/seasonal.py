"""Seasonal: how often demand came in this quarter of an hour, on such days, after such idleness.

A hazard for each quarter of the local day, weekdays and weekends apart, times a factor for how long
the card has been idle. Counts are kept between calls, and are the same after a restart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from idlewin.core.forecast import Forecast
from idlewin.core.load import History
from idlewin.core.window import Span
from idlewin.forecasters.past import (
    HORIZON,
    STEP_MINUTES,
    Minutes,
    days,
    doubt,
    minutes,
    past_of,
    told,
)

#: Less tells weekdays from weekends by a day or none.
NEEDS = timedelta(days=7)
#: How many days the prior weighs: nothing that was seen on a few days is certain.
PRIOR_DAYS = 2.0
#: How many onsets of demand the prior weighs, where idle time is told apart by its length.
PRIOR_ONSETS = 2.0
#: Idle for less than these minutes, and than infinity.
ELAPSED = np.array([30.0, 120.0, 360.0])
_QUARTER = 15
_DAY = 24 * 60
_SLOTS = _DAY // _QUARTER
_KEPT = 256


@dataclass(frozen=True, slots=True)
class _Fit:
    """What a stretch of history says: hazards by day type and slot, factors by elapsed time."""

    history: History
    hazard: Minutes
    factor: Minutes
    onsets: int


class Seasonal:
    """The chance that no demand comes, slot by slot, for a pool that is idle now.

    ``local`` turns an instant into the same one in the zone whose days the demand follows.
    """

    name: str = "seasonal"

    def __init__(self, local: Callable[[datetime], datetime]) -> None:
        self._local = local
        self._offsets: dict[int, Minutes] = {}
        self._fits: dict[object, _Fit] = {}

    def forecast(self, history: History, now: datetime, idle_since: datetime) -> Forecast:
        """A forecast at an instant; not ready before a week of history is there."""
        since, has = _known(history)
        why = doubt(history, now)
        if not why and has < NEEDS:
            why = f"needs {days(NEEDS)}, has {days(has)}"
        if why:
            return Forecast(method=self.name, made_at=now, chances=(), rests_on=why, ready=False)
        fit = self._fit(_whole_hours(history, since))
        elapsed = max((now - idle_since) / timedelta(minutes=1), 0.0)
        return Forecast(
            method=self.name,
            made_at=now,
            chances=told(self._chances(fit, minutes(now), elapsed)),
            rests_on=f"{days(has)} of history, returns of demand: {fit.onsets}",
        )

    def _chances(self, fit: _Fit, now: float, elapsed: float) -> Minutes:
        first = int(now // _QUARTER)
        quarters = np.arange(first, first + HORIZON // timedelta(minutes=_QUARTER) + 1)
        idle_for = np.maximum(quarters * _QUARTER - now, 0.0) + elapsed
        kind, slot = self._slots(quarters)
        hazard = fit.hazard[kind, slot] * fit.factor[np.searchsorted(ELAPSED, idle_for, "right")]
        risk = np.concatenate(([0.0], np.cumsum(hazard)))
        edges = np.append(quarters, quarters[-1] + 1) * _QUARTER
        at = np.interp(np.concatenate(([now], now + STEP_MINUTES)), edges, risk)
        staying: Minutes = np.exp(at[0] - at[1:])
        return staying

    def _fit(self, history: History) -> _Fit:
        """What was counted of this history before, or is now."""
        # Another pool can have the same stretch, so the runs are compared, not only hashed.
        key = (history.covers, len(history.busy), history.busy[:1], history.busy[-1:])
        found = self._fits.get(key)
        if found is None or found.history != history:
            found = self._fits[key] = self._count(history)
            if len(self._fits) > _KEPT:
                self._fits.pop(next(iter(self._fits)), None)
        return found

    def _count(self, history: History) -> _Fit:
        past = past_of(history)
        # Demand at the very start may have begun before, so the first quarter tells nothing.
        quarters = np.arange(int(past.start // _QUARTER) + 1, int(past.end // _QUARTER))
        start = (quarters * _QUARTER).astype(np.float64)
        end = start + _QUARTER
        begun = np.searchsorted(past.busy_from, start, "left")
        idle = begun == np.searchsorted(past.busy_to, start, "right")
        onset = idle & (np.searchsorted(past.busy_from, end, "left") > begun)
        weight = past.weight(start, end)
        kind, slot = self._slots(quarters)

        def tally(what: NDArray[np.bool_]) -> Minutes:
            counts = np.bincount(kind * _SLOTS + slot, what * weight, 2 * _SLOTS)
            return counts.reshape(2, _SLOTS).astype(np.float64)

        every = np.ones(quarters.size, dtype=np.bool_)
        hazard = _hazard(tally(idle), tally(onset), tally(~idle | onset), tally(every))
        last_end = np.concatenate(([past.start], past.busy_to))[begun]
        bins = np.searchsorted(ELAPSED, start - last_end, "right")
        expected = np.bincount(bins, idle * weight * hazard[kind, slot], ELAPSED.size + 1)
        seen = np.bincount(bins, onset * weight, ELAPSED.size + 1)
        factor = (seen + PRIOR_ONSETS) / (expected + PRIOR_ONSETS)
        return _Fit(history, hazard, factor, int(np.count_nonzero(onset)))

    def _slots(self, quarters: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Day type (0 weekday, 1 weekend) and slot of the local day, for quarters since 1970."""
        day = quarters // _SLOTS
        offsets = np.concatenate([self._offsets_of(int(d)) for d in range(day[0], day[-1] + 1)])
        local = quarters * _QUARTER + offsets[quarters - day[0] * _SLOTS].astype(np.int64)
        # 1970 began on a Thursday, the fourth day of a week.
        weekend = ((local // _DAY + 3) % 7 >= 5).astype(np.int64)
        return weekend, local % _DAY // _QUARTER

    def _offsets_of(self, day: int) -> Minutes:
        """The zone's offset from UTC in minutes, for each quarter of a day of UTC."""
        if day not in self._offsets:
            ends = [self._offset(day * _SLOTS + quarter) for quarter in (0, _SLOTS)]
            changes = ends[0] != ends[1]
            self._offsets[day] = (
                np.array([self._offset(day * _SLOTS + quarter) for quarter in range(_SLOTS)])
                if changes
                else np.full(_SLOTS, ends[0])
            )
        return self._offsets[day]

    def _offset(self, quarter: int) -> float:
        at = datetime.fromtimestamp(quarter * _QUARTER * 60, UTC)
        offset = self._local(at).utcoffset()
        if offset is None:
            raise ValueError("local gave a time without a zone; give an instant's astimezone(zone)")
        return offset / timedelta(minutes=1)


def _hazard(idle: Minutes, onset: Minutes, demand: Minutes, looked: Minutes) -> Minutes:
    """The rate at which demand comes in a slot, given that the slot begins idle.

    Where a slot seldom began idle, the share of days with demand in it stands in; and nowhere is
    the prior below the card's mean rate, which follows Laplace's rule of succession.
    """
    mean = (onset.sum() + 1) / (idle.sum() + 2)
    idle, onset, demand, looked = (_smooth(counts) for counts in (idle, onset, demand, looked))
    share = (demand + PRIOR_DAYS * mean) / (looked + PRIOR_DAYS)
    prior = np.maximum(share, mean)
    chance = (onset + PRIOR_DAYS * prior) / (idle + PRIOR_DAYS)
    rate: Minutes = -np.log1p(-np.minimum(chance, 0.999))
    return rate


def _smooth(counts: Minutes) -> Minutes:
    """Each slot with half of its neighbours', round the clock."""
    return counts + (np.roll(counts, 1, axis=1) + np.roll(counts, -1, axis=1)) / 2


def _known(history: History) -> tuple[datetime, timedelta]:
    """Since when there is a history, and how much of it is known.

    What is unknown at its very beginning was never recorded, as with a young Prometheus.
    """
    since, end = history.covers.start, history.covers.end
    for gap in history.unknown[:1]:
        if gap.start <= since:
            since = min(gap.end, end)
    gaps = (min(gap.end, end) - max(gap.start, since) for gap in history.unknown)
    return since, end - since - sum((gap for gap in gaps if gap > timedelta()), timedelta())


def _whole_hours(history: History, start: datetime) -> History:
    """A history cut to whole hours, so that what is counted stays the same for an hour."""
    end = history.covers.end
    whole = start.replace(minute=0, second=0, microsecond=0)
    covers = Span(
        whole if whole == start else whole + timedelta(hours=1),
        end.replace(minute=0, second=0, microsecond=0),
    )
    return History(
        covers=covers,
        busy=_within(history.busy, covers),
        unknown=_within(history.unknown, covers),
        serving_away=_within(history.serving_away, covers),
    )


def _within(runs: tuple[Span, ...], to: Span) -> tuple[Span, ...]:
    """Runs in order, cut to a stretch; those in its middle stay the same objects."""
    first = bisect_right(runs, to.start, key=lambda run: run.end)
    last = bisect_left(runs, to.end, key=lambda run: run.start)
    if first >= last:
        return ()
    kept = list(runs[first:last])
    for edge in (0, -1):
        run = kept[edge]
        kept[edge] = Span(max(run.start, to.start), min(run.end, to.end))
    return tuple(kept)
