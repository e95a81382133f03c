"""What became of rule tests: as text, as JSON, and as JUnit's XML for a CI."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from xml.etree import ElementTree as ET

from idlewin.cli.junit import case, clean, counts, document
from idlewin.core.text import format_duration, format_instant
from idlewin.errors import Finding
from idlewin.ruletest.trial import Difference, Look, Seen, Trial, differences


@dataclass(frozen=True, slots=True)
class Failure:
    """A look that was not as it was to be."""

    look: Look
    seen: Seen
    differences: tuple[Difference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A test that was run."""

    path: str
    trial: Trial
    seen: tuple[Seen, ...]
    seconds: float

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What was not as it was to be."""
        found = (
            Failure(look, seen, differences(look.expect, seen))
            for look, seen in zip(self.trial.looks, self.seen, strict=True)
        )
        return tuple(one for one in found if one.differences)

    def told(self, failure: Failure) -> str:
        """Where, when, what was to be (-) and what was (+), and why it was so."""
        look, since = failure.look, failure.look.at - self.trial.start
        when = f"at {format_duration(since)} ({format_instant(look.at)})"
        lines = [f"{self.path}:{look.line}: {self.trial.pool}: {self.trial.name}: {when}"]
        for one in failure.differences:
            lines += [f"  - {one.field}: {one.wanted}", f"  + {one.field}: {one.was}"]
        lines += [f"    {line}" for line in failure.seen.told.splitlines()]
        return "\n".join(lines)


def as_text(ran: Sequence[Ran], findings: Sequence[Finding]) -> str:
    """A line for each file, what failed, and the sum."""
    lines = []
    for path, some in groupby(ran, lambda one: one.path):
        of_file = list(some)
        bad = [one for one in of_file if one.failures]
        count = _count(len(of_file), "test")
        lines.append(f"{path}: {f'{len(bad)} of {count} failed' if bad else f'{count} ok'}")
        lines += [one.told(failure) for one in bad for failure in one.failures]
    failed = sum(bool(one.failures) for one in ran)
    looks = sum(len(one.trial.looks) for one in ran)
    total = f"{_count(len(ran), 'test')}, {_count(looks, 'check')}: "
    total += f"{failed} failed" if failed else "all as expected" if ran else "nothing was run"
    if findings:
        total += f"; {_count(len(findings), 'error')} in files"
    return "\n".join([*lines, total])


def as_json(ran: Sequence[Ran], findings: Sequence[Finding]) -> str:
    """All of it as data."""
    tests = [
        {
            "file": one.path,
            "line": one.trial.line,
            "rule": one.trial.pool,
            "name": one.trial.name,
            "ok": not one.failures,
            "seconds": round(one.seconds, 3),
            "checks": [
                {
                    "line": look.line,
                    "at": format_instant(look.at),
                    "phase": seen.phase,
                    "reason": seen.reason,
                    "serving": seen.serving,
                    "queues": seen.queues,
                    "differences": [asdict(d) for d in differences(look.expect, seen)],
                }
                for look, seen in zip(one.trial.looks, one.seen, strict=True)
            ],
        }
        for one in ran
    ]
    return json.dumps({"tests": tests, "errors": [asdict(one) for one in findings]}, indent=2)


def as_junit(ran: Sequence[Ran], findings: Sequence[Finding]) -> str:
    """JUnit's XML: a suite a file, a case a test; what cannot be used is an error."""
    root = ET.Element("testsuites")
    for path, some in groupby(ran, lambda one: one.path):
        suite = ET.SubElement(root, "testsuite", name=path)
        for one in some:
            told = case(suite, one.trial.pool, one.trial.name, one.seconds)
            for failure in one.failures:
                said = ", ".join(f"{d.field}: {d.was}, not {d.wanted}" for d in failure.differences)
                ET.SubElement(told, "failure", message=said).text = clean(one.told(failure))
        bad = sum(bool(told.findall("failure")) for told in suite)
        counts(suite, failures=bad, errors=0)
    if findings:
        suite = ET.SubElement(root, "testsuite", name="files")
        for finding in findings:
            told = case(suite, finding.file, finding.field or "file", 0.0)
            ET.SubElement(told, "error", message=clean(str(finding)))
        counts(suite, failures=0, errors=len(findings))
    return document(root)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
