"""What a Prometheus has for rules: whether it answers, how far back, and each demand of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from idlewin.adapters.checkup import Diagnosis, Severity, parted
from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.adapters.survey import Found, uses
from idlewin.catalogue import Catalogue
from idlewin.core.load import History
from idlewin.core.pool import RuleObject
from idlewin.core.rule import Rule

#: What forecasts learn from at most; with less than a week, a weekday is seen once or never.
PAST, LEAST = timedelta(days=28), timedelta(days=7)
_STEP = timedelta(minutes=1)
_DAY = timedelta(days=1)


def of_prometheus(
    metrics: PrometheusMetrics, catalogue: Catalogue, rules: Iterable[RuleObject]
) -> Iterator[Diagnosis]:
    """All of it; never raises."""
    if why := metrics.answers():
        seen, remedy = parted(why)
        yield Diagnosis(about="Prometheus", severity=Severity.ERROR, seen=seen, remedy=remedy)
        return
    yield Diagnosis(about="Prometheus", severity=Severity.OK, seen="it answers")
    for rule in rules:
        if rule.rule is not None:
            about = f"demand of {rule.name}"
            yield from _of_uses(about, metrics, catalogue, rule.rule)
            yield _of_past(about, metrics.history(rule.rule, PAST, _STEP))


def _of_uses(
    about: str, metrics: PrometheusMetrics, catalogue: Catalogue, rule: Rule
) -> Iterator[Diagnosis]:
    for use in uses(metrics, catalogue, rule):
        missing = use.found is Found.MISSING
        seen, remedy = parted(use.why) if missing else (f"{use.found}: {use.why or use.value}", "")
        yield Diagnosis(
            about=about,
            severity=Severity.ERROR if missing else Severity.OK,
            seen=f"{use.field} ({use.name}): {seen}",
            remedy=remedy,
        )


def _of_past(about: str, past: History) -> Diagnosis:
    unknown = sum((span.end - span.start for span in past.unknown), timedelta())
    known = past.covers.end - past.covers.start - unknown
    seen = f"{max(known, timedelta()) / _DAY:.1f} days of it are known"
    if known >= LEAST:
        return Diagnosis(about=about, severity=Severity.OK, seen=seen)
    return Diagnosis(
        about=about,
        severity=Severity.WARNING,
        seen=f"{seen}, and a forecast wants a week at the least",
        remedy="wait, or have Prometheus keep more (--storage.tsdb.retention.time)",
    )
