"""The fleet of the benchmark: the packaged cards, turned."""

from __future__ import annotations

import numpy as np

from tests.bench.fleet import DAYS, cost, resampled

CARDS = 300


def test_a_resampled_fleet_has_the_demand_of_the_traces_and_is_the_same_each_time():
    found, again = resampled(CARDS), resampled(CARDS)
    minutes = np.bincount(found.card, found.busy_to - found.busy_from, CARDS)

    assert (found.busy_from == again.busy_from).all()
    assert (found.busy_from[1:] > found.busy_to[:-1])[found.card[1:] == found.card[:-1]].all()
    assert found.start <= found.busy_from.min()
    assert found.busy_to.max() <= found.until == found.start + DAYS * 24 * 60
    # 198 cards are packaged; then they come again, turned.
    assert (minutes[198:] == minutes[: CARDS - 198]).all()
    assert (found.busy_from[found.card == 0][:9] != found.busy_from[found.card == 198][:9]).any()
    assert found.group[0] != found.group[198]


def test_the_benchmark_runs():
    told = cost("hazard", 20)

    assert min(told.fit, told.plan, told.one) > 0
    assert told.memory >= told.before > 0
