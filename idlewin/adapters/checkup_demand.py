"""What a Prometheus has for rules: whether it answers, how far back, and each demand of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

from idlewin.adapters.diagnosis import Diagnosis, Severity, parted
from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.adapters.survey import Found, Use, uses
from idlewin.catalogue import Catalogue
from idlewin.core.load import History
from idlewin.core.phase import Phase
from idlewin.core.pool import RuleObject
from idlewin.core.rule import Rule

#: What forecasts learn from at most; with less than a week, a weekday is seen once or never.
PAST, LEAST = timedelta(days=28), timedelta(days=7)
_NO_SERIES = "where its server has a pod: have it scraped again, for unknown demand lends nothing"
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
            lent = rule.status is not None and rule.status.phase != Phase.SERVING
            yield from _of_uses(about, uses(metrics, catalogue, rule.rule), lent=lent)
            yield from _of_pasts(about, metrics, rule.rule)


def _of_uses(about: str, found: Iterable[Use], *, lent: bool) -> Iterator[Diagnosis]:
    for use in found:
        severity, seen, remedy = Severity.OK, f"{use.found}: {use.why or use.value}", ""
        if use.found is Found.MISSING:
            severity, (seen, remedy) = Severity.ERROR, parted(use.why)
        elif use.found is Found.AWAY and not lent:
            # Of a server without a pod that is right; whether it has one is not seen here.
            severity, remedy = Severity.WARNING, _NO_SERIES
        yield Diagnosis(
            about=about, severity=severity, seen=f"{use.field} ({use.name}): {seen}", remedy=remedy
        )


def _of_pasts(about: str, metrics: PrometheusMetrics, rule: Rule) -> Iterator[Diagnosis]:
    """How far back each source is known, where there are several; and all of them together."""
    apart = [
        (f"spec.serving[{number}].demand[{place}]", serving, demand)
        for number, serving in enumerate(rule.serving)
        if not isinstance(serving.demand, str)
        for place, demand in enumerate(serving.demand)
        if demand.llama_swap is None
    ]
    for field, serving, demand in apart if len(apart) > 1 else ():
        alone = replace(rule, serving=(replace(serving, demand=(demand,)),))
        yield _of_past(about, f"of {field}", metrics.history(alone, PAST, _STEP))
    yield _of_past(
        about, "of all of it" if len(apart) > 1 else "of it", metrics.history(rule, PAST, _STEP)
    )


def _of_past(about: str, of: str, past: History) -> Diagnosis:
    unknown = sum((span.end - span.start for span in past.unknown), timedelta())
    known = past.covers.end - past.covers.start - unknown
    seen = f"{max(known, timedelta()) / _DAY:.1f} days {of} are known"
    if known >= LEAST:
        return Diagnosis(about=about, severity=Severity.OK, seen=seen)
    return Diagnosis(
        about=about,
        severity=Severity.WARNING,
        seen=f"{seen}, and a forecast wants a week at the least",
        remedy="wait, or have Prometheus keep more (--storage.tsdb.retention.time)",
    )
