"""What happened in a world, as a replay and a picture of it need it: spans, changes, decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from idlewin.core.decision import Decision, Outcome
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.window import Span
from idlewin.ports import Clock
from idlewin.sim.objects import Objects, SimPod, Work

#: How many of the last decisions are kept besides the changes of phase.
KEPT = 200


@dataclass(frozen=True, slots=True)
class Change:
    """A change of phase that was written."""

    at: datetime
    rule: str
    before: Phase
    after: Phase
    reason: Reason


@dataclass(slots=True)
class Chronicle:
    """The journal of a simulated world, and the spans in which batch ran and serving was ready."""

    clock: Clock
    objects: Objects
    changes: list[Change] = field(default_factory=list)
    decisions: dict[str, deque[tuple[Decision, tuple[Outcome, ...]]]] = field(default_factory=dict)
    """The last ones of each rule, newest last."""
    batch: list[tuple[str, Span, int]] = field(default_factory=list)
    """A rule, a span in which a batch pod of it ran, and on how many cards."""
    served: list[tuple[str, Span]] = field(default_factory=list)
    """A rule, and a span in which all of its serving was ready."""
    stays: list[tuple[datetime, str, Reason | None]] = field(default_factory=list)
    """From when on a rule stayed with serving, and why; None: it was away."""
    prices: list[tuple[datetime, str, float]] = field(default_factory=list)
    """From when on a late return cost a rule so many minutes of batch; 0: not known."""
    cycles: int = 0
    _stay: dict[str, Reason | None] = field(default_factory=dict)
    _price: dict[str, float] = field(default_factory=dict)
    _running: dict[str, datetime] = field(default_factory=dict)
    _ready: dict[str, datetime] = field(default_factory=dict)

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Keep one decision: the port Journal."""
        kept = self.decisions.setdefault(decision.rule, deque(maxlen=KEPT))
        kept.append((decision, tuple(outcomes)))
        stays = decision.reason if decision.after is Phase.SERVING else None
        if decision.rule not in self._stay or self._stay[decision.rule] is not stays:
            self._stay[decision.rule] = stays
            self.stays.append((decision.at, decision.rule, stays))
        price = decision.status.budget.price
        if self._price.get(decision.rule) != price:
            self._price[decision.rule] = price
            self.prices.append((decision.at, decision.rule, price))

    def changed(self, rule: str, before: Phase, after: Phase, reason: Reason) -> None:
        """A change of phase was written."""
        self.changes.append(Change(self.clock.now(), rule, before, after, reason))

    def started(self, pod: SimPod) -> None:
        """A pod's containers run."""
        if isinstance(pod.owner, Work):
            self._running[pod.uid] = self.clock.now()

    def gone(self, pod: SimPod) -> None:
        """A pod's object is gone."""
        start = self._running.pop(pod.uid, None)
        if start is not None and start < self.clock.now():
            self.batch.append((pod.pool, Span(start, self.clock.now()), pod.claims))

    def look(self, pool: str) -> None:
        """Something of a pool has changed: see whether its serving is ready."""
        targets = [t for t in self.objects.deployments.values() if t.pool == pool]
        ready = bool(targets) and all(
            t.replicas > 0 and sum(pod.ready for pod in self.objects.pods_of(t)) >= t.replicas
            for t in targets
            if t.replicas > 0 or t.at_our_zero
        )
        if ready:
            self._ready.setdefault(pool, self.clock.now())
        else:
            self._end_of_ready(pool)

    def close(self) -> None:
        """End the spans that are still open, as the run ends."""
        now = self.clock.now()
        for uid, start in list(self._running.items()):
            pod = self.objects.pods[uid]
            if start < now:
                self.batch.append((pod.pool, Span(start, now), pod.claims))
            self._running[uid] = now
        for pool in list(self._ready):
            self._end_of_ready(pool)
            self._ready[pool] = now

    def _end_of_ready(self, pool: str) -> None:
        start = self._ready.pop(pool, None)
        if start is not None and start < self.clock.now():
            self.served.append((pool, Span(start, self.clock.now())))
