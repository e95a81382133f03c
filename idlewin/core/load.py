"""Load: what demand is there, in three values. Unknown is not idle (promise P5).

A reading is what one demand's query answered; judging turns readings into busy, idle or unknown.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from idlewin.core.window import Span


class Level(StrEnum):
    """Whether users are there."""

    BUSY = "Busy"
    IDLE = "Idle"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one demand showed. A value of None is unknown, and ``why`` says why."""

    target: str
    """The serving target whose demand it is, or the cards."""
    name: str
    """The demand, as the rule writes it: the source and its match, or the query."""
    value: float | None
    busy_above: float
    visible_at_zero: bool
    valid_max: float = math.inf
    """Values above it are not believed, nor are negative ones."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The demand on a pool at one instant."""

    level: Level
    since: datetime
    """Since when it has been at this level, as far as is known."""
    why: str
    """The reading that decided."""


def level_of(reading: Reading) -> Level:
    """Busy, idle or unknown, of one reading."""
    value = reading.value
    if value is None or not math.isfinite(value) or not 0 <= value <= reading.valid_max:
        return Level.UNKNOWN
    return Level.BUSY if value > reading.busy_above else Level.IDLE


def judge(readings: Iterable[Reading], *, at_zero: Collection[str] = ()) -> tuple[Level, str]:
    """Any busy is busy; else any unknown is unknown; and the sentence that says which.

    ``at_zero`` names the targets that have no pod. A source that counts running work has nothing
    to say of those, so only what is visible at zero is asked to be known; where nothing is, the
    target's demand is unknown. No readings at all is a pool that goes by the calendar only.
    """
    asked: list[Reading] = []
    blind = {}
    for reading in readings:
        if reading.target not in at_zero or reading.visible_at_zero:
            asked.append(reading)
            blind[reading.target] = False
        elif level_of(reading) is Level.BUSY:
            return Level.BUSY, _sentence(reading)
        else:
            blind.setdefault(reading.target, True)
    for wanted in (Level.BUSY, Level.UNKNOWN):
        for reading in asked:
            if level_of(reading) is wanted:
                return wanted, _sentence(reading)
    for target, unseen in blind.items():
        if unseen:
            return Level.UNKNOWN, f"{target} is at zero, where none of its demand would show"
    names = ", ".join(reading.name for reading in asked)
    return Level.IDLE, f"no demand in {names}" if names else "by the calendar only"


def _sentence(reading: Reading) -> str:
    if reading.why or reading.value is None:
        return f"{reading.name}: {reading.why or 'no value'}"
    if level_of(reading) is Level.UNKNOWN:
        return f"{reading.name} is {reading.value:g}, which is no possible value"
    return f"{reading.name} is {reading.value:g}, busy above {reading.busy_above:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """When demand was there, over a stretch of the past: runs in order, without overlaps."""

    covers: Span
    """The stretch that was looked at. Outside it nothing is known."""
    busy: tuple[Span, ...] = ()
    unknown: tuple[Span, ...] = ()
    """Gaps in the data. A forecaster treats them as demand: unknown is not idle."""
    serving_away: tuple[Span, ...] = field(default=())
    """Windows of ours, in which demand of some kinds could not show."""
