"""What goes wrong between a controller and its world: refusals, silence, lag, sudden ends.

It knows no promise: what must hold is checked elsewhere, by who does not know what went wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random

from idlewin.core.decision import Action, Outcome, Verdict
from idlewin.core.pool import Scope
from idlewin.ports import LookError
from idlewin.sim.cluster import Crash
from idlewin.sim.kinds import FaultKind
from idlewin.sim.process import Process
from idlewin.sim.world import World

#: How likely each fault of a single request is.
Rates = Mapping[FaultKind, float]
#: A request is given up after so long; a dead connection of watches is noticed after so long.
CALL, SILENCE = timedelta(seconds=15), timedelta(seconds=100)
#: A holder believes in its Lease for so long, by a clock that stands still with its machine.
BELIEF = timedelta(seconds=12)
APART = timedelta(hours=1)
_REFUSALS = {
    FaultKind.CONFLICT: (Verdict.CONFLICT, "409 the object has been modified"),
    FaultKind.BUSY: (Verdict.FAILED, "429 too many requests"),
    FaultKind.ERROR: (Verdict.FAILED, "500 etcdserver: request timed out"),
}
NO_ANSWER = "no answer within the time-out"


class Trouble:
    """An Interference that follows rates, and faults that last for a while."""

    def __init__(self, world: World, random: Random, rates: Rates) -> None:
        self._world, self._random, self.rates = world, random, rates
        self._until: dict[FaultKind, datetime] = {}
        self._refused: dict[type[Action], datetime] = {}
        self._asleep = False
        self._right: set[Process | None] = set()
        """Whose last answer was of an API server whose clock is right."""
        self.hits: Counter[tuple[FaultKind, str]] = Counter()
        """How often each kind hit a pool in each phase."""
        world.on_cycle.append(lambda _name, decision: None if decision else self._lasting())

    @property
    def injected(self) -> int:
        """How many faults there were."""
        return self.hits.total()

    def quiet(self) -> None:
        """Nothing goes wrong any more."""
        self.rates = {}
        self._until.clear()
        self._refused.clear()
        for process in self._world.others:
            process.stop()
        self._world.others.clear()
        self._caught_up()

    # -- what lasts

    def begin(self, kind: FaultKind, length: timedelta) -> None:
        """Something of a connection, of watches or of the machine is wrong for so long."""
        self._until[kind] = self._world.clock.now() + length
        self._world.clock.at(self._until[kind], self._caught_up)

    def refuse(self, kind: type[Action], length: timedelta) -> None:
        """Somebody's webhook refuses a kind of write for so long."""
        self._refused[kind] = self._world.clock.now() + length

    def hit(self, kind: FaultKind, rule: str) -> None:
        """A fault was there for a pool."""
        self.hits[kind, self._phase(rule)] += 1

    def _phase(self, rule: str) -> str:
        stored = self._world.objects.rules.get(rule)
        return stored.status.phase if stored and stored.status else "Serving"

    def _on(self, kind: FaultKind) -> bool:
        until = self._until.get(kind)
        return until is not None and self._world.clock.now() < until

    def _lasting(self) -> None:
        """A cycle begins: whatever is wrong now hits it."""
        world, rule = self._world, self._world.acting_on
        kinds = [kind for kind in self._until if self._on(kind)]
        if world.acting and (by := world.acting.machine.stepped):
            kinds.append(FaultKind.CLOCK_AHEAD if by > timedelta() else FaultKind.CLOCK_BACK)
        if world.others:
            kinds.append(FaultKind.TWO_LEADERS)
        mine = [t.ref for t in world.objects.deployments.values() if t.pool == rule]
        kinds += world.metrics.wrong(mine)
        for kind in dict.fromkeys(kinds):
            self.hit(kind, rule)

    def _caught_up(self) -> None:
        for name in self._world.cluster.names():
            self._world.wake(name)

    # -- watches, looks, CPU

    def lagging(self) -> bool:
        """Whether watches are behind."""
        return self._on(FaultKind.LAG) or self.deaf()

    def deaf(self) -> bool:
        """Whether watches tell nothing."""
        return any(map(self._on, (FaultKind.DROPPED, FaultKind.GONE, FaultKind.HALF_OPEN)))

    def starved(self) -> float:
        """Seconds by which a look is late."""
        return self._random.uniform(0, 90) if self._on(FaultKind.STARVED) else 0.0

    def apart(self) -> float:
        """Of two API servers one is wrong by an hour. They answer by turns, the right one first."""
        who = self._world.acting
        if self._on(FaultKind.CLOCKS_APART) and who in self._right:
            self._right.discard(who)
            return APART.total_seconds()
        self._right.add(who)
        return 0.0

    def looking(self, scope: Scope, *, fresh: bool) -> None:
        """Some looks fail."""
        if fresh and self._on(FaultKind.HALF_OPEN):
            self._pass(CALL)
            raise LookError(f"pool of {scope.rule}: {NO_ANSWER}; try again")
        if self._roll(FaultKind.LOOK):
            raise LookError(f"pool of {scope.rule}: the API server does not answer; try again")

    # -- writes

    def before(self, action: Action) -> Outcome | None:
        """Some writes do not reach the API server."""
        if (until := self._refused.get(type(action))) and self._world.clock.now() < until:
            self.hit(FaultKind.REFUSED, self._world.acting_on)
            return Outcome(action, Verdict.REFUSED, "403 denied by somebody's webhook")
        if self._roll(FaultKind.KILL_BEFORE):
            raise Crash
        if self._on(FaultKind.STARVED):
            self._pass(timedelta(seconds=self._random.uniform(0, 20)))
        self._sleep()
        for kind, (verdict, text) in _REFUSALS.items():
            if self._roll(kind):
                return Outcome(action, verdict, text)
        half_open = self._on(FaultKind.HALF_OPEN) and self._random.random() < 0.5
        if half_open or self._roll(FaultKind.LOST):
            self._pass(CALL)
            return Outcome(action, Verdict.FAILED, NO_ANSWER)
        return None

    def after(self, outcome: Outcome) -> Outcome:
        """Some answers do not arrive."""
        if self._roll(FaultKind.KILL_AFTER):
            raise Crash
        if self._on(FaultKind.HALF_OPEN) or self._roll(FaultKind.UNHEARD):
            self._pass(CALL)
            return Outcome(outcome.action, Verdict.FAILED, NO_ANSWER)
        return outcome

    def _roll(self, kind: FaultKind) -> bool:
        rate = self.rates.get(kind, 0.0)
        hit = rate > 0 and self._random.random() < rate
        if hit:
            self.hit(kind, self._world.acting_on)
        return hit

    def _pass(self, length: timedelta) -> None:
        """The world goes on below a call that waits."""
        self._world.clock.run(self._world.clock.now() + length)

    def _sleep(self) -> None:
        """The process stands still before a write, and another takes the lead meanwhile.

        Its write, sent already, comes late. Where its whole machine stood still, its monotonic
        clock did too: for a while it leads on, beside the other.
        """
        if self._asleep:
            return
        frozen, both = self._roll(FaultKind.FROZEN), self._roll(FaultKind.TWO_LEADERS)
        if not frozen and not both:
            return
        world, sleeper = self._world, self._world.acting
        self._asleep = True
        world.start_controller(alone=not both)
        length = timedelta(seconds=self._random.uniform(1, 90))
        self._pass(length)
        self._asleep = False
        if both and sleeper is not None:
            sleeper.machine.stood += length
            belief = self._random.uniform(0, BELIEF.total_seconds())
            world.clock.after(belief, lambda: world.ended(sleeper))
