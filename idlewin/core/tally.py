"""Tallies: what lending would have brought and cost in Observe, beside what it did in Act."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from idlewin.core.text import SCHEMA, camel

#: Read leniently, as the status that they are a part of.
_LENIENT: dict[str, Any] = {**SCHEMA, "extra": "ignore", "alias_generator": camel}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What lending brought and cost in one mode, in the last stretch of it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    since: datetime | None = None
    until: datetime | None = None
    """Absent while it goes on."""
    windows: int = 0
    lent_card_seconds: int = 0
    """From when batch could run until giving back began, times the cards."""
    late_returns: int = 0
    waited_seconds: int = 0
    """By the users of all late returns, each from the first of them until serving was back."""
    longest_wait_seconds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldBe:
    """In Observe: the window that would be open now, and what holds the next one back."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    opened_at: datetime | None = None
    back_at: datetime | None = None
    """It would have been given back: when serving would be ready."""
    wanted_at: datetime | None = None
    """When a user came whom it kept waiting."""
    again_at: datetime | None = None
    """No other one before, for minServing."""
    windows_today: int = 0
    day: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallies:
    """What would have been in Observe, and what was in Act, side by side. Nothing decides by it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    observe: Tally | None = None
    act: Tally | None = None
    would_be: WouldBe | None = None
    wanted_at: datetime | None = None
    """In Act: when a user came whom the open window kept waiting."""
