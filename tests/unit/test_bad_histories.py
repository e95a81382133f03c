"""Histories that say little or are odd: every method gives rates, and lends with caution."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from idlewin.core.load import History
from idlewin.core.stopping import Handover
from idlewin.core.window import Span
from idlewin.forecasters import method, there
from idlewin.forecasters.ahead import Asked
from idlewin.forecasters.fleet import Card, fleet, place
from idlewin.pricing.judge import judged_on

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
PRICE = np.array([2500.0])
METHODS = [name for name in ("elapsed", "hazard", "boosted") if there(name)]


def hours(days, first, length):
    return tuple(
        Span(MONDAY + (24 * d + first) * HOUR, MONDAY + (24 * d + first + length) * HOUR)
        for d in range(days)
    )


def a_card(days=14, name="card", **history):
    covers = Span(MONDAY, MONDAY + timedelta(days=days))
    where = place(lambda at: at, covers)
    return Card(name=name, history=History(covers=covers, **history), place=where)


MISSING = tuple(
    Span(MONDAY + n * HOUR, MONDAY + n * HOUR + timedelta(minutes=54)) for n in range(1, 335)
)
CASES = {
    "an hour": [a_card(days=1 / 24)],
    "constant demand": [a_card(busy=hours(14, 0, 24))],
    "90 % missing": [a_card(unknown=MISSING)],
    "one week": [a_card(days=7, busy=hours(7, 9, 8))],
    "never any demand": [a_card()],
    "overlaps": [a_card(busy=(*hours(14, 9, 8), *hours(14, 9, 2), *hours(14, 9, 8)))],
    "appears late": [a_card(name="old"), a_card(unknown=(Span(MONDAY, MONDAY + 335 * HOUR),))],
    "censored": [a_card(busy=hours(14, 9, 8), serving_away=hours(14, 0, 8))],
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_a_card_that_has_just_become_idle_has_rates_and_is_not_lent(case, name):
    found = fleet(CASES[case])
    asked = Asked(np.array([len(found.cards) - 1]), np.array([found.until]), np.array([5]))
    model = method(name).fit(found, found.until)

    rates = model.rates(found, asked)
    opens, _ = judged_on(found, asked, model, PRICE, Handover())

    assert np.isfinite(rates).all()
    assert (rates > 0).all()
    assert not opens[0, 0, 0]
