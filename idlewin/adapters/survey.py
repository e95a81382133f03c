"""What each source of a catalogue shows now, and which of a rule's demands shows nothing.

For people who set rules up; what a reading is, is prometheus.py's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import partial

from idlewin.adapters.prometheus import EVER, STALE, PrometheusMetrics
from idlewin.adapters.prometheus_source import Key, Look, UnknownError
from idlewin.catalogue import Catalogue, described
from idlewin.core.rule import Activity, Rule
from idlewin.core.target import Demand
from idlewin.draft.facts import Seen
from idlewin.source import Source, SourceKind

_WAS = f"no series now, though there was one within {EVER / timedelta(days=1):g} days"


class State(StrEnum):
    """Whether what shows a source is there."""

    ALIVE = "alive"
    DOWN = "down"
    """It was there lately, and its last scrape failed or is old."""
    ABSENT = "absent"
    UNREADABLE = "unreadable"
    """Prometheus does not answer the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One key of a source."""

    match: Mapping[str, str]
    value: float | None
    """None: it shows no number that could be written down."""
    age: float | None
    """Seconds since its newest sample."""
    why: str
    """Why it is not believed; empty: it is."""
    possible: bool
    """Whether its value is from 0 to the source's max, or there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a source shows now."""

    source: Source
    state: State
    why: str
    shown: tuple[Shown, ...] = ()
    away: frozenset[Key] = frozenset()
    """Keys of running work without a value, though no scrape failed: there may be no pod."""


class Found(StrEnum):
    """What there is of one demand or activity of a rule."""

    THERE = "there"
    AWAY = "away"
    """No series now, but there were lately: its server may have no pod."""
    MISSING = "missing"
    """Unknown, and so no window opens: no series now nor lately, or none that is believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One demand or activity of a rule."""

    field: str
    """As YAML spells it."""
    name: str
    found: Found
    value: float | None
    why: str
    """Why there is no value, and what to do."""


def sights(metrics: PrometheusMetrics, catalogue: Catalogue) -> Iterator[Sight]:
    """What each source shows now."""
    for source in catalogue.sources.values():
        try:
            look = metrics.look(source)
        except UnknownError as error:
            yield Sight(source=source, state=State.UNREADABLE, why=str(error))
            continue
        state, why = State.ALIVE, _doubt(look)
        try:
            look.witnessed(STALE)
        except UnknownError as error:
            state, why = State.DOWN if look.seen else State.ABSENT, str(error)
        shown = tuple(_shown(look, key) for key in look.keys.all)
        away = frozenset(filter(partial(_away, look), look.keys.all))
        yield Sight(source=source, state=state, why=why, shown=shown, away=away)


def _away(look: Look, key: Key) -> bool:
    running = look.source.kind is SourceKind.RUNNING
    return running and look.raw(key) is None and not look.failed(key)


def seen(metrics: PrometheusMetrics, catalogue: Catalogue) -> Iterator[Seen]:
    """The same for who drafts a rule: the labels of all series, and the keys to doubt."""
    for sight in sights(metrics, catalogue):
        source, shown = sight.source, {tuple(one.match.values()): one for one in sight.shown}
        try:
            series = metrics.lately(source)
        except UnknownError:
            series = []
        if source.kind is SourceKind.ACTIVITY:
            # A card that was taken out is none of any node's.
            series = [labels for labels in series if source.key_of(labels) in shown]
        doubts = {key: one.why for key, one in shown.items() if one.why}
        if source.kind is SourceKind.RUNNING:
            gone = {key for key in map(source.key_of, series) if key not in shown}
            doubts |= dict.fromkeys(gone | sight.away, _WAS)
        yield Seen(
            source=source,
            alive=sight.state is State.ALIVE,
            trouble=sight.why if sight.state in (State.DOWN, State.UNREADABLE) else "",
            series=tuple(series),
            doubts=doubts,
        )


def _doubt(look: Look) -> str:
    """What is odd about a source that is alive."""
    source, keys = look.source, look.keys
    if not keys.all:
        return f"no series of {source.series}: nobody asked since its start, or {source.remedy}"
    if keys.unlabelled:
        labels = ", ".join(keys.unlabelled)
        return f"no series has the label {labels}, so no match by it finds one; {source.remedy}"
    return ""


def uses(metrics: PrometheusMetrics, catalogue: Catalogue, rule: Rule) -> Iterator[Use]:
    """What there is of each demand and activity of a rule."""
    for (field, of), reading in zip(_named(rule), metrics.read(rule), strict=True):
        found, why = Found.THERE, reading.why
        if reading.value is None:
            found = Found.MISSING
            if _was_there(metrics, catalogue, of):
                found, why = Found.AWAY, _WAS
        yield Use(field=field, name=described(of), found=found, value=reading.value, why=why)


def _named(rule: Rule) -> Iterator[tuple[str, Demand | Activity]]:
    """What a rule looks at, in the order of its readings."""
    for number, serving in enumerate(rule.serving):
        if not isinstance(serving.demand, str):
            for place, demand in enumerate(serving.demand):
                if demand.llama_swap is not None:
                    continue  # no Prometheus has it
                yield f"spec.serving[{number}].demand[{place}]", demand
    if rule.cards.activity is not None:
        yield "spec.cards.activity", rule.cards.activity


def _was_there(metrics: PrometheusMetrics, catalogue: Catalogue, of: Demand | Activity) -> bool:
    """Whether keys that are meant had a series lately, and have none now."""
    source = catalogue.sources.get(of.source or "")
    if source is None or source.kind is not SourceKind.RUNNING:
        return False
    if not set(of.match) <= set(source.keys):
        return False
    try:
        look, ever = metrics.look(source), metrics.ever(source)
    except UnknownError:
        return False
    now = look.keys.matching(of.match)
    if not all(_away(look, key) for key in now):
        return False
    return bool(now or ever.matching(of.match))


def _shown(look: Look, key: Key) -> Shown:
    value, age, why = look.raw(key), look.age(key), ""
    try:
        look.value(key, STALE)
    except UnknownError as error:
        why = str(error)
    return Shown(
        match=dict(zip(look.source.keys, key, strict=True)),
        value=value if value is not None and math.isfinite(value) else None,
        age=age,
        why=why,
        possible=value is None or 0 <= value <= look.source.max,
    )


def oldest(shown: Iterable[Shown]) -> float | None:
    """The age of the sample that is the oldest of the newest ones."""
    return max((one.age for one in shown if one.age is not None), default=None)
