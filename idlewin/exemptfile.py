"""Files of exemptions: every error names file, line, value and what would be right."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from idlewin.audit.checks import CHECKS
from idlewin.audit.exempt import Exemption
from idlewin.errors import Finding, UsageError
from idlewin.yamlfile import Part, of_file, parts, text_of

_KEYS = ("id", "object", "reason", "until")
_EXAMPLE = (
    "write {id: IW103, object: Deployment media/jellyfin, reason: WHY, until: 2030-12-31} for each"
)


def read_exemptions(path: Path) -> list[Exemption]:
    """All of a file. Raises UsageError with each fault."""
    told: list[Exemption | Finding] = []
    text = text_of(path)
    for part in [text] if isinstance(text, Finding) else parts(path, text):
        told += [part] if isinstance(part, Finding) else _document(path, part)
    if not told:
        told = [of_file(path, f"is empty; {_EXAMPLE} under exemptions")]
    if faults := [one for one in told if isinstance(one, Finding)]:
        raise UsageError("\n".join(map(str, faults)))
    return [one for one in told if isinstance(one, Exemption)]


def _document(path: Path, part: Part) -> Iterator[Exemption | Finding]:
    root = part.plain() if part.is_mapping else None
    entries = root.get("exemptions") if root and set(root) == {"exemptions"} else None
    if not isinstance(entries, list):
        yield of_file(path, f"is no file of exemptions: under exemptions {_EXAMPLE}", part.line)
        return
    for number, entry in enumerate(entries):
        line = part.line_of(("exemptions", number))
        yield from _entry(path, line, entry if isinstance(entry, dict) else {})


def _entry(path: Path, line: int, entry: dict[str, Any]) -> Iterator[Exemption | Finding]:
    faults = [f"{key} is no field of it" for key in entry if key not in _KEYS]
    faults += [f"{key} is missing" for key in _KEYS if not entry.get(key)]
    if entry.get("id") and str(entry["id"]) not in CHECKS:
        faults.append(f"id {entry['id']} is no check; there are {', '.join(CHECKS)}")
    until = None
    if entry.get("until"):
        try:
            until = date.fromisoformat(str(entry["until"]))
        except ValueError:
            faults.append(f"until {entry['until']!r} is no day; write one such as 2030-12-31")
    if faults or until is None:
        yield of_file(path, f"{'; '.join(faults)}; {_EXAMPLE}", line)
    else:
        told = {key: str(entry[key]) for key in ("id", "object", "reason")}
        yield Exemption(**told, until=until, line=line)
