"""The decision rule: what is best, for chances that a person can follow."""

from __future__ import annotations

import itertools
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from idlewin.core.stopping import Handover, closing, verdicts

STEP = 5.0
QUICK = Handover(opening=5.0, warming=5.0)


def test_what_never_ends_is_lent_at_once_and_not_taken_back():
    found = verdicts([1.0] * 20, 100.0, step=STEP, handover=QUICK)

    assert found.opens[0]
    assert not any(found.closes[:-1])


def test_a_card_is_back_before_demand_that_is_sure_to_come():
    stays = [1.0] * 6 + [0.0] + [1.0] * 6

    found = verdicts(stays, 1000.0, step=STEP, handover=QUICK)

    assert found.opens[0]
    assert closing(found, timedelta(minutes=5)) == timedelta(minutes=25)


def test_a_gap_that_no_window_fits_into_is_not_lent():
    found = verdicts([1.0, 0.0, *[1.0] * 10], 1000.0, step=STEP, handover=QUICK)

    assert not found.opens[0]


def test_a_window_goes_over_a_risky_hour_only_if_late_returns_are_cheap():
    stays = [0.999] * 12 + [0.9] * 12 + [0.999] * 24

    cheap = verdicts(stays, 5.0, step=STEP, handover=QUICK)
    dear = verdicts(stays, 200.0, step=STEP, handover=QUICK)

    assert not any(cheap.closes[:40])
    assert any(dear.closes[:12])
    assert any(dear.opens[20:26])  # and it is lent again behind it


def test_a_long_warming_gives_back_earlier():
    stays = [1.0] * 12 + [0.0] + [1.0] * 6
    slow = Handover(opening=5.0, warming=20.0)

    found = verdicts(stays, 1000.0, step=STEP, handover=slow)

    assert closing(found, timedelta(minutes=5)) == timedelta(minutes=40)


def test_a_handover_of_a_day_is_weighed_too():
    found = verdicts([1.0] * 1440, 1000.0, step=1.0, handover=Handover(opening=1, warming=1440))

    assert len(found.opens) == 1440


@settings(max_examples=60, deadline=None)
@given(
    stays=st.lists(st.sampled_from([1.0, 0.99, 0.9, 0.5]), min_size=5, max_size=7),
    price=st.floats(1.0, 300.0),
)
def test_no_plan_of_windows_is_worth_more(stays, price):
    """The rule against every way to lay windows into the steps, each worth what it is by chance."""
    best = max(_worth(plan, stays, price) for plan in _plans(len(stays)))

    assert _worth(_followed(stays, price), stays, price) == pytest.approx(best, abs=1e-9)


@given(stays=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), price=st.floats(1.0, 1e4))
def test_numbers_and_arrays_take_the_same_path(stays, price):
    alone = verdicts(stays, price, step=STEP, handover=QUICK)
    many = verdicts(
        [np.array([[stay]]) for stay in stays],
        np.array([[price]]),
        step=STEP,
        handover=QUICK,
        larger=np.maximum,
    )

    assert [bool(one) for one in alone.opens] == [bool(one[0, 0]) for one in many.opens]
    assert [bool(one) for one in alone.closes] == [bool(one[0, 0]) for one in many.closes]


def _followed(stays, price):
    """The windows that the rule lays, as (opens, closes) in steps; None: kept to the end."""
    found, windows, k = verdicts(stays, price, step=STEP, handover=QUICK), [], 0
    while k < len(stays):
        if not found.opens[k]:
            k += 1
            continue
        close = next((c for c in range(k + 1, len(stays)) if found.closes[c]), None)
        windows.append((k, close))
        if close is None:
            break
        k = close + 1
    return windows


def _plans(steps):
    yield []
    for count in range(1, steps):
        for edges in itertools.combinations(range(steps + 1), 2 * count):
            pairs = list(zip(edges[::2], edges[1::2], strict=True))
            # The next window begins when serving is back at the earliest.
            if all(b[0] >= a[1] + 1 for a, b in itertools.pairwise(pairs)):
                yield [(o, None if c == steps else c) for o, c in pairs]


def _worth(windows, stays, price):
    """What windows are worth by chance: over each step in which demand may first come."""
    worth, alive = 0.0, 1.0
    for k, stay in enumerate([*stays, 0.0]):
        ends = alive * (1 - stay) if k < len(stays) else alive
        worth += ends * _gained(windows, k, len(stays), price)
        alive *= stay
    return worth


def _gained(windows, demand, steps, price):
    gained = 0.0
    for opens, closes in windows:
        last = steps if closes is None else closes
        ready = steps if closes is None else closes + 1
        if demand < opens:
            break
        gained += STEP * max(min(demand, last) - opens - 1, 0)
        if demand < ready and demand < steps:
            # In its middle, if batch runs by then.
            gained += STEP / 2 if opens + 1 <= demand < last else 0.0
            gained -= price
            break
    return gained
