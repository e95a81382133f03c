"""Plans: the instants at which a card that idles is judged anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from idlewin.forecasters.ahead import STEP, Asked
from idlewin.forecasters.fleet import Gaps, Minutes

#: After so many idle minutes a plan is made, and each hour after the last of them.
FIRST = (0, 10, 30, 60)
EVERY = 60


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plans:
    """For each gap of a fleet, the instants at which it is judged."""

    gaps: Gaps
    gap: Minutes
    at: Minutes
    elapsed: Minutes
    steps: Minutes
    """How many steps each one holds, until the next or the end of the gap."""

    def __len__(self) -> int:
        return len(self.gap)

    def asked(self, which: Minutes) -> Asked:
        """What a forecaster is asked for some of them."""
        return Asked(self.gaps.card[self.gap[which]], self.at[which], self.elapsed[which])


def plans(gaps: Gaps) -> Plans:
    """The instants at which gaps are judged, in order."""
    length = gaps.end - gaps.start
    hours = np.maximum(-((FIRST[-1] - length) // EVERY), 0)
    early = sum((length > first).astype(np.int64) for first in FIRST[:-1])
    counts = early + hours
    gap = np.repeat(np.arange(len(gaps)), counts)
    nth = np.arange(len(gap)) - np.repeat(np.cumsum(counts) - counts, counts)
    late = np.maximum(nth - len(FIRST) + 1, 0)
    elapsed = np.array(FIRST)[np.minimum(nth, len(FIRST) - 1)] + EVERY * late
    after = np.array([*FIRST[1:], 0])[np.minimum(nth, len(FIRST) - 1)]
    after = np.where(nth < len(FIRST) - 1, after, elapsed + EVERY)
    left = np.minimum(after, length[gap]) - elapsed
    return Plans(
        gaps=gaps,
        gap=gap,
        at=gaps.start[gap] + elapsed,
        elapsed=elapsed,
        steps=-(-left // STEP),
    )
