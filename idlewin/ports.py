"""The outside world, as the controller sees it: a few methods each, no implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from idlewin.core.decision import Action, Decision, Outcome
from idlewin.core.load import History, Reading
from idlewin.core.pool import Pool, RuleObject, Scope
from idlewin.core.rule import Rule


class Clock(Protocol):
    """What time it is. The only source of it."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""
        ...


class Metrics(Protocol):
    """Demand, now and in the past. Never raises: what cannot be told is unknown."""

    def read(self, rule: Rule) -> tuple[Reading, ...]:
        """A reading for each demand of the rule, as of now."""
        ...

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:
        """When any demand of the rule was there, from ``past`` ago to now, to the step."""
        ...


class Cluster(Protocol):
    """Rules, queues, serving and pods: looked at, and written to."""

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        ...

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored; None: there is none."""
        ...

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Fresh: by reads made now, not from watches. Raises LookError."""
        ...

    def apply(self, action: Action) -> Outcome:
        """Carry out one action. Never raises: what went wrong is the outcome's."""
        ...

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        """What would become of actions, asked of the API server by dry run. Never raises."""
        ...

    def announce(self, decision: Decision) -> None:
        """Tell a change of phase as a Kubernetes Event, as well as may be."""
        ...


class Journal(Protocol):
    """Every decision, kept. Losing it never changes behaviour."""

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Keep one decision; one equal to the last of its rule is joined with it."""
        ...


class Lease(Protocol):
    """Who may act, where more than one controller runs."""

    def held(self) -> bool:
        """Whether we may write now; told by the monotonic clock, so a frozen process loses it."""
        ...


class Wake(Protocol):
    """How outside systems say: look at this pool."""

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call ``wake`` with a rule's name whenever something of its pool changed."""
        ...


class LookError(Exception):
    """The cluster could not be looked at; nothing is decided on a guess."""
