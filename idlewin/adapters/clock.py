"""The wall clock, and the one file that reads it. No arithmetic, no sleeping."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """What time it is on this machine."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that only grow, whatever is done to the wall clock; for ages and time-outs."""
        return time.monotonic()
