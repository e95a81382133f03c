"""A file of a plane, judged: every error names file, line, field, value and what would be right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.codec import read_as
from idlewin.errors import Finding, Problem, RuleError
from idlewin.plane.hardware import Cards, DeviceKind
from idlewin.plane.model import Plane
from idlewin.plane.written import Written
from idlewin.rulecheck import doubts, errors, within
from idlewin.wording import nearest, shown, spelled
from idlewin.yamlfile import Part, of_file, parts, text_of

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneFile:
    """What a file says: a plane, or what is wrong with it."""

    plane: Plane | None = None
    findings: tuple[Finding, ...] = ()
    """With a plane they are warnings."""


def read_plane(path: Path, catalogue: Catalogue = SHIPPED) -> PlaneFile:
    """The plane of a file."""
    text = text_of(path)
    if isinstance(text, Finding):
        return PlaneFile(findings=(text,))
    found = list(parts(path, text))
    if faults := [one for one in found if isinstance(one, Finding)]:
        return PlaneFile(findings=tuple(faults))
    documents = [one for one in found if isinstance(one, Part)]
    if len(documents) != 1:
        number = len(documents) or "none"
        message = f"has {number} documents; a plane is one, so that its names are seen together"
        return PlaneFile(findings=(of_file(path, message),))
    return _of_part(path, documents[0], catalogue)


def _of_part(path: Path, part: Part, catalogue: Catalogue) -> PlaneFile:
    def finding(problem: Problem, *, warning: bool = False) -> Finding:
        line = part.line_of(problem.path)
        return Finding(
            file=str(path),
            line=line,
            field=problem.field,
            message=problem.message,
            warning=warning,
        )

    def wrong(problems: Iterable[Problem]) -> PlaneFile:
        told = {str(one): one for one in map(finding, problems)}
        return PlaneFile(findings=tuple(sorted(told.values(), key=lambda one: one.line)))

    try:
        plain = part.plain()
    except RecursionError:
        return wrong([Problem(field="", message="contains itself by an alias")])
    if not part.is_mapping:
        message = f"{shown(plain)} is no plane; docs/plane.md shows one"
        return wrong([Problem(field="", message=message)])
    try:
        written = read_as(Written, plain)
    except RuleError as error:
        return wrong(error.problems)
    if problems := [*_names(written), *_references(written)]:
        return wrong(problems)
    plane = Plane(written=written, source=path.name)
    if problems := [*_derived(plane), *_shared(written), *_cards(plane, catalogue)]:
        return wrong(problems)
    traps = [finding(trap, warning=True) for trap in part.traps()]
    return PlaneFile(
        plane=plane,
        findings=(*traps, *(finding(doubt, warning=True) for doubt in _doubts(plane))),
    )


def _at(steps: Steps, message: str, value: object = None) -> Problem:
    return Problem(field=spelled("", steps), message=message, value=value, path=steps)


# -- names


def _names(written: Written) -> Iterator[Problem]:
    """Each name once in its list."""
    lists: Mapping[str, Sequence[str]] = {
        "deviceClasses": [one.name for one in written.device_classes],
        "cards": [one.name for one in written.cards],
        "queueClasses": [one.name for one in written.queue_classes],
        "priorities": [one.name for one in written.priorities],
        "tenants": [one.name for one in written.tenants],
        "topologies": [one.name for one in written.topologies],
        "outside": [one.name for one in written.outside],
    }
    for kind, names in lists.items():
        for number, name in enumerate(names):
            if name in names[:number]:
                message = f"{name!r} is taken by {kind}[{names.index(name)}]; rename one"
                yield _at((kind, number, "name"), message)


def _references(written: Written) -> Iterator[Problem]:
    """Every name that is used is there."""
    cards = [one.name for one in written.cards]
    kinds = [one.name for one in written.queue_classes]
    named: list[tuple[Steps, str, str, list[str]]] = []
    for number, card in enumerate(written.cards):
        at: Steps = ("cards", number)
        devices = [one.name for one in written.device_classes]
        named.append(((*at, "deviceClass"), "device class", card.device_class, devices))
        if card.topology is not None:
            known = [one.name for one in written.topologies]
            named.append(((*at, "topology"), "topology", card.topology, known))
    for number, tenant in enumerate(written.tenants):
        at = ("tenants", number)
        for index, use in enumerate(tenant.queues):
            named.append(((*at, "queues", index, "cards"), "cards", use.cards, cards))
            place = (*at, "queues", index, "queueClass")
            named.append((place, "queue class", use.queue_class, kinds))
        for index, priority in enumerate(tenant.priorities):
            known = [one.name for one in written.priorities]
            named.append(((*at, "priorities", index), "priority", priority, known))
        mine = sorted({use.cards for use in tenant.queues})
        named += [((*at, "quota", name), "queue on cards", name, mine) for name in tenant.quota]
    for steps, what, name, known in named:
        if name not in known:
            yield _at(steps, f"no {what} {name!r}{nearest(name, known)}", name)


def _derived(plane: Plane) -> Iterator[Problem]:
    """No two objects of one kind whose names come out the same."""
    seen: dict[tuple[str, str], object] = {
        ("Cohort", cards.name): ("cards", cards.name) for cards in plane.written.cards
    }
    for number, tenant in enumerate(plane.written.tenants):
        for index, use in enumerate(tenant.queues):
            queue = next(
                one
                for one in plane.queues
                if (one.cards.name, one.kind.name, one.tenant.name)
                == (use.cards, use.queue_class, tenant.name)
            )
            what = (use.cards, use.queue_class)
            made = {
                ("ClusterQueue", queue.name): (tenant.name, *what, index),
                ("LocalQueue", queue.local): what,
                ("Cohort", queue.cohort): (use.cards, tenant.name),
            }
            for (kind, name), source in made.items():
                if seen.setdefault((kind, name), source) != source:
                    message = f"its {kind} would be {name}, which another is too; rename one"
                    yield _at(("tenants", number, "queues", index), message)


# -- what can be had only once


def _shared(written: Written) -> Iterator[Problem]:
    yield from _nodes(written)
    yield from _namespaces(written)
    yield from _targets(written)


def _nodes(written: Written) -> Iterator[Problem]:
    owners: dict[tuple[str, str], str] = {}
    outside = {machine.name for machine in written.outside}
    for number, cards in enumerate(written.cards):
        for other in written.cards[:number]:
            apart = cards.resource != other.resource or {*cards.nodes} & {*other.nodes}
            if not apart and within(cards.labels, other.labels):
                message = (
                    f"select nodes of {other.name}, which has {cards.resource} too: {cards.labels} "
                    f"beside {other.labels}; write labels that no node has of both"
                )
                yield _at(("cards", number, "nodeLabels"), message)
        for index, node in enumerate(cards.nodes):
            at: Steps = ("cards", number, "nodes", index)
            owner = owners.setdefault((cards.resource, node), cards.name)
            if owner != cards.name or node in cards.nodes[:index]:
                message = (
                    f"{cards.resource} on {node} is {owner}'s already; cards of one resource on a "
                    "node are one entry, with perNode"
                )
                yield _at(at, message, node)
            if node in outside:
                message = (
                    f"{node} is named in outside too; a machine is a node, or it is none: take it "
                    "out of one"
                )
                yield _at(at, message, node)


def _namespaces(written: Written) -> Iterator[Problem]:
    homes: dict[str, str] = {}
    for number, tenant in enumerate(written.tenants):
        for index, namespace in enumerate(tenant.namespaces):
            owner = homes.setdefault(namespace, tenant.name)
            if owner != tenant.name or namespace in tenant.namespaces[:index]:
                message = f"namespace {namespace} is tenant {owner}'s already; it has one tenant"
                yield _at(("tenants", number, "namespaces", index), message, namespace)
        for name, most in tenant.quota.items():
            count = next(cards.count for cards in written.cards if cards.name == name)
            if not 1 <= most <= count:
                message = (
                    f"is {most}, and {name} has {count}; write 1 to {count}, or leave it out for "
                    "all of them"
                )
                yield _at(("tenants", number, "quota", name), message, most)


def _targets(written: Written) -> Iterator[Problem]:
    refs: dict[object, str] = {}
    for number, cards in enumerate(written.cards):
        for index, serving in enumerate(cards.serving):
            owner = refs.setdefault(serving.ref, cards.name)
            if owner != cards.name:
                message = f"{serving.ref} serves on {owner} already; a target has one rule"
                yield _at(("cards", number, "serving", index, "name"), message)


# -- cards and who serves on them


def _cards(plane: Plane, catalogue: Catalogue) -> Iterator[Problem]:
    for number, cards in enumerate(plane.written.cards):
        yield from _by_class(plane, number, cards)
        try:
            rule = plane.rule(cards)
        except ValueError as error:
            yield _of_rule(plane, number, str(error))
            continue
        if rule is not None:
            yield from (_moved(number, problem) for problem in errors(rule, catalogue))


def _of_rule(plane: Plane, number: int, message: str) -> Problem:
    """What the rule of some cards says of itself, where the plane has it."""
    field, _, rest = message.partition(" ")
    if not field.startswith("cards."):
        return _at(("cards", number), message)
    names = [device.name for device in plane.written.device_classes]
    index = names.index(plane.written.cards[number].device_class)
    return _at(("deviceClasses", index, field.removeprefix("cards.")), rest)


def _moved(number: int, problem: Problem) -> Problem:
    """A problem of a rule, where the plane has it."""
    steps = ("cards", number, *problem.path[1:])
    return replace(problem, field=spelled("", steps), path=steps)


def _by_class(plane: Plane, number: int, cards: Cards) -> Iterator[Problem]:
    device = plane.device_class(cards)
    for index, serving in enumerate(cards.serving):
        at: Steps = ("cards", number, "serving", index)
        if device.kind is DeviceKind.EXCLUSIVE and serving.arbiter is not None:
            message = (
                f"{serving.arbiter.value} owns its cards, and {cards.device_class} is Exclusive; "
                "write a device class of kind Mediated"
            )
            yield _at((*at, "arbiter"), message)
        elif device.kind is DeviceKind.MEDIATED and serving.arbiter is not device.arbiter:
            message = (
                f"{serving.ref} is on cards of class {device.name}, which an arbiter owns alone; "
                f"write arbiter: {device.arbiter}, or give the cards a class of kind Exclusive"
            )
            yield _at(at, message)


def _doubts(plane: Plane) -> Iterator[Problem]:
    for number, cards in enumerate(plane.written.cards):
        rule = plane.rule(cards)
        if rule is not None:
            yield from (_moved(number, doubt) for doubt in doubts(rule))
        if not plane.on(cards):
            message = f"no tenant has a queue on {cards.name}, so nothing is ever lent of it"
            yield _at(("cards", number), message)
        for index, serving in enumerate(cards.serving):
            if serving.namespace in plane.namespaces:
                message = (
                    f"{serving.namespace} is a tenant's namespace too, so Kueue's webhooks have to "
                    "reach it, and while Kueue is down serving could not come back there; move one "
                    "of the two"
                )
                yield _at(("cards", number, "serving", index, "namespace"), message)
