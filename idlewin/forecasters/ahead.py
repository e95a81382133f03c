"""The time ahead: the grid on which forecasters tell rates, and what they are asked and answer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import numpy as np

from idlewin.core.forecast import HORIZON
from idlewin.forecasters.fleet import Fleet, Minutes, Reals

#: Minutes of a step, and how many of them are told.
STEP = 5
STEPS = HORIZON // timedelta(minutes=STEP)
#: The middle of each step, in minutes from now.
AHEAD = np.arange(STEPS) * STEP


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Cards that idle: which, at what instant, and for how many minutes already."""

    card: Minutes
    at: Minutes
    elapsed: Minutes

    def __len__(self) -> int:
        return len(self.card)

    def of(self, which: Minutes) -> Asked:
        """Some of them."""
        return Asked(self.card[which], self.at[which], self.elapsed[which])


class Model(Protocol):
    """What a method has learnt up to an instant."""

    def rates(self, fleet: Fleet, asked: Asked) -> Reals:
        """Returns a minute, asked x STEPS, given that no demand came before the step.

        Of the fleet nothing is read that is later than the instant that is asked for.
        """
        ...

    def rests_on(self, fleet: Fleet, card: int, elapsed: int) -> str:
        """In words: how many gaps that are like this one, and from which cards."""
        ...


class Method(Protocol):
    """A way to learn from a fleet's past."""

    @property
    def name(self) -> str:
        """As a rule writes it."""
        ...

    def fit(self, fleet: Fleet, until: int) -> Model:
        """Learn from what was known before an instant; nothing later is read."""
        ...
