"""Files of rule tests to trials: every error names file, line, field, value and what is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.codec import read_as
from idlewin.core.calendar import HORIZON, Calendar
from idlewin.core.rule import Rule
from idlewin.core.target import Demand, Ref, Serving
from idlewin.core.text import format_duration
from idlewin.core.window import Span
from idlewin.errors import Finding, Problem, RuleError
from idlewin.rulefile import Document, read_files
from idlewin.ruletest.shorthand import Values
from idlewin.ruletest.trial import Look, Series, Trial
from idlewin.ruletest.written import RuleTest, Written
from idlewin.wording import nearest, shown, spelled
from idlewin.yamlfile import Part, of_file, parts, text_of

ENDS = (".test.yaml", ".test.yml")
Place = tuple[str | int, ...]
#: A test is run minute by minute: what takes longer is a replay's.
_LONGEST = timedelta(days=31)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFile:
    """The tests of one file, or what is wrong with it."""

    path: Path
    trials: tuple[Trial, ...] = ()
    findings: tuple[Finding, ...] = ()


class _Wrong(Exception):  # noqa: N818 - not a fault of ours, and never leaves this file
    """A part of a test that cannot be meant."""

    def __init__(self, place: Place, message: str) -> None:
        self.problem = Problem(field=spelled("", place), message=message, path=place)
        super().__init__(message)


def find(paths: Iterable[Path]) -> tuple[list[Path], list[Finding]]:
    """The files of tests that some paths name, and what is to be said of the paths."""
    found: list[Path] = []
    wrong: list[Finding] = []
    for path in paths:
        if not path.exists():
            wrong.append(of_file(path, "is not there; name a test file or a directory of them"))
        elif not path.is_dir():
            found.append(path)
        elif inside := sorted(p for p in path.rglob("*") if p.name.endswith(ENDS)):
            found += inside
        else:
            wrong.append(of_file(path, "has no *.test.yaml in it; docs/rule-tests.md shows one"))
    return list(dict.fromkeys(found)), wrong


def read_trials(path: Path, catalogue: Catalogue = SHIPPED) -> TrialFile:
    """The tests of a file."""
    text = text_of(path)
    if isinstance(text, Finding):
        return TrialFile(path=path, findings=(text,))
    trials: list[Trial] = []
    findings: list[Finding] = []
    for part in parts(path, text):
        if isinstance(part, Finding):
            findings.append(part)
            continue
        try:
            trials += _trials(path, part, catalogue)
        except RuleError as error:
            told = (_finding(path, part, problem) for problem in error.problems)
            findings += sorted(told, key=lambda finding: finding.line)
    if not trials and not findings:
        findings.append(of_file(path, "is empty; write tests, or take the file away"))
    return TrialFile(path=path, trials=tuple(trials), findings=tuple(findings))


def _finding(path: Path, part: Part, problem: Problem) -> Finding:
    line, field = part.line_of(problem.path), problem.field
    return Finding(file=str(path), line=line, field=field, message=problem.message)


def _trials(path: Path, part: Part, catalogue: Catalogue) -> list[Trial]:
    """The tests of one document. Raises RuleError."""
    try:
        plain = part.plain()
    except RecursionError:
        raise RuleError([Problem(field="", message="contains itself by an alias")]) from None
    if not part.is_mapping:
        raise RuleError([Problem(field="", message=f"{shown(plain)} is no mapping; write tests:")])
    written = read_as(Written, plain)
    try:
        document, rule = _rule_of(path, written)
    except _Wrong as wrong:
        raise RuleError([wrong.problem]) from None
    trials: list[Trial] = []
    problems: list[Problem] = []
    for number, test in enumerate(written.tests):
        try:
            trials.append(_Binding(part, ("tests", number), test, rule).trial(document, catalogue))
        except _Wrong as wrong:
            problems.append(wrong.problem)
    if problems:
        raise RuleError(problems)
    return trials


def _rule_of(path: Path, written: Written) -> tuple[Document, Rule]:
    """The rule that a file tests."""
    name = next((path.name.removesuffix(end) for end in ENDS if path.name.endswith(end)), "")
    if not written.rule and not name:
        raise _Wrong(("rule",), f"{path.name} is no NAME.test.yaml; write rule: NAME.yaml")
    file = path.parent / (written.rule or f"{name}.yaml")
    if not file.is_file():
        raise _Wrong(("rule",), f"there is no {file}; name the rule's file, from where this one is")
    found = read_files([file])
    if errors := [str(finding) for finding in found.findings if not finding.warning]:
        raise _Wrong(("rule",), f"cannot be read: {'; '.join(errors)}")
    known = {document.name: document for document in found.documents}
    if written.of and written.of not in known:
        raise _Wrong(("of",), f"{file} has no rule {written.of!r}{nearest(written.of, known)}")
    if not written.of and len(known) != 1:
        raise _Wrong(("of",), f"{file} has {len(known)} rules; write one of {', '.join(known)}")
    document = known[written.of] if written.of else found.documents[0]
    if document.rule is None:
        raise _Wrong(("rule",), f"{file} cannot be read")
    return document, document.rule


class _Binding:
    """One test and the rule that it is of. Raises _Wrong."""

    def __init__(self, part: Part, place: Place, test: RuleTest, rule: Rule) -> None:
        self._part, self._place, self._test, self._rule = part, place, test, rule

    def trial(self, document: Document, catalogue: Catalogue) -> Trial:
        """The test as it can be run."""
        test, rule = self._test, self._rule
        demand = {
            serving.ref: self._of_target(serving, serving.demand)
            for serving in rule.serving
            if not isinstance(serving.demand, str)
        }
        self._only_known(test.demand, demand)
        past = test.history.days if test.history else 0
        known_from = test.start - timedelta(days=past)
        activity = self._activity()
        every = [s for found in demand.values() for s in found] + ([activity] if activity else [])
        return Trial(
            name=test.name,
            line=self._part.line_of(self._place),
            pool=document.name,
            rule=replace(rule, mode=test.mode, paused=False),
            catalogue=catalogue,
            start=test.start,
            known_from=known_from,
            past=self._past(Span(known_from, test.start)) if past else (),
            demand=demand,
            activity=activity,
            work=self._work(),
            events=tuple(
                (self._when(event.at, ("events", number)), event)
                for number, event in enumerate(test.events)
            ),
            looks=self._looks(every),
        )

    def _wrong(self, place: Place, message: str) -> _Wrong:
        return _Wrong((*self._place, *place), message)

    # -- series

    def _of_target(self, serving: Serving, wanted: Sequence[Demand]) -> tuple[Series, ...]:
        """A series for each entry of a target's demand."""
        given, ref = self._test.demand, serving.ref
        key = ref.name if ref.name in given else f"{ref.namespace}/{ref.name}"
        if key not in given:
            message = (
                f"has no series for {ref}; write {ref.name}: '0x60', for 61 samples without demand"
            )
            raise self._wrong(("demand",), message)
        alike = [other for other in self._rule.serving if other.ref.name == key]
        if len(alike) > 1:
            raise self._wrong(("demand", key), f"may be {' or '.join(str(o.ref) for o in alike)}; "
                              "write NAMESPACE/NAME")  # fmt: skip
        found = given[key]
        if isinstance(found, tuple):
            return tuple(self._series(found) for _ in wanted)
        names = _names(wanted)
        if strange := next((name for name in found if name not in names), None):
            message = f"{ref} has no such demand{nearest(strange, names)}"
            raise self._wrong(("demand", key, strange), message)
        if missing := next((name for name in names if name not in found), None):
            message = f"has no series for {missing}; write one, such as '0x60'"
            raise self._wrong(("demand", key), message)
        return tuple(self._series(found[name]) for name in names)

    def _only_known(self, given: Iterable[str], demand: Iterable[Ref]) -> None:
        known = {name for ref in demand for name in (ref.name, f"{ref.namespace}/{ref.name}")}
        for key in given:
            if key not in known:
                calendar = any(s.ref.name == key for s in self._rule.serving)
                message = (
                    "goes by the calendar only, so nothing is looked at; take the series out"
                    if calendar
                    else f"no such target{nearest(key, {ref.name for ref in demand})}"
                )
                raise self._wrong(("demand", key), message)

    def _series(self, values: Values) -> Series:
        return Series(self._test.start, self._test.interval, values)

    def _activity(self) -> Series | None:
        given, wanted = self._test.activity, self._rule.cards.activity
        if given is None and wanted is not None:
            message = f"is missing: the rule looks at {wanted.source}; write activity: '0x60'"
            raise self._wrong(("activity",), message)
        if given is not None and wanted is None:
            raise self._wrong(("activity",), "the rule has no cards.activity; take it out")
        return self._series(given) if given is not None else None

    def _past(self, over: Span) -> tuple[Span, ...]:
        """The busy hours before the start, in the zone of the rule's calendar."""
        assert self._test.history is not None  # noqa: S101 - asked where there is one
        hours = self._test.history.busy
        if not hours:
            return ()
        calendar = Calendar(time_zone=self._rule.window.calendar.time_zone, allow=hours)
        return tuple(_open(calendar, over))

    # -- what else is given, and when to look

    def _work(self) -> dict[str, int] | None:
        queues = [queue.cluster_queue for queue in self._rule.batch.queues]
        for name, number in (self._test.work or {}).items():
            if name not in queues:
                raise self._wrong(("work", name), f"no such queue{nearest(name, queues)}")
            if number < 0:
                raise self._wrong(("work", name), f"{number} jobs cannot come; write 0 or more")
        return self._test.work

    def _when(self, at: timedelta | datetime, place: Place) -> datetime:
        when = self._test.start + at if isinstance(at, timedelta) else at
        if not timedelta() <= when - self._test.start <= _LONGEST:
            span = f"of start and the {format_duration(_LONGEST)} after it"
            raise self._wrong((*place, "at"), f"is out {span}; write a time in them")
        return when

    def _looks(self, given: Sequence[Series]) -> tuple[Look, ...]:
        looks = []
        for number, check in enumerate(self._test.checks):
            place: Place = ("checks", number)
            at = self._when(check.at, place)
            short = min(given, key=lambda series: series.end, default=None)
            if short is not None and at >= short.end:
                length = format_duration(short.end - self._test.start)
                message = (
                    f"is beyond the series of {len(short.values)} samples, which ends "
                    f"{length} after start; make it longer, such as '0x600'"
                )
                raise self._wrong((*place, "at"), message)
            line = self._part.line_of((*self._place, *place))
            looks.append(Look(at=at, expect=check.expect, line=line))
        return tuple(sorted(looks, key=lambda look: look.at))


def _names(demand: Sequence[Demand]) -> list[str]:
    """Each entry's name in a test: that of its kind, or its place where that is not the only."""
    kinds = [d.source or ("query" if d.query is not None else "llamaSwap") for d in demand]
    return [kind if kinds.count(kind) == 1 else str(number) for number, kind in enumerate(kinds)]


def _open(calendar: Calendar, over: Span) -> Iterator[Span]:
    """When a calendar is open within a stretch."""
    at = over.start
    while at < over.end:
        opens = calendar.opens_at(at)
        if opens is None:
            at += HORIZON / 2  # no calendar looks further ahead
            continue
        at = min(calendar.open_until(opens) or over.end, over.end)
        if opens < at:
            yield Span(opens, at)
