"""Our own metrics, for Prometheus. The only importer of prometheus_client.

It hears decisions as a journal does, and cycles as they end; what is measured elsewhere it asks
for at the scrape. A deleted rule's series go with it. docs/metrics.md lists them all.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import idlewin
from idlewin.adapters.journal import moved
from idlewin.core.decision import Decision, Outcome
from idlewin.core.load import Level
from idlewin.core.phase import Phase
from idlewin.core.rule import Mode
from idlewin.core.status import Truth

#: From a cycle that only compares, to one that waits for a slow API server.
CYCLE_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)

#: Name, labels, what it says. A name that ends in _total is a counter, any other a gauge.
METRICS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "idlewin_phase": (("rule", "phase"), "1 for the phase in which the pool is, 0 for the others."),
    "idlewin_load": (
        ("rule", "level"),
        "1 for what demand is: Busy, Idle or Unknown; 0 for others.",
    ),
    "idlewin_decisions_total": (("rule", "reason"), "Decisions, no change included, by reason."),
    "idlewin_transitions_total": (("rule", "from", "to", "reason"), "Changes of phase."),
    "idlewin_window_until_timestamp_seconds": (
        ("rule",),
        "When giving back is due; absent while no window is open.",
    ),
    "idlewin_revisit_timestamp_seconds": (("rule",), "When the pool is looked at next, at least."),
    "idlewin_last_success_timestamp_seconds": (("rule",), "When a cycle of the pool ended well."),
    "idlewin_late_returns_total": (("rule",), "Returns with demand before serving was ready."),
    "idlewin_returns_total": (("rule",), "Windows that were given back."),
    "idlewin_windows_total": (("rule",), "Windows that were opened."),
    "idlewin_harvested_card_seconds_total": (
        ("rule",),
        "Card-seconds in which batch pods ran in a window.",
    ),
    "idlewin_tally_since_timestamp_seconds": (
        ("rule", "mode"),
        "When a mode's tally began: Observe has what would have been, Act what was.",
    ),
    "idlewin_tally_windows_total": (("rule", "mode"), "Windows, by the tally."),
    "idlewin_tally_lent_card_seconds_total": (
        ("rule", "mode"),
        "Card-seconds from when batch could run until giving back began, by the tally.",
    ),
    "idlewin_tally_late_returns_total": (("rule", "mode"), "Late returns, by the tally."),
    "idlewin_tally_waited_seconds_total": (
        ("rule", "mode"),
        "How long the users of late returns waited, by the tally.",
    ),
    "idlewin_budget_allowed": (("rule",), "Late returns that the budget allows in four weeks."),
    "idlewin_budget_spent": (("rule",), "Late returns of the last four weeks."),
    "idlewin_late_return_price_minutes": (
        ("rule",),
        "What the next late return costs, in minutes of batch; absent until it is known.",
    ),
    "idlewin_condition": (
        ("rule", "type"),
        "The rule's conditions: 1 true, 0 false, -1 unknown.",
    ),
    "idlewin_cycle_failures_total": (("rule",), "Cycles that raised; each is tried again."),
    "idlewin_writes_total": (
        ("action", "verdict"),
        "Writes to the cluster, and what became of them.",
    ),
    "idlewin_queue_depth": ((), "Pools that wait to be looked at."),
    "idlewin_queue_oldest_wait_seconds": ((), "How long the first in line has waited."),
    "idlewin_lease_held": ((), "1: this process may act; 0: it stands by."),
    "idlewin_journal_errors_total": ((), "Journal lines that could not be written."),
    "idlewin_api_lists_total": ((), "Lists asked of the API server; 0 new ones in steady state."),
    "idlewin_api_watches_total": ((), "Watches opened at the API server."),
    "idlewin_build_info": (("version", "python"), "Always 1."),
}


@dataclass(slots=True)
class _Series:
    """What is told of one rule."""

    last: Decision | None = None
    phase: Phase | None = None
    succeeded: datetime | None = None
    failures: int = 0
    decisions: Counter[tuple[str, ...]] = field(default_factory=Counter)
    transitions: Counter[tuple[str, ...]] = field(default_factory=Counter)


Samples = dict[tuple[str, ...], float]


class Exporter(Collector):
    """Keeps the latest of each rule, and tells it at the scrape."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = Lock()
        self._rules: dict[str, _Series] = {}
        self._writes: Counter[tuple[str, ...]] = Counter()
        self._asked: dict[str, Callable[[], float]] = {}
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "idlewin_cycle_seconds",
            "How long a cycle took.",
            buckets=CYCLE_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(self)

    def ask(self, metric: str, value: Callable[[], float]) -> None:
        """Have a metric without labels read at each scrape. Raises KeyError: there is none."""
        labels, _ = METRICS[metric]
        if labels:
            raise KeyError(f"{metric} has labels")
        self._asked[metric] = value

    def text(self) -> tuple[bytes, str]:
        """All metrics in Prometheus' text form, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    # -- as a journal

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Count one decision and its writes."""
        with self._lock:
            series = self._rules.setdefault(decision.rule, _Series())
            series.last = decision
            series.phase = decision.after if moved(decision, outcomes) else decision.before
            series.decisions[decision.reason.value,] += 1
            if moved(decision, outcomes):
                way = (decision.before.value, decision.after.value, decision.reason.value)
                series.transitions[way] += 1
            for outcome in outcomes:
                self._writes[type(outcome.action).__name__, outcome.verdict.value] += 1

    # -- as one who hears how cycles go

    def cycle_done(self, rule: str, seconds: float) -> None:
        """Note a cycle that ended well."""
        self._seconds.observe(seconds)
        with self._lock:
            self._rules.setdefault(rule, _Series()).succeeded = self._now()

    def cycle_failed(self, rule: str, seconds: float) -> None:
        """Note a cycle that raised."""
        self._seconds.observe(seconds)
        with self._lock:
            self._rules.setdefault(rule, _Series()).failures += 1

    def gone(self, rule: str) -> None:
        """Drop all series of a rule that is deleted."""
        with self._lock:
            self._rules.pop(rule, None)

    # -- as a collector

    def describe(self) -> list[Metric]:
        """Tell the names without asking for values: registering must not scrape."""
        return [_family(name, {}) for name in METRICS]

    def collect(self) -> Iterator[Metric]:
        """Tell everything, as of now."""
        with self._lock:
            told: dict[str, Samples] = {name: {} for name in METRICS}
            for rule, series in self._rules.items():
                _add_rule(told, rule, series)
            told["idlewin_writes_total"].update(self._writes)
        told["idlewin_build_info"][idlewin.__version__, platform.python_version()] = 1
        for name, value in self._asked.items():
            told[name][()] = value()
        for name, samples in told.items():
            yield _family(name, samples)


def _add_rule(told: dict[str, Samples], rule: str, series: _Series) -> None:
    if series.succeeded:
        told["idlewin_last_success_timestamp_seconds"][rule,] = series.succeeded.timestamp()
    told["idlewin_cycle_failures_total"][rule,] = series.failures
    for key, count in series.decisions.items():
        told["idlewin_decisions_total"][rule, *key] = count
    for key, count in series.transitions.items():
        told["idlewin_transitions_total"][rule, *key] = count
    if series.last is not None:
        for phase in Phase:
            told["idlewin_phase"][rule, phase.value] = phase is series.phase
        _add_decision(told, rule, series.last)


def _add_decision(told: dict[str, Samples], rule: str, decision: Decision) -> None:
    status, counters = decision.status, decision.status.counters
    if decision.load is not None:
        for level in Level:
            told["idlewin_load"][rule, level.value] = level is decision.load.level
    if status.until:
        told["idlewin_window_until_timestamp_seconds"][rule,] = status.until.timestamp()
    told["idlewin_revisit_timestamp_seconds"][rule,] = decision.revisit_at.timestamp()
    told["idlewin_late_returns_total"][rule,] = counters.late_returns
    told["idlewin_returns_total"][rule,] = counters.returns
    told["idlewin_windows_total"][rule,] = counters.windows
    told["idlewin_harvested_card_seconds_total"][rule,] = counters.harvested_card_seconds
    for mode, tally in ((Mode.OBSERVE, status.tallies.observe), (Mode.ACT, status.tallies.act)):
        if tally is not None and tally.since is not None:
            key = rule, mode.value
            told["idlewin_tally_since_timestamp_seconds"][key] = tally.since.timestamp()
            told["idlewin_tally_windows_total"][key] = tally.windows
            told["idlewin_tally_lent_card_seconds_total"][key] = tally.lent_card_seconds
            told["idlewin_tally_late_returns_total"][key] = tally.late_returns
            told["idlewin_tally_waited_seconds_total"][key] = tally.waited_seconds
    if status.budget.price:
        told["idlewin_budget_allowed"][rule,] = status.budget.allowed
        told["idlewin_budget_spent"][rule,] = status.budget.spent
        told["idlewin_late_return_price_minutes"][rule,] = status.budget.price
    for condition in status.conditions:
        value = {Truth.TRUE: 1, Truth.FALSE: 0, Truth.UNKNOWN: -1}[condition.status]
        told["idlewin_condition"][rule, condition.type] = value


def _family(name: str, samples: Samples) -> Metric:
    labels, says = METRICS[name]
    kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
    family = kind(name, says, labels=labels)
    for values, value in samples.items():
        family.add_metric(values, value)
    return family
