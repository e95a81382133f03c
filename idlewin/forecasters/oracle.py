"""Oracle: knows the future. For replay only: the bound that no forecaster can pass."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime

from idlewin.core.forecast import Forecast
from idlewin.core.load import History
from idlewin.core.pool import RuleObject
from idlewin.core.window import Span, merged

#: In minutes of batch: more than any window brings.
NEVER_LATE = 1e5


class Oracle:
    """Certain of being idle up to the next run of demand, and of nothing after ``known_until``."""

    def __init__(self, busy: Sequence[Span], known_until: datetime) -> None:
        self._busy = merged(busy)
        self._known_until = known_until

    def forecast(
        self,
        rule: RuleObject,  # noqa: ARG002 - the future is enough
        history: History,  # noqa: ARG002
        now: datetime,
        idle_since: datetime,  # noqa: ARG002
    ) -> Forecast:
        """A forecast at an instant, whatever the history."""
        later = bisect_right(self._busy, now, key=lambda run: run.end)
        returns = self._busy[later].start if later < len(self._busy) else self._known_until
        left = returns - now
        return Forecast(
            method="oracle",
            made_at=now,
            chances=((left, 1.0),) if returns > now else (),
            rests_on="the recorded future",
            price=NEVER_LATE,
        )
