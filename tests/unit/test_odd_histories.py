"""Odd histories through the learner, with the method of the default: the right, cautious answer."""

from __future__ import annotations

import pytest

from idlewin.core.forecast import MINUTE, outlook
from idlewin.core.load import History
from idlewin.core.window import Span
from idlewin.pricing.learner import ANEW, Learner
from tests.unit.test_learner import DAY, HOUR, NOW, a_stored, asked, office

BEGAN = NOW - 28 * DAY
COVERS = Span(BEGAN, NOW)


@pytest.fixture(autouse=True)
def _without_boosting(monkeypatch):
    monkeypatch.setattr("idlewin.pricing.learnt.there", lambda name: name != "boosted")


def told(history, *, idle_for, learner=None, name="card", now=NOW):
    stored = a_stored(name, method="auto")
    return (learner or Learner()).forecast(stored, history, now, now - idle_for)


def opens(forecast):
    ahead = outlook(forecast, opening=2 * MINUTE, back=7 * MINUTE, least=30 * MINUTE)
    return forecast.ready and ahead.opens and ahead.back >= forecast.made_at + 30 * MINUTE


def test_an_empty_history_lends_nothing_and_says_what_is_missing():
    found = told(History(covers=Span(NOW - MINUTE, NOW)), idle_for=MINUTE)

    assert (opens(found), found.rests_on) == (False, "needs 3 d, has 0.00069 d")


def test_a_week_is_enough_to_lend_a_night_and_to_be_back_for_the_morning():
    found = told(office(days=7), idle_for=8 * HOUR)

    ahead = outlook(found, opening=2 * MINUTE, back=7 * MINUTE, least=30 * MINUTE)
    assert opens(found)
    # Users come at eight, which is in six hours.
    assert ahead.back <= NOW + 6 * HOUR + 5 * MINUTE


def test_a_card_with_users_at_all_times_is_not_lent_in_a_minute_without():
    busy = (Span(BEGAN, NOW - 5 * MINUTE),)

    assert not opens(told(History(covers=COVERS, busy=busy), idle_for=5 * MINUTE))


def test_a_card_that_nobody_ever_uses_is_lent():
    assert opens(told(History(covers=COVERS), idle_for=28 * DAY))


def test_what_is_missing_is_demand_so_that_nine_tenths_missing_lend_nothing():
    gaps = tuple(Span(BEGAN + n * HOUR, BEGAN + n * HOUR + 54 * MINUTE) for n in range(1, 28 * 24))

    assert not opens(told(History(covers=COVERS, unknown=gaps), idle_for=6 * MINUTE))


def test_runs_that_overlap_or_are_told_twice_count_once():
    plain = office()
    twice = History(
        covers=plain.covers,
        busy=(*plain.busy, *plain.busy, *(Span(r.start, r.start + MINUTE) for r in plain.busy)),
    )

    assert told(twice, idle_for=8 * HOUR).chances == told(plain, idle_for=8 * HOUR).chances


def test_a_card_that_appears_late_is_lent_as_its_fleet_is():
    learner = Learner()
    for number in range(4):
        asked(learner, a_stored(f"old-{number}", method="auto"))
    later = NOW + ANEW
    young = History(
        covers=Span(later - 9 * HOUR, later), busy=(Span(later - 9 * HOUR, later - 8 * HOUR),)
    )

    assert opens(told(young, idle_for=8 * HOUR, learner=learner, name="young", now=later))


def test_nights_in_which_serving_was_away_forget_no_morning():
    plain = office()
    nights = tuple(
        Span(at, at + 8 * HOUR)
        for day in range(28)
        if (at := BEGAN + day * DAY - 2 * HOUR) >= BEGAN
    )
    away = History(covers=plain.covers, busy=plain.busy, serving_away=nights)

    found = told(away, idle_for=8 * HOUR)

    assert found.chance(8 * HOUR) < 0.5


def test_a_clock_that_goes_back_is_not_believed_till_it_has_caught_up():
    learner = Learner()
    assert told(office(), idle_for=8 * HOUR, learner=learner).ready

    back = told(office(), idle_for=7 * HOUR, learner=learner, now=NOW - HOUR)
    again = told(office(), idle_for=8 * HOUR, learner=learner)

    assert (back.ready, again.ready) == (False, True)
    assert "60 min behind" in back.rests_on
