"""The price and who is asked: what keeps a budget, and that nothing is known before its day."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from idlewin.core.stopping import Handover
from idlewin.forecasters.fleet import DAY, Gaps
from idlewin.forecasters.plans import plans
from idlewin.pricing.control import PRICES, YOUNG, Record, controlled, corrected, kept, mixed
from idlewin.pricing.judge import Judged
from idlewin.pricing.lend import lent, tally

DAYS = 40
COUNT = len(PRICES)


def a_record(rate, seed=1, days=DAYS):
    """Late returns of one card that fall as the price rises; the rate is told for each day."""
    rng = np.random.default_rng(seed)
    falling = np.geomspace(8, 0.02, COUNT)[:, None]
    level = np.array([rate(day) for day in range(days)])
    # The same luck at all prices: a return that is late at a dear one is so at a cheap one.
    luck = rng.random(days)
    late = np.array(
        [[_poisson(m, u) for m, u in zip(row, luck, strict=True)] for row in falling * level]
    )
    harvested = np.broadcast_to(np.geomspace(600, 60, COUNT)[:, None], late.shape)
    return recorded(harvested, late)


def recorded(harvested, late):
    """What is told price x day of one card, or price x day x card."""
    harvested, late = (one[:, :, None] if one.ndim == 2 else one for one in (harvested, late))
    return Record(harvested=harvested, late=late, late_counted=late)


def of_cards(*records):
    """One forecaster's records of several cards as one."""
    told = ([r.harvested for r in records], [r.late for r in records])
    return recorded(*(np.concatenate(part, axis=2) for part in told))


def times(record, harvest=1.0, late=1.0):
    """The same with other amounts."""
    return recorded(record.harvested * harvest, record.late * late)


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
        return sum(
            records[one].late[course.number[day], day, card]
            for day in range(judged_from, until + 1)
            for card, one in enumerate(course.chosen[day])
        )

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

    _, course = run([weak, times(strong, harvest=1.5)])

    assert course.chosen[-1] == 1
    assert np.count_nonzero(np.diff(course.chosen, axis=0)) <= 4


# -- who is asked for one card


def daily(usual, *gains):
    """Two cards: all as usual for the first, and what others bring more a day for the second."""
    first = a_record(TRAFFIC["stationary"])
    second = a_record(TRAFFIC["stationary"], 2)
    more = [np.resize(gain, DAYS)[None, :, None] for gain in gains]
    others = [recorded(second.harvested * (1 + by), second.late) for by in more]
    return [of_cards(first, one) for one in (times(second, harvest=usual), *others)]


def test_a_card_for_which_another_is_clearly_better_has_it_after_some_days_and_no_other_card():
    _, course = run(daily(1.0, [0.05]))

    # The same gain on four days is two errors: no more than luck may do.
    assert course.chosen[: YOUNG + 5].max() == 0
    assert course.chosen[YOUNG + 5 :].tolist() == [[0, 1]] * (DAYS - YOUNG - 5)


def test_a_card_with_a_little_luck_stays_with_the_rest():
    """A gain of 1.7 errors over all days."""
    _, course = run(daily(1.0, [0.05, -0.0275]))

    assert course.chosen.max() == 0


def test_of_several_a_card_has_the_one_that_is_surely_better_not_the_luckiest():
    sure, lucky = [0.01], [0.05, -0.024]

    _, course = run(daily(1.0, lucky, sure))

    assert course.chosen[-1].tolist() == [0, 2]


def test_a_card_whose_forecaster_is_the_usual_one_again_leaves_its_own():
    gain = [0.05] * (DAYS // 2) + [-0.2] * (DAYS // 2)

    _, course = run(daily(1.0, gain))

    assert course.chosen[DAYS // 2, 1] == 1
    assert course.chosen[-1].tolist() == [0, 0]


@pytest.mark.parametrize(("price", "chosen"), [(10.0, 1), (100.0, 0)])
def test_what_is_better_depends_on_what_a_late_return_costs(price, chosen):
    """The other brings 20 min more a day, by one late return more."""
    brings, late = np.full((1, 10), 500.0), np.zeros((1, 10))
    records = [recorded(brings, late), recorded(brings + 20, late + 1)]

    mix = mixed(records, np.full(10, 2.0), 0, np.array([price]))

    assert mix.chosen.tolist() == [chosen]


def test_the_price_is_the_one_at_which_the_mix_keeps_the_budget():
    """One card's late returns are gone with the forecaster that it has of its own."""
    brings = np.array([[500.0], [100.0]]) * np.ones((2, 10))
    often, never = np.array([[1.0], [0.0]]) * np.ones((2, 10)), np.zeros((2, 10))
    usual = of_cards(recorded(brings * 1.1, never), recorded(brings, often))
    other = of_cards(recorded(brings * 0.5, often), recorded(brings, never))

    mix = mixed([usual, other], np.full(10, 0.2), 0, np.array([50.0, 500.0]))

    assert (mix.chosen.tolist(), mix.number) == ([0, 1], 0)


@pytest.mark.parametrize("traffic", TRAFFIC)
def test_the_budget_of_a_mix_holds_and_is_used(traffic):
    """Two cards of which each has its own best forecaster; 4 a day are allowed for both."""
    bound = 120 + 1.645 * math.sqrt(120)
    spent = []
    for seed in range(8):
        cards = [a_record(TRAFFIC[traffic], 2 * seed + n) for n in range(2)]
        worse = [times(card, harvest=0.7, late=2.0) for card in cards]
        late, course = run([of_cards(cards[0], worse[1]), of_cards(worse[0], cards[1])], 4.0)
        spent.append(late)
        assert course.chosen[-1].tolist() == [0, 1]

    assert np.mean(spent) <= 126
    assert sum(late > bound for late in spent) <= 1
    assert np.mean(spent) >= 96 or traffic not in ("stationary", "weekly")


def test_young_days_lend_nothing_and_the_first_after_them_at_the_dearest_price():
    _, course = run([a_record(TRAFFIC["stationary"])])

    assert course.number[:YOUNG].tolist() == [-1] * YOUNG
    assert course.number[YOUNG] == COUNT - 1


@settings(max_examples=30, deadline=None)
@given(day=st.integers(YOUNG + 1, DAYS - 1), seed=st.integers(0, 99))
def test_no_day_knows_what_comes(day, seed):
    """Another future, and this day's own late returns, change nothing of a day's choices."""
    random = np.random.default_rng(seed)
    cards = [a_record(TRAFFIC["weekly"], seed + card) for card in range(3)]
    plain = of_cards(*cards)
    other = of_cards(
        *(times(card, harvest=by) for card, by in zip(cards, (0.3, 1, 1.3), strict=True))
    )
    noise = random.uniform(0.8, 1.2, other.harvested.shape)
    records = [plain, times(other, harvest=noise)]

    (_, before), (_, after) = run(records), run([later(one, day, random) for one in records])

    assert before.number[: day + 1].tolist() == after.number[: day + 1].tolist()
    assert before.chosen[: day + 1].tolist() == after.chosen[: day + 1].tolist()


def later(record, day, random):
    """The same up to a day, and another future."""
    late, harvested = record.late.copy(), record.harvested.copy()
    late[:, day:] = random.integers(0, 30, late[:, day:].shape)
    harvested[:, day:] *= random.uniform(0, 7, harvested[:, day:].shape)
    return recorded(harvested, late)


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


def gaps(*spans, ended=True, cards=None):
    start, end = (np.array(column) for column in zip(*spans, strict=True))
    return Gaps(
        card=np.array(cards or [0] * len(spans)),
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
    found = tally(gaps((100, 400)), made, Handover(), 0, (1, 1))
    assert (found.harvested[0, 0], found.late[0, 0]) == (178, 0)


def test_demand_in_a_window_is_late_and_ends_it():
    rows, made = windows(judged(gaps((100, 400)), [120], []))

    assert rows == [(120, 400, 405, True)]
    assert tally(gaps((100, 400)), made, Handover(), 0, (1, 1)).harvested[0, 0] == 278


@pytest.mark.parametrize(("closes", "late"), [(395, False), (390, False)])
def test_serving_that_is_just_ready_is_in_time(closes, late):
    rows, _ = windows(judged(gaps((100, 400)), [120], [closes]))

    assert rows == [(120, closes, closes + 5, late)]


def test_demand_while_serving_warms_up_is_late():
    rows, made = windows(judged(gaps((100, 398)), [120], [395]))

    assert rows == [(120, 395, 400, True)]
    assert tally(gaps((100, 398)), made, Handover(), 0, (1, 1)).harvested[0, 0] == 273


def test_demand_while_it_opens_is_late_and_brings_nothing():
    rows, made = windows(judged(gaps((100, 121)), [120], []))

    assert rows == [(120, 121, 126, True)]
    assert tally(gaps((100, 121)), made, Handover(), 0, (1, 1)).harvested[0, 0] == 0


def test_a_gap_can_be_lent_twice_over_a_risky_hour():
    rows, _ = windows(judged(gaps((0, 1000)), [10, 400], [200, 900]))

    assert rows == [(10, 200, 205, False), (400, 900, 905, False)]


def test_idle_time_at_the_end_counts_on_neither_side():
    found = judged(gaps((0, 1000), ended=False), [10], [])
    rows, made = windows(found)

    assert rows == [(10, 1000, 1005, False)]
    told = tally(found.plans.gaps, made, Handover(), 0, (1, 1))
    assert (told.harvested[0, 0], told.late[0, 0]) == (0, 0)


def test_a_window_over_midnight_is_told_by_day():
    span = gaps((DAY - 60, DAY + 60))

    _, made = windows(judged(span, [DAY - 30], [DAY + 30]))

    assert tally(span, made, Handover(), 0, (2, 1)).harvested.tolist() == [[28], [30]]


def test_a_return_after_a_short_gap_is_late_and_no_share_counts_it():
    _, made = windows(judged(gaps((100, 121)), [110], []))

    told = tally(gaps((100, 121)), made, Handover(), 0, (1, 1))

    assert (told.late[0, 0], told.late_counted[0, 0]) == (1, 0)


def test_what_windows_bring_and_cost_is_told_of_their_own_card():
    both = gaps((100, 400), (100, 400), cards=[0, 1])
    found = judged(both, [120], [300])
    found.closes[both.card[found.plans.gap] == 1] = False

    _, made = windows(found)
    told = tally(both, made, Handover(), 0, (2, 3))

    assert told.harvested.tolist() == [[178, 278, 0], [0, 0, 0]]
    assert told.late.tolist() == [[0, 1, 0], [0, 0, 0]]
