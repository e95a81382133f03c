"""Values that people write as text in a rule: durations and shares.

A class that wants one annotates its field, ``idle_for: Duration``. The codec reads the
annotation through pydantic's own protocol, so the core needs no import of pydantic.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

_UNITS = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}
_DURATION = re.compile(
    r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII
)
_LONGEST = timedelta(weeks=520)


def parse_duration(text: object) -> timedelta:
    """A Prometheus duration (``1h30m``, ``90s``, ``2d``), at most ten years.

    Source: prometheus.io, querying basics, time durations. Raises ValueError.
    """
    if isinstance(text, timedelta):
        return text
    if not isinstance(text, str) or text.isdecimal():
        number = not isinstance(text, bool) and str(text).isdecimal() and int(str(text))
        raise ValueError(
            f"{text!r} is not a duration; write a number with its unit, such as {number or 10}m"
        )
    found = _DURATION.fullmatch(text) if text else None
    if found is None:
        raise ValueError(
            f"{text!r} is not a duration; write 90s, 10m, 1h30m or 2d, the longest unit first"
        )
    parts = zip(found.groups(), _UNITS.values(), strict=True)
    try:
        total = sum((int(n) * unit for n, unit in parts if n), timedelta())
    except OverflowError:
        total = _LONGEST + timedelta(1)
    if total > _LONGEST:
        raise ValueError(f"{text!r} is longer than ten years")
    return total


def format_duration(value: timedelta) -> str:
    """The shortest Prometheus duration of a value, to the millisecond; a minus where negative."""
    left, text = abs(value), ""
    for name in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNITS[name])
        text += f"{count}{name}" if count else ""
    return ("-" if value < timedelta() and text else "") + (text or "0s")


def parse_share(text: object) -> float:
    """A share written as per cent, ``5%``, as a number from 0 to 1. Raises ValueError."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)%", text) if isinstance(text, str) else None
    if found is None or not 0 < Decimal(found[1]) <= 100:
        raise ValueError(f"{text!r} is not a share; write it as per cent, such as 5%")
    return float(Decimal(found[1]) / 100)


def format_share(value: float) -> str:
    """A share as per cent; read again, it is the same number."""
    return f"{(Decimal(repr(value)) * 100).normalize():f}%"


def parse_instant(text: object) -> datetime:
    """An RFC 3339 instant with its zone, such as 2026-12-24T18:00:00Z. Raises ValueError."""
    try:
        value = in_utc(datetime.fromisoformat(text)) if isinstance(text, str) else None
    except ValueError:
        value = None
    if value is None:
        raise ValueError(f"{text!r} is no instant; write one such as 2026-12-24T18:00:00Z")
    return value


def in_utc(value: datetime) -> datetime:
    """The same instant in UTC. Raises ValueError without a zone, and outside years 1 to 9999."""
    if value.tzinfo is None:
        raise ValueError(f"{value.isoformat()} has no zone")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{value.isoformat()} is in no year from 1 to 9999 in UTC") from None


def format_instant(value: datetime) -> str:
    """An instant in UTC, to the second, as Kubernetes writes it."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_second(value: datetime) -> datetime:
    """The next whole second: what is written down by it is not over before ``value``."""
    return (value + timedelta(microseconds=999_999)).replace(microsecond=0)


@dataclass(frozen=True)
class Text:
    """Marks a field that is written as text: how it is read, written and described."""

    parse: Callable[[object], Any]
    format: Callable[[Any], str]
    pattern: str
    example: str

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> dict[str, Any]:
        """What pydantic asks an annotation for; plain data, so that no import is needed."""
        return {
            "type": "function-plain",
            "function": {"type": "no-info", "function": self.parse},
            "serialization": {"type": "function-plain", "function": self.format},
        }

    def __get_pydantic_json_schema__(self, _schema: object, _handler: object) -> dict[str, Any]:
        """The JSON Schema of the text."""
        return {"type": "string", "pattern": self.pattern, "examples": [self.example]}


Duration = Annotated[
    timedelta,
    Text(
        parse_duration,
        format_duration,
        r"^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$",
        "10m",
    ),
]
Share = Annotated[float, Text(parse_share, format_share, r"^[0-9]+(\.[0-9]+)?%$", "5%")]


def camel(name: str) -> str:
    """``idle_for`` as it is written in YAML: ``idleFor``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


#: How the codec reads and writes these classes: camelCase, unknown keys are errors, no guessing.
SCHEMA: dict[str, Any] = {
    "extra": "forbid",
    "alias_generator": camel,
    "validate_by_name": False,
    "strict": True,
    "allow_inf_nan": False,
    "use_attribute_docstrings": True,
}
