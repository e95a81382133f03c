"""The learner: what it needs, what it learns together, what it tells, and what it costs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from idlewin.core.calendar import Calendar
from idlewin.core.load import History
from idlewin.core.pool import RuleObject
from idlewin.core.rule import Budget, DayTypes, ForecastPolicy, WindowPolicy
from idlewin.core.status import Account, Status
from idlewin.core.window import Span
from idlewin.forecasters import hazard
from idlewin.pricing import learnt as learnt_module
from idlewin.pricing.control import PRICES
from idlewin.pricing.learner import ANEW, JOIN, Learner
from tests.builders import a_rule

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
#: Five weeks in, in the middle of a night.
NOW = MONDAY + 35 * DAY + 2 * HOUR


def a_stored(name="card", *, method="hazard", budget=None, status=None, zone="UTC", rests=None):
    rule = a_rule(
        forecast=ForecastPolicy(
            method=method,
            budget=budget or Budget(per_week=1.0),
            day_types=DayTypes(holidays=rests),
        ),
        window=WindowPolicy(calendar=Calendar(time_zone=zone)),
    )
    return RuleObject(
        name=name, uid=name, generation=1, resource_version="1", rule=rule, status=status,
        created_at=MONDAY,
    )  # fmt: skip


def office(now=NOW, days=28, zone=UTC):
    """Users each day from 8 to 18, with breaks."""
    since = now - days * DAY
    first = since.astimezone(zone).replace(hour=0, minute=0)
    runs = [
        Span(at, at + timedelta(minutes=50))
        for day in range(days + 1)
        for hour in range(8, 18)
        if since <= (at := (first + day * DAY).replace(hour=hour)).astimezone(UTC) < now
    ]
    return History(covers=Span(since, now), busy=tuple(runs))


def asked(learner, stored=None, history=None, now=NOW):
    history = history or office(now)
    since = history.busy[-1].end if history.busy else history.covers.start
    return learner.forecast(stored or a_stored(), history, now, since)


@pytest.fixture
def fits(monkeypatch):
    """The instants up to which a method was fitted."""
    seen = []
    real = hazard.Hazards.fit
    monkeypatch.setattr(
        hazard.Hazards,
        "fit",
        lambda self, fleet, until: seen.append(until) or real(self, fleet, until),
    )
    return seen


def test_a_night_is_likely_idle_up_to_the_hour_at_which_users_come():
    found = asked(Learner())

    assert found.ready
    assert found.chance(4 * HOUR) > 0.95
    assert found.chance(8 * HOUR) < 0.3
    assert found.price in PRICES.tolist()
    assert "past gaps of this card lasted" in found.rests_on


def test_days_of_rest_by_the_calendar_of_a_region_are_like_week_ends():
    # Users on working days only; the next morning is that of a holiday.
    tuesday = NOW + DAY
    history = office(tuesday)
    working = tuple(run for run in history.busy if run.start.weekday() < 5)
    history = replace(history, busy=working)

    def learner():
        return Learner(holidays=lambda code, _over: (tuesday.date(),) if code else ())

    usual = asked(learner(), history=history, now=tuesday)
    holiday = asked(learner(), a_stored(rests="AT"), history, tuesday)

    assert usual.chance(8 * HOUR) + 0.3 < holiday.chance(8 * HOUR)


def test_hours_are_those_of_the_calendars_zone():
    vienna = ZoneInfo("Europe/Vienna")
    # Across the change of the clocks of 29 March.
    now = datetime(2026, 4, 1, 0, 0, tzinfo=UTC)
    found = asked(Learner(), a_stored(zone="Europe/Vienna"), office(now, zone=vienna), now)

    # Eight o'clock there is six by UTC.
    assert found.chance(3 * HOUR) > 0.9
    assert found.chance(7 * HOUR) < 0.5


@pytest.mark.parametrize("days", [0.01, 2])
def test_too_little_history_lends_nothing_and_says_how_much_is_missing(days):
    covers = Span(NOW - days * DAY, NOW)

    found = asked(Learner(), history=History(covers=covers))

    assert not found.ready
    assert "needs 3 d, has" in found.rests_on


def test_all_unknown_lends_nothing():
    covers = Span(NOW - 28 * DAY, NOW)

    assert not asked(Learner(), history=History(covers=covers, unknown=(covers,))).ready


def test_a_pool_without_a_past_takes_what_the_others_say():
    learner = Learner()
    for number in range(6):
        asked(learner, a_stored(f"old-{number}"))
    later = NOW + JOIN
    new = History(covers=Span(later - HOUR, later))

    found = learner.forecast(a_stored("new"), new, later, later - HOUR)

    assert found.ready
    assert "168 of the other 6 cards" in found.rests_on
    assert found.chance(5 * HOUR) > 0.95


def test_one_fault_of_a_clock_is_not_believed():
    found = asked(Learner(), history=office(NOW + HOUR))

    assert not found.ready
    assert "60 min behind" in found.rests_on


@pytest.mark.parametrize("method", ["seasonal", "boosted"])
def test_a_method_that_is_not_there_lends_nothing_and_says_so(method, monkeypatch):
    monkeypatch.setattr("idlewin.pricing.learner.there", lambda name: name != "boosted")

    found = asked(Learner(), a_stored(method=method))

    assert not found.ready
    assert method in found.rests_on


def test_where_every_return_may_be_late_nothing_is_learnt(fits):
    found = asked(Learner(), a_stored(budget=Budget(share=1.0)), History(covers=Span(MONDAY, NOW)))

    assert (found.ready, found.price, fits) == (True, 0.0, [])


# -- the price


def priced(late=0, **budget):
    account = Account(late_at=tuple(NOW - k * DAY for k in range(1, late + 1)))
    stored = a_stored(budget=Budget(**budget), status=Status(budget=account))
    return asked(Learner(), stored)


def test_a_larger_budget_makes_late_returns_cheaper_and_spending_it_makes_them_dearer():
    assert priced(per_week=10).price < priced(per_week=0.1).price
    prices = [priced(late, per_week=1).price for late in (0, 4, 8, 20)]
    assert prices == sorted(prices)
    assert prices[0] < prices[-1]


def test_a_share_allows_as_many_as_there_were_returns():
    found = priced(share=0.05)

    # 28 days with a return after each night; the breaks are too short to count.
    assert found.allowed == pytest.approx(0.05 * 28, abs=0.1)
    assert priced(per_week=2).allowed == pytest.approx(8)


def test_until_prices_are_learnt_the_one_in_the_status_goes_on():
    known = Status(budget=Account(price=777.0, method="hazard"))
    tasks = []
    learner = Learner(tasks.append)

    first = asked(learner, a_stored(status=known))
    assert not first.ready

    real = learnt_module.priced
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "idlewin.pricing.learner.priced",
            lambda *args: patched.append(asked(learner, a_stored(status=known))) or real(*args),
        )
        patched = []
        tasks.pop()()

    assert (patched[0].ready, patched[0].price) == (True, 777.0)
    assert asked(learner, a_stored(status=known)).price in PRICES.tolist()


def test_without_prices_the_one_in_the_status_is_taken_or_there_is_no_forecast():
    known = Status(budget=Account(price=777.0, method="hazard"))

    assert asked(Learner(prices=False), a_stored(status=known)).price == 777.0
    assert not asked(Learner(prices=False)).ready


def test_auto_asks_the_one_that_would_have_brought_most_and_the_status_says_which(monkeypatch):
    monkeypatch.setattr("idlewin.pricing.learnt.there", lambda name: name != "boosted")

    found = asked(Learner(), a_stored(method="auto"))

    # Hours say more of this pool than how long it has been idle.
    assert found.method == "hazard"


class Blind:
    """The hazard, which sees a return at any moment on one pool and so never lends it."""

    name = "hazard"

    def __init__(self, of):
        self.of = of

    def fit(self, fleet, until):
        model = hazard.Hazards().fit(fleet, until)

        def rates(fleet, asked):
            found = np.array(model.rates(fleet, asked))
            found[np.array(fleet.cards)[asked.card] == self.of] = 1.0
            return found

        return SimpleNamespace(rates=rates, rests_on=model.rests_on)


def by_pool(monkeypatch, *, priced=128):
    """The method and price that three pools of one budget have; the second is told badly of."""
    real = learnt_module.method
    monkeypatch.setattr(learnt_module, "there", lambda name: name != "boosted")
    monkeypatch.setattr(
        learnt_module, "method", lambda name: Blind("b") if name == "hazard" else real(name)
    )
    monkeypatch.setattr(learnt_module, "PRICED", priced)
    learner = Learner()
    for name in "abc":
        asked(learner, a_stored(name, method="auto"))
    found = [asked(learner, a_stored(name, method="auto"), now=NOW + ANEW) for name in "abc"]
    assert all(one.ready for one in found)
    return [one.method for one in found], {one.price for one in found}


def test_pools_of_one_budget_have_each_the_method_that_was_clearly_better_on_its_own_past(
    monkeypatch,
):
    methods, prices = by_pool(monkeypatch)

    assert methods == ["hazard", "elapsed", "hazard"]
    assert len(prices) == 1


def test_who_learns_no_prices_tells_of_each_pool_the_method_in_its_own_status(monkeypatch):
    monkeypatch.setattr(learnt_module, "there", lambda name: name != "boosted")
    learner = Learner(prices=False)

    def told(now):
        methods = ("hazard", "elapsed")
        known = [Status(budget=Account(price=777.0, method=method)) for method in methods]
        stored = [
            a_stored(name, method="auto", status=s) for name, s in zip("ab", known, strict=True)
        ]
        return [asked(learner, one, now=now).method for one in stored]

    told(NOW)
    assert told(NOW + ANEW) == ["hazard", "elapsed"]


def test_a_pool_that_no_price_is_learnt_from_has_the_method_of_the_rest(monkeypatch):
    # The first and the third are the sample.
    methods, _ = by_pool(monkeypatch, priced=2)

    assert methods == ["hazard"] * 3


def test_what_is_chosen_of_what_was_learnt_is_found_once(monkeypatch):
    found = []
    real = learnt_module.mixed
    monkeypatch.setattr(learnt_module, "mixed", lambda *args: found.append(1) or real(*args))
    learner = Learner()

    for minutes in (0, 5, 10):
        for name in ("a", "b"):
            asked(learner, a_stored(name), now=NOW + minutes * timedelta(minutes=1))

    # Once for the first pool alone, and once more when the other had come.
    assert len(found) == 2


# -- when is learnt


def test_all_is_learnt_once_a_day_and_each_past_day_is_judged_once(fits):
    learner = Learner()
    asked(learner)
    first = len(fits)
    for hours in (1, 5, 23):
        asked(learner, now=NOW + hours * HOUR)
    assert len(fits) == first

    asked(learner, now=NOW + ANEW)

    # Today's, and that of the day which has become the past.
    assert len(fits) == first + 2


def test_a_pool_that_comes_is_learnt_from_after_some_minutes():
    learner = Learner()
    asked(learner)
    new = a_stored("new")

    assert not asked(learner, new, now=NOW + JOIN / 2).ready
    assert asked(learner, new, now=NOW + JOIN).ready


def test_a_fault_of_a_library_lends_nothing_and_is_told_and_is_tried_again():
    learner = Learner()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idlewin.pricing.learner.fitted", lambda *_: 1 / 0)
        found = asked(learner)
    assert not found.ready
    assert "division by zero" in found.rests_on

    assert asked(learner, now=NOW + timedelta(minutes=5)).ready


def test_what_was_learnt_together_is_the_same_whoever_asks_first():
    def told(names):
        learner = Learner()
        for name in names:
            asked(learner, a_stored(name))
        later = NOW + ANEW
        return {name: asked(learner, a_stored(name), now=later).chances for name in sorted(names)}

    assert told(["a", "b", "c"]) == told(["c", "a", "b"])
