"""Demand as spans in which users are there: made up from a seed, or given by a trace."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random

from idlewin.core.window import Span, clipped, merged

_QUIET, _EVENING, _DAY = 0.02, 0.25, 0.9


class Demand:
    """Busy spans, and quick answers about them."""

    def __init__(self, busy: Iterable[Span]) -> None:
        self.spans = merged(busy)
        self._starts = [span.start for span in self.spans]

    def at(self, now: datetime) -> Span | None:
        """The span in which an instant lies, if users are there."""
        index = bisect_right(self._starts, now) - 1
        return self.spans[index] if index >= 0 and now in self.spans[index] else None

    def next_change(self, now: datetime) -> datetime | None:
        """When users come or go next."""
        if (span := self.at(now)) is not None:
            return span.end
        index = bisect_right(self._starts, now)
        return self._starts[index] if index < len(self._starts) else None

    def within(self, span: Span) -> tuple[Span, ...]:
        """The busy spans of a stretch of time."""
        first = max(0, bisect_right(self._starts, span.start) - 1)
        last = bisect_right(self._starts, span.end)
        found = self.spans[first:last]
        # Only those at the ends can reach out of it; the others stay the same objects.
        return (*clipped(found[:1], span), *found[1:-1], *clipped(found[1:][-1:], span))

    def also(self, busy: Iterable[Span]) -> Demand:
        """The same with more spans."""
        return Demand((*self.spans, *busy))


def day_rhythm(random: Random, start: datetime, days: int, *, scale: float = 1.0) -> Demand:
    """People's days: sessions by day, few in the evening, hardly any by night or at weekends.

    ``scale`` below 1 shortens days and sessions alike, so that a test sees many in little time.
    """
    spans: list[Span] = []
    day = timedelta(days=1) * scale
    at, end = start, start + days * day
    while at < end:
        passed = (at - start) / day
        hour, weekday = (passed % 1) * 24, int(passed) % 7
        rate = _DAY if 8 <= hour < 18 else _EVENING if 18 <= hour < 22 else _QUIET
        rate *= 0.15 if weekday >= 5 else 1.0
        gap = timedelta(hours=random.expovariate(max(rate, 0.02) * 4)) * scale
        session = timedelta(minutes=random.uniform(1, 45)) * scale
        # A gap drawn by night ends at the next hour of the day that is unlike it.
        if gap > timedelta(hours=1) * scale:
            at += timedelta(hours=1) * scale
            continue
        spans.append(Span(at + gap, at + gap + session))
        at += gap + session
    return Demand(spans)
