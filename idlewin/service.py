"""One controller process: what is started, in which order, and how it ends.

Nothing acts before all watches are synced, and it ends between two actions. Which adapters these
parts are is the wiring's business.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event, Thread
from typing import Protocol

from idlewin.core.decision import Decision
from idlewin.ports import Lease
from idlewin.wakeups import Cycles, Wakeups

#: How long the running cycles may take to end; a pod's usual grace is 30 s.
DRAIN = timedelta(seconds=20)
#: A cycle that takes longer is stuck: all of its calls have limits that end well before.
LONGEST_CYCLE = timedelta(minutes=5)
#: A tick that is later by so much says that the timers do not run.
LATE_TICK = timedelta(minutes=1)
SYNC_STEP = timedelta(seconds=1)
log = logging.getLogger(__name__)


class Watching(Protocol):
    """What is watched: the cluster, beside its port."""

    def start(self) -> None:
        """Begin to watch."""
        ...

    def stop(self) -> None:
        """End the watches."""
        ...

    def wait_synced(self, timeout: timedelta) -> bool:
        """Whether everything was listed once, within a time."""
        ...

    def trouble(self) -> tuple[str, ...]:
        """What is not watched as it should be."""
        ...

    def missing(self) -> tuple[str, ...]:
        """What the cluster does not know and no work can be done without."""
        ...

    def absent(self) -> tuple[str, ...]:
        """The same, and what only lending needs."""
        ...

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call ``wake`` with a rule's name whenever something of its pool changed."""
        ...


class Part(Protocol):
    """Something with a beginning and an end."""

    def start(self) -> None:
        """Begin."""
        ...

    def stop(self) -> None:
        """End."""
        ...


class Held(Part, Protocol):
    """A lease with a beginning and an end."""

    def held(self) -> bool:
        """Whether we may write now."""
        ...

    def known(self) -> bool:
        """Whether it is known lately whose it is."""
        ...

    def subscribe(self, taken: Callable[[], object]) -> None:
        """Call ``taken`` whenever it has become ours."""
        ...


class AloneLease:
    """Who may act, where nobody else runs."""

    def start(self) -> None:
        """Nothing to ask for."""

    def stop(self) -> None:
        """Nothing to give up."""

    def held(self) -> bool:
        """Always."""
        return True

    def known(self) -> bool:
        """Always."""
        return True

    def subscribe(self, _taken: Callable[[], object]) -> None:
        """It is ours from the beginning."""


class Stoppable:
    """A lease that is not held any more once ``stop`` was called: a cycle ends at its next action.

    It is given to the controller; the lease itself is given up after the last cycle.
    """

    def __init__(self, lease: Lease) -> None:
        self._lease, self._stopped = lease, Event()

    def held(self) -> bool:
        """Whether we may write now."""
        return not self._stopped.is_set() and self._lease.held()

    def stop(self) -> None:
        """Let no other action begin."""
        self._stopped.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a process is made of."""

    wakeups: Wakeups
    watching: Watching
    may_act: Stoppable
    lease: Held
    endpoint: Callable[[Service], Part]
    """Makes what answers for the service."""
    last: Sequence[Callable[[], None]] = field(default=())
    """What is closed at the very end, in this order."""


def in_background(task: Callable[[], None]) -> None:
    """Learn beside the cycles; what is not done at the end is done again at the next start."""
    Thread(target=task, name="learning", daemon=True).start()


class Service:
    """Runs until it is stopped."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._endpoint = parts.endpoint(self)
        self._stopping, self._synced = Event(), False

    def run(self) -> bool:
        """Start, work until ``stop``, and end; False: a cycle had not ended in time."""
        parts = self._parts
        self._endpoint.start()
        parts.watching.start()
        parts.lease.start()
        try:
            while not self._stopping.is_set() and not self._synced:
                self._synced = parts.watching.wait_synced(SYNC_STEP)
            if self._synced and not self._stopping.is_set():
                log.info("all watches are synced; work begins")
                for sentence in parts.watching.absent():
                    log.warning("%s", sentence)
                parts.watching.subscribe(parts.wakeups.wake)
                # What a dead leader left is not looked at only at the next tick.
                parts.lease.subscribe(parts.wakeups.wake_all)
                parts.wakeups.start()
                self._stopping.wait()
        finally:
            ended = self._end()
        return ended

    def stop(self) -> None:
        """End between two actions; from any thread, or a signal's handler."""
        self._parts.may_act.stop()
        self._stopping.set()

    def trouble(self) -> tuple[str, ...]:
        """Why the process should be restarted, in sentences; empty: it is alive."""
        return self._parts.wakeups.trouble(LONGEST_CYCLE)

    def missing(self) -> tuple[str, ...]:
        """What is missing before it does its work, in sentences; empty: it is ready."""
        if self._stopping.is_set():
            return ("it is being stopped",)
        found = [f"not in sight: {line}" for line in self._parts.watching.trouble()]
        if not self._synced:
            return (*found, "the watches are not synced yet")
        found += self._parts.watching.missing()
        if not self._parts.lease.known():
            found.append("the API server does not say who holds the Lease")
        age = self._parts.wakeups.tick_age()
        if age is None:
            found.append("no tick yet")
        elif age > LATE_TICK.total_seconds():
            found.append(f"the last tick was {age:.0f} s ago")
        return tuple(found)

    def _end(self) -> bool:
        log.info("stopping: no action is begun any more")
        self.stop()
        ended = self._parts.wakeups.drain(DRAIN)
        if not ended:
            log.warning("a cycle has not ended within %.0f s", DRAIN.total_seconds())
        self._parts.lease.stop()
        self._endpoint.stop()
        self._parts.watching.stop()
        for close in self._parts.last:
            close()
        log.info("stopped")
        return ended


def due_after(cycle: Callable[[str], Decision | None]) -> Callable[[str], datetime | None]:
    """A cycle as the wake-ups want it: when to look again."""

    def look(name: str) -> datetime | None:
        decision = cycle(name)
        return None if decision is None else decision.revisit_at

    return look


class Hearers:
    """Several that hear how cycles go; ``forget`` is called with a rule's name when it is gone."""

    def __init__(self, cycles: Cycles, *forget: Callable[[str], None]) -> None:
        self._cycles, self._forget = cycles, forget

    def cycle_done(self, rule: str, seconds: float) -> None:
        """A cycle ended well."""
        self._cycles.cycle_done(rule, seconds)

    def cycle_failed(self, rule: str, seconds: float) -> None:
        """A cycle raised."""
        self._cycles.cycle_failed(rule, seconds)

    def gone(self, rule: str) -> None:
        """There is no such rule any more, or another process leads."""
        self._cycles.gone(rule)
        for forget in self._forget:
            forget(rule)
