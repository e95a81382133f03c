"""A cluster that is looked at for real, and to which nothing is ever written.

What would be written is kept. The status is remembered in memory, so that the phase goes on; the
pool itself does not move, so a dry run shows the first step of a handover and then waits for
serving to leave, until it is overdue. The rest is for replay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Protocol

from idlewin.core.decision import (
    Action,
    Decision,
    HoldRule,
    Outcome,
    ReleaseRule,
    Remember,
    Verdict,
)
from idlewin.core.pool import Pool, RuleObject, Scope

#: Writes that are kept; older ones are forgotten.
KEPT = 1000


class Reads(Protocol):
    """The half of a Cluster that looks. A recorder holds nothing that can write."""

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        ...

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored."""
        ...

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Raises LookError."""
        ...


class Recorder:
    """The port Cluster over a cluster's reads: every write is said to be done, and only kept."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._lock = Lock()
        self._remembered: dict[str, RuleObject] = {}
        self._written: deque[Action] = deque(maxlen=KEPT)

    @property
    def written(self) -> tuple[Action, ...]:
        """What would have been written, oldest first."""
        with self._lock:
            return tuple(self._written)

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        names = self._reads.names()
        with self._lock:
            for gone in self._remembered.keys() - set(names):
                del self._remembered[gone]
        return names

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored, with the status and the finalizer that it would have."""
        stored = self._reads.rule(name)
        with self._lock:
            kept = self._remembered.get(name)
            if stored is None or kept is None or kept.uid != stored.uid:
                self._remembered.pop(name, None)
                return stored
        return replace(
            stored, status=kept.status, status_error=kept.status_error, finalizer=kept.finalizer
        )

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Raises LookError."""
        return self._reads.look(scope, fresh=fresh)

    def apply(self, action: Action) -> Outcome:
        """Keep one action; it counts as done."""
        with self._lock:
            self._written.append(action)
        version = ""
        match action:
            case Remember(rule=name, resource_version=version, status=status):
                self._remember(name, status=status, status_error="")
            case HoldRule(rule=name):
                self._remember(name, finalizer=True)
            case ReleaseRule(rule=name):
                self._remember(name, finalizer=False)
            case _:
                pass
        return Outcome(action, Verdict.DONE, "not sent: dry run", version)

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:  # noqa: ARG002 - the port
        """Nothing is asked, so nothing is refused."""
        return ()

    def announce(self, decision: Decision) -> None:
        """No Event is written; the journal has it."""

    def _remember(self, name: str, **changes: object) -> None:
        now = self.rule(name)
        if now is not None:
            with self._lock:
                self._remembered[name] = replace(now, **changes)  # type: ignore[arg-type]
