"""What a replay says in words: budget and chance, and why a card was lent nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from idlewin.cli.recorded import DELAYS
from idlewin.cli.replayed import nothing_lent, verdict
from idlewin.core.calendar import Calendar
from idlewin.core.reason import Reason
from idlewin.core.rule import Budget
from idlewin.core.score import NO_SCORE, Timeline
from idlewin.core.window import Span, merged
from idlewin.replay import WEEK, Case, Result, _prices, closed
from tests.builders import NOW, a_rule

HOUR = timedelta(hours=1)
BUSY = tuple(Span(NOW + k * 2 * HOUR, NOW + (k * 2 + 1) * HOUR) for k in range(60))


def a_result(late=0, windows=1, kept=(), prices=(), rule=None):
    over = Span(NOW, NOW + WEEK)
    case = Case(
        card="one", rule=rule or a_rule(), busy=BUSY, covers=over, judged_from=NOW, delays=DELAYS
    )
    return Result(
        case=case,
        over=over,
        timeline=Timeline(phases=()),
        ours=replace(NO_SCORE, late_returns=late, windows=windows, harvested=9 * HOUR),
        reactive=NO_SCORE,
        oracle=NO_SCORE,
        waits=(),
        reasons={},
        kept=dict.fromkeys(kept, HOUR),
        prices=prices,
        cycles=1,
    )


def told(rule, *late):
    return " ".join(verdict(rule, [a_result(count, rule=rule) for count in late]))


def test_late_returns_stand_beside_the_budget_and_what_chance_may_do_with_it():
    said = told(a_rule(), 3, 1)

    assert "was late 4 times in 2 card-weeks: 2.0 a week." in said
    assert "The rule's budget is 1 a week, here 2. " in said
    assert "there may be up to 5, so these 4 are no sign that it is not held." in said


def test_a_budget_that_was_held_is_told_without_chance():
    said = told(a_rule(), 1)

    assert "was late once in 1 card-week: 1.0 a week." in said
    assert "The rule's budget is 1 a week, here 1: it was held." in said


def test_more_late_returns_than_chance_explains_are_told_as_such():
    assert "By chance there may be up to 3: it was not held." in told(a_rule(), 4)


def test_a_share_is_one_of_the_returns_that_there_were():
    rule = a_rule()
    share = replace(rule.forecast, budget=Budget(share=0.05))

    said = told(replace(rule, forecast=share), 1)

    assert "The rule's budget is 5% of the returns, here 2.95: it was held." in said


def test_of_a_rule_that_looks_at_no_demand_no_budget_is_told():
    rule = a_rule()
    blind = tuple(replace(serving, demand="CalendarOnly") for serving in rule.serving)

    said = told(replace(rule, serving=blind), 7)

    assert "No budget is looked at: the calendar decides alone." in said
    assert "chance" not in said


@pytest.mark.parametrize(
    ("kept", "prices", "said"),
    [
        (
            [Reason.WINDOW_TOO_SHORT, Reason.LOAD_BUSY],
            (986.0, 2150.0, 1200.0),
            "one was lent nothing: by the card's own past a late return costs 16 to 36 h of batch",
        ),
        ([Reason.WINDOW_TOO_SHORT], (), "one was lent nothing: WindowTooShort. At the risk"),
        (
            [Reason.CALENDAR_CLOSED, Reason.WINDOW_TOO_SHORT],
            (986.0,),
            f"one was lent nothing: CalendarClosed. {Reason.CALENDAR_CLOSED.meaning}",
        ),
    ],
)
def test_a_card_that_was_lent_nothing_says_why(kept, prices, said):
    (line,) = nothing_lent([a_result(windows=0, kept=kept, prices=prices), a_result(kept=kept)])

    assert line.startswith(said)


def test_prices_are_those_that_held_in_the_judged_part():
    held = ((NOW - 9 * HOUR, 0.0), (NOW - HOUR, 50.0), (NOW, 70.0), (NOW + HOUR, 90.0))
    recording = SimpleNamespace(prices=lambda: held)

    assert _prices(recording, Span(NOW, NOW + HOUR)) == (70.0,)
    assert _prices(recording, Span(NOW - HOUR, NOW + 2 * HOUR)) == (50.0, 70.0, 90.0)


def test_a_calendar_that_opens_once_and_late_is_not_closed_for_good():
    calendar = Calendar(allow=("2026-04-10T00:00/2026-04-11T00:00",))
    over = Span(NOW, NOW + 8 * WEEK)
    opens, closes = (datetime(2026, 4, day, tzinfo=UTC) for day in (10, 11))

    assert merged(closed(calendar, over)) == (Span(NOW, opens), Span(closes, over.end))
