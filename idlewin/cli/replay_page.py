"""What the page of a replay is told: the figures of each rule, with their units."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from idlewin.cli.replayed import (
    budgeted,
    days_of,
    hours,
    longest,
    minutes,
    nothing_lent,
    totals,
    verdict,
)
from idlewin.core.rule import Rule
from idlewin.picture.page import Figure, Part, Pool, Table
from idlewin.replay import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A rule and its results."""

    name: str
    rule: Rule
    results: Sequence[Result]


def part(of: Replayed) -> Part:
    """A rule's part of the page."""
    lines = (*verdict(of.rule, of.results), *nothing_lent(of.results))
    return Part(
        rule=of.name,
        verdict=lines,
        tables=(_side_by_side(of.results), _kept_back(of.results)),
        pools=tuple(
            Pool(days=days_of(one), figures=tuple(_figures(of.rule, one)), waits=one.waits)
            for one in of.results
        ),
    )


def _side_by_side(results: Sequence[Result]) -> Table:
    weeks = sum(result.weeks for result in results)
    return Table(
        title="Beside two rules that need no controller",
        heads=("who decides", "lent", "of the oracle", "windows", "late returns", "a week"),
        rows=tuple(
            (
                name,
                hours(score.harvested),
                f"{score.share:.0%}",
                str(score.windows),
                str(score.late_returns),
                f"{score.late_returns / weeks:.1f}",
            )
            for name, score in totals(results)
        ),
    )


def _kept_back(results: Sequence[Result]) -> Table:
    return Table(
        title="What stood in the way: idle time that was not lent",
        heads=("reason", "time", "it means"),
        rows=tuple(
            (reason.value, hours(time), reason.meaning) for reason, time in longest(results)
        ),
    )


def _figures(rule: Rule, result: Result) -> Iterator[Figure]:
    ours, judged = result.ours, result.over.length / timedelta(hours=1)
    yield Figure(
        name="idle",
        value=hours(result.idle),
        means=f"without demand, of {judged:.0f} h that were judged",
    )
    yield Figure(
        name="lent",
        value=hours(ours.harvested),
        means="batch ran, and nobody wanted the cards: what you would have gained",
    )
    yield Figure(
        name="of the oracle",
        value=f"{ours.share:.0%}",
        means=f"the most was {hours(ours.oracle)}, with the future known",
    )
    yield Figure(
        name="windows",
        value=str(ours.windows),
        means=f"times that the cards were lent; {ours.on_time} ended before a user came",
    )
    most = budgeted(rule, [result])
    over = most is not None and ours.late_returns > most
    allowed = "no budget is looked at" if most is None else f"the budget is {most:.3g}"
    yield Figure(
        name="late returns",
        value=str(ours.late_returns),
        means=f"times that a user found serving away; {allowed} in this time",
        bad=over,
    )
    yield Figure(
        name="longest wait",
        value=minutes(result.longest_wait),
        means="of a user, from the first request until serving was back",
    )
