"""What an audit found: as text, as data, as SARIF, as JUnit's XML, and as a gauge of Prometheus."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from idlewin import __version__
from idlewin.audit.checks import CHECKS
from idlewin.audit.exempt import Audit, Exemption
from idlewin.audit.finding import Finding
from idlewin.cli.junit import case, clean, counts, document
from idlewin.cli.output import written

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to tell."""

    audit: Audit
    unseen: dict[str, str] = field(default_factory=dict)
    """Kinds that could not be listed, each with the reason."""


def as_text(told: Told) -> str:
    """A line for each finding, what to do below, and the sum."""
    audit = told.audit
    lines = [line for one in audit.findings for line in _lines(one)]
    lines += [f"not looked at: {plural}: {why}" for plural, why in told.unseen.items()]
    by = Counter(str(one.severity) for one in audit.findings)
    total = ", ".join(f"{by[kind]} {kind}(s)" for kind in ("error", "warning") if by[kind])
    lines.append(f"{total or 'nothing was found'}; {len(audit.exempted)} exempted")
    return "\n".join(lines)


def _lines(one: Finding) -> Iterator[str]:
    where = f"{one.where}: " if one.where else ""
    yield f"{one.severity:8} {one.id} {where}{one.about}: {one.seen}"
    yield f"{'':9}-> {one.remedy}"


def _as_data(told: Told) -> dict[str, Any]:
    return {
        "findings": [asdict(one) for one in told.audit.findings],
        "exempted": [
            {**asdict(one), "reason": exemption.reason, "until": exemption.until.isoformat()}
            for one, exemption in told.audit.exempted
        ],
        "unseen": told.unseen,
    }


# -- SARIF


def as_sarif(told: Told) -> str:
    """SARIF 2.1.0; what is exempted is there, suppressed."""
    rules = [
        {
            "id": str(check.id),
            "shortDescription": {"text": check.title},
            "fullDescription": {"text": check.why},
            "help": {"text": check.remedy},
            "defaultConfiguration": {"level": str(check.severity)},
        }
        for check in CHECKS.values()
    ]
    results = [_result(one) for one in told.audit.findings]
    results += [{**_result(one), **_suppressed(why)} for one, why in told.audit.exempted]
    notes = [
        {"level": "warning", "message": {"text": f"not looked at: {plural}: {why}"}}
        for plural, why in told.unseen.items()
    ]
    run = {
        "tool": {"driver": {"name": "idlewin audit", "version": __version__, "rules": rules}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _result(one: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": one.about, "kind": "resource"}]
    }
    if one.file:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(one.file)},
            "region": {"startLine": max(one.line, 1)},
        }
    return {
        "ruleId": str(one.id),
        "ruleIndex": [str(name) for name in CHECKS].index(one.id),
        "level": str(one.severity),
        "message": {"text": f"{one.about}: {one.seen}; {one.remedy}"},
        "locations": [location],
    }


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def _suppressed(why: Exemption) -> dict[str, Any]:
    said = f"{why.reason} (until {why.until})"
    return {"suppressions": [{"kind": "external", "justification": said}]}


# -- JUnit, and a gauge


def as_junit(told: Told) -> str:
    """JUnit's XML: a case for each check, which fails by each of its findings."""
    root = ET.Element("testsuites")
    suite = ET.SubElement(root, "testsuite", name="idlewin audit")
    for check in CHECKS.values():
        one = case(suite, "idlewin.audit", f"{check.id} {check.title}")
        for finding in told.audit.findings:
            if finding.id == check.id:
                text = clean("\n".join(_lines(finding)))
                said = clean(f"{finding.severity}: {finding.about}: {finding.seen}")
                ET.SubElement(one, "failure", message=said).text = text
    bad = sum(bool(one.findall("failure")) for one in suite)
    counts(suite, failures=bad, errors=0)
    return document(root)


def as_prometheus(told: Told) -> str:
    """A gauge of each check, those without a finding at 0: for a textfile collector."""
    found = Counter(one.id for one in told.audit.findings)
    name = "idlewin_audit_findings"
    lines = [f"# HELP {name} Findings of idlewin audit.", f"# TYPE {name} gauge"]
    lines += [
        f'{name}{{id="{check.id}",severity="{check.severity}"}} {found[check.id]}'
        for check in CHECKS.values()
    ]
    return "\n".join(lines)


FORMS: dict[str, Callable[[Told], str]] = {
    "text": as_text,
    "json": lambda told: written(_as_data(told), "json"),
    "yaml": lambda told: written(_as_data(told), "yaml"),
    "sarif": as_sarif,
    "junit": as_junit,
    "prometheus": as_prometheus,
}
