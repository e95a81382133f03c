"""What an audit finds: a fault of an object, by the id of the check."""

from __future__ import annotations

from dataclasses import dataclass

from idlewin.audit.checks import CHECKS, Id
from idlewin.audit.facts import Thing
from idlewin.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Diagnosis):
    """One fault of one object."""

    id: str
    title: str
    file: str = ""
    """Where the object is written down; empty: it is the cluster's."""
    line: int = 0

    @property
    def where(self) -> str:
        """Its file and line; empty in a cluster."""
        return f"{self.file}:{self.line}" if self.file else ""


def found(
    id: Id,  # noqa: A002 - it is called so
    thing: Thing,
    seen: str,
    remedy: str = "",
) -> Finding:
    """A fault of an object; its remedy is that of the check, where there is no nearer one."""
    check = CHECKS[id]
    return Finding(
        id=id,
        title=check.title,
        about=str(thing),
        severity=check.severity,
        seen=seen,
        remedy=remedy or check.remedy,
        file=thing.file,
        line=thing.line,
    )
