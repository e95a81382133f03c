"""Who wakes a pool, and when: the wake queue with its timers, its workers, the back-stop tick.

A wake only says "look at this pool". What is done then is the controller's business; nothing in
this file knows a rule, a phase or an outside system. All waits go by the monotonic clock.
"""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Condition, Event, Thread
from typing import Protocol

from idlewin.ports import Clock

#: Nobody waits longer at a time, in seconds.
HOUR = 3600.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often, how many at once, and how soon again."""

    tick: timedelta = timedelta(seconds=15)
    """How often the back-stop looks for pools that are due."""
    workers: int = 4
    """How many pools are looked at at the same time."""
    least_gap: timedelta = timedelta(milliseconds=200)
    """A pool that asks to be looked at again at once is made to wait so long."""
    first_retry: timedelta = timedelta(seconds=1)
    """After an error; doubled with each one in a row."""
    longest_retry: timedelta = timedelta(minutes=2)
    """The longest wait after errors."""


class Timer(Clock, Protocol):
    """What time it is, and a clock that only grows."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...


class Cycles(Protocol):
    """Hears how each look at a pool went."""

    def cycle_done(self, rule: str, seconds: float) -> None:
        """A cycle ended well."""
        ...

    def cycle_failed(self, rule: str, seconds: float) -> None:
        """A cycle raised."""
        ...

    def gone(self, rule: str) -> None:
        """There is no such rule any more."""
        ...


class WakeQueue:
    """Pools that wait to be looked at: each at most once, first come first served.

    One pool is in one pair of hands at a time: a wake for a pool that is being looked at is kept
    until that look has ended. A pool has at most one timer, which puts it in line when it ends.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._changed = Condition()
        self._waiting: OrderedDict[str, float] = OrderedDict()
        self._running: dict[str, float] = {}
        self._timers: dict[str, float] = {}
        self._again: set[str] = set()
        self._closed = False

    def put(self, name: str) -> None:
        """Have a pool looked at, after what is already waiting."""
        with self._changed:
            self._line_up(name)

    def put_at(self, name: str, when: float) -> None:
        """Have a pool looked at at a monotonic instant, instead of when its timer says."""
        with self._changed:
            self._timers[name] = when
            self._changed.notify()  # somebody has to wait for this one

    def forget(self, name: str) -> None:
        """A pool has no timer any more."""
        with self._changed:
            self._timers.pop(name, None)

    def take(self) -> str | None:
        """Wait for a pool; it is the caller's until ``done``. None: the queue is closed."""
        with self._changed:
            while not self._ripe() and not self._closed:
                now = self._monotonic()
                self._changed.wait(min([HOUR, *(at - now for at in self._timers.values())]))
            if self._closed:
                return None
            name, _ = self._waiting.popitem(last=False)
            self._running[name] = self._monotonic()
            return name

    def done(self, name: str) -> None:
        """The look has ended; a wake that came meanwhile puts the pool in line again."""
        with self._changed:
            self._running.pop(name, None)
            again = name in self._again
            self._again.discard(name)
        if again:
            self.put(name)

    def _ripe(self) -> bool:
        """Put those in line whose time has come; whether anybody is in line."""
        now = self._monotonic()
        for name in [name for name, when in self._timers.items() if when <= now]:
            del self._timers[name]
            self._line_up(name)
        return bool(self._waiting)

    def _line_up(self, name: str) -> None:
        if name in self._running:
            self._again.add(name)
        elif name not in self._waiting:
            self._waiting[name] = self._monotonic()
            self._changed.notify()

    def close(self) -> None:
        """Give nothing out any more, and let everybody who waits go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def depth(self) -> int:
        """How many pools wait."""
        with self._changed:
            return len(self._waiting)

    def oldest_wait(self) -> float:
        """How long the first in line has waited, in seconds; 0: nobody waits."""
        with self._changed:
            return self._since(self._waiting).get(next(iter(self._waiting), ""), 0.0)

    def running(self) -> dict[str, float]:
        """The pools that are being looked at, each with for how many seconds."""
        with self._changed:
            return self._since(self._running)

    def _since(self, starts: dict[str, float]) -> dict[str, float]:
        now = self._monotonic()
        return {name: now - start for name, start in starts.items()}


class Wakeups:
    """Looks at each pool when something wakes it, when it asked to be, and at errors again.

    ``cycle`` looks at one pool, and returns when to look again; None: there is nothing to look
    at. ``names`` lists the pools that there are.
    """

    def __init__(
        self,
        cycle: Callable[[str], datetime | None],
        names: Callable[[], Iterable[str]],
        timer: Timer,
        cycles: Cycles,
        pace: Pace | None = None,
        seed: int | None = None,
    ) -> None:
        self._cycle, self._names, self._timer, self._cycles = cycle, names, timer, cycles
        self._pace = pace or Pace()
        self._random = random.Random(seed)  # noqa: S311 - spreads retries, guards nothing
        self.queue = WakeQueue(timer.monotonic)
        self._due: dict[str, float] = {}
        self._errors: dict[str, int] = {}
        self._ticked: float | None = None
        self._stopping = Event()
        self._threads: list[Thread] = []

    def wake(self, name: str) -> None:
        """Have a pool looked at soon; from any thread, as often as you like."""
        self.queue.put(name)

    def wake_all(self) -> bool:
        """Have every pool looked at soon; False: the rules could not be listed."""
        return self._wake_those(lambda _name: True)

    def start(self) -> None:
        """Start the workers and the tick; every pool is looked at once."""
        doing = {f"worker-{n}": self._work for n in range(self._pace.workers)}
        doing["tick"] = self._ticking
        self._threads = [Thread(target=do, name=who, daemon=True) for who, do in doing.items()]
        for thread in self._threads:
            thread.start()

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called; a cycle may look here between two actions."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Begin nothing new; cycles that run are let to end."""
        self._stopping.set()
        self.queue.close()

    def drain(self, timeout: timedelta) -> bool:
        """Stop, and wait for the running cycles; False: some had not ended in time."""
        self.stop()
        end = self._timer.monotonic() + timeout.total_seconds()
        for thread in self._threads:
            thread.join(max(0.0, end - self._timer.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def trouble(self, longest: timedelta) -> tuple[str, ...]:
        """What keeps pools from being looked at, each in a sentence; empty: all is alive."""
        found = [
            f"the cycle of rule {name} has run for {seconds:.0f} s"
            for name, seconds in self.queue.running().items()
            if seconds > longest.total_seconds()
        ]
        dead = sum(not thread.is_alive() for thread in self._threads)
        if self._threads and dead and not self.stopping:
            found.append(f"{dead} of {len(self._threads)} threads have died")
        if (age := self.tick_age()) is not None and age > longest.total_seconds():
            found.append(f"the last tick was {age:.0f} s ago")
        return tuple(found)

    def tick_age(self) -> float | None:
        """Seconds since the back-stop looked last; None: never yet."""
        return None if self._ticked is None else self._timer.monotonic() - self._ticked

    def _ticking(self) -> None:
        while True:
            self._tick()
            if self._stopping.wait(self._pace.tick.total_seconds()):
                return

    def _tick(self) -> None:
        """Wake every pool that is due or was never looked at; a timer can be lost, this cannot."""
        now = self._timer.monotonic()
        if self._wake_those(lambda name: name not in self._due or self._due[name] <= now):
            self._ticked = self._timer.monotonic()

    def _wake_those(self, wanted: Callable[[str], bool]) -> bool:
        try:
            names = list(self._names())
        except Exception:
            log.exception("the rules could not be listed; asked again at the next tick")
            return False
        for name in filter(wanted, names):
            self.wake(name)
        return True

    def _work(self) -> None:
        while (name := self.queue.take()) is not None:
            try:
                self._look(name)
            except Exception:
                log.exception("rule %s: what follows a cycle failed; the tick looks again", name)
            finally:
                self.queue.done(name)

    def _look(self, name: str) -> None:
        start = self._timer.monotonic()
        try:
            again = self._cycle(name)
        except Exception:
            wait = self._retry_after(name)
            log.exception("rule %s: the cycle failed; looked at again in %.1f s", name, wait)
            self._cycles.cycle_failed(name, self._timer.monotonic() - start)
        else:
            self._errors.pop(name, None)
            self._cycles.cycle_done(name, self._timer.monotonic() - start)
            if again is None:
                self._forget(name)
                return
            wait = (again - self._timer.now()).total_seconds()
        self._set_timer(name, max(wait, self._pace.least_gap.total_seconds()))

    def _retry_after(self, name: str) -> float:
        """Seconds to wait after one more error in a row, from half up to the whole of the step."""
        errors = self._errors[name] = self._errors.get(name, 0) + 1
        longest, first = self._pace.longest_retry, self._pace.first_retry
        step = min(longest.total_seconds(), first.total_seconds() * 2 ** min(errors - 1, 30))
        return float(step * self._random.uniform(0.5, 1.0))

    def _set_timer(self, name: str, wait: float) -> None:
        self._due[name] = when = self._timer.monotonic() + wait
        self.queue.put_at(name, when)

    def _forget(self, name: str) -> None:
        self._due.pop(name, None)
        self._errors.pop(name, None)
        self.queue.forget(name)
        self._cycles.gone(name)
