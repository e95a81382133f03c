"""A rule test that can be run: its rule, what is given, and when to look; and what was seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from idlewin.catalogue import Catalogue
from idlewin.core.load import Level, Reading, level_of
from idlewin.core.rule import Rule
from idlewin.core.target import Ref
from idlewin.core.window import Span, merged
from idlewin.ruletest.shorthand import Values
from idlewin.ruletest.written import Event, Expect, Queues


@dataclass(frozen=True, slots=True)
class Series:
    """Samples at even steps; each stands until the next."""

    start: datetime
    interval: timedelta
    values: Values

    @property
    def end(self) -> datetime:
        """When the last one stands no more."""
        return self.start + len(self.values) * self.interval

    def at(self, now: datetime) -> float | None:
        """What it shows at an instant; None: nothing."""
        number = (now - self.start) // self.interval
        return self.values[number] if 0 <= number < len(self.values) else None

    def when(self, level: Level, busy_above: float) -> tuple[Span, ...]:
        """When it says busy, idle or unknown, to what is busy above a value."""
        return merged(
            Span(begin, begin + self.interval)
            for begin, value in self._samples()
            if level_of(_reading(value, busy_above)) is level
        )

    def _samples(self) -> Iterator[tuple[datetime, float | None]]:
        for number, value in enumerate(self.values):
            yield self.start + number * self.interval, value


def _reading(value: float | None, busy_above: float) -> Reading:
    return Reading(target="", name="", value=value, busy_above=busy_above, visible_at_zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """When to look, what is to be then, and where that is written."""

    at: datetime
    expect: Expect
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One test of one rule."""

    name: str
    line: int
    pool: str
    """The rule's name."""
    rule: Rule
    catalogue: Catalogue
    start: datetime
    known_from: datetime
    """Nothing is known of demand before."""
    past: tuple[Span, ...]
    """When users were there before the start."""
    demand: Mapping[Ref, tuple[Series, ...]]
    """Of each target whose demand is looked at: a series for each entry."""
    activity: Series | None
    work: Mapping[str, int] | None
    events: tuple[tuple[datetime, Event], ...]
    looks: tuple[Look, ...]
    """In order of time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look showed."""

    phase: str
    reason: str
    serving: int
    queues: Queues
    told: str
    """The decision at that instant, in words."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What was to be, and what was."""

    field: str
    wanted: str
    was: str


def differences(expect: Expect, seen: Seen) -> tuple[Difference, ...]:
    """What is not as it is to be."""
    pairs = [(f.name, getattr(expect, f.name), getattr(seen, f.name)) for f in fields(expect)]
    return tuple(
        Difference(name, str(wanted), str(was))
        for name, wanted, was in pairs
        if wanted is not None and wanted != was
    )
