"""How far the work is, where nobody looks at a live view: a line now and then."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from rich.console import Console

#: So many seconds from one line to the next.
EVERY = 10.0


class Lines:
    """Tells a count, what it took, and what is left; nothing where there is a live view."""

    def __init__(
        self, console: Console, what: str, total: float, clock: Callable[[], float] = monotonic
    ) -> None:
        """``what`` is counted, ``total`` of it in all."""
        self._console, self._what, self._total, self._clock = console, what, total, clock
        self._begun = self._last = clock()

    def tell(self, done: float) -> None:
        """So much is done."""
        now = self._clock()
        if self._console.is_terminal or not 0 < done < self._total or now - self._last < EVERY:
            return
        self._last, passed = now, now - self._begun
        left = passed * (self._total - done) / done
        self._console.print(
            f"{done:.0f} of {self._total:.0f} {self._what} in {_time(passed)}, "
            f"about {_time(left)} left",
            highlight=False,
        )


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
