"""A case: the cards of a trace that are judged, their gaps, and what could be had of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta

import numpy as np

from idlewin import holidays, traces
from idlewin.core.stopping import Handover
from idlewin.core.window import Span
from idlewin.forecasters.fleet import DAY, Card, Flags, Fleet, Gaps, Minutes, Reals, fleet, place
from idlewin.pricing.lend import COUNTS_FROM

#: A card is judged if it has so many gaps of so many minutes in the part that is for learning.
LEAST_GAPS, LEAST_GAP = 5, 30
WEEK = 7 * DAY


class CaseError(ValueError):
    """A trace cannot be judged; the message says why, and the remedy."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Case:
    """Recorded demand to be judged from an instant on; minutes since 1970."""

    trace: str
    fleet: Fleet
    gaps: Gaps
    judged_from: int
    handover: Handover

    @property
    def card_weeks(self) -> float:
        """How much is judged."""
        return len(self.fleet.cards) * (self.fleet.until - self.judged_from) / WEEK

    @property
    def days(self) -> int:
        """How many days there are, the last of them perhaps in part."""
        return -((self.fleet.start - self.fleet.until) // DAY)

    @property
    def judged(self) -> Flags:
        """Which gaps end, by demand, in the judged part."""
        return self.gaps.ended & (self.gaps.end > self.judged_from)

    @property
    def returns(self) -> Flags:
        """Which gaps end with a return that counts where shares are told."""
        return self.judged & (self.gaps.end - self.gaps.start >= COUNTS_FROM)

    def best(self) -> Minutes:
        """What the oracle harvests of each gap that is judged, in minutes; 0 for the others."""
        opening, warming = round(self.handover.opening), round(self.handover.warming)
        begin = np.maximum(self.gaps.start + opening, self.judged_from)
        length = np.maximum(self.gaps.end - warming - begin, 0)
        return np.where(self.judged, length, 0)

    def allowed(self, *, per_week: float = 0.0, share: float = 0.0) -> Reals:
        """How many late returns a budget allows on each day."""
        counted = self.gaps.ended & (self.gaps.end - self.gaps.start >= COUNTS_FROM)
        day = (self.gaps.end[counted] - self.fleet.start) // DAY
        returns = np.bincount(day, minlength=self.days)[: self.days]
        # The last day may be cut short.
        length = np.full(self.days, float(DAY))
        length[-1] = self.fleet.until - self.fleet.start - (self.days - 1) * DAY
        found: Reals = per_week * len(self.fleet.cards) * length / WEEK + share * returns
        return found


def case_of(
    name: str,
    cards: Mapping[str, traces.Runs],
    about: traces.About,
    handover: Handover,
    until: int | None = None,
    rests: str | None = None,
) -> Case:
    """The cards that are judged; which those are the part before ``test_from`` alone decides.

    ``until``, in minutes of the trace, cuts it; ``rests`` is the code of a country whose holidays
    count as days of rest. Raises CaseError.
    """
    minutes = about.minutes or max(run.end for runs in cards.values() for run in runs)
    if until is not None and not about.test_from < until <= minutes:
        raise CaseError(
            f"{name}: --until {until} is not within the judged part; "
            f"write {about.test_from + 1} to {minutes}"
        )
    if about.test_from >= minutes:
        raise CaseError(f"{name}: test_from {about.test_from} leaves nothing of {minutes} minutes")
    chosen = {card: runs for card, runs in cards.items() if _enough(runs, about.test_from)}
    if not chosen:
        raise CaseError(
            f"{name}: no card has {LEAST_GAPS} gaps of {LEAST_GAP} minutes before minute "
            f"{about.test_from}; take a longer trace, or say test_from in its JSON"
        )
    origin = about.origin.astimezone(UTC)
    covers = Span(origin, origin + timedelta(minutes=until or minutes))
    days = holidays.dates(rests, covers)
    where = place(lambda at: at.astimezone(about.origin.tzinfo), covers, days)
    found = fleet(
        [
            Card(
                name=card,
                history=traces.history(traces.busy_spans(runs, origin), covers),
                place=where,
                group=_group(card),
            )
            for card, runs in chosen.items()
        ]
    )
    return Case(
        trace=name,
        fleet=found,
        gaps=found.gaps(),
        judged_from=found.start + about.test_from,
        handover=handover,
    )


def _enough(runs: traces.Runs, before: int) -> bool:
    ends = [0, *(run.end for run in runs)]
    gaps = (run.start - end for run, end in zip(runs, ends, strict=False) if run.start < before)
    return sum(gap >= LEAST_GAP for gap in gaps) >= LEAST_GAPS


def _group(card: str) -> str:
    """What stands before the last number of a name: one served model, or one virtual cluster."""
    return re.sub(r"[#/:][^#/:]*$", "", card)
