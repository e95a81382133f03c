"""What goes wrong between a controller and the API server: refusals, silence, lag, sudden ends.

It knows no promise: what must hold is checked elsewhere, by who does not know what went wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from idlewin.core.decision import Action, Outcome, Verdict
from idlewin.core.pool import Scope
from idlewin.ports import LookError
from idlewin.sim.cluster import Crash
from idlewin.sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How likely each fault is, at one write or look."""

    conflict: float = 0.0
    busy: float = 0.0
    """429: too many requests; nothing is written."""
    error: float = 0.0
    """A server error; nothing is written."""
    unheard: float = 0.0
    """A time-out, though it was written."""
    crash_before: float = 0.0
    crash_after: float = 0.0
    freeze: float = 0.0
    """The process stands still before a write, and another takes the lead meanwhile."""
    look: float = 0.0


class Trouble:
    """An Interference that follows rates, while it is on."""

    def __init__(self, world: World, random: Random, rates: Rates) -> None:
        self._world, self._random, self.rates = world, random, rates
        self._lag_until: datetime | None = None
        self._refused: dict[type[Action], datetime] = {}
        self._frozen = False
        self.stale = False
        """The write at hand is one of a process that stood still while another took the lead."""
        self.injected = 0
        """How many faults there were."""

    def quiet(self) -> None:
        """Nothing goes wrong any more."""
        self.rates, self._lag_until = Rates(), None
        self._refused.clear()

    def lag(self, length: timedelta) -> None:
        """Watches fall behind for so long; then they catch up, and everything is looked at."""
        self._lag_until = self._world.clock.now() + length
        self._world.clock.at(self._lag_until, self._caught_up)

    def refuse(self, kind: type[Action], length: timedelta) -> None:
        """Somebody's webhook refuses a kind of write for so long."""
        self._refused[kind] = self._world.clock.now() + length

    def _caught_up(self) -> None:
        for name in self._world.cluster.names():
            self._world.wake(name)

    def looking(self, scope: Scope) -> None:
        """Some looks fail."""
        if self._random.random() < self.rates.look:
            self.injected += 1
            raise LookError(f"pool of {scope.rule}: the API server does not answer; try again")

    def lagging(self) -> bool:
        """Whether watches are behind."""
        return self._lag_until is not None and self._world.clock.now() < self._lag_until

    def before(self, action: Action) -> Outcome | None:
        """Some writes do not reach the API server."""
        now, rates = self._world.clock.now(), self.rates
        self.stale = False
        if (until := self._refused.get(type(action))) and now < until:
            self.injected += 1
            return Outcome(action, Verdict.REFUSED, "403 denied by somebody's webhook")
        if self._roll(rates.crash_before):
            raise Crash
        if not self._frozen and self._roll(rates.freeze):
            self._stand_still()
        if self._roll(rates.conflict):
            return Outcome(action, Verdict.CONFLICT, "409 the object has been modified")
        if self._roll(rates.busy):
            return Outcome(action, Verdict.FAILED, "429 too many requests")
        if self._roll(rates.error):
            return Outcome(action, Verdict.FAILED, "500 etcdserver: request timed out")
        return None

    def after(self, outcome: Outcome) -> Outcome:
        """Some answers do not arrive."""
        if self._roll(self.rates.crash_after):
            raise Crash
        if self._roll(self.rates.unheard):
            return Outcome(outcome.action, Verdict.FAILED, "no answer within the time-out")
        return outcome

    def _roll(self, rate: float) -> bool:
        hit = rate > 0 and self._random.random() < rate
        self.injected += hit
        return hit

    def _stand_still(self) -> None:
        self._frozen = True
        self._world.start_controller()
        length = timedelta(seconds=self._random.uniform(1, 90))
        self._world.clock.run(self._world.clock.now() + length)
        self._frozen, self.stale = False, True
