"""Stands in for a method that does not exist: it lends nothing, and serving comes back."""

from __future__ import annotations

from datetime import datetime

from idlewin.core.forecast import Forecast
from idlewin.core.load import History


class NoForecaster:
    """Never ready."""

    name = "none"

    def __init__(self, why: str) -> None:
        self._why = why

    def forecast(self, _history: History, now: datetime, _idle_since: datetime) -> Forecast:
        """None, with the reason."""
        return Forecast(method=self.name, made_at=now, chances=(), rests_on=self._why, ready=False)
