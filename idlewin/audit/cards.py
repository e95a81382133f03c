"""Who is on cards: beside whom, without a request, idle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from idlewin.audit.checks import Id
from idlewin.audit.facts import Facts, Holder, Kind, Node, Role, counted, domain_of
from idlewin.audit.finding import Finding, found
from idlewin.core.text import format_duration
from idlewin.draft.facts import listed

#: Where cards are below /dev.
_CARDS = ("/dev/dri", "/dev/nvidia", "/dev/kfd", "/dev/accel", "/dev/xe")
#: Less says nothing of a week.
_KNOWN = timedelta(days=1)
_IDLE = 0.5


def of_cards(facts: Facts, now: datetime) -> Iterator[Finding]:
    """All of it."""
    for domain in facts.domains:
        for node in facts.nodes:
            yield from _oversubscribed(node, domain)
        yield from _shared(facts, domain)
    for one in facts.holders:
        yield from _past_the_scheduler(facts, one)
        yield from _idle(facts, one, now)
        yield from _beside_claims(facts, one)


def _oversubscribed(node: Node, domain: str) -> Iterator[Finding]:
    has, gives = counted(node, domain), node.allocates(domain)
    if has is not None and gives > has:
        names = ", ".join(sorted(name for name in node.cards if domain_of(name) == domain))
        yield found(
            Id.OVERSUBSCRIBED,
            node.thing,
            f"it gives out {gives} of {names} and has {cards(has)}: {gives - has} that are none",
        )


# -- who shares


def _shared(facts: Facts, domain: str) -> Iterator[Finding]:
    claiming = [one for one in facts.holders if one.wants(domain) and one.role is not Role.NODE]
    for node in facts.with_cards(domain, {}):
        here = [(one, one.held.get(node.thing.name, 0)) for one in claiming]
        yield from _more_than(
            [(one, pods * one.wants(domain)) for one, pods in here if pods],
            [node],
            facts.physical(node, domain),
            f"on node {node.thing.name}",
        )
    # Of what only is to run: what can run nowhere but on the same nodes. Queued work takes turns.
    groups: dict[tuple[str, ...], list[Holder]] = {}
    nodes = {node.thing.name: node for node in facts.nodes}
    for one in claiming:
        if not one.held and one.replicas and not one.local_queue:
            fits = facts.with_cards(domain, one.selects)
            groups.setdefault(tuple(node.thing.name for node in fits), []).append(one)
    for names, group in groups.items():
        there = [nodes[name] for name in names]
        wanted = [(one, one.replicas * one.wants(domain)) for one in group]
        # Who waits for a card is told beside whoever has it.
        has = [
            (one, sum(one.held.get(name, 0) for name in names) * one.wants(domain))
            for one in claiming
            if not one.local_queue
        ]
        if there:
            most = sum(facts.physical(node, domain) for node in there)
            both = [*wanted, *((one, count) for one, count in has if count)]
            yield from _more_than(both, there, most, f"on {listed(names)}")
        else:
            yield from _by_setting(facts, domain, wanted)


def _more_than(
    wanted: list[tuple[Holder, int]], nodes: list[Node], most: int, where: str
) -> Iterator[Finding]:
    total = sum(count for _, count in wanted)
    if total > most:
        seen = f"{cards(most)} {where}, and {total} are asked for: "
        yield found(Id.SHARED, nodes[0].thing, seen + _each(wanted))


def _by_setting(facts: Facts, domain: str, wanted: list[tuple[Holder, int]]) -> Iterator[Finding]:
    """Of manifests without nodes: who may meet on a card, where the plugin shares it."""
    total = sum(count for _, count in wanted)
    for one in facts.settings:
        if one.kind is Kind.SHARED and one.domain == domain and total > 1:
            yield found(
                Id.SHARED,
                one.thing,
                f"with {one.text} up to {one.count} of these meet on one card: {_each(wanted)}",
            )


def _each(wanted: Iterable[tuple[Holder, int]]) -> str:
    return listed(f"{at(one)} ({count})" for one, count in wanted)


# -- past the scheduler


def _past_the_scheduler(facts: Facts, one: Holder) -> Iterator[Finding]:
    if one.role is Role.NODE or not (one.replicas or one.held):
        return
    if devices := [path for path in one.devices if _is_card(path)]:
        known = {name for gate in facts.gates for name in gate.exempt_namespaces}
        if not one.rule and one.thing.namespace not in known:
            also = ", ".join(f"{n} {name}" for name, n in one.cards.items())
            beside = f", and {also} requested as well" if also else ", and no card requested"
            seen = f"{_pods(one)} with {', '.join(devices)} of the host mounted{beside}"
            yield found(Id.BYPASS, one.thing, seen)
    elif one.opens_all and not one.cards and _may_meet_cards(facts, one):
        yield found(
            Id.OPENS_ALL, one.thing, f"{_pods(one)}: {one.opens_all}, and no card requested"
        )
    if watched := [name for name in one.claims if name.endswith("monitoring")]:
        seen = f"{_pods(one)} with {', '.join(watched)}: every card of the node, and no place"
        yield found(Id.MONITORING, one.thing, seen)


def _is_card(path: str) -> bool:
    return path in ("/", "/dev") or path.startswith(_CARDS)


def _may_meet_cards(facts: Facts, one: Holder) -> bool:
    if not facts.nodes:
        return bool(facts.domains)
    with_cards = [node for node in facts.nodes if any(node.cards.values())]
    if one.held:
        return any(node.thing.name in one.held for node in with_cards)
    return any(one.selects.items() <= node.labels.items() for node in with_cards)


def _pods(one: Holder) -> str:
    where = f" on {listed(sorted(one.held))}" if one.held else ""
    count = sum(one.held.values()) or one.replicas
    return f"{count} pod{'' if count == 1 else 's'}{where}"


# -- idle, and in two ways


def _idle(facts: Facts, one: Holder, now: datetime) -> Iterator[Finding]:
    told = one.idle
    acting = {gate.thing.name for gate in facts.gates if gate.acts}
    if not (told and one.cards and one.replicas) or one.rule in acting:
        return
    if told.known >= _KNOWN and told.idle >= _IDLE * told.known:
        held = ", ".join(f"{n * one.replicas} {name}" for name, n in one.cards.items())
        since = f" since {format_duration(round_to_hours(now - one.since))}" if one.since else ""
        share = told.idle / told.known
        yield found(
            Id.IDLE,
            one.thing,
            f"it has held {held}{since}, and was idle {_hours(told.idle)} of "
            f"{_hours(told.known)} that are known ({share:.0%}); rule {one.rule} only observes",
        )


def round_to_hours(value: timedelta) -> timedelta:
    """Whole hours; of less than one the minutes."""
    unit = timedelta(hours=1) if value >= timedelta(hours=1) else timedelta(minutes=1)
    return value // unit * unit


def _hours(value: timedelta) -> str:
    return f"{value / timedelta(hours=1):.1f} h"


def _beside_claims(facts: Facts, one: Holder) -> Iterator[Finding]:
    for name in one.device_classes:
        vendor = next((word for word in ("nvidia", "intel", "amd") if word in name), "")
        others = [domain for domain in facts.domains if vendor and vendor in domain]
        if others:
            given = sum(node.allocates(domain) for node in facts.nodes for domain in others)
            askers = [h for h in facts.holders if any(h.wants(domain) for domain in others)]
            beside = listed(map(at, askers)) if askers else "nobody yet"
            yield found(
                Id.BESIDE_CLAIMS,
                one.thing,
                f"it claims devices of class {name}; {', '.join(others)} is an extended resource "
                f"too ({given} given out by nodes; asked for by {beside})",
            )


def cards(count: int) -> str:
    """A number of cards."""
    return f"{count} card{'' if count == 1 else 's'}"


def at(one: Holder) -> str:
    """A holder, with where it is written down."""
    thing = one.thing
    return f"{thing} at {thing.file}:{thing.line}" if thing.file else str(thing)
