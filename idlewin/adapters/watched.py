"""All that is watched: one store and one reflector a kind, and under what objects are filed.

What the objects mean, and which of them concern a rule, does not belong here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from time import monotonic
from typing import Any

from idlewin.adapters.api import Api
from idlewin.adapters.fields import annotation, trimmed
from idlewin.adapters.objects import trim_node, trim_pod, trim_rule
from idlewin.adapters.queues import (
    GROUP as KUEUE,
    trim_cohort,
    trim_local_queue,
    trim_queue,
    trim_workload,
)
from idlewin.adapters.reflector import Reflector, Timing
from idlewin.adapters.serving import KINDS, Kind, kind_of
from idlewin.adapters.serving.replicated import trim_autoscaler
from idlewin.adapters.store import Store
from idlewin.adapters.webhooks import trim_webhooks
from idlewin.core.pool import ADOPTED_BY, RECORD
from idlewin.core.rule import API_VERSION

Json = dict[str, Any]

RULES = f"/apis/{API_VERSION}/idlerules"
PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
QUEUES = f"{KUEUE}/clusterqueues"
LOCAL_QUEUES = f"{KUEUE}/localqueues"
WORKLOADS = f"{KUEUE}/workloads"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_POD_OWNERS = frozenset(kind.pod_owner for kind in KINDS)
#: The trouble of a kind whose first list is still on its way.
NOT_LISTED = "not listed yet"


class Watched:
    """The stores, and the reflectors that keep them."""

    def __init__(self, api: Api, timing: Timing | None = None) -> None:
        self._api, self._timing = api, timing
        self._reflectors: list[Reflector] = []
        self._checks: list[Reflector] = []
        self._optional: dict[Reflector, str] = {}
        self.rules = self._add(RULES, trim_rule)
        self.queues = self._add(QUEUES, trim_queue, rule=_adopted_by)
        self.cohorts = self._add_check(f"{KUEUE}/cohorts", trim_cohort)
        self.local_queues = self._add(LOCAL_QUEUES, trim_local_queue, queue=_queue_of_local)
        self.workloads = self._add(
            WORKLOADS, trim_workload, admitted=_admitted_by, local=_local_of_workload
        )
        self.serving = {kind.kind: self._add_kind(kind) for kind in KINDS}
        self.autoscalers = self._add_check(
            "/apis/autoscaling/v2/horizontalpodautoscalers", trim_autoscaler, namespace=_namespace
        )
        self.pods = self._add(
            PODS, lambda raw: trim_pod(raw, _POD_OWNERS), node=_node, namespace=_namespace
        )
        self.nodes = self._add(NODES, trim_node)
        self.namespaces = self._add_check("/api/v1/namespaces", trimmed)
        self.webhooks = tuple(
            self._add_check(f"{_ADMISSION}/{kind}webhookconfigurations", trim_webhooks)
            for kind in ("mutating", "validating")
        )

    def _add(
        self,
        path: str,
        trim: Callable[[Json], Json | None],
        **indexes: Callable[[Json], Iterable[str]],
    ) -> Store:
        store = Store(trim, indexes)
        reflector = Reflector(self._api, path, store, self._timing)
        reflector.back = self._hurry
        self._reflectors.append(reflector)
        return store

    def _add_kind(self, kind: Kind) -> Store:
        store = self._add(
            kind.watch_path,
            kind.trim,
            rule=lambda stored: recorded_on(kind, stored),
            scaled=lambda stored: map(str, filter(None, (kind.scaled(stored),))),
        )
        if kind.optional:
            self._optional[self._reflectors[-1]] = kind.kind
        return store

    def _add_check(
        self,
        path: str,
        trim: Callable[[Json], Json | None],
        **indexes: Callable[[Json], Iterable[str]],
    ) -> Store:
        """A kind that only says whether a window may be opened: no return waits for it."""
        store = self._add(path, trim, **indexes)
        self._checks.append(self._reflectors[-1])
        return store

    def _hurry(self) -> None:
        # One that gets through is the sign for all: none waits out its own back-off.
        for reflector in self._reflectors:
            reflector.hurry()

    def start(self) -> None:
        """Begin to watch."""
        for reflector in self._reflectors:
            reflector.start()

    def stop(self) -> None:
        """End all watches."""
        for reflector in self._reflectors:
            reflector.close()
        for reflector in self._reflectors:
            reflector.join()

    def wait_synced(self, timeout: timedelta) -> bool:
        """Whether all kinds were listed once, within a time; those for checks were tried."""
        end = monotonic() + timeout.total_seconds()
        tried = {*self._checks, *self._optional}
        awaited = [one.tried if one in tried else one.synced for one in self._reflectors]
        return all(event.wait(max(0, end - monotonic())) for event in awaited)

    def trouble(self, *, synced_only: bool = False) -> tuple[str, ...]:
        """Kinds that the stores do not show as they are, each with the reason; none for checks."""
        return tuple(
            _told(one)
            for one in self._reflectors
            if one not in self._checks
            and not (one.synced.is_set() if synced_only else one.in_touch)
            and self._needed(one)
        )

    def _needed(self, reflector: Reflector) -> bool:
        """Whether a rule rests on what it shows: a cluster may have no KServe, or hide it."""
        kind = self._optional.get(reflector)
        return kind is None or any(kind in _kinds_of(rule) for rule in self.rules.all())

    def target(self, kind: Kind, stored: Json) -> Json:
        """A target of a store with what it scales, where that is another object."""
        ref = kind.scaled(stored)
        below = kind_of(ref) if ref else None
        if ref is None or below is None:
            return stored
        return {**stored, "scaled": self.serving[below.kind].get(ref.namespace, ref.name)}

    def unseen(self) -> tuple[str, ...]:
        """Kinds for checks that the stores do not show as they are, each with the reason."""
        return tuple(_told(one) for one in self._checks if not one.in_touch)

    def absent(self, path: str) -> bool:
        """Whether the API server knows no kind of this path."""
        return any(one.absent for one in self._reflectors if one.path == path)

    def on_sight(self, told: Callable[[], object]) -> None:
        """Have it told whenever a kind is in touch again after a failure."""
        for reflector in self._reflectors:
            reflector.in_sight = told

    def counts(self) -> Iterator[tuple[str, Any]]:
        """How often each path was listed and watched, and failed."""
        return ((one.path, one.counts) for one in self._reflectors)


def _told(reflector: Reflector) -> str:
    return f"{reflector.path}: {reflector.trouble or NOT_LISTED}"


def _namespace(stored: Json) -> Iterable[str]:
    return (stored["metadata"]["namespace"],)


def _node(pod: Json) -> Iterable[str]:
    return filter(None, (pod["spec"].get("nodeName"),))


def _adopted_by(queue: Json) -> Iterable[str]:
    return filter(None, (annotation(queue, ADOPTED_BY),))


def _queue_of_local(local: Json) -> Iterable[str]:
    return filter(None, (local["spec"].get("clusterQueue"),))


def _admitted_by(workload: Json) -> Iterable[str]:
    return filter(None, (workload["status"]["admission"].get("clusterQueue"),))


def _local_of_workload(workload: Json) -> Iterable[str]:
    return (f"{workload['metadata']['namespace']}/{workload['spec'].get('queueName', '')}",)


def _kinds_of(rule: Json) -> Iterator[str]:
    """The kinds that a rule's spec and window name, whether the rest of it can be read or not."""
    named = (rule.get("spec") or {}).get("serving") or ()
    window = (rule.get("status") or {}).get("window") or {}
    refs = [target.get("ref") or {} for target in window.get("targets") or ()]
    return (str(one.get("kind")) for one in (*named, *refs))


def recorded_on(kind: Kind, target: Json) -> Iterable[str]:
    """The rule that a record names, where that record says anything."""
    return () if kind.void(target) else recorded_by(target)


def recorded_by(target: Json) -> Iterable[str]:
    """The rule that a record names, even one that cannot be read whole."""
    try:
        found = json.loads(annotation(target, RECORD) or "{}")
    except ValueError:
        return ()
    rule = found.get("rule") if isinstance(found, dict) else None
    return (rule,) if isinstance(rule, str) else ()
