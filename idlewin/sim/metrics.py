"""The Metrics port over busy spans: exact, but for the stretches in which nothing can be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from idlewin.core.load import History, Reading
from idlewin.core.rule import Rule
from idlewin.core.target import Demand as DemandSpec, Ref
from idlewin.core.window import Span, clipped, merged
from idlewin.ports import Clock
from idlewin.sim.demand import Demand

#: Sources of the catalogue whose demand shows at the front door, while the target has no pod.
FRONT_DOORS = frozenset({"traefik-router"})
_WRONG = (None, math.nan, -1.0, math.inf)


class SimMetrics:
    """Readings and history of each target's demand.

    ``has_pod`` says whether a target is up: what counts running work shows nothing without one.
    """

    def __init__(
        self, clock: Clock, demand: Mapping[Ref, Demand], has_pod: Callable[[Ref], bool]
    ) -> None:
        self._clock, self._has_pod = clock, has_pod
        self.demand = dict(demand)
        self.known_from: datetime | None = None
        """Nothing is known of before: where a recording begins."""
        self.unknown: tuple[Span, ...] = ()
        """Stretches in which Prometheus answers nothing that can be believed."""

    def blind(self, span: Span) -> None:
        """Nothing can be told in one more stretch."""
        self.unknown = merged((*self.unknown, span))

    def blind_since(self) -> Span | None:
        """The stretch in which nothing can be told, if it is on."""
        now = self._clock.now()
        return next((span for span in self.unknown if now in span), None)

    def read(self, rule: Rule) -> tuple[Reading, ...]:
        """A reading for each demand of the rule, as of now."""
        return tuple(
            self._reading(serving.ref, spec)
            for serving in rule.serving
            if serving.demand != "CalendarOnly"
            for spec in serving.demand
            if not isinstance(spec, str)
        )

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:
        """When any demand of the rule was there; exact, whatever the step."""
        now = self._clock.now()
        start = max(now - past, self.known_from or now - past)
        covers = Span(min(start, now - step), now)
        each = [self.demand[ref].within(covers) for ref in self._refs(rule)]
        busy = each[0] if len(each) == 1 else merged(span for spans in each for span in spans)
        return History(covers=covers, busy=busy, unknown=clipped(self.unknown, covers))

    def _refs(self, rule: Rule) -> list[Ref]:
        return [serving.ref for serving in rule.serving if serving.ref in self.demand]

    def _reading(self, ref: Ref, spec: DemandSpec) -> Reading:
        front = spec.visible_at_zero
        visible = front if front is not None else spec.source in FRONT_DOORS
        value, why = self._value(ref, spec, visible=bool(visible))
        return Reading(
            target=str(ref),
            name=spec.source or spec.query or "",
            value=value,
            busy_above=spec.busy_above,
            visible_at_zero=bool(visible),
            why=why,
        )

    def _value(self, ref: Ref, spec: DemandSpec, *, visible: bool) -> tuple[float | None, str]:
        blind = self.blind_since()
        if blind is not None:
            value = _WRONG[int(blind.start.timestamp()) % len(_WRONG)]
            return value, "Prometheus does not answer" if value is None else ""
        if not visible and not self._has_pod(ref):
            return None, "no series, as its exporter is away"
        busy = self.demand[ref].at(self._clock.now()) if ref in self.demand else None
        return (spec.busy_above + 1 if busy else 0.0), ""
