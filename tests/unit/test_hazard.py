"""The hazard: what it learns from whom, on demand that a person can picture."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from idlewin.core.load import History
from idlewin.core.rule import METHODS
from idlewin.core.window import Span
from idlewin.forecasters import method, there
from idlewin.forecasters.ahead import Asked
from idlewin.forecasters.fleet import DAY, Card, fleet, place
from idlewin.forecasters.hazard import Hazards
from idlewin.forecasters.kin import kin

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
VIENNA = ZoneInfo("Europe/Vienna")
HOUR = timedelta(hours=1)


def office(days, *, hour=9, length=8, start=MONDAY, zone=UTC):
    """Demand on working days, from an hour of the local clock on."""
    for n in range(days):
        day = (start + n * timedelta(days=1)).astimezone(zone)
        begin = day.replace(hour=hour, minute=0).astimezone(UTC)
        if day.weekday() < 5:
            yield Span(begin, begin + length * HOUR)


def a_card(name="card", busy=(), days=14, zone=UTC, holidays=(), **history):
    covers = Span(MONDAY, MONDAY + timedelta(days=days))
    return Card(
        name=name,
        history=History(covers=covers, busy=tuple(busy), **history),
        place=place(lambda at: at.astimezone(zone), covers, holidays),
    )


def rate(cards, at, elapsed=60, card=0, of=None):
    """Returns an hour that are expected in the next five minutes."""
    found = fleet(cards)
    minute = int(at.timestamp() // 60)
    asked = Asked(np.array([card]), np.array([minute]), np.array([elapsed]))
    model = (of or Hazards()).fit(found, min(minute, found.until))
    return float(model.rates(found, asked)[0, 0]) * 60


END = MONDAY + timedelta(days=14)  # a Monday, 00:00


def test_without_any_past_the_longer_a_gap_lasts_the_longer_it_will():
    rates = [rate([a_card()], END, elapsed=minutes) for minutes in (0, 60, 300, 3000)]

    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 20 * rates[-1] > 0


def test_the_hour_before_users_come_is_told_from_the_night():
    cards = [a_card(busy=office(14))]

    night, before_nine = (rate(cards, END + hours * HOUR, 600) for hours in (3, 9))

    assert before_nine > 5 * night


def test_a_day_of_rest_is_told_from_a_working_day():
    cards = [a_card(busy=office(28), days=28)]
    working = MONDAY + timedelta(days=28, hours=9)

    assert rate(cards, working, 900) > 3 * rate(cards, working - timedelta(days=1), 900)


def test_a_holiday_counts_as_a_day_of_rest():
    working = MONDAY + timedelta(days=28)
    plain = [a_card(busy=office(28), days=28)]
    off = [a_card(busy=office(28), days=28, holidays=[working.date()])]

    assert rate(plain, working + 9 * HOUR, 900) > 3 * rate(off, working + 9 * HOUR, 900)
    assert isinstance(working.date(), date)


def test_a_card_without_a_past_does_what_its_fleet_does():
    others = [a_card(f"old-{n}", office(14)) for n in range(8)]
    young = a_card("young", unknown=(Span(MONDAY, END - HOUR),))
    cards = [*others, young]

    night, morning = (rate(cards, END + hours * HOUR, 600, card=8) for hours in (3, 9))

    assert morning > 4 * night


def test_a_card_of_its_own_habits_does_not_follow_its_fleet():
    others = [a_card(f"day-{n}", office(28), days=28) for n in range(6)]
    odd = a_card("night", office(28, hour=1, length=3), days=28)
    end = MONDAY + timedelta(days=28)

    own, of_fleet = (rate([*others, odd], end + n * HOUR, 900, card=6) for n in (1, 9))

    assert own > 1.5 * of_fleet


def test_hours_are_those_of_the_local_clock_over_a_clock_change():
    """Summer time begins on 29 March: users still come at nine by their clocks."""
    days = 35
    cards = [a_card(busy=office(days, zone=VIENNA), days=days, zone=VIENNA)]
    monday = datetime(2026, 4, 6, tzinfo=VIENNA)

    at_nine = rate(cards, monday.replace(hour=9).astimezone(UTC), 900)

    assert at_nine > 2 * rate(cards, monday.replace(hour=8).astimezone(UTC), 900)
    assert at_nine > 2 * rate(cards, monday.replace(hour=10).astimezone(UTC), 900)


def test_what_is_unknown_counts_as_demand():
    busy = tuple(office(14))
    nights = [
        Span(MONDAY + timedelta(days=n, hours=2), MONDAY + timedelta(days=n, hours=4))
        for n in range(1, 14)
    ]
    seen, blind = a_card(busy=busy), a_card(busy=busy, unknown=tuple(nights))

    assert rate([blind], END + 2 * HOUR, 500) > 5 * rate([seen], END + 2 * HOUR, 500)


def test_mostly_unknown_is_hardly_ever_idle():
    holes = [
        Span(MONDAY + n * HOUR, MONDAY + n * HOUR + 54 * timedelta(minutes=1))
        for n in range(1, 14 * 24)
    ]

    assert rate([a_card(unknown=tuple(holes))], END + HOUR, 6) > 3  # within twenty minutes


def test_a_night_that_was_lent_counts_half():
    """Of demand that showed in a window of ours, and of none, alike."""
    calls = tuple(
        Span(MONDAY + timedelta(days=n, hours=2), MONDAY + timedelta(days=n, hours=2, minutes=10))
        for n in range(0, 28, 2)
    )
    nights = tuple(
        Span(MONDAY + timedelta(days=n, hours=1), MONDAY + timedelta(days=n, hours=4))
        for n in range(28)
    )
    end = MONDAY + timedelta(days=28, hours=2)

    plain, lent = (
        rate([a_card(busy=calls, days=28, serving_away=away)], end, 1400) for away in ((), nights)
    )

    assert 0.4 * plain < lent < plain  # the prior weighs more where less was seen


@pytest.mark.parametrize("busy", [(), (Span(MONDAY, END),)], ids=["never", "always"])
@pytest.mark.parametrize("name", [name for name in METHODS[:-1] if there(name)])
def test_demand_that_is_never_or_always_there_is_no_error(name, busy):
    found = rate([a_card(busy=busy)], END, 0, of=method(name))

    assert 0 < found < 60


def test_runs_that_overlap_are_one():
    once = a_card(busy=(Span(MONDAY, MONDAY + 2 * HOUR),))
    twice = a_card(
        busy=(Span(MONDAY, MONDAY + HOUR), Span(MONDAY, MONDAY + 2 * HOUR)),
        unknown=(Span(MONDAY + HOUR, MONDAY + 2 * HOUR),),
    )

    one, two = (fleet([card]) for card in (once, twice))

    assert (one.busy_from.tolist(), one.busy_to.tolist()) == (
        two.busy_from.tolist(),
        two.busy_to.tolist(),
    )


def test_a_fleet_of_no_cards_is_an_error():
    with pytest.raises(ValueError, match="at least one"):
        fleet([])


def test_it_says_what_it_rests_on():
    cards = [a_card("mine", office(14)), a_card("other", office(14))]
    found = fleet(cards)

    told = Hazards().fit(found, found.until).rests_on(found, 0, 60)

    assert told == "10 past gaps of this card lasted 60 min or longer, and 10 of the other 1 cards"


def test_a_card_among_many_is_told_like_any_other():
    found = fleet([a_card(f"card-{n}", office(14, hour=9 + n % 2)) for n in range(150)])
    model = Hazards().fit(found, found.until)

    for table in (model.level, model.card_elapsed, model.card_hours, model.card_day_hours):
        assert (table[2:] == table[:-2]).all()
        assert (table[0] != table[1]).any()


def test_kin_are_busy_whenever_a_card_is_and_the_least_busy_come_first():
    """A stack: each card is busy with the next one, and a quarter of an hour longer each way."""
    noon = [MONDAY + timedelta(days=n, hours=12) for n in range(14)]
    reach = [timedelta(minutes=15 * (n + 1)) for n in range(20)]
    cards = [
        a_card(f"card-{n}", [Span(at - r, at + r) for at in noon]) for n, r in enumerate(reach)
    ]
    stranger = a_card("stranger", [Span(at + 6 * HOUR, at + 11 * HOUR) for at in noon])
    found = fleet([*cards[::-1], stranger])

    kin_ = kin(found, found.until)

    for n in range(20):
        near = [19 - m for m in range(n + 1, 20)][:16]
        assert kin_[19 - n].tolist() == near + [-1] * (16 - len(near))
    assert (kin_[20] == -1).all()


@pytest.mark.skipif(not there("boosted"), reason="LightGBM cannot be loaded")
@pytest.mark.parametrize(("most", "past"), [(None, 3), (16, 15)])
def test_boosting_learns_what_yesterday_was_like(most, past, monkeypatch):
    """Demand in the nights after a busy day, on no fixed day of the week."""
    monkeypatch.setattr("idlewin.forecasters.boosted.MOST", 15_000)
    if most:  # the correction is learnt from some of the cards, and holds for all
        monkeypatch.setattr("idlewin.forecasters.boosted.MOST_CARDS", most)
    rng = np.random.default_rng(3)
    cards = []
    for n in range(24):
        busy = []
        for day in range(21):
            if rng.random() < 0.5:
                noon = MONDAY + timedelta(days=day, hours=12)
                night = noon + timedelta(hours=10, minutes=past)
                busy += [Span(noon, noon + 2 * HOUR), Span(night, night + HOUR)]
        cards.append(a_card(f"card-{n}", busy, days=21))
    found = fleet(cards)
    until = found.start + 20 * DAY
    evening = until + 22 * 60
    came = found.is_busy(np.arange(24), np.full(24, until + 12 * 60))
    cards_ = np.arange(24)
    ended = [found.busy_to[(found.card == n) & (found.busy_to <= evening)].max() for n in cards_]
    idle = evening - np.array(ended)

    asked = Asked(cards_, np.full(24, evening), idle)
    learner = method("boosted")
    learner.fit(found, until - DAY)
    model = learner.fit(found, until)
    rates = model.rates(found, asked)

    assert rates[came, :3].mean() > 20 * rates[~came, :3].mean()
    # Without that demand other rates; asked alone, and by one that learns but once, the same.
    none = np.zeros(0, dtype=np.int64)
    quiet = replace(found, card=none, busy_from=none, busy_to=none)
    assert not np.allclose(model.rates(quiet, asked), rates)
    once = method("boosted").fit(found, until)
    for alone in range(0, 24, 7):
        (told,) = once.rates(found, asked.of(np.array([alone])))
        assert np.allclose(told, rates[alone], rtol=1e-12)
