"""What ``replay`` tells of its cards: tables, the verdict in words, and pictures of the days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.table import Table

from idlewin.backtest.figures import most_by_chance
from idlewin.core.reason import Reason
from idlewin.core.rule import Rule
from idlewin.core.score import Score
from idlewin.core.text import format_share
from idlewin.picture import PictureError
from idlewin.picture.days import Days, draw as draw_days
from idlewin.replay import Result, summed
from idlewin.tune import allowed

#: So many reasons for staying are told; the others make up little.
MOST_REASONS = 5
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


def tell(rule: Rule, results: Sequence[Result], console: Console) -> None:
    """Tables, and what they come to in words."""
    console.print(_by_card(results))
    console.print(_side_by_side(results))
    console.print(_kept_back(results))
    for line in (*verdict(rule, results), *nothing_lent(results)):
        console.print(line, highlight=False)


def _by_card(results: Sequence[Result]) -> Table:
    table = Table(title="idlewin, card by card", title_justify="left")
    table.add_column("card", no_wrap=True)
    for name in ("idle", "harvested", "of oracle", "windows", "late", "wait"):
        table.add_column(name, justify="right")
    for result in results:
        ours = result.ours
        table.add_row(
            result.case.card,
            hours(result.idle),
            hours(ours.harvested),
            f"{ours.share:.0%}",
            str(ours.windows),
            str(ours.late_returns),
            minutes(result.longest_wait),
        )
    return table


def _kept_back(results: Sequence[Result]) -> Table:
    table = Table(
        title="Idle time that was not lent, by what stood in the way", title_justify="left"
    )
    table.add_column("reason")
    table.add_column("hours", justify="right")
    table.add_column("it means")
    for reason, time in longest(results):
        table.add_row(reason.value, hours(time), reason.meaning)
    return table


def longest(results: Sequence[Result]) -> list[tuple[Reason, timedelta]]:
    """What stood in the way longest, and how long, of all cards together."""
    together: dict[Reason, timedelta] = defaultdict(timedelta)
    for result in results:
        for reason, time in result.kept.items():
            together[reason] += time
    return sorted(together.items(), key=lambda item: -item[1])[:MOST_REASONS]


def _side_by_side(results: Sequence[Result]) -> Table:
    table = Table(title="All cards together", title_justify="left")
    table.add_column("who decides")
    for name in ("harvested", "of oracle", "windows", "on time", "late", "late a week"):
        table.add_column(name, justify="right")
    weeks = sum(result.weeks for result in results)
    for name, score in totals(results):
        table.add_row(
            name,
            hours(score.harvested),
            f"{score.share:.0%}",
            str(score.windows),
            str(score.on_time),
            str(score.late_returns),
            f"{score.late_returns / weeks:.1f}",
        )
    return table


def hours(value: timedelta) -> str:
    """In words of a table: whole hours."""
    return f"{value / HOUR:.0f} h"


def minutes(value: timedelta) -> str:
    """In words of a table: whole minutes."""
    return f"{value / MINUTE:.0f} min"


def totals(results: Sequence[Result]) -> tuple[tuple[str, Score], ...]:
    """Who decides, and what all cards came to by that."""
    return (
        ("idlewin", summed([result.ours for result in results])),
        ("reactive", summed([result.reactive for result in results])),
        ("oracle", summed([result.oracle for result in results])),
    )


def nothing_lent(results: Sequence[Result]) -> Iterator[str]:
    """A card that was never lent, and what stood in the way most."""
    for result in results:
        if result.ours.windows or not result.kept:
            continue
        why = next(iter(result.kept))
        priced = why is Reason.WINDOW_TOO_SHORT and result.prices
        said = f"{why.value}. {why.meaning}"
        if priced:
            said = (
                f"by the card's own past a late return costs {_span(result.prices)} of batch "
                "here, and no idle stretch was worth that risk."
            )
        yield f"{result.case.card} was lent nothing: {said}"


def _span(minutes: Sequence[float]) -> str:
    least, most = (f"{value / 60:.2g}" for value in (min(minutes), max(minutes)))
    return f"{least} h" if least == most else f"{least} to {most} h"


def verdict(rule: Rule, results: Sequence[Result]) -> Iterator[str]:
    """What it comes to, in words."""
    (_, ours), (_, reactive), _ = totals(results)
    weeks = sum(result.weeks for result in results)
    yield (
        f"idlewin lent {hours(ours.harvested)} that would have been lost, and was late "
        f"{_times(ours.late_returns)} in {weeks:.3g} card-week{'s' * (weeks != 1)}: "
        f"{ours.late_returns / weeks:.1f} a week."
    )
    yield _budget(rule, results, ours.late_returns)
    yield (
        "The reactive rule lends after 10 idle minutes and gives back when a user comes, so that "
        f"user waits: {_times(reactive.late_returns)}."
    )
    yield (
        "The oracle knows the future, and both keep to the rule's calendar. Late: a user came "
        "before serving was ready; wait: the longest of such a user."
    )


def _budget(rule: Rule, results: Sequence[Result], late: int) -> str:
    """What the rule's budget allows, and whether it was held, as far as chance lets one tell."""
    most = budgeted(rule, results)
    if most is None:
        return "No budget is looked at: " + (
            "the calendar decides alone." if rule.calendar_only else "the future is known."
        )
    weeks = sum(result.weeks for result in results)
    share = rule.forecast.budget.share
    each = f"{format_share(share)} of the returns" if share else f"{most / weeks:.2g} a week"
    budget = f"The rule's budget is {each}, here {most:.3g}"
    if late <= most:
        return f"{budget}: it was held."
    bound = most_by_chance(most)
    if late > bound:
        return f"{budget}. By chance there may be up to {bound}: it was not held."
    return (
        f"{budget}. Late returns come by chance: with this budget there may be up to {bound}, so "
        f"these {late} are no sign that it is not held."
    )


def budgeted(rule: Rule, results: Sequence[Result]) -> float | None:
    """So many may be late in the time that was judged; None: no budget is looked at."""
    if rule.calendar_only or rule.forecast.method == "oracle":
        return None
    return allowed(rule, [result.case for result in results])


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def days_of(result: Result) -> Days:
    """What a picture shows of a card."""
    return Days(
        card=result.case.card,
        method=result.case.rule.forecast.method,
        over=result.over,
        busy=result.case.busy,
        unknown=result.case.unknown,
        batch=result.batch,
        late=tuple(wait.start for wait in result.waits),
        score=result.ours,
        zone=result.case.rule.window.calendar.time_zone,
    )


def draw(results: Sequence[Result], folder: Path, console: Console) -> None:
    """A picture a card."""
    for result in results:
        path = folder / f"replay-{result.case.card.replace('/', '-').replace('#', '-')}.png"
        try:
            draw_days(days_of(result), path)
        except PictureError as error:
            console.print(f"no picture: {error}")
            return
        console.print(f"picture of the days: {path}")
