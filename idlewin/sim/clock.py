"""Virtual time: an order of events, and the clock that they move. Nothing else moves it."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count


class Timer:
    """Something that will happen, unless it is cancelled first."""

    __slots__ = ("cancelled", "do", "when")

    def __init__(self, when: datetime, do: Callable[[], object]) -> None:
        self.when, self.do, self.cancelled = when, do, False

    def cancel(self) -> None:
        """It does not happen."""
        self.cancelled = True


class Timeline:
    """A clock whose time goes from event to event.

    ``run`` may be called from within an event: a process that is frozen in the middle of its work
    is played by running the world on below it.
    """

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._heap: list[tuple[datetime, int, Timer]] = []
        self._order = count()

    def now(self) -> datetime:
        """The present virtual instant."""
        return self._now

    def at(self, when: datetime, do: Callable[[], object]) -> Timer:
        """Let something happen at an instant; at once, if that is past."""
        timer = Timer(max(when, self._now), do)
        heapq.heappush(self._heap, (timer.when, next(self._order), timer))
        return timer

    def after(self, seconds: float, do: Callable[[], object]) -> Timer:
        """Let something happen so many seconds from now."""
        return self.at(self._now + timedelta(seconds=seconds), do)

    def run(self, until: datetime) -> None:
        """Let everything happen up to, and with, an instant."""
        while self._heap and self._heap[0][0] <= until:
            when, _, timer = heapq.heappop(self._heap)
            self._now = max(self._now, when)
            if not timer.cancelled:
                timer.do()
        self._now = max(self._now, until)
