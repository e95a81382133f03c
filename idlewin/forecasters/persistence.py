"""Persistence: this gap goes on as the card's past gaps did that lasted as long as it has.

Knows nothing of the hour or the day; needs no history to begin with.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from idlewin.core.forecast import Forecast
from idlewin.core.load import History
from idlewin.forecasters.past import STEP_MINUTES, Minutes, Past, doubt, past_of, told

#: How many past gaps the law for a card without any weighs as much as.
PRIOR_GAPS = 1.0


class Persistence:
    """The share of past gaps, of those as long as this one, that lasted on for so long.

    With one pseudo-gap of the Lindy law, a/(a+d): what has been idle for a is as likely as not to
    stay idle for a more. Without history that law is all there is.
    """

    name: str = "persistence"

    def forecast(self, history: History, now: datetime, idle_since: datetime) -> Forecast:
        """A forecast at an instant; not ready where the clock is behind the history."""
        why = doubt(history, now)
        if why:
            return Forecast(method=self.name, made_at=now, chances=(), rests_on=why, ready=False)
        elapsed = max((now - idle_since) / timedelta(minutes=1), 0.0)
        lengths, weights = _gaps(past_of(history))
        lived = np.concatenate(([elapsed], elapsed + STEP_MINUTES))
        left = _outlived(lengths, weights, lived)
        lindy = elapsed / lived[1:]
        chances = (left[1:] + PRIOR_GAPS * lindy) / (left[0] + PRIOR_GAPS)
        alike = int(np.count_nonzero(lengths >= elapsed))
        return Forecast(
            method=self.name,
            made_at=now,
            chances=told(chances),
            rests_on=f"{alike} of {lengths.size} past gaps were idle for {elapsed:.0f} min or more",
        )


def _gaps(past: Past) -> tuple[Minutes, Minutes]:
    """Lengths of the gaps between two runs, sorted, and how much each counts."""
    start, end = past.busy_to[:-1], past.busy_from[1:]
    order = np.argsort(end - start, kind="stable")
    return (end - start)[order], past.weight(start, end)[order]


def _outlived(lengths: Minutes, weights: Minutes, ages: Minutes) -> Minutes:
    """How many gaps, by weight, lasted at least each of some ages."""
    longer = np.concatenate((np.cumsum(weights[::-1])[::-1], [0.0]))
    return longer[np.searchsorted(lengths, ages, "left")]
