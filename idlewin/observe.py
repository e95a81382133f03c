"""Observing: everything that one decision may look at, gathered at one instant.

What is remembered here between cycles is only what would be found again: losing it, as at a
restart, delays a window and never a return.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.core import batch, timing
from idlewin.core.forecast import LONG, Forecast, Forecaster, Outlook, outlook
from idlewin.core.lint import Refusal, refusals
from idlewin.core.load import Level, Load, Reading, judge, level_of
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, RuleObject
from idlewin.core.rule import Rule
from idlewin.core.scope import scope_of
from idlewin.core.situation import Situation
from idlewin.core.status import Status
from idlewin.memory import Memory, by_our_clock, note_down, note_taken, note_told
from idlewin.ports import Clock, Cluster, Metrics
from idlewin.rulecheck import faults

#: How far back a forecast looks.
PAST = timedelta(days=28)
#: A forecast is made anew at least so often, and at most each second.
REPLAN = timedelta(minutes=5)
#: One that is not ready is asked for again after this: what it waits for takes seconds to minutes.
LEARNING = timedelta(seconds=30)
STEP = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
#: A clock that goes back by more than this was set otherwise.
BACK = timedelta(seconds=5)
#: The name under which the cards' own activity is read.
CARDS = "cards"


class Observer:
    """Looks at the world on behalf of the controller."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        cluster: Cluster,
        forecaster: Forecaster,
        catalogue: Catalogue | None = SHIPPED,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._cluster = cluster
        self._forecaster = forecaster
        self._catalogue = catalogue
        self._memory: dict[str, Memory] = {}

    def memory(self, name: str) -> Memory:
        """What is remembered of a pool."""
        return self._memory.setdefault(name, Memory())

    def forget(self, name: str) -> None:
        """A rule is gone."""
        self._memory.pop(name, None)

    def situation(self, rule: RuleObject, *, fresh: bool = False) -> Situation:
        """Everything about a rule's pool, now. Raises LookError."""
        pool = self._cluster.look(scope_of(rule), fresh=fresh)
        now = self._clock.now()
        before = self.memory(rule.name).looked_at
        if before is not None and now < before - BACK:
            # What is remembered has instants in it that are still to come.
            self.forget(rule.name)
        memory = self.memory(rule.name)
        pool = by_our_clock(pool, memory, now)
        load, ahead = self._load(rule, pool, now), None
        if rule.rule is not None and load.level is not Level.BUSY:
            if fresh:
                # A burst since the last forecast shows in the history only.
                memory.outlook = None
            ahead = self._outlook(rule, rule.rule, memory, now)
        situation = Situation(
            now=now,
            object=rule,
            pool=pool,
            load=load,
            outlook=ahead,
            refusals=self._refusals(rule, pool),
            rehearsal=memory.rehearsal,
        )
        return self._remembered(situation, memory)

    def _refusals(self, rule: RuleObject, pool: Pool) -> tuple[Refusal, ...]:
        others = (self._cluster.rule(name) for name in self._cluster.names() if name != rule.name)
        found = refusals(rule, pool, [other for other in others if other is not None])
        memory = self.memory(rule.name)
        if memory.faults is None or memory.faults[0] != rule.generation:
            told = faults(rule.rule, self._catalogue) if rule.rule else ()
            memory.faults = (rule.generation, told)
        return (*memory.faults[1], *found)

    # -- demand

    def _load(self, rule: RuleObject, pool: Pool, now: datetime) -> Load:
        spec, memory = rule.rule, self.memory(rule.name)
        if spec is None:
            return Load(level=Level.UNKNOWN, since=now, why="the rule cannot be read")
        serving = rule.status is None or rule.status.phase == Phase.SERVING
        readings = [r for r in self._metrics.read(spec) if serving or r.target != CARDS]
        level, why = judge(readings, at_zero=_at_zero(spec, pool))
        before = memory.load
        shown = {level_of(r) for r in readings if r.target != CARDS}
        # A server comes or goes in less than staleAfter.
        long = before is not None and now - before.since >= spec.stale_after
        still = before is not None and before.level is level is Level.UNKNOWN
        blind = long and still and Level.UNKNOWN in shown
        if Level.BUSY in shown or (_untold(spec) and (memory.busy_at is None or blind)):
            memory.busy_at = now
        if before is not None and before.level is level:
            memory.load = replace(before, why=why)
        else:
            since = now if before else self._since(spec, level, readings, now)
            memory.load = Load(level=level, since=since, why=why)
            memory.outlook = None
        return memory.load

    def _since(
        self, spec: Rule, level: Level, readings: Sequence[Reading], now: datetime
    ) -> datetime:
        """At the first look: since when, as the recent past shows."""
        if not readings:
            return now - LONG
        if level is Level.BUSY or _untold(spec):
            return now
        idle_for = spec.window.idle_for
        step = min(max(idle_for / 20, SECOND), STEP)
        recent = self._metrics.history(spec, max(2 * idle_for, 2 * spec.stale_after), step)
        ends = [span.end for span in (*recent.busy, *recent.unknown)]
        if level is Level.IDLE:
            return min(now, max([recent.covers.start, *ends]))
        last = recent.unknown[-1] if recent.unknown else None
        return last.start if last and last.end >= now - 2 * step else now

    def _outlook(self, rule: RuleObject, spec: Rule, memory: Memory, now: datetime) -> Outlook:
        before = memory.outlook
        most = REPLAN if before is not None and before.forecast.ready else LEARNING
        again = min(max(spec.window.min / 6, SECOND), most)
        if before is not None and now < before.forecast.made_at + again:
            return before
        status = rule.status or Status()
        try:
            forecast = self._forecast(rule, spec, memory, now)
        except Exception as error:  # noqa: BLE001 - giving back must not hang on a forecast
            why = f"a fault of the forecast: {error!r}"
            forecast = Forecast(
                method=spec.forecast.method, made_at=now, chances=(), rests_on=why, ready=False
            )
        memory.outlook = outlook(
            forecast,
            opening=timing.opening_time(status),
            back=timing.before_return(spec, status),
            least=spec.window.min,
        )
        return memory.outlook

    def _forecast(self, rule: RuleObject, spec: Rule, memory: Memory, now: datetime) -> Forecast:
        if all(serving.demand == "CalendarOnly" for serving in spec.serving):
            return Forecast(
                method="calendar",
                made_at=now,
                chances=((LONG, 1.0),),
                rests_on="the calendar only: no target has a demand that is looked at",
            )
        load = memory.load
        history = self._metrics.history(spec, PAST, STEP)
        if load is None or load.level is not Level.IDLE:
            return self._forecaster.forecast(rule, history, now, now)
        busy, unknown = (
            spans[-1].end if spans else history.covers.start
            for spans in (history.busy, history.unknown)
        )
        if load.since < busy <= now:
            # A burst between two looks: it shows in the history only.
            load = memory.load = replace(load, since=busy)
        # As the past is learnt from, so it is asked: since users were last there, or nothing was
        # known. A server that comes or goes is unknown for a moment only, which makes no night
        # younger, though it has then to be idle anew for idleFor.
        since = max(min(busy, now), min(unknown, load.since), memory.busy_at or busy)
        return self._forecaster.forecast(rule, history, now, since)

    # -- what was seen before

    def _remembered(self, s: Situation, memory: Memory) -> Situation:
        away = s.phase is not Phase.SERVING
        if not away:
            memory.batch_seen_at = memory.ready_at = None
            memory.target_refused = {}
            memory.stopped = frozenset(one for one in memory.stopped if one[1] >= s.status.epoch)
        note_down(s, memory)
        note_told(s, memory)
        note_taken(s, memory)
        pods = batch.batch_pods(s)
        if away and memory.looked_at is not None:
            memory.harvested += memory.running * (s.now - memory.looked_at)
        elif not away:
            memory.harvested = timedelta()
        memory.looked_at = s.now
        memory.running = sum(max(1, pod.claims) for pod in pods if pod.running) if away else 0
        there = away and bool(pods or batch.admitted(s))
        if there or (away and memory.batch_there):
            # What was there at the last look may have left just now: nobody looked in between.
            memory.batch_seen_at = s.now
        memory.batch_there = there
        if s.phase is Phase.RESTORING and memory.ready_at is None and _all_ready(s):
            memory.ready_at = s.now
        return replace(
            s,
            load=memory.load or s.load,
            batch_seen_at=memory.batch_seen_at,
            harvested=memory.harvested,
            target_refused=memory.target_refused,
            serving_ready_at=memory.ready_at,
            down_since=dict(memory.down_since),
            told_since=dict(memory.told_since),
            taken=frozenset(memory.taken),
            stopped=memory.stopped,
        )


def _at_zero(spec: Rule, pool: Pool) -> frozenset[str]:
    """The targets that have no pod by anybody's will."""
    found = {str(serving.ref): pool.target(serving.ref) for serving in spec.serving}
    return frozenset(name for name, target in found.items() if not target or target.replicas == 0)


def _untold(spec: Rule) -> bool:
    """Whether there is demand whose past nobody keeps."""
    asked = (serving.demand for serving in spec.serving if not isinstance(serving.demand, str))
    return any(one.llama_swap for demand in asked for one in demand)


def _all_ready(s: Situation) -> bool:
    targets = s.window.targets if s.window else ()
    found = [s.pool.target(target.ref) for target in targets]
    return all(t.ready >= t.replicas and t.replicas > 0 for t in found if t is not None)
