"""The cluster as the controller's ports want it: Cluster and Wake on a real Kubernetes.

Only puts the parts together: connection api.py, watches watched.py, reading look.py, writing
writes.py, wake-ups wake.py, Events events.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.events import events_of, path_of
from idlewin.adapters.look import Look, refresh
from idlewin.adapters.objects import rule_of
from idlewin.adapters.reflector import Counts, Timing
from idlewin.adapters.wake import Concerns
from idlewin.adapters.watched import QUEUES, RULES, Watched
from idlewin.adapters.writes import Writer
from idlewin.core.decision import Action, Decision, Outcome
from idlewin.core.lint import NO_KUEUE
from idlewin.core.pool import Pool, RuleObject, Scope
from idlewin.errors import NO_RULES
from idlewin.ports import Clock, LookError

log = logging.getLogger(__name__)


class KubernetesCluster:
    """Rules, queues, serving and pods of a real cluster. Implements Cluster and Wake."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        *,
        instance: str = "idlewin",
        timing: Timing | None = None,
        own_rules: bool = True,
    ) -> None:
        """``own_rules``: False where the rules are those of files, and it need know no IdleRule."""
        self._own_rules = own_rules
        self._api, self._clock, self._instance = api, clock, instance
        self._stores = Watched(api, timing)
        self._looked: dict[str, int] = {}
        self._writer = Writer(api, self._stores, self._looked)
        self._rehearsal = Writer(api.rehearsing(), self._stores, self._looked, keeps=False)
        self._read: dict[str, RuleObject] = {}

    # -- life

    def start(self) -> None:
        """Begin to watch."""
        self._stores.start()

    def stop(self) -> None:
        """End the watches and close the connections."""
        self._stores.stop()
        self._api.close()

    def ask(self) -> None:
        """Whether anybody is there: any answer will do. Raises ApiError where there is none."""
        try:
            self._api.get("/version")
        except ApiError as error:
            if not error.status:
                raise

    def wait_synced(self, timeout: timedelta) -> bool:
        """Whether everything was listed once, within a time; nothing may act before."""
        return self._stores.wait_synced(timeout)

    def trouble(self) -> tuple[str, ...]:
        """What is not watched as it should be, each with the reason; empty while all is well."""
        return self._stores.trouble()

    def missing(self) -> tuple[str, ...]:
        """What it cannot do any work without, in sentences: the kind of our rules."""
        return (NO_RULES,) if self._own_rules and self._stores.absent(RULES) else ()

    def absent(self) -> tuple[str, ...]:
        """Kinds that the cluster does not know and that work needs, in sentences."""
        kueue = (NO_KUEUE,) if self._stores.absent(QUEUES) else ()
        return self.missing() + kueue

    def counts(self) -> Iterator[tuple[str, Counts]]:
        """How often each path was listed and watched, and failed."""
        return self._stores.counts()

    # -- Cluster

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        metas = [stored["metadata"] for stored in self._stores.rules.all()]
        metas.sort(key=lambda meta: (meta["creationTimestamp"], meta["name"]))
        return [meta["name"] for meta in metas]

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored; None: there is none."""
        stored = self._stores.rules.get("", name)
        if stored is None:
            self._read.pop(name, None)
            return None
        known = self._read.get(name)
        if known is None or known.resource_version != stored["metadata"]["resourceVersion"]:
            known = self._read[name] = rule_of(stored)
        return known

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Fresh: by reads made now. Raises LookError."""
        # Even a fresh look needs what only the watches have: work that waits, rules.
        if trouble := self._stores.trouble(synced_only=fresh):
            raise LookError(f"the cluster is not in sight: {'; '.join(trouble)}")
        try:
            if fresh:
                refresh(self._api, self._stores, scope)
            look = Look(self._stores, scope, self._clock.now())
            self._looked.update(look.generations())
            return look.pool()
        except ApiError as error:
            raise LookError(f"the cluster could not be read: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            log.exception("%s: an object is unlike all that is known", scope.rule)
            raise LookError(
                f"an object in the pool of rule {scope.rule} cannot be understood: {error!r}"
            ) from error

    def apply(self, action: Action) -> Outcome:
        """Carry out one action. Never raises: what went wrong is the outcome's."""
        return self._writer.apply(action)

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        """What would become of actions, asked by dry run. Never raises."""
        return tuple(self._rehearsal.apply(action) for action in actions)

    def announce(self, decision: Decision) -> None:
        """Tell a change of phase, or an alarm, as Kubernetes Events, as well as may be."""
        stored = self._stores.rules.get("", decision.rule)
        uid = stored["metadata"]["uid"] if stored else ""
        for event in events_of(decision, uid, self._instance):
            try:
                self._api.post(path_of(event), event)
            except ApiError as error:
                log.warning("no Event for %s %s: %s", decision.rule, decision.reason, error)

    # -- Wake

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call ``wake`` with a rule's name whenever something of its pool changed."""
        Concerns(self._stores, wake)
