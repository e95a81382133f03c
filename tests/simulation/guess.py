"""A forecaster that knows the future about right: now and then it is far off."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

from idlewin.core.forecast import Forecast
from idlewin.core.load import History
from idlewin.core.rule import Rule
from idlewin.sim.world import World

HORIZON = timedelta(hours=24)


class Guess:
    """Wrong in the same way within one gap; a new mistake in each tenth of an hour."""

    name = "guess"

    def __init__(self, world: World, rule: Rule) -> None:
        self._world, self._rule = world, rule

    def forecast(
        self,
        history: History,  # noqa: ARG002 - the future is enough
        now: datetime,
        idle_since: datetime,  # noqa: ARG002
    ) -> Forecast:
        demand = self._world.metrics.demand
        refs = [serving.ref for serving in self._rule.serving if serving.ref in demand]
        changes = [change for ref in refs if (change := demand[ref].next_change(now))]
        back = min(changes, default=now + HORIZON)
        random = Random(f"{self._world.seed} {int(now.timestamp()) // 360}")
        wrong = random.choice((1.0, 1.0, 1.0, 0.9, 1.2, 3.0, 0.1))
        left = min((back - now) * wrong, HORIZON)
        return Forecast(
            method=self.name,
            made_at=now,
            chances=((left, 1.0),) if left > timedelta() else (),
            rests_on="the future, seen dimly",
            ready=random.random() > 0.02,
        )
