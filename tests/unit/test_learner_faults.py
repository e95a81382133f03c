"""The learner and the account where something is wrong: edits, clocks, libraries, statuses."""

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.account import recent, settled
from idlewin.core.load import History
from idlewin.core.rule import Budget
from idlewin.core.status import Account, Status
from idlewin.core.window import Span
from idlewin.pricing import learner as module
from idlewin.pricing.control import PRICES
from idlewin.pricing.learner import ANEW, FORGET, JOIN, REPLAN, Learner
from tests.builders import a_situation, an_outlook
from tests.unit.test_learner import DAY, HOUR, NOW, a_stored, asked


@pytest.fixture(autouse=True)
def _no_boosting(monkeypatch):
    """auto has two methods to choose of; what it would have asked of a third is as slow as that."""
    for name in ("learner", "learnt"):
        monkeypatch.setattr(f"idlewin.pricing.{name}.there", lambda name: name != "boosted")


def test_auto_that_was_chosen_among_more_methods_than_are_learnt_now_still_answers():
    learner = Learner()
    assert asked(learner, a_stored(method="auto")).method == "hazard"
    asked(learner, now=NOW + ANEW)  # the rule was edited: one method is learnt now

    edited_back = asked(learner, a_stored(method="auto"), now=NOW + ANEW + REPLAN)

    assert (edited_back.ready, edited_back.method) == (True, "hazard")


def test_a_pool_that_nobody_asked_for_since_is_not_taken_for_idle():
    learner = Learner()
    for name in ("busy", "idle"):
        asked(learner, a_stored(name))
    later = NOW + 12 * HOUR

    # Busy pools are not asked for.
    asked(learner, a_stored("idle"), now=later)

    latest = learner._latest[2]
    minute = int(later.timestamp()) // 60 - 60
    assert latest.is_busy(*(module.np.array([n]) for n in (0, minute))).all()


def test_a_pool_that_is_gone_is_forgotten_and_its_number_is_nobody_elses():
    learner = Learner()
    for name in ("gone", "here"):
        asked(learner, a_stored(name))
    later = NOW + FORGET + HOUR + ANEW

    for now in (later - ANEW, later):
        asked(learner, a_stored("here"), now=now)
    assert set(learner._known) == {"here"}
    asked(learner, a_stored("new"), now=later + JOIN)

    assert len({one.number for one in learner._known.values()}) == 2


def test_learning_that_fails_is_not_begun_again_at_each_look(monkeypatch):
    begun = []
    monkeypatch.setattr(module, "fitted", lambda *_: begun.append(1) or 1 / 0)
    learner = Learner()

    for seconds in range(0, 60, 5):
        asked(learner, now=NOW + timedelta(seconds=seconds))

    assert len(begun) == 1


def test_prices_that_could_not_be_learnt_are_tried_again_within_minutes_and_the_fault_is_told():
    learner = Learner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "priced", lambda *_: 1 / 0)
        assert "division by zero" in asked(learner).rests_on

    assert asked(learner, now=NOW + REPLAN).ready


def test_a_thread_that_cannot_be_started_is_tried_again():
    def full(_task):
        raise RuntimeError("can't start new thread")

    learner = Learner(full)
    assert "can't start new thread" in asked(learner).rests_on

    learner._run = module.at_once
    assert asked(learner, now=NOW + REPLAN).ready


@pytest.mark.parametrize("price", [float("nan"), -5.0, 0.0])
def test_a_price_in_the_status_that_is_none_is_not_taken(price):
    known = Status(budget=Account(price=price, method="hazard"))

    assert not asked(Learner(prices=False), a_stored(status=known)).ready


@pytest.mark.parametrize("price", [1e-9, 1e300, float("inf")])
def test_a_price_in_the_status_that_none_could_be_is_taken_as_the_nearest(price):
    known = Status(budget=Account(price=price, method="hazard"))

    assert asked(Learner(prices=False), a_stored(status=known)).price in (PRICES[0], PRICES[-1])


@pytest.mark.parametrize("busy", [(), (Span(NOW - 28 * DAY, NOW),)])
def test_a_pool_without_any_demand_or_without_any_idle_time_is_answered(busy):
    history = History(covers=Span(NOW - 28 * DAY, NOW), busy=busy)

    for budget in (Budget(share=0.05), Budget(per_week=0.001), Budget(per_week=1000)):
        assert asked(Learner(), a_stored(budget=budget, method="auto"), history).ready


# -- the account


def test_late_returns_of_a_clock_that_was_wrong_do_not_count_for_a_year():
    wrong, right = NOW + 365 * DAY, NOW - DAY

    assert recent((right, wrong), NOW) == (right,)


def test_a_clock_that_was_set_back_for_a_while_loses_no_late_return():
    assert recent((NOW,), NOW - 3 * DAY) == (NOW,)


def test_an_account_of_which_nothing_is_left_is_written_as_empty():
    old = Status(budget=Account(spent=1, late_at=(NOW - 100 * DAY,)))
    s = replace(a_situation(), now=NOW, outlook=None)

    assert settled(s, old).budget == Account()


def test_a_budget_that_grows_by_the_minute_is_not_written_by_the_minute():
    told = set()
    for minutes in range(0, 24 * 60, 5):
        allowed = 1000 / 7 * (3 + minutes / 1440)
        outlook = an_outlook(allowed=allowed)
        status = settled(replace(a_situation(), outlook=outlook), Status())
        told.add(status.budget.allowed)

    assert len(told) <= 16
