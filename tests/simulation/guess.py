"""A forecaster that knows the future about right: now and then it is far off."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from idlewin.core.forecast import Forecast
from idlewin.core.load import History
from idlewin.core.pool import RuleObject
from idlewin.forecasters.oracle import NEVER_LATE
from idlewin.sim.world import World

HORIZON = timedelta(hours=24)


class Guess:
    """Wrong in the same way within one gap; a new mistake in each tenth of an hour."""

    def __init__(self, world: World) -> None:
        self._world = world

    def forecast(
        self,
        rule: RuleObject,
        history: History,  # noqa: ARG002 - the future is enough
        now: datetime,
        idle_since: datetime,  # noqa: ARG002
    ) -> Forecast:
        demand = self._world.metrics.demand
        named = rule.rule.serving if rule.rule else ()
        refs = [serving.ref for serving in named if serving.ref in demand]
        changes = [change for ref in refs if (change := demand[ref].next_change(now))]
        back = min(changes, default=now + HORIZON)
        random = Random(f"{self._world.seed} {int(now.timestamp()) // 360}")
        wrong = random.choice((1.0, 1.0, 1.0, 0.9, 1.2, 3.0, 0.1))
        left = min((back - now) * wrong, HORIZON)
        return Forecast(
            method="guess",
            made_at=now,
            chances=((left, 1.0),) if left > timedelta() else (),
            rests_on="the future, seen dimly",
            ready=random.random() > 0.02,
            price=NEVER_LATE,
        )
