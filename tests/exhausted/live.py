"""Promise P3: from every state, with faults over and users there, serving comes back.

One leader that never dies goes on from a state, in two orders: the world first, or the leader
first. A leader for whom nothing is due waits, and time passes. What the world may do but need not
(another admission, a next pod) it does not: that is what the bound of P3 is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.exhausted.state import Cluster, epochs_of, ranks, relabelled

if TYPE_CHECKING:
    from tests.exhausted.explore import Explorer

#: A step, in words by itself or to be put in words.
Told = Any
#: Far more steps than any return takes.
STEPS = 120


class Liveness:
    """Which clusters are known to come back."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._good: tuple[set[Cluster], set[Cluster]] = (set(), set())
        self._bad: tuple[set[Cluster], set[Cluster]] = (set(), set())

    def stuck(self, cluster: Cluster) -> tuple[str, list[str]] | None:
        """None where serving comes back; else what is broken, and the way that does not end."""
        begin = _plain(cluster)
        for leads, good, bad in zip((False, True), self._good, self._bad, strict=True):
            way: list[Cluster] = []
            told: list[Told] = []
            now = begin
            while now not in good:
                if now in bad:
                    bad.update(way)
                    return None  # It is told already, by a shorter way.
                if self._explorer.checks.back(now):
                    break
                way.append(now)
                step = self._next(now, leads=leads) if len(way) < STEPS else None
                if step is None or step[1]:
                    bad.update(way)
                    return self._kind(now, step), [
                        "users are there, faults are over",
                        *map(_words, told),
                    ]
                told.append(step[2])
                now = step[0]
            good.update(way)
        return None

    def _kind(self, now: Cluster, step: tuple[Cluster, str, Told] | None) -> str:
        if step is not None:
            return step[1]
        return f"P3: serving does not come back from {self._explorer.statuses.phase(now.status)}"

    def _next(self, now: Cluster, *, leads: bool) -> tuple[Cluster, str, Told] | None:
        """(cluster, broken, words) after the next step; None: nothing moves any more."""
        led, world = self._led(now), self._world(now)
        first, second = (led, world) if leads else (world, led)
        return next((step for step in (*first, *second)), None)

    def _world(self, now: Cluster):
        for step in self._explorer.world.steps(now):
            if step.due:
                yield step.after, step.broken, step.words

    def _led(self, now: Cluster):
        """A whole cycle; the earliest at which anything is due."""
        for plan in self._explorer.cycles.plans(now, users=True):
            if plan.node < 0:
                yield now, plan.words, plan.words
                return
            leader, after, told = self._explorer.goes(plan, fresh=True), now, []
            while leader.node:
                led = self._explorer.write(after, leader)
                after, leader = led.after, led.leader
                told.append(led)
                if led.broken:
                    yield after, led.broken, led.words
                    return
            if _plain(after) != now:
                yield _plain(after), "", (plan, tuple(told))


def _words(told: Told) -> str:
    if isinstance(told, str):
        return told
    plan, writes = told
    return f"leader {plan.words}: " + ", ".join(led.words for led in writes)


def _plain(cluster: Cluster) -> Cluster:
    return relabelled(cluster, ranks(epochs_of(cluster)))
