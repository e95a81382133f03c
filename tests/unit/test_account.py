"""The account: late returns that were, those allowed, and what the next one costs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.account import MOST, PERIOD, recent
from idlewin.core.decide import decide
from idlewin.core.load import Level, Load
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.status import Account
from idlewin.core.timing import OPENING_UNMEASURED, START, opening_time
from tests.builders import (
    HOUR,
    NOW,
    a_lowered_target,
    a_pool,
    a_situation,
    a_status,
    a_target,
    a_window,
    an_outlook,
)

DAY = timedelta(days=1)


def back_again(reason, **changes):
    """A pool whose serving is back, for a reason of giving back."""
    window = a_window(give_back=reason.value, restoring_since=NOW - HOUR / 12)
    target = replace(a_target(), replicas=2, ready=2)
    return a_situation(
        Phase.RESTORING,
        status=a_status(Phase.RESTORING, window=window, **changes),
        pool=a_pool(targets=(target,)),
    )


@pytest.mark.parametrize(
    ("reason", "late"), [(Reason.DEMAND_RETURNED, True), (Reason.RECLAIM_REACHED, False)]
)
def test_a_late_return_is_charged_and_one_in_time_is_not(reason, late):
    before = Account(late_at=(NOW - 2 * DAY,), spent=1)

    after = decide(back_again(reason, budget=before)).status

    assert after.phase == Phase.SERVING
    assert after.budget.late_at == (NOW - 2 * DAY, *([NOW] if late else []))
    assert after.budget.spent == 1 + late


def test_users_who_came_before_a_planned_return_was_done_make_it_late():
    situation = replace(
        back_again(Reason.RECLAIM_REACHED),
        load=Load(level=Level.BUSY, since=NOW - HOUR / 60, why="users"),
    )

    assert decide(situation).status.budget.spent == 1


def test_what_is_older_than_the_period_is_forgotten_and_no_more_than_some_is_kept():
    late = tuple(NOW - DAY * k / 8 for k in reversed(range(300)))

    kept = recent(late, NOW)

    assert len(kept) == MOST
    assert all(NOW - at < PERIOD for at in kept)
    assert recent((NOW - PERIOD,), NOW) == ()


def test_the_status_shows_what_is_allowed_spent_and_what_the_next_one_costs():
    outlook = an_outlook(price=123.456, allowed=3.97, method="hazard")
    situation = a_situation(outlook=outlook, status=a_status(budget=Account(late_at=(NOW - DAY,))))

    after = decide(situation).status.budget

    assert after == Account(
        allowed=4.0, spent=1, price=123.0, method="hazard", late_at=(NOW - DAY,)
    )


@pytest.mark.parametrize("outlook", [None, an_outlook(ready=False, price=0.0)])
def test_without_a_forecast_the_price_that_stands_goes_on(outlook):
    known = Account(allowed=4.0, spent=1, price=500.0, method="boosted", late_at=(NOW - DAY,))

    after = decide(a_situation(outlook=outlook, status=a_status(budget=known))).status.budget

    assert after == known


def test_how_long_giving_the_cards_away_takes_is_measured():
    status = a_status(Phase.YIELDING, since=NOW - timedelta(seconds=40), opening_seconds=(30, 90))
    leaving = a_situation(
        Phase.YIELDING, status=status, pool=a_pool(targets=(a_lowered_target(),), pods=())
    )

    after = decide(leaving).status

    assert after.phase == Phase.HARVESTING
    assert after.opening_seconds == (30, 90, 40)
    assert opening_time(after) == timedelta(seconds=40) + START
    assert opening_time(a_status()) == OPENING_UNMEASURED
