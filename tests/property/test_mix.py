"""Laws of choosing a forecaster for each card: luck chooses few, and only its own past counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from idlewin.pricing.control import Record, mixed

PRICES = np.geomspace(20, 2000, 4)
CARDS = 120


def records(seed, days, forecasters):
    """Forecasters that are worth the same on every card but for luck."""
    random = np.random.default_rng(seed)
    shape = (len(PRICES), days, CARDS)
    late = np.zeros(shape)
    return [
        Record(300 + 30 * random.standard_normal(shape), late, late) for _ in range(forecasters)
    ]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), days=st.integers(1, 28), forecasters=st.integers(2, 3))
def test_luck_alone_gives_few_cards_another_forecaster_than_the_rest(seed, days, forecasters):
    mix = mixed(records(seed, days, forecasters), np.ones(days), 0, PRICES)

    assert (mix.chosen != mix.usual).sum() <= CARDS / 8


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), days=st.integers(14, 28))
def test_a_card_has_the_same_forecaster_whichever_place_it_has(seed, days):
    """With the cards in another order each has what it had."""
    found = records(seed, days, 3)
    order = np.random.default_rng(seed).permutation(CARDS)
    turned = [Record(r.harvested[:, :, order], r.late, r.late) for r in found]

    mix, other = (mixed(one, np.ones(days), 0, PRICES) for one in (found, turned))

    assert mix.chosen[order].tolist() == other.chosen.tolist()
