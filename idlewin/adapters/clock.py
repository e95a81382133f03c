"""What time it is: by this machine, and by the API server. The one file that reads a wall clock.

Claims, a person's ``resume``, who wrote a queue when: each is an instant of another machine, and
most of them are the API server's own. So its clock is the one that counts, and what is done to the
clock of this machine moves nothing. Decision record 0004 says why.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Protocol

from idlewin.core.load import History, Reading
from idlewin.core.rule import Rule
from idlewin.ports import Metrics

#: Answers whose dates are so near to each other, in seconds, are by one clock.
AGREE = 10.0
#: Dates that all say otherwise are believed after so many seconds.
BELIEVED = 10.0
#: And forgotten where none has come for so long.
FORGOTTEN = 60.0
log = logging.getLogger(__name__)


class Machine(Protocol):
    """The clocks of a machine."""

    def now(self) -> datetime:
        """What its wall clock shows."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, whatever is done to the wall clock."""
        ...


class SystemClock:
    """The clocks of this machine. No arithmetic, no sleeping."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only grow, whatever is done to the wall clock; for ages and time-outs."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class _Other:
    """A time that some answers tell, and that does not agree with the one that is believed."""

    ahead: float
    """The server's seconds since 1970 less our monotonic ones."""
    since: float
    """The first of its answers after the last that agreed; infinite: that one was the last."""
    last: float


class ServerClock:
    """The API server's clock: the dates of its answers, carried on by our monotonic clock.

    A date is cut to the second, and was written between our request and its answer: so each answer
    bounds what the server's clock showed. The clock is the least that all bounds allow, at most a
    second behind; a moment late is the safe side, as a claim counts for longer by that.
    """

    def __init__(self, machine: Machine | None = None) -> None:
        self._machine = machine or SystemClock()
        self._lock = Lock()
        self._ahead: float | None = None
        """The server's seconds since 1970 less our monotonic ones; None: it has said nothing."""
        self._other: _Other | None = None

    def now(self) -> datetime:
        """The present instant; by this machine's wall clock until the server has answered."""
        if self._ahead is None:
            return self._machine.now()
        return datetime.fromtimestamp(self._ahead + self.monotonic(), tz=UTC)

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return self._machine.monotonic()

    def doubt(self) -> str:
        """Why ``now`` may be wrong; empty: nothing speaks against it."""
        ahead, other = self._ahead, self._other
        if ahead is None:
            return "the API server has not told the time yet"
        if other is None:
            return ""
        off = other.ahead - ahead
        way = "ahead of" if off > 0 else "behind"
        return f"the API server's clock is {abs(off):.0f} s {way} what it was"

    def heard(self, date: str | None, sent: float) -> None:
        """An answer with this Date has come to what was sent at a monotonic instant."""
        try:
            shown = parsedate_to_datetime(date or "").replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            return
        self.shown(shown.timestamp(), sent)

    def shown(self, date: float, sent: float) -> None:
        """The same, with the date in seconds since 1970."""
        received = self._machine.monotonic()
        least, most = date - received, date + 1 - sent

        def off(ahead: float) -> float:
            return max(least - ahead, ahead - most, 0.0)

        with self._lock:
            if self._ahead is None:
                self._ahead = least
            elif off(self._ahead) <= AGREE:
                self._ahead = min(max(self._ahead, least), most)
                self._agreed(received)
            elif self._other is None or off(self._other.ahead) > AGREE:
                self._other = _Other(least, received, received)
                log.warning("%s; nothing is lent until that is clear", self.doubt())
            elif received - self._other.since >= BELIEVED:
                log.warning("%s; it is believed from now on", self.doubt())
                self._ahead, self._other = least, None
            else:
                since = min(self._other.since, received)
                self._other = _Other(self._other.ahead, since, received)

    def _agreed(self, now: float) -> None:
        """An answer agrees: the others are not believed soon, and forgotten after a while."""
        if (other := self._other) is not None:
            over = now - other.last >= FORGOTTEN
            self._other = None if over else _Other(other.ahead, math.inf, other.last)


class TimedMetrics:
    """Demand as of now: where it is not clear when that is, it is unknown, whatever is shown."""

    def __init__(self, metrics: Metrics, clock: ServerClock) -> None:
        self._metrics, self._clock = metrics, clock

    def read(self, rule: Rule) -> tuple[Reading, ...]:
        """The readings; one that is unknown beside them while the clock is in doubt."""
        readings = tuple(self._metrics.read(rule))
        if doubt := self._clock.doubt():
            return (*readings, _unknown(doubt))
        return readings

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:
        """The same as without a clock."""
        return self._metrics.history(rule, past, step)


def _unknown(doubt: str) -> Reading:
    return Reading(
        target="clock",
        name="the time",
        value=None,
        busy_above=0.0,
        visible_at_zero=True,
        why=doubt,
    )
