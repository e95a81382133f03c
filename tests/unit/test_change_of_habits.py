"""Change: cards whose hours move, whose service doubles or dies, beside others that go on."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pytest

from idlewin.core.load import History
from idlewin.core.stopping import Handover
from idlewin.core.window import Span
from idlewin.forecasters.ahead import STEP, Asked
from idlewin.forecasters.change import LIKELIER, Watched, changes
from idlewin.forecasters.fleet import DAY, Card, fleet, place
from idlewin.forecasters.hazard import Hazards
from idlewin.forecasters.plans import EVERY, plans
from idlewin.pricing.judge import Judged, days_of, judged_on
from idlewin.pricing.lend import lent

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
DAYS, CHANGED = 42, 21
CARDS, ODD = 10, 4
#: Minutes of batch: at this one the cards that go on have less than one late return a week.
PRICE = 700.0
CHANGES = {
    "goes on": (9, 4, True),
    "doubles": (9, 10, True),
    "dies": (9, 4, False),
    "earlier": (3, 4, True),
    "later": (15, 4, True),
}


@cache
def made(kind, seed):
    """Users from nine to five on working days; after three weeks the first cards change."""
    rng = np.random.default_rng(seed)
    covers = Span(MONDAY, MONDAY + timedelta(days=DAYS))
    where = place(lambda at: at, covers)
    cards = []
    for n in range(CARDS):
        busy = []
        for day in range(DAYS):
            changed = n < ODD and day >= CHANGED
            hour, many, there = CHANGES[kind if changed else "goes on"]
            if day % 7 >= 5 or not there:
                continue
            begin = hour * 60 + rng.normal(0, 20)
            for at in (begin, *(begin + rng.uniform(0, 8 * 60, rng.poisson(many)))):
                start = MONDAY + timedelta(days=day, minutes=int(at))
                busy.append(Span(start, start + timedelta(minutes=1 + int(rng.exponential(25)))))
        cards.append(
            Card(name=f"{n}", history=History(covers=covers, busy=tuple(busy)), place=where)
        )
    return fleet(cards)


def lending(method, kind, seed):
    """Late returns and hours lent, of the cards that change: by day."""
    found, handover = made(kind, seed), Handover()
    every = plans(found.gaps())
    shape = (len(every), EVERY // STEP, 1)
    judged = Judged(
        plans=every,
        opens=np.zeros(shape, np.bool_),
        closes=np.zeros(shape, np.bool_),
        handover=handover,
    )
    for until, which in days_of(found.start, every):
        if until >= found.start + CHANGED * DAY:
            model = method.fit(found, until)
            best = judged_on(found, every.asked(which), model, np.array([PRICE]), handover)
            judged.opens[which], judged.closes[which] = best
    windows = lent(judged, np.zeros(len(every), np.int64))
    mine = every.gaps.card[windows.gap] < ODD
    ends = (every.gaps.end[windows.gap] - found.start) // DAY
    days = (windows.open - found.start) // DAY
    late = np.bincount(ends[mine & windows.late], minlength=DAYS + 1)
    hours = np.bincount(days[mine], (windows.close - windows.open)[mine] / 60, DAYS + 1)
    return late / ODD, hours / ODD


@cache
def outcome(kind, *, watched):
    method = Watched(Hazards()) if watched else Hazards()
    both = [lending(method, kind, seed) for seed in (1, 2)]
    return tuple(np.mean([one[k] for one in both], axis=0) for k in (0, 1))


def a_week(late):
    """Late returns of the first week after the day of the change, which nobody could foresee."""
    return late[CHANGED + 1 : CHANGED + 8].sum()


@pytest.mark.parametrize("kind", ["earlier", "later"])
def test_hours_that_move_by_six_cost_little_more_than_half_of_what_they_would_from_the_next_day_on(
    kind,
):
    (late, _), (unwatched, _) = outcome(kind, watched=True), outcome(kind, watched=False)

    assert a_week(unwatched) > 3
    assert a_week(late) < 0.6 * a_week(unwatched)
    assert late[CHANGED + 8 :].sum() / 2 < 1


@pytest.mark.parametrize("kind", ["goes on", "doubles", "dies"])
def test_what_costs_nothing_anyway_is_lent_much_as_before(kind):
    (late, hours), (_, unwatched) = outcome(kind, watched=True), outcome(kind, watched=False)

    assert a_week(late) < 1
    assert hours.sum() > 0.85 * unwatched.sum() > 0


def changed(found, day):
    """Which cards have changed by the start of a day, and what is said of them."""
    until = found.start + day * DAY
    told = changes(found, until)
    return told.likelier > LIKELIER, [told.said(card) for card in range(len(found.cards))]


def test_a_change_is_said_until_it_is_learnt_and_seldom_without_one():
    found = made("earlier", 1)

    flags = np.array([changed(found, day)[0] for day in range(CHANGED, DAYS)])
    which, said = changed(found, CHANGED + 1)

    assert which[:ODD].all()
    assert said[0].startswith("returns came at other hours in the last 21 h than were expected")
    assert flags[-1, :ODD].mean() <= 0.5
    assert flags[:, ODD:].mean() < 0.06
    assert [
        text for text, is_changed in zip(said, which, strict=True) if text and not is_changed
    ] == []


def now_and_then(hours):
    """A card with a return every so many hours, and four times as often in the last two days."""
    covers = Span(MONDAY, MONDAY + timedelta(days=21))
    starts = [*np.arange(0, 19 * 24, hours), *np.arange(19 * 24, 21 * 24, hours / 4)]
    busy = (MONDAY + timedelta(hours=float(at)) for at in starts)
    runs = tuple(Span(at, at + timedelta(minutes=10)) for at in busy)
    where = place(lambda at: at, covers)
    return fleet([Card(name="one", history=History(covers=covers, busy=runs), place=where)])


def test_a_service_that_is_asked_four_times_as_often_is_told_in_numbers_and_rated_higher():
    found = now_and_then(8.3)
    asked = Asked(np.array([0]), np.array([found.until]), np.array([90]))

    model, plain = (method.fit(found, found.until) for method in (Watched(Hazards()), Hazards()))

    said = model.rests_on(found, 0, 90)
    assert re.search(r"; \d\d returns in the last \d\d h where \d\.\d were expected: what it", said)
    assert model.rates(found, asked)[0, 0] > 3 * plain.rates(found, asked)[0, 0]


@pytest.mark.parametrize("kind", CHANGES)
def test_rates_are_never_lowered(kind):
    found = made(kind, 1)
    until = found.start + (CHANGED + 2) * DAY
    cards = np.repeat(np.arange(CARDS), 3)
    asked = Asked(cards, np.full(len(cards), until), np.tile([0, 60, 600], CARDS))

    model, plain = (method.fit(found, until) for method in (Watched(Hazards()), Hazards()))

    assert (model.rates(found, asked) >= plain.rates(found, asked)).all()
