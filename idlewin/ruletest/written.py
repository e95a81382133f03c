"""What a file of rule tests may say, field by field.

The field names are a contract, as those of a rule: add, do not rename. docs/rule-tests.md shows
each of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from idlewin.core.calendar import parse as parse_hours
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode
from idlewin.core.text import (
    SCHEMA,
    Duration,
    Text,
    camel,
    format_duration,
    format_instant,
    parse_duration,
    parse_instant,
)
from idlewin.ruletest.shorthand import Values, format_values, parse_values


def parse_at(text: object) -> timedelta | datetime:
    """A time from the test's start, or an instant. Raises ValueError."""
    if isinstance(text, str) and re.match(r"\d{4}-", text):
        return parse_instant(text)
    try:
        return parse_duration(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither a time from start, such as 1h10m, nor an instant, such as "
            "2026-01-05T18:00:00Z"
        ) from None


def _format_at(value: timedelta | datetime) -> str:
    return format_instant(value) if isinstance(value, datetime) else format_duration(value)


At = Annotated[timedelta | datetime, Text(parse_at, _format_at, "^.+$", "1h10m")]
Instant = Annotated[datetime, Text(parse_instant, format_instant, "^.+$", "2026-01-05T18:00:00Z")]
Shorthand = Annotated[Values, Text(parse_values, format_values, "^.+$", "0x30 5x10")]


class Queues(StrEnum):
    """How a rule's queues stand."""

    OPEN = "Open"
    CLOSED = "Closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What is to be at an instant; what is left out may be as it likes."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    phase: Phase | None = None
    """Where the pool stands."""
    reason: Reason | None = None
    """Why it moved there, or stays."""
    serving: int | None = None
    """How many of the rule's targets are ready."""
    queues: Queues | None = None
    """Open: at least one of the rule's queues lets work in; Closed: none does."""

    def __post_init__(self) -> None:
        if all(getattr(self, part.name) is None for part in fields(self)):
            known = ", ".join(part.name for part in fields(self))
            raise ValueError(f"expect says nothing; write some of {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A look at the pool."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    at: At
    """When: a time from start, or an instant with its zone."""
    expect: Expect
    """What is to be then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens beside demand; one for each entry."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    at: At
    """When: a time from start, or an instant with its zone."""
    wake: Duration | None = None
    """A claim for so long, as by idlewin wake."""
    pause: bool | None = None
    """True: as idlewin pause; false: as idlewin resume."""
    prometheus_down: Duration | None = None
    """Prometheus does not answer for so long."""
    kueue_down: Duration | None = None
    """Kueue is away for so long, its webhooks too."""

    def __post_init__(self) -> None:
        kinds = [part.name for part in fields(self) if part.name != "at"]
        if sum(getattr(self, kind) is not None for kind in kinds) != 1:
            known = ", ".join(map(camel, kinds))
            raise ValueError(f"an event is one of {known}; write each as an entry of its own")


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Demand before the test begins, for the forecast: the same hours each week."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    days: int
    """So many days are known before start, 28 at most: a forecast looks no further back."""
    busy: tuple[str, ...] = ()
    """When users were there, as a calendar's hours are written, in the zone of the rule's own:
    'Mon-Fri 08:00-18:00'."""

    def __post_init__(self) -> None:
        if not 1 <= self.days <= 28:
            raise ValueError(f"days is {self.days}; a forecast looks 1 to 28 days back")
        for hours in self.busy:
            parse_hours(hours)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTest:
    """A stretch of time, what demand was in it, and what the rule is to make of that."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: str
    """What it shows; told where it fails."""
    start: Instant
    """When it begins, with the zone: 2026-01-05T18:00+01:00."""
    interval: Duration = timedelta(minutes=1)
    """How long each sample of a series stands."""
    mode: Mode = Mode.ACT
    """The rule's mode in this test, whatever it says itself. Default: Act."""
    demand: dict[str, Shorthand | dict[str, Shorthand]] = field(default_factory=dict)
    """For each target by its name (or NAMESPACE/NAME) what its demand shows: a series for all of
    it, or one for each source by its name, query or llamaSwap, or its place in the list from 0."""
    activity: Shorthand | None = None
    """What cards.activity shows, from 0 to 1, where the rule has it."""
    history: Past | None = None
    """What is known of the time before start; without it nothing is, and no forecast is ready."""
    work: dict[str, int] | None = None
    """How many jobs come to each queue in all. Left out: more than can run, in every queue."""
    events: tuple[Event, ...] = ()
    """What happens beside demand."""
    checks: tuple[Check, ...]
    """When to look, and what is to be."""

    def __post_init__(self) -> None:
        if not 1971 <= self.start.year <= 2999:
            raise ValueError("start is in no year from 1971 to 2999; a calendar is looked up there")
        if not timedelta() < self.interval <= timedelta(days=1):
            told = format_duration(self.interval)
            raise ValueError(f"interval is {told}; write how long a sample stands, 1d at most")
        if not self.checks:
            raise ValueError("checks is empty; write when to look, and what is to be then")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One document of a file of rule tests."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    rule: str = ""
    """The rule's file, from where this file is. Default: this file's name without .test."""
    of: str = ""
    """The rule's name, where its file has several."""
    tests: tuple[RuleTest, ...]
    """Each in a cluster of its own."""
