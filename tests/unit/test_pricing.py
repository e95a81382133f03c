"""The price: which one keeps a budget, and that nothing is known before its day."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from idlewin.core.stopping import Handover
from idlewin.forecasters.fleet import DAY, Gaps
from idlewin.forecasters.plans import plans
from idlewin.pricing.control import PRICES, YOUNG, Record, controlled, corrected, kept
from idlewin.pricing.judge import Judged
from idlewin.pricing.lend import lent, tally

DAYS = 40
COUNT = len(PRICES)


def a_record(rate, seed=1, days=DAYS):
    """Late returns that fall as the price rises, of a traffic whose rate is told for each day."""
    rng = np.random.default_rng(seed)
    falling = np.geomspace(8, 0.02, COUNT)[:, None]
    level = np.array([rate(day) for day in range(days)])
    # The same luck at all prices: a return that is late at a dear one is so at a cheap one.
    luck = rng.random(days)
    late = np.array(
        [[_poisson(m, u) for m, u in zip(row, luck, strict=True)] for row in falling * level]
    )
    harvested = np.broadcast_to(np.geomspace(600, 60, COUNT)[:, None], late.shape)
    return Record(harvested=harvested, late=late, late_counted=late)


def _poisson(mean, quantile):
    """The count at a quantile of the Poisson law."""
    count, chance = 0, math.exp(-mean)
    total = chance
    while total < quantile and count < 1000:
        count += 1
        chance *= mean / count
        total += chance
    return float(count)


def run(records, allowed=2.0, judged_from=10, days=DAYS):
    """The late returns of a course from the day that is judged on, and the course."""

    def spent(course, until):
        on = range(judged_from, until + 1)
        return sum(records[course.chosen[d]].late[course.number[d], d] for d in on)

    budget = np.full(days, allowed)
    course = controlled(records, budget, judged_from, spent)
    return spent(course, days - 1), course


def test_the_cheapest_price_is_taken_that_would_have_kept_the_budget():
    late = np.array([[9.0, 9.0], [3.0, 1.0], [0.0, 2.0], [0.0, 0.0]])

    assert kept(late, np.array([2.0, 2.0])) == 1
    assert kept(late, np.array([0.0, 0.0])) == 3


def test_late_only_at_a_dearer_price_counts_for_the_cheaper_one_too():
    late = np.array([[0.0], [4.0], [0.0]])

    assert kept(late, np.array([1.0])) == 2


def test_recent_days_count_more():
    late = np.array([[9.0] + [0.0] * 12, [0.0] * 13])

    assert kept(late, np.full(13, 1.0)) == 0
    assert kept(late[:, ::-1], np.full(13, 1.0)) == 1


def test_the_account_moves_the_price_both_ways():
    at = COUNT // 2

    assert corrected(at, 8.0, 4.0, PRICES) > at > corrected(at, 0.0, 4.0, PRICES)
    assert corrected(at, 4.0, 4.0, PRICES) == at
    assert at < corrected(at, 1.0, 0.0, PRICES) <= at + 2


TRAFFIC = {
    "stationary": lambda _: 1.0,
    "drifting": lambda day: 0.3 + 3 * day / DAYS,
    "doubling at once": lambda day: 1.0 if day < 20 else 2.5,
    "dying": lambda day: 1.0 if day < 20 else 0.1,
    "weekly": lambda day: 2.5 if day % 7 in (0, 1) else 0.5,
    # It watches when the price is low, as far as a rhythm can.
    "adversarial": lambda day: 3.0 if day % 2 else 0.2,
}


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_the_budget_holds(traffic):
    """Realised late returns over 30 days against 2 a day allowed, by a bound of chance."""
    bound = 60 + 1.645 * math.sqrt(60)
    spent = [run([a_record(TRAFFIC[traffic], seed)])[0] for seed in range(8)]

    assert np.mean(spent) <= 63
    assert sum(late > bound for late in spent) <= 1


@pytest.mark.parametrize("traffic", ["stationary", "weekly"])
def test_the_budget_is_used(traffic):
    spent = [run([a_record(TRAFFIC[traffic], seed)])[0] for seed in range(8)]

    assert np.mean(spent) >= 48


def test_the_better_forecaster_is_asked_and_the_choice_does_not_flutter():
    weak, strong = a_record(TRAFFIC["stationary"], 1), a_record(TRAFFIC["stationary"], 2)
    strong = Record(harvested=strong.harvested * 1.5, late=strong.late, late_counted=strong.late)

    _, course = run([weak, strong])

    assert course.chosen[-1] == 1
    assert np.count_nonzero(np.diff(course.chosen)) <= 4


def test_young_days_lend_nothing_and_the_first_after_them_at_the_dearest_price():
    _, course = run([a_record(TRAFFIC["stationary"])])

    assert course.number[:YOUNG].tolist() == [-1] * YOUNG
    assert course.number[YOUNG] == COUNT - 1


@settings(max_examples=30, deadline=None)
@given(day=st.integers(YOUNG + 1, DAYS - 1), seed=st.integers(0, 99))
def test_no_day_knows_what_comes(day, seed):
    """Another future, and this day's own late returns, change nothing of a day's price."""
    one = a_record(TRAFFIC["weekly"], seed)
    late = one.late.copy()
    late[:, day:] = np.random.default_rng(seed).integers(0, 30, late[:, day:].shape)
    harvested = one.harvested.copy()
    harvested[:, day:] *= 7
    other = Record(harvested=harvested, late=late, late_counted=late)

    (_, before), (_, after) = run([one]), run([other])

    assert before.number[: day + 1].tolist() == after.number[: day + 1].tolist()


# -- what windows bring and cost, by hand


def judged(gaps, opens, closes):
    """One price; opens and closes at these minutes of the gap's card."""
    made = plans(gaps)
    shape = (len(made), 12, 1)
    wants = [np.zeros(shape, dtype=bool), np.zeros(shape, dtype=bool)]
    steps = made.at[:, None] + 5 * np.arange(12)
    for flags, minutes in zip(wants, (opens, closes), strict=True):
        flags[:, :, 0] = np.isin(steps, minutes)
    return Judged(plans=made, opens=wants[0], closes=wants[1], handover=Handover())


def gaps(*spans, ended=True):
    start, end = (np.array(column) for column in zip(*spans, strict=True))
    return Gaps(
        card=np.zeros(len(spans), dtype=int),
        start=start,
        end=end,
        ended=np.full(len(spans), ended),
    )


def windows(found):
    made = lent(found, np.zeros(len(found.plans), dtype=int))
    return [
        (int(o), int(c), int(r), bool(late))
        for o, c, r, late in zip(made.open, made.close, made.ready, made.late, strict=True)
    ], made


def test_a_window_that_is_given_back_in_time():
    rows, made = windows(judged(gaps((100, 400)), [120], [300]))

    assert rows == [(120, 300, 305, False)]
    found = tally(gaps((100, 400)), made, Handover(), 0, 1)
    assert (found.harvested[0], found.late[0]) == (178, 0)


def test_demand_in_a_window_is_late_and_ends_it():
    rows, made = windows(judged(gaps((100, 400)), [120], []))

    assert rows == [(120, 400, 405, True)]
    assert tally(gaps((100, 400)), made, Handover(), 0, 1).harvested[0] == 278


@pytest.mark.parametrize(("closes", "late"), [(395, False), (390, False)])
def test_serving_that_is_just_ready_is_in_time(closes, late):
    rows, _ = windows(judged(gaps((100, 400)), [120], [closes]))

    assert rows == [(120, closes, closes + 5, late)]


def test_demand_while_serving_warms_up_is_late():
    rows, made = windows(judged(gaps((100, 398)), [120], [395]))

    assert rows == [(120, 395, 400, True)]
    assert tally(gaps((100, 398)), made, Handover(), 0, 1).harvested[0] == 273


def test_demand_while_it_opens_is_late_and_brings_nothing():
    rows, made = windows(judged(gaps((100, 121)), [120], []))

    assert rows == [(120, 121, 126, True)]
    assert tally(gaps((100, 121)), made, Handover(), 0, 1).harvested[0] == 0


def test_a_gap_can_be_lent_twice_over_a_risky_hour():
    rows, _ = windows(judged(gaps((0, 1000)), [10, 400], [200, 900]))

    assert rows == [(10, 200, 205, False), (400, 900, 905, False)]


def test_idle_time_at_the_end_counts_on_neither_side():
    found = judged(gaps((0, 1000), ended=False), [10], [])
    rows, made = windows(found)

    assert rows == [(10, 1000, 1005, False)]
    told = tally(found.plans.gaps, made, Handover(), 0, 1)
    assert (told.harvested[0], told.late[0]) == (0, 0)


def test_a_window_over_midnight_is_told_by_day():
    span = gaps((DAY - 60, DAY + 60))

    _, made = windows(judged(span, [DAY - 30], [DAY + 30]))

    assert tally(span, made, Handover(), 0, 2).harvested.tolist() == [28, 30]


def test_a_return_after_a_short_gap_is_late_and_no_share_counts_it():
    _, made = windows(judged(gaps((100, 121)), [110], []))

    told = tally(gaps((100, 121)), made, Handover(), 0, 1)

    assert (told.late[0], told.late_counted[0]) == (1, 0)
