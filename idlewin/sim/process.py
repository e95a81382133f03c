"""A controller's process in a world: its lease, its machine, its watches, and who wakes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from idlewin.core.decision import Decision
from idlewin.ports import Clock, LookError
from idlewin.sim.clock import Timeline, Timer
from idlewin.sim.cluster import Crash

if TYPE_CHECKING:
    from idlewin.sim.world import World

#: The least time from one look at a pool to the next that it asks for.
LEAST_GAP = timedelta(seconds=1)


class Cycles(Protocol):
    """What the world wants of a controller."""

    def cycle(self, name: str) -> Decision | None:
        """One pool, once."""
        ...


class SimLease:
    """Who may act: held, until somebody takes it."""

    def __init__(self) -> None:
        self.mine = True

    def held(self) -> bool:
        """Whether we may write now."""
        return self.mine


class Machine:
    """The clocks of the machine that a process runs on; the world's time, but for what is wrong."""

    def __init__(self, timeline: Timeline, off: timedelta, rate: float) -> None:
        """``off``: what its wall clock is wrong by; ``rate``: how fast its monotonic clock goes."""
        self._timeline, self._began = timeline, timeline.now()
        self._off, self._rate = off, rate
        self.stepped = timedelta()
        """By how much its wall clock was set otherwise."""
        self.stood = timedelta()
        """How long it stood still; its monotonic clock did too."""
        self.clock: Clock = timeline
        """What the process on it goes by."""

    def now(self) -> datetime:
        """What its wall clock shows."""
        return self._timeline.now() + self._off + self.stepped

    def monotonic(self) -> float:
        """Seconds that only grow."""
        passed = self._timeline.now() - self._began - self.stood
        return passed.total_seconds() * self._rate


class Process:
    """One process. Its pools are looked at as wakeups.py would have it.

    A pool is in one pair of hands at a time: a wake that comes while it is looked at, as time
    passes below a slow or a frozen cycle, is kept until that look has ended.
    """

    def __init__(self, world: World, make: Callable[[World, SimLease], Cycles]) -> None:
        self.lease, self.machine, self.cluster = world.lease, world.machine, world.cluster
        self._world, self.controller = world, make(world, self.lease)
        self._timers: dict[str, Timer] = {}
        self._looking: set[str] = set()
        self._again: set[str] = set()
        self.running = True

    def wake(self, name: str, within: float) -> None:
        """Have a pool looked at, within so many seconds."""
        world = self._world
        self._look_at(name, world.clock.now() + timedelta(seconds=world.random.uniform(0, within)))

    def stop(self) -> None:
        """It ends; nobody looks any more."""
        self.running = self.lease.mine = False

    def _look_at(self, name: str, when: datetime) -> None:
        when += timedelta(seconds=self.cluster.interference.starved())
        timer = self._timers.get(name)
        if timer is not None and not timer.cancelled and timer.when <= when:
            return
        if timer is not None:
            timer.cancel()
        self._timers[name] = self._world.clock.at(when, lambda: self._cycle(name))

    def _cycle(self, name: str) -> None:
        self._timers.pop(name, None)
        if name in self._looking:
            self._again.add(name)
        elif self.running:
            self._looking.add(name)
            with self._world.acts(self, name):
                self._look(name)
            self._looking.discard(name)
            if name in self._again:
                self._again.discard(name)
                self._look_at(name, self._world.clock.now() + LEAST_GAP)

    def _look(self, name: str) -> None:
        world = self._world
        world.cycle_begins(name)
        try:
            decision = self.controller.cycle(name)
        except Crash:
            world.ended(self)
            return
        except LookError:
            self.wake(name, 5.0)
            return
        if decision is not None:
            world.cycle_ended(name, decision)
            # A timer counts from now on: what a clock does meanwhile does not move it.
            wait = decision.revisit_at - self.machine.clock.now()
            self._look_at(name, world.clock.now() + max(wait, LEAST_GAP))
