"""Diagnoses of a cluster, each by what the API server said."""

from __future__ import annotations

from idlewin.adapters.api import ApiError
from idlewin.diagnosis import Diagnosis, Severity

__all__ = ["Diagnosis", "Severity", "bad", "doubt", "good", "parted", "unasked"]


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
