"""Every kind of fault that a simulated world knows: a closed list."""

from __future__ import annotations

from enum import StrEnum


class FaultKind(StrEnum):
    """What goes wrong. The value is what a table of counts shows."""

    # Between a controller and the API server: one request.
    CONFLICT = "409"
    BUSY = "429, nothing written"
    ERROR = "5xx, nothing written"
    REFUSED = "refused by a webhook"
    UNHEARD = "time-out, written"
    LOST = "time-out, not written"
    LOOK = "look fails"
    # A connection, or the watches on it, for a while.
    HALF_OPEN = "half-open connection"
    LAG = "stale watch"
    DROPPED = "dropped watch"
    GONE = "410, listed again"
    # Demand.
    EMPTY = "series empty"
    IMPOSSIBLE = "NaN, Inf, negative"
    SILENT = "Prometheus fails"
    OLD = "series stale"
    ONE_MISSING = "one target's series gone"
    # The process and its machine.
    KILL_BEFORE = "kill before a write"
    KILL_AFTER = "kill after a write"
    FROZEN = "stale leader's write"
    TWO_LEADERS = "two leaders at once"
    CLOCK_BACK = "clock steps back"
    CLOCK_AHEAD = "clock leaps ahead"
    CLOCKS_APART = "API servers' clocks differ"
    STARVED = "starved CPU"
    # Another version has written the status.
    NEW_PHASE = "status: unknown phase"
    NEW_FIELDS = "status: unknown fields"
    OLD_STATUS = "status: of the past"
