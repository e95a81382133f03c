"""Replay: a recorded card's demand through the shipped controller, in a simulated cluster.

The controller is the one that runs live; only the world around it is made up, and it is given by
the wiring. Here the days are run, scored against what really came, and put beside two rules that
need no controller: the reactive one, and the one that knows the future.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.core.calendar import HORIZON, Calendar
from idlewin.core.load import History
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.rule import Rule
from idlewin.core.score import Delays, Score, Timeline, foreseen, reactive, score, waits
from idlewin.core.text import format_duration, format_instant
from idlewin.core.window import Span, clipped, merged, total, without

DAY, WEEK = timedelta(days=1), timedelta(weeks=1)
#: What of a history is for the forecaster to learn from, or half of it; with less than LEAST there
#: is neither anything to learn from nor to judge by.
LEARN = WEEK
LEAST = timedelta(days=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One card to be replayed."""

    card: str
    rule: Rule
    busy: tuple[Span, ...]
    """When users were there."""
    covers: Span
    """What was recorded."""
    judged_from: datetime
    """Before it the forecaster only learns, and nothing is scored."""
    delays: Delays
    """What a handover costs in the simulated cluster, and what the other two rules are charged."""
    unknown: tuple[Span, ...] = ()
    """When nothing was recorded."""
    seed: int = 1
    catalogue: Catalogue = SHIPPED
    """The sources that the rule may name."""

    @property
    def judged(self) -> Span:
        """The stretch that is scored."""
        return Span(self.judged_from, self.covers.end)


class Recording(Protocol):
    """A simulated world, once it has run."""

    @property
    def cycles(self) -> int:
        """How many cycles it took."""
        ...

    def timeline(self) -> Timeline:
        """The phases of the pool, and when batch ran."""
        ...

    def reasons(self) -> dict[str, int]:
        """How often each transition was taken, by its reason."""
        ...

    def stays(self) -> tuple[tuple[datetime, Reason | None], ...]:
        """From when on it stayed with serving, and why; None: it was away."""
        ...

    def prices(self) -> tuple[tuple[datetime, float], ...]:
        """From when on a late return cost so many minutes of batch; 0: not known."""
        ...


class Run(Protocol):
    """Builds a world for a case and runs it to the end, telling where it is."""

    def __call__(self, case: Case, tell: Callable[[datetime, str], None]) -> Recording:
        """Run it; ``tell`` hears the instant and the phase now and then."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a replayed card brought and cost, beside what it could have."""

    case: Case
    over: Span
    """The stretch that is scored."""
    timeline: Timeline
    ours: Score
    reactive: Score
    oracle: Score
    waits: tuple[Span, ...]
    """Late returns, each from its first user until serving was back."""
    reasons: dict[str, int]
    kept: dict[Reason, timedelta]
    """Idle time that was not lent, by the reason for staying; the longest first."""
    prices: tuple[float, ...]
    """What a late return cost in it, in minutes of batch; in order of time."""
    cycles: int

    @property
    def weeks(self) -> float:
        """The length of the scored stretch."""
        return self.over.length / WEEK

    @property
    def idle(self) -> timedelta:
        """Time without demand in it."""
        return total(without((self.over,), (*self.case.busy, *self.case.unknown)))

    @property
    def longest_wait(self) -> timedelta:
        """The longest that a user waited for serving."""
        return max((wait.length for wait in self.waits), default=timedelta())

    @property
    def batch(self) -> tuple[Span, ...]:
        """When batch ran in it, on any card."""
        return clipped(merged(self.timeline.batch), self.over)


def remembered(card: str, rule: Rule, history: History, delays: Delays) -> Case:
    """What is known of a rule's demand as a case. Raises ValueError where it is too little."""
    known = without((history.covers,), history.unknown)
    if not known:
        raise ValueError("nothing is known of its demand")
    # What is unknown at an end was never recorded.
    covers = Span(known[0].start, known[-1].end)
    if covers.length < LEAST:
        raise ValueError(
            f"{format_duration(covers.length)} of its demand are known, from "
            f"{format_instant(covers.start)}; {format_duration(LEAST)} is the least"
        )
    return Case(
        card=card,
        rule=rule,
        busy=clipped(history.busy, covers),
        unknown=clipped(history.unknown, covers),
        covers=covers,
        judged_from=covers.start + min(LEARN, covers.length / 2),
        delays=delays,
    )


def replay(case: Case, run: Run, tell: Callable[[datetime, str], None]) -> Result:
    """Run a card's days, and score them."""
    recording = run(case, tell)
    over = case.judged
    timeline = recording.timeline()
    # To the two rules beside ours users are there in hours that are closed, or unknown.
    taken = merged((*case.busy, *case.unknown, *closed(case.rule.window.calendar, over)))
    best = score(taken, foreseen(taken, over, case.delays), over, case.delays).oracle

    def scored(line: Timeline) -> Score:
        return replace(score(case.busy, line, over, case.delays), oracle=best)

    return Result(
        case=case,
        over=over,
        timeline=timeline,
        ours=scored(timeline),
        reactive=scored(reactive(taken, over, case.delays)),
        oracle=scored(foreseen(taken, over, case.delays)),
        waits=waits(case.busy, timeline, over),
        reasons=recording.reasons(),
        kept=_kept(recording, case.busy, over),
        prices=_prices(recording, over),
        cycles=recording.cycles,
    )


def closed(calendar: Calendar, over: Span) -> tuple[Span, ...]:
    """The parts of a stretch in which a calendar allows no window."""
    found: list[Span] = []
    at = over.start
    while at < over.end:
        until = calendar.open_until(at)
        if until is not None:
            at = until
            continue
        # It looks no farther than its horizon, in whole days: what opens later is found from there.
        opens = min(calendar.opens_at(at) or at + HORIZON - DAY, over.end)
        found.append(Span(at, opens))
        at = opens
    return tuple(found)


def _kept(recording: Recording, busy: tuple[Span, ...], over: Span) -> dict[Reason, timedelta]:
    """Idle time with serving there, by the reason that stood in the way of a window."""
    stays = recording.stays()
    ends = [*(at for at, _ in stays[1:]), over.end]
    found: dict[Reason, timedelta] = {}
    for (start, reason), end in zip(stays, ends, strict=True):
        if reason is not None and start < end:
            idle = total(clipped(without((Span(start, end),), busy), over))
            found[reason] = found.get(reason, timedelta()) + idle
    longest = sorted(found.items(), key=lambda item: -item[1])
    return {reason: time for reason, time in longest if time}


def _prices(recording: Recording, over: Span) -> tuple[float, ...]:
    """Each price that held in a stretch, that of its beginning first."""
    prices = recording.prices()
    ends = [*(at for at, _ in prices[1:]), over.end]
    return tuple(
        price
        for (start, price), end in zip(prices, ends, strict=True)
        if price and start < over.end and over.start < end
    )


def summed(scores: Sequence[Score]) -> Score:
    """The scores of several cards as one."""
    first, *rest = scores
    for other in rest:
        first = first + other
    return first


def as_dict(result: Result) -> dict[str, object]:
    """A result for ``--json``: hours, counts and shares."""
    return {
        "card": result.case.card,
        "method": result.case.rule.forecast.method,
        "from": result.over.start.isoformat(),
        "to": result.over.end.isoformat(),
        "idle_hours": _hours(result.idle),
        "idlewin": _figures(result.ours, result.weeks),
        "reactive": _figures(result.reactive, result.weeks),
        "oracle": _figures(result.oracle, result.weeks),
        "reasons": result.reasons,
        "idle_hours_not_lent": {reason.value: _hours(time) for reason, time in result.kept.items()},
        "windows": [
            {"phase": phase.value, "at": at.isoformat()}
            for at, phase in result.timeline.phases
            if result.over.start <= at and phase in (Phase.HARVESTING, Phase.SERVING)
        ],
        "late_return_price_minutes": list(result.prices),
        "late_returns_at": [wait.start.isoformat() for wait in result.waits],
        "late_returns_waited_minutes": [
            round(wait.length / timedelta(minutes=1), 1) for wait in result.waits
        ],
    }


def _figures(score_: Score, weeks: float) -> dict[str, object]:
    return {
        "harvested_hours": _hours(score_.harvested),
        "share_of_oracle": round(score_.share, 4),
        "windows": score_.windows,
        "windows_on_time": score_.on_time,
        "late_returns": score_.late_returns,
        "late_returns_per_week": round(score_.late_returns / weeks, 3),
        "demand_without_serving_hours": _hours(score_.serving_away_while_demand),
    }


def _hours(value: timedelta) -> float:
    return round(value / timedelta(hours=1), 3)
