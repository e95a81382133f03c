"""Exemptions: findings that somebody has looked at and lives with, for a reason and until a day."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from fnmatch import fnmatchcase

from idlewin.audit.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemption:
    """One entry of a file of exemptions."""

    id: str
    object: str
    """As findings spell it, ``*`` standing for anything."""
    reason: str
    until: date
    """The last day on which it holds."""
    line: int = 0

    def takes(self, one: Finding) -> bool:
        """Whether it is about a finding, ended or not."""
        return self.id == one.id and fnmatchcase(one.about, self.object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What came of it."""

    findings: tuple[Finding, ...] = ()
    exempted: tuple[tuple[Finding, Exemption], ...] = ()
    unused: tuple[Exemption, ...] = ()
    """Exemptions that are about nothing any more."""


def exempted(findings: Iterable[Finding], exemptions: Iterable[Exemption], today: date) -> Audit:
    """Findings apart from those that are lived with; one whose exemption has ended says so."""
    known, told, let, used = list(exemptions), [], [], set()
    for one in findings:
        about = [exemption for exemption in known if exemption.takes(one)]
        used.update(about)
        holds = next((exemption for exemption in about if exemption.until >= today), None)
        if holds:
            let.append((one, holds))
        elif about:
            last = max(about, key=lambda exemption: exemption.until)
            ended = f"its exemption ended on {last.until}: {last.reason}"
            told.append(replace(one, seen=f"{one.seen} ({ended})"))
        else:
            told.append(one)
    unused = tuple(exemption for exemption in known if exemption not in used)
    return Audit(findings=tuple(told), exempted=tuple(let), unused=unused)
