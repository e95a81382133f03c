"""Giving back without a controller: a cluster in which rules are paused, and demand is not asked.

The intent lives in memory only, so it needs nothing of the rule's spec, which may be unreadable.
Everything that a return rests on is the window on record; this adds no way of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta

from idlewin.core.decision import Action, Decision, Outcome
from idlewin.core.load import History, Reading
from idlewin.core.pool import Pool, RuleObject, Scope
from idlewin.core.rule import Rule
from idlewin.core.window import Span
from idlewin.ports import Clock, Cluster

_WHY = "not asked: cards are only given back here"


class Returning:
    """A cluster whose named rules look paused; all else is as it is."""

    def __init__(self, cluster: Cluster, rules: Collection[str]) -> None:
        self._cluster, self._paused = cluster, frozenset(rules)

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        return self._cluster.names()

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored, but paused."""
        stored = self._cluster.rule(name)
        if stored is None or stored.rule is None or name not in self._paused:
            return stored
        return replace(stored, rule=replace(stored.rule, paused=True))

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Raises LookError."""
        return self._cluster.look(scope, fresh=fresh)

    def apply(self, action: Action) -> Outcome:
        """Carry out one action."""
        return self._cluster.apply(action)

    def rehearse(self, actions: Sequence[Action]) -> str:
        """Ask the API server by dry run."""
        return self._cluster.rehearse(actions)

    def announce(self, decision: Decision) -> None:
        """Tell a change of phase as a Kubernetes Event."""
        self._cluster.announce(decision)


class UnaskedMetrics:
    """Demand that nobody asks for: all of it is unknown, which never opens a window."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def read(self, rule: Rule) -> tuple[Reading, ...]:
        """One unknown reading for each target."""
        return tuple(
            Reading(
                target=str(serving.ref),
                name="demand",
                value=None,
                busy_above=0,
                visible_at_zero=True,
                why=_WHY,
            )
            for serving in rule.serving
        )

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:  # noqa: ARG002
        """A past of which nothing is known."""
        now = self._clock.now()
        covers = Span(now - past, now)
        return History(covers=covers, unknown=(covers,))
