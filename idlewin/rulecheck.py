"""What rules that can be read are still to be told: conflicts and doubts.

Judged from the rules alone, and, where there is one, by what the core's lint says of a cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from idlewin import holidays
from idlewin.catalogue import SHIPPED, Catalogue, problems as source_problems
from idlewin.core.condition import INSIDE_KUEUE
from idlewin.core.lint import Fault, Refusal, refusals, too_much_quota
from idlewin.core.pool import RuleObject
from idlewin.core.rule import METHODS, Cards, Rule
from idlewin.core.scope import scope_of
from idlewin.core.text import format_duration
from idlewin.core.timing import drain_time, margin
from idlewin.errors import Finding, Problem
from idlewin.ports import Cluster
from idlewin.rulefile import Document, RuleFiles
from idlewin.wording import nearest, spelled

Path = tuple[str | int, ...]

#: Kinds of serving that can be lowered and brought back.
KINDS = (
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("serving.kserve.io/v1beta1", "InferenceService"),
    ("keda.sh/v1alpha1", "ScaledObject"),
)


def checked(found: RuleFiles, catalogue: Catalogue = SHIPPED) -> RuleFiles:
    """The same documents, with all that their rules are to be told."""
    before: list[Document] = []
    done: list[Document] = []
    for document in found.documents:
        more: list[Finding] = []
        if document.rule is not None:
            wrong = [*errors(document.rule, catalogue), *_conflicts(document, before)]
            more += [document.finding(problem) for problem in wrong]
            more += [document.finding(doubt, warning=True) for doubt in doubts(document.rule)]
            before.append(document)
        findings = sorted((*document.findings, *more), key=lambda finding: finding.line)
        done.append(replace(document, findings=tuple(findings)))
    return replace(found, documents=tuple(done))


def held_against(found: RuleFiles, cluster: Cluster) -> RuleFiles:
    """The same documents, with what a cluster says against their rules. Raises LookError."""
    names = {document.name for document in found.documents}
    stored = [rule for name in cluster.names() if (rule := cluster.rule(name))]
    known = [rule for rule in stored if rule.name not in names]
    known += [document.object for document in found.documents]
    return replace(
        found,
        documents=tuple(_held(document, known, cluster) for document in found.documents),
    )


def out_of_reach(found: RuleFiles, known: Callable[[str], bool]) -> RuleFiles:
    """The same documents, with each probe whose host has no address here."""
    return replace(
        found, documents=tuple(_asked_for(document, known) for document in found.documents)
    )


def _asked_for(document: Document, known: Callable[[str], bool]) -> Document:
    told = []
    for number, serving in enumerate(document.rule.serving if document.rule else ()):
        host = urlsplit(serving.probe.question.url).hostname if serving.probe else None
        if host and not known(host):
            message = (
                f"{host} has no address on this machine: a controller here could not ask it, and "
                "no return would be done; write an address that it reaches, or leave the probe out"
            )
            kind = "http" if serving.probe and serving.probe.http else "completion"
            problem = _at(("serving", number, "probe", kind, "url"), message)
            told.append(document.finding(problem, warning=True))
    return replace(document, findings=(*document.findings, *told))


def _held(document: Document, known: list[RuleObject], cluster: Cluster) -> Document:
    if document.rule is None or not document.name:
        return document
    rule = document.object
    pool = cluster.look(scope_of(rule))
    told = [
        document.finding(_at(PLACES.get(refusal.fault, ()), f"{refusal.text} ({refusal.fault})"))
        for refusal in refusals(rule, pool, known)
    ]
    told += [
        document.finding(_at(("serving",), f"{target.ref}: {INSIDE_KUEUE}"), warning=True)
        for target in pool.targets
        if target.inside_kueue
    ]
    if text := too_much_quota(document.rule, pool):
        told.append(document.finding(_at(("batch", "queues"), text), warning=True))
    return replace(document, findings=(*document.findings, *told))


def hours(rule: Rule) -> str:
    """When a rule may lend, in words: so that hours that are the wrong way round show."""
    calendar = rule.window.calendar
    if not calendar.allow and not calendar.deny:
        return f"may lend at any hour, {calendar.time_zone}"
    a_day = calendar.a_day() / timedelta(hours=1)
    often = f"{a_day:.1f}".removesuffix(".0") + " h a day on average" if a_day else "on dates only"
    return f"may lend {often}, {calendar.time_zone}"


#: Where in a rule each fault between it and its cluster is put right.
PLACES: dict[Fault, Path] = {
    Fault.QUEUE_MISSING: ("batch", "queues"),
    Fault.NOT_ADOPTED: ("batch", "queues"),
    Fault.QUOTA_LEAKS: ("batch", "queues"),
    Fault.BOUND_NOT_ENFORCED: ("batch", "queues"),
    Fault.CARDS_MISMATCH: ("cards",),
    Fault.TARGET_MISSING: ("serving",),
    Fault.SERVING_TOO_LARGE: ("serving",),
    Fault.SERVING_NOT_OURS: ("serving",),
}


def faults(rule: Rule, catalogue: Catalogue | None = SHIPPED) -> tuple[Refusal, ...]:
    """Why a rule that can be read could never work here: no kind, no source, no way to be seen."""
    named = _sources(rule, catalogue) if catalogue else ()
    found = (*_kinds(rule), *named, *_holidays(rule))
    return tuple(Refusal(Fault.NOT_SUPPORTED, str(problem)) for problem in found)


# -- errors


def errors(rule: Rule, catalogue: Catalogue) -> Iterator[Problem]:
    """What is wrong with a rule that can be read."""
    yield from _kinds(rule)
    if rule.forecast.method not in METHODS:
        message = f"no forecaster {rule.forecast.method!r}{nearest(rule.forecast.method, METHODS)}"
        yield _at(("forecast", "method"), message)
    yield from _sources(rule, catalogue)
    yield from _holidays(rule)


def _no_room(rule: Rule) -> Iterator[tuple[int, timedelta, timedelta]]:
    """Targets whose return takes as long as the longest window: number, lead time, window."""
    room = min(rule.window.max, rule.window.calendar.longest())
    rest = room - drain_time(rule, rule.cards.count) - margin(rule)
    for number, serving in enumerate(rule.serving):
        if isinstance(serving.lead_time, timedelta) and serving.lead_time >= rest:
            yield number, serving.lead_time, room


def _kinds(rule: Rule) -> Iterator[Problem]:
    for number, serving in enumerate(rule.serving):
        if (serving.api_version, serving.kind) not in KINDS:
            *most, last = (f"{kind} ({version})" for version, kind in KINDS)
            known = f"{', '.join(most)} and {last}"
            message = f"{serving.kind} ({serving.api_version}) cannot be lowered; {known} can"
            yield _at(("serving", number, "kind"), message)


def _holidays(rule: Rule) -> Iterator[Problem]:
    code = rule.forecast.day_types.holidays
    if code is not None and (message := holidays.problem(code)):
        yield _at(("forecast", "dayTypes", "holidays"), message)


def _sources(rule: Rule, catalogue: Catalogue) -> Iterator[Problem]:
    for sentence in source_problems(rule, catalogue):
        yield _of_sentence(sentence)


def _of_sentence(sentence: str) -> Problem:
    """A sentence that begins with its field, as a problem of that field."""
    field = re.match(r"[\w.\[\]]+", sentence)
    steps = re.findall(r"[A-Za-z]\w*|\d+", field[0]) if field else []
    path = tuple(int(step) if step.isdigit() else step for step in steps)
    message = sentence[field.end() :].lstrip(": ") if field else sentence
    return Problem(field=field[0] if field else "spec", message=message, path=path)


def _conflicts(document: Document, before: Iterable[Document]) -> Iterator[Problem]:
    """What an earlier rule has already."""
    rule = document.rule
    for other in before:
        if rule is None or other.rule is None:
            continue
        owner = f"{other.name} ({other.file}:{other.line})"
        has_queues = {queue.cluster_queue for queue in other.rule.batch.queues}
        for number, queue in enumerate(rule.batch.queues):
            if queue.cluster_queue in has_queues:
                message = f"{queue.cluster_queue} is rule {owner}'s; a queue has one rule"
                yield _at(("batch", "queues", number, "clusterQueue"), message)
        has_targets = {serving.ref for serving in other.rule.serving}
        for number, serving in enumerate(rule.serving):
            if serving.ref in has_targets:
                message = f"{serving.ref} is rule {owner}'s; a target has one rule"
                yield _at(("serving", number, "name"), message)
        if _share_nodes(rule.cards, other.rule.cards):
            message = (
                f"{rule.cards.resource} on these nodes is rule {owner}'s; a rule owns all cards "
                "of its nodes: put both into one rule, or select other nodes"
            )
            yield _at(("cards", "nodeSelector"), message)


def _share_nodes(one: Cards, other: Cards) -> bool:
    return one.resource == other.resource and within(one.node_selector, other.node_selector)


def within(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether each node that one selects is selected by the other too, or the other way round."""
    a, b = one.items(), other.items()
    return a <= b or b <= a


# -- doubts


def doubts(rule: Rule) -> Iterator[Problem]:
    """What is doubtful about a rule, and lets it be used."""
    for doubt in (_blind, _slow, _never):
        yield from doubt(rule)


def _blind(rule: Rule) -> Iterator[Problem]:
    """Nothing says when a window may open."""
    for number, serving in enumerate(rule.serving):
        if serving.demand == "CalendarOnly" and not rule.window.calendar.allow:
            message = (
                "CalendarOnly without window.calendar.allow: no demand is looked at, and every "
                "hour is allowed; write the hours in which nobody comes"
            )
            yield _at(("serving", number, "demand"), message)


def _slow(rule: Rule) -> Iterator[Problem]:
    """A return takes as long as a window."""
    never = set()
    for number, lead, room in _no_room(rule):
        never.add(number)
        message = (
            f"{format_duration(lead)} to come back leave nothing of the longest window "
            f"({format_duration(room)}), so nothing is ever lent; shorten it, or let windows be "
            "longer by window.max and the calendar"
        )
        yield _at(("serving", number, "leadTime"), message)
    for number, serving in enumerate(rule.serving):
        if number in never or serving.lead_time == "Auto":
            continue
        if rule.window.min <= serving.lead_time:
            message = (
                f"window.min {format_duration(rule.window.min)} is no longer than the return "
                f"takes ({format_duration(serving.lead_time)}); raise window.min"
            )
            yield _at(("serving", number, "leadTime"), message)


def _never(rule: Rule) -> Iterator[Problem]:
    """A window, or a queue's work, that the calendar or window.max leaves no room for."""
    longest = rule.window.calendar.longest()
    if rule.window.min > longest:
        message = (
            f"{format_duration(rule.window.min)} is longer than the calendar is ever open "
            f"({format_duration(longest)}), so no window opens; shorten one, or allow more"
        )
        yield _at(("window", "min"), message)
    room = min(rule.window.max, longest)
    for number, queue in enumerate(rule.batch.queues):
        needs = queue.min_slice if queue.contract else queue.max_runtime
        if needs is not None and needs + queue.grace > room:
            name = "minSlice" if queue.contract else "maxRuntime"
            message = (
                f"{format_duration(needs)} and the grace of {format_duration(queue.grace)} do not "
                f"fit into the longest window ({format_duration(room)}), so nothing of "
                f"{queue.cluster_queue} starts; shorten it"
            )
            yield _at(("batch", "queues", number, name), message)


def _at(path: Path, message: str) -> Problem:
    return Problem(field=spelled("spec", path), message=message, path=("spec", *path))
