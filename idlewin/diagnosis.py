"""What a look found: how much it matters, and what to do. ``doctor`` and ``audit`` tell by it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    """It works, and something may go otherwise than one thinks."""
    ERROR = "error"
    """Something does not work, or a promise cannot be kept, until it is put right."""
    UNKNOWN = "unknown"
    """It could not be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at."""

    about: str
    """What was looked at: an object, or a part of the cluster."""
    severity: Severity
    seen: str
    remedy: str = ""
    """Empty: nothing is to be done."""
