"""Giving back without a controller: a cluster in which rules are paused, and demand is not asked.

The intent lives in memory only, so it needs nothing of the rule's spec, which may be unreadable.
Everything that a return rests on is the window on record; this adds no way of its own. A rule that
is gone, and whose marks are still about, is stood in for: its targets' records are all it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from idlewin.core.decision import Action, Decision, Outcome, Remember, Verdict
from idlewin.core.forecast import Forecast
from idlewin.core.load import History, Reading
from idlewin.core.pool import Pool, RuleObject, Scope
from idlewin.core.rule import Rule
from idlewin.core.status import Status
from idlewin.core.window import Span
from idlewin.ports import Clock, Cluster

_WHY = "not asked: cards are only given back here"


class Returning:
    """A cluster whose named rules look paused; all else is as it is.

    ``gone``: rules that are no more. While they are not made anew they look as if they were being
    deleted, and what would be their status is kept here.
    """

    def __init__(
        self, cluster: Cluster, rules: Collection[str], gone: Collection[str] = ()
    ) -> None:
        self._cluster, self._paused = cluster, frozenset(rules)
        self._gone: dict[str, Status | None] = dict.fromkeys(gone)

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        return self._cluster.names()

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored, but paused; one that is gone by its marks."""
        stored = self._cluster.rule(name)
        if stored is None and name in self._gone:
            return RuleObject(
                name=name,
                uid="",
                generation=0,
                resource_version="",
                rule=None,
                error="it is gone",
                status=self._gone[name],
                deleting=True,
            )
        if stored is None or stored.rule is None or name not in self._paused:
            return stored
        return replace(stored, rule=replace(stored.rule, paused=True))

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Raises LookError."""
        return self._cluster.look(scope, fresh=fresh)

    def apply(self, action: Action) -> Outcome:
        """Carry out one action."""
        lost = isinstance(action, Remember) and self._cluster.rule(action.rule) is None
        if isinstance(action, Remember) and lost and action.rule in self._gone:
            self._gone[action.rule] = action.status
            return Outcome(action, Verdict.DONE)
        return self._cluster.apply(action)

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
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


class UnaskedForecaster:
    """Forecasts that nobody asks for: none is ready, which never opens a window."""

    def forecast(
        self,
        rule: RuleObject,  # noqa: ARG002
        history: History,  # noqa: ARG002
        now: datetime,
        idle_since: datetime,  # noqa: ARG002
    ) -> Forecast:
        """None."""
        return Forecast(method="none", made_at=now, chances=(), rests_on=_WHY, ready=False)
