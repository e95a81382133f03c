"""One decision rule: what a backtest judges for many cards is what a live pool does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from idlewin.core.forecast import COARSEST, MINUTE, Forecast, outlook
from idlewin.core.load import History
from idlewin.core.stopping import Handover
from idlewin.core.window import Span
from idlewin.forecasters import method
from idlewin.forecasters.ahead import STEP, STEPS, Asked
from idlewin.forecasters.fleet import Card, fleet, place
from idlewin.pricing.judge import judged_on

START = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
COVERS = Span(START, START + 28 * DAY)
HANDOVER = Handover(opening=2.0, warming=7.0)


def a_fleet():
    """Twenty cards whose users come by day, each less often than the one before."""
    random = np.random.default_rng(5)
    zone = place(lambda at: at.astimezone(UTC), COVERS)
    cards = []
    for number in range(20):
        starts = [
            START + day * DAY + hour * timedelta(hours=1) + int(random.integers(50)) * MINUTE
            for day in range(28)
            for hour in range(7, 20)
            if random.random() < 0.6 / (1 + number / 4)
        ]
        busy = tuple(Span(at, at + int(random.integers(3, 25)) * MINUTE) for at in starts)
        cards.append(
            Card(name=f"card-{number}", history=History(covers=COVERS, busy=busy), place=zone)
        )
    return fleet(cards)


@pytest.mark.parametrize("price", [50.0, 400.0, 3000.0])
def test_a_backtest_opens_and_closes_where_the_live_rule_does(price: float):
    seen = a_fleet()
    random = np.random.default_rng(6)
    count = 300
    asked = Asked(
        random.integers(len(seen.cards), size=count),
        seen.until - random.integers(3 * 24 * 60, size=count),
        random.integers(10, 600, size=count),
    )
    model = method("hazard").fit(seen, seen.until - 3 * 24 * 60)
    opens, closes = judged_on(seen, asked, model, np.array([price]), HANDOVER)
    chances = np.exp(-STEP * np.cumsum(model.rates(seen, asked), axis=1))

    same = []
    for row in range(count):
        forecast = Forecast(
            method="hazard",
            made_at=START,
            chances=tuple((STEP * MINUTE * (k + 1), float(chances[row, k])) for k in range(STEPS)),
            rests_on="",
            price=price,
        )
        live = outlook(
            forecast,
            opening=HANDOVER.opening * MINUTE,
            back=HANDOVER.warming * MINUTE,
            least=6 * COARSEST,
        )
        ends = live.back - START - HANDOVER.warming * MINUTE
        judged = np.nonzero(closes[row, :, 0])[0]
        near = judged[0] * STEP * MINUTE if len(judged) else None
        held = closes.shape[1] * STEP * MINUTE
        same.append(live.opens == opens[row, 0, 0] and (ends if ends < held else None) == near)

    # Single precision may turn a tie.
    assert np.mean(same) > 0.99
    assert 0 < opens[:, 0, 0].mean() < 1
