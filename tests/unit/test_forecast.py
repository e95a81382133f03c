"""The outlook: what a forecast makes best at its price."""

from datetime import UTC, datetime, timedelta

import pytest

from idlewin.core.forecast import LONG, Forecast, outlook

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
STEP = 5 * MINUTE


def ahead(*chances, price=1000.0, least=30 * MINUTE, back=10 * MINUTE):
    forecast = Forecast(method="made", made_at=NOW, chances=chances, rests_on="", price=price)
    return outlook(forecast, opening=2 * MINUTE, back=back, least=least)


def steady(rate, hours=24):
    """So many returns an hour, told every five minutes."""
    steps = range(1, hours * 12 + 1)
    return tuple((k * STEP, (1 - rate / 12) ** k) for k in steps)


def test_serving_is_back_before_users_that_are_certain_to_come():
    found = ahead((3 * HOUR, 1.0))

    assert found.opens
    assert NOW + 3 * HOUR - STEP <= found.back <= NOW + 3 * HOUR


@pytest.mark.parametrize("back", [7 * MINUTE, HOUR])
def test_a_return_that_takes_longer_begins_earlier_and_is_done_by_the_same_time(back):
    found = ahead((3 * HOUR, 1.0), back=back)

    assert NOW + 3 * HOUR - 2 * STEP <= found.back <= NOW + 3 * HOUR


def test_short_windows_are_weighed_in_finer_steps():
    found = ahead((22 * MINUTE, 1.0), least=10 * MINUTE, back=5 * MINUTE)

    assert NOW + 19 * MINUTE <= found.back <= NOW + 22 * MINUTE


def test_the_dearer_a_late_return_the_less_is_lent():
    quiet_then_busy = tuple(
        (step, chance if step <= 4 * HOUR else chance * 0.9 ** ((step - 4 * HOUR) / (20 * MINUTE)))
        for step, chance in steady(0.02)
    )
    ends = [ahead(*quiet_then_busy, price=price).back for price in (30, 300, 2000, 40_000)]

    assert ends == sorted(ends, reverse=True)
    assert ends[0] > ends[-1]
    assert ahead(*quiet_then_busy, price=300).opens
    assert not ahead(*quiet_then_busy, price=40_000).opens


def test_a_risky_hour_is_not_lent_into_and_not_given_up_for():
    """Lending begins now where the hour before it is worth a handover, else after it."""
    risky = tuple(
        (step, 1.0 if step <= 2 * HOUR else 0.7 if step > 3 * HOUR else 0.99)
        for step, _ in steady(0)
    )

    assert ahead(*risky).opens
    assert ahead(*risky).back <= NOW + 3 * HOUR


def test_cards_that_users_will_likely_want_before_serving_could_be_back_are_given_back_now():
    found = ahead((3 * MINUTE, 1.0), back=10 * MINUTE)

    assert found.back == NOW + 10 * MINUTE


def test_nothing_is_claimed_past_the_last_chance():
    assert not ahead().opens
    assert ahead().back == NOW + 10 * MINUTE


def test_where_a_late_return_costs_nothing_no_chance_is_looked_at():
    found = ahead(price=0.0)

    assert (found.opens, found.back) == (True, NOW + LONG)
