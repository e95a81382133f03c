"""Stopping: when a card is worth lending, and when it is worth having back.

Optimal stopping over the time ahead, step by step and from its end, with one price for each late
return. That one price tells opening, giving back and warming up in time together: a minute of
batch is worth a minute, demand that finds serving away costs the price. Written with plain
arithmetic, so that one card's numbers and the arrays of a whole fleet take the same path.

Source: backward induction for an optimal stopping problem (Bellman 1957); a keep-alive with a
price for each cold start is the same problem (Narasimha et al., UAI 2023, PMLR 216:1499).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """What a window costs at both ends, in minutes."""

    opening: float = 2.0
    """From the wish to lend until batch runs."""
    warming: float = 5.0
    """From the wish to give back until serving is ready."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """For each step ahead, soonest first: numbers are booleans, arrays are arrays of them."""

    opens: list[Any]
    """With serving there: lending begins at this step."""
    closes: list[Any]
    """With the card lent: giving back begins at this step."""


def verdicts(
    stays: Sequence[Any],
    price: Any,
    *,
    step: float,
    handover: Handover,
    larger: Callable[[Any, Any], Any] = max,
) -> Verdicts:
    """What is best at each step, given that no demand has come before it.

    ``stays[k]`` is the chance that step k stays idle once it has begun idle, from 0 to 1; ``price``
    is in minutes of batch. Past the last step nothing is gained and nothing lost. ``larger`` is
    ``max``, or ``numpy.maximum`` where these are arrays that broadcast against each other.
    """
    opening = max(1, math.ceil(handover.opening / step))
    warming = max(1, math.ceil(handover.warming / step))
    until_batch = opening * step - handover.opening
    # The worth of each state at the step after the present one, and at those after that.
    served: deque[Any] = deque([0.0] * warming, warming)
    lent: deque[Any] = deque([0.0] * opening, opening)
    to_batch, to_serving = _through(stays, opening), _through(stays, warming)
    found = Verdicts([], [])
    for k in range(len(stays) - 1, -1, -1):
        stay, through = stays[k], to_batch[k]
        opened = through * (until_batch + lent[-1]) - (1 - through) * price
        waited = stay * served[0]
        through = to_serving[k]
        closed = through * served[-1] - (1 - through) * price
        # Demand in the middle of a step, on average.
        kept = stay * (step + lent[0]) + (1 - stay) * (step / 2 - price)
        found.opens.append(opened > waited)
        found.closes.append(closed > kept)
        served.appendleft(larger(waited, opened))
        lent.appendleft(larger(kept, closed))
    found.opens.reverse()
    found.closes.reverse()
    return found


def _through(stays: Sequence[Any], steps: int) -> Sequence[Any]:
    """The chance that so many steps from each one stay idle; past the last all are like it."""
    last, found = len(stays) - 1, stays
    for more in range(1, steps):
        found = [found[k] * stays[min(k + more, last)] for k in range(last + 1)]
    return found


def closing(found: Verdicts, step: timedelta) -> timedelta | None:
    """How far ahead giving back is planned for a card that is lent now; None: not in sight."""
    first = next((k for k, closes in enumerate(found.closes) if closes), None)
    return None if first is None else first * step
