"""What a look at a cluster found: how much it matters, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from idlewin.adapters.api import ApiError


class Severity(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    WARNING = "warning"
    """Windows open, and something may go otherwise than one thinks."""
    ERROR = "error"
    """No window opens, or a return may fail, until it is put right."""
    UNKNOWN = "unknown"
    """It could not be looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at."""

    about: str
    """Kubernetes, CRD, Kueue, a kind of serving, permissions, a rule by its name."""
    severity: Severity
    seen: str
    remedy: str = ""
    """Empty: nothing is to be done."""


def good(about: str, seen: str) -> Diagnosis:
    """Nothing is to be done."""
    return Diagnosis(about=about, severity=Severity.OK, seen=seen)


def bad(about: str, seen: str, remedy: str = "") -> Diagnosis:
    """No window, or a return that may fail."""
    return Diagnosis(about=about, severity=Severity.ERROR, seen=seen, remedy=remedy)


def doubt(about: str, seen: str, remedy: str = "") -> Diagnosis:
    """Something that one may not have meant."""
    return Diagnosis(about=about, severity=Severity.WARNING, seen=seen, remedy=remedy)


def unasked(about: str, error: ApiError) -> Diagnosis:
    """The API server did not say."""
    return Diagnosis(
        about=about,
        severity=Severity.UNKNOWN,
        seen=error.message,
        remedy="look with an account that may, or where the API server answers",
    )


def parted(text: str) -> tuple[str, str]:
    """A sentence that ends with what would be right, in its two halves."""
    seen, _, remedy = text.rpartition("; ")
    return (seen, remedy) if seen else (remedy, "")
