"""The Cluster port over simulated objects, and the seam at which faults and checkers sit.

What lies between us and the API server is an ``Interference``; who only watches is a ``Witness``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from idlewin.core.decision import Action, Decision, Outcome, SetStopPolicy, Verdict
from idlewin.core.pool import Pool, Queue, RuleObject, Scope, StopPolicy
from idlewin.sim.objects import Objects
from idlewin.sim.view import pool_of, rule_object
from idlewin.sim.writes import Writes


class Interference(Protocol):
    """What can go wrong between a controller and the API server."""

    def looking(self, scope: Scope, *, fresh: bool) -> None:
        """Before a look. May raise LookError."""
        ...

    def lagging(self) -> bool:
        """Whether the watches have fallen behind: looks that are not fresh show what they had."""
        ...

    def deaf(self) -> bool:
        """Whether changes wake nobody: a watch has died, and that was not noticed yet."""
        ...

    def starved(self) -> float:
        """Seconds by which the next look at a pool is late, for want of CPU."""
        ...

    def apart(self) -> float:
        """Seconds by which the clock of the API server that answers is off."""
        ...

    def before(self, action: Action) -> Outcome | None:
        """Before a write: an outcome instead of it, or None. May raise Crash."""
        ...

    def after(self, outcome: Outcome) -> Outcome:
        """After a write: what the controller hears of it. May raise Crash."""
        ...


class Calm:
    """Nothing goes wrong."""

    def looking(self, scope: Scope, *, fresh: bool) -> None:
        """Looks succeed."""

    def lagging(self) -> bool:
        """Watches are up to date."""
        return False

    def deaf(self) -> bool:
        """Watches tell."""
        return False

    def starved(self) -> float:
        """There is CPU enough."""
        return 0.0

    def apart(self) -> float:
        """Its clock is right."""
        return 0.0

    def before(self, action: Action) -> Outcome | None:  # noqa: ARG002 - the seam's shape
        """Writes go through."""
        return None

    def after(self, outcome: Outcome) -> Outcome:
        """Answers arrive."""
        return outcome


class Witness(Protocol):
    """Sees everything that is done to the cluster, and changes nothing."""

    def looked(self, scope: Scope, pool: Pool, *, fresh: bool) -> None:
        """A look was answered."""
        ...

    def writing(self, action: Action) -> None:
        """A write is about to be carried out."""
        ...

    def wrote(self, outcome: Outcome) -> None:
        """A write was carried out, or refused: what really became of it."""
        ...


class Crash(BaseException):
    """The controller's process ends here."""


_Policy = tuple[StopPolicy, str, datetime | None]


def _policy(queue: Queue) -> _Policy:
    return (queue.stop_policy, queue.stop_writer, queue.stop_written_at)


class SimCluster:
    """Rules, queues, serving and pods of a simulated cluster: the ports Cluster and Wake."""

    def __init__(self, objects: Objects, writes: Writes) -> None:
        self._objects, self._writes = objects, writes
        self._seen: dict[tuple[object, ...], Pool] = {}
        self._rules_seen: dict[str, RuleObject | None] = {}
        self._shown: dict[str, _Policy] = {}
        self.interference: Interference = Calm()
        self.witnesses: list[Witness] = []
        self.announced: list[Decision] = []
        self.answered: Callable[[], object] = lambda: None
        """Told of each answer of the API server."""

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        rules = sorted(self._objects.rules.values(), key=lambda rule: (rule.created_at, rule.name))
        return [rule.name for rule in rules]

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored; as the watch last saw it, where that lags."""
        if self.interference.lagging() and name in self._rules_seen:
            return self._rules_seen[name]
        stored = self._objects.rules.get(name)
        seen = self._rules_seen[name] = rule_object(stored) if stored is not None else None
        return seen

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows; what it showed, where watches lag and no fresh look is asked."""
        self.interference.looking(scope, fresh=fresh)
        key = (scope.rule, scope.targets, scope.queues, scope.resource)
        pool = self._seen.get(key)
        if fresh:
            self.answered()
        if fresh or pool is None or not self.interference.lagging():
            pool = pool_of(self._objects, scope)
            if not self.interference.lagging():
                self._seen[key] = pool
        self._shown |= {queue.name: _policy(queue) for queue in pool.queues}
        for witness in self.witnesses:
            witness.looked(scope, pool, fresh=fresh)
        return pool

    def apply(self, action: Action) -> Outcome:
        """Carry out one action, or say what went wrong. Raises Crash where one was planned."""
        if (instead := self.interference.before(action)) is not None:
            return instead
        for witness in self.witnesses:
            witness.writing(action)
        outcome = self._changed(action) or self._writes.carry_out(action)
        self._note(outcome)
        for witness in self.witnesses:
            witness.wrote(outcome)
        heard = self.interference.after(outcome)
        if heard is outcome:
            self.answered()
        return heard

    def _changed(self, action: Action) -> Outcome | None:
        """What holds only for a queue that still is as the last look showed it.

        That is an opening, and a closing over a stop that is not ours.
        """
        if not isinstance(action, SetStopPolicy):
            return None
        stored = self._objects.queues.get(action.queue)
        if stored is None or stored.uid != action.uid:
            return None
        now = (stored.stop_policy, stored.writer, stored.wrote_at)
        if now == self._shown.get(action.queue, now):
            return None
        text = f"{stored.writer} has written it meanwhile"
        if action.policy is StopPolicy.NONE:
            return Outcome(action, Verdict.REFUSED, text)
        if stored.stop_policy not in (StopPolicy.NONE, stored.left):
            return Outcome(action, Verdict.CONFLICT, text)
        return None

    def _note(self, outcome: Outcome) -> None:
        """Our own write is no surprise to us."""
        action = outcome.action
        if isinstance(action, SetStopPolicy) and outcome.verdict is Verdict.DONE:
            stored = self._objects.queues[action.queue]
            self._shown[action.queue] = (stored.stop_policy, stored.writer, stored.wrote_at)

    def anew(self) -> SimCluster:
        """The same cluster for a new process: what this one has seen is forgotten."""
        cluster = SimCluster(self._objects, self._writes)
        cluster.interference, cluster.witnesses = self.interference, self.witnesses
        cluster.announced = self.announced
        return cluster

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        """What the API server would refuse of some writes, by its webhooks as they are."""
        return self._writes.rehearse(actions)

    def announce(self, decision: Decision) -> None:
        """Keep a change of phase."""
        self.announced.append(decision)

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call ``wake`` with a rule's name whenever something of its pool changes."""
        self._objects.listeners.append(wake)
