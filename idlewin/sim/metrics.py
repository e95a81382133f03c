"""The Metrics port over busy spans: exact, but for the stretches in which nothing can be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from idlewin.catalogue import SHIPPED, described
from idlewin.core.load import History, Reading
from idlewin.core.rule import Activity, Rule
from idlewin.core.target import Demand as DemandSpec, Ref
from idlewin.core.window import Span, clipped, merged
from idlewin.observe import CARDS
from idlewin.ports import Clock
from idlewin.sim.demand import Demand
from idlewin.sim.kinds import FaultKind

#: A sample is believed for so long after it was taken.
BELIEVED = timedelta(minutes=2)
_WRONG = (math.nan, -1.0, math.inf)
_SILENT = {
    FaultKind.EMPTY: "no series",
    FaultKind.ONE_MISSING: "no series of this target",
    FaultKind.SILENT: "Prometheus does not answer",
    FaultKind.OLD: "the newest sample is too old to be believed",
}


@dataclass(frozen=True, slots=True)
class Dark:
    """A stretch in which what is shown is wrong."""

    span: Span
    kind: FaultKind
    ref: Ref | None
    """The one target that it is about; None: all."""

    def of(self, ref: Ref) -> bool:
        """Whether it is about a target."""
        return self.ref is None or self.ref == ref


class Sampled(Protocol):
    """Values that are given, one after the other."""

    def at(self, now: datetime) -> float | None:
        """What is shown at an instant; None: nothing."""
        ...


class SimMetrics:
    """Readings and history of each target's demand.

    ``has_pod`` says whether a target is up: what counts running work shows nothing without one.
    """

    def __init__(
        self, clock: Clock, demand: Mapping[Ref, Demand], has_pod: Callable[[Ref], bool]
    ) -> None:
        self._clock, self._has_pod = clock, has_pod
        self.demand = dict(demand)
        self.catalogue = SHIPPED
        """The sources that rules may name."""
        self.known_from: datetime | None = None
        """Nothing is known of before: where a recording begins."""
        self.samples: Mapping[Ref, Sequence[Sampled]] = {}
        """What a target's demands show, one by one, where that is given; else all show the same."""
        self.activity: Sampled | None = None
        """What the cards' activity shows, where that is given."""
        self.gaps: tuple[Span, ...] = ()
        """When what is given says neither busy nor idle."""
        self._dark: list[Dark] = []

    def blind(self, span: Span, kind: FaultKind = FaultKind.SILENT, ref: Ref | None = None) -> None:
        """Nothing that can be believed is shown in one more stretch; of one target, or of all."""
        self._dark.append(Dark(span, kind, ref))

    def wrong(self, refs: Iterable[Ref]) -> list[FaultKind]:
        """What is wrong now with what is shown of some targets."""
        now = self._clock.now()
        return [one.kind for one in self._dark if now in one.span and any(map(one.of, refs))]

    def unknown_since(self, ref: Ref) -> datetime | None:
        """Since when nothing that can be believed is shown of a target; None: it is shown."""
        dark = self._dark_now(ref)
        believed = BELIEVED if dark and dark.kind is FaultKind.OLD else timedelta()
        since = dark.span.start + believed if dark else None
        return since if since and since <= self._clock.now() else None

    def shown(self, ref: Ref) -> bool:
        """Whether users are there, as the newest sample has it."""
        dark, at = self._dark_now(ref), self._clock.now()
        if dark and dark.kind is FaultKind.OLD:
            at = dark.span.start
        return ref in self.demand and self.demand[ref].at(at) is not None

    def _dark_now(self, ref: Ref) -> Dark | None:
        now = self._clock.now()
        found = [dark for dark in self._dark if now in dark.span and dark.of(ref)]
        # A stale series is the mildest: it counts where nothing else is wrong.
        return min(
            found, key=lambda dark: (dark.kind is FaultKind.OLD, dark.span.start), default=None
        )

    def read(self, rule: Rule) -> tuple[Reading, ...]:
        """A reading for each demand of the rule, as of now."""
        found = [
            self._reading(serving.ref, number, spec)
            for serving in rule.serving
            if not isinstance(serving.demand, str)
            for number, spec in enumerate(serving.demand)
        ]
        if rule.cards.activity is not None and self.activity is not None:
            found.append(self._activity(rule.cards.activity, self.activity))
        return tuple(found)

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:
        """When any demand of the rule was there; exact, whatever the step."""
        now = self._clock.now()
        start = max(now - past, self.known_from or now - past)
        covers = Span(min(start, now - step), now)
        each = [self.demand[ref].within(covers) for ref in self._refs(rule)]
        busy = each[0] if len(each) == 1 else merged(span for spans in each for span in spans)
        refs = self._refs(rule)
        dark = (one.span for one in self._dark if any(map(one.of, refs)))
        unknown = merged((*dark, *self.gaps))
        return History(covers=covers, busy=busy, unknown=clipped(unknown, covers))

    def _refs(self, rule: Rule) -> list[Ref]:
        return [serving.ref for serving in rule.serving if serving.ref in self.demand]

    def _reading(self, ref: Ref, number: int, spec: DemandSpec) -> Reading:
        visible = self.catalogue.visible_at_zero(spec)
        dark, why = self._dark_now(ref), ""
        value: float | None
        if dark is not None and self.unknown_since(ref):
            value, why = _wrongly(dark)
        elif not visible and not self._has_pod(ref):
            value, why = None, "no series, as its exporter is away"
        elif ref in self.samples:
            value, why = _sample(self.samples[ref][number], self._clock.now())
        else:
            value = spec.busy_above + 1 if self.shown(ref) else 0.0
        return Reading(
            target=str(ref),
            name=described(spec),
            value=value,
            busy_above=spec.busy_above,
            visible_at_zero=visible,
            why=why,
        )

    def _activity(self, spec: Activity, given: Sampled) -> Reading:
        now = self._clock.now()
        dark = next((one for one in self._dark if now in one.span and one.ref is None), None)
        value, why = _wrongly(dark) if dark else _sample(given, now)
        return Reading(
            target=CARDS,
            name=described(spec),
            value=value,
            busy_above=spec.busy_above,
            visible_at_zero=False,
            why=why,
        )


def _wrongly(dark: Dark) -> tuple[float | None, str]:
    """What is shown where nothing that can be believed is."""
    if dark.kind is FaultKind.IMPOSSIBLE:
        return _WRONG[int(dark.span.start.timestamp()) % len(_WRONG)], ""
    return None, _SILENT[dark.kind]


def _sample(given: Sampled, now: datetime) -> tuple[float | None, str]:
    value = given.at(now)
    return value, "no sample" if value is None else ""
