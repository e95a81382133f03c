"""All drafts of a cluster in one file, checked as ``idlewin check`` does, and what to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from idlewin.catalogue import Catalogue
from idlewin.core.target import Ref
from idlewin.draft.demand import matches
from idlewin.draft.facts import Facts, Role, Wanted, listed
from idlewin.draft.pools import Pool, every_pool, named_pools, nowhere, owner_of, owners
from idlewin.draft.queues import filling, manifests
from idlewin.draft.text import Sheet, written
from idlewin.draft.yamltext import on_a_line
from idlewin.errors import Finding
from idlewin.rulecheck import checked
from idlewin.rulefile import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The file to write, and what is to be said beside it."""

    text: str
    """Empty: there is nothing to write."""
    queues: str
    """Manifests of the queues that are missing; empty: there are all."""
    found: tuple[str, ...]
    left: tuple[str, ...]
    """What could not be known, or is in no rule."""
    stops: tuple[Finding, ...]
    """What check stops at."""
    rules: tuple[str, ...]
    missing: tuple[str, ...]
    """The queues that these are of."""
    no_definition: bool
    adopt: tuple[tuple[str, str], ...]
    """Queue and rule."""


def drafted(
    facts: Facts, wanted: Wanted, catalogue: Catalogue, file: str = "my.yaml", queues_file: str = ""
) -> Draft:
    """A rule for each pool of cards that somebody serves on."""
    every = list(every_pool(facts, wanted))
    found = named_pools(every, facts, wanted)
    taken: set[str] = set()
    sheets = [
        Sheet(
            pool=pool,
            filling=filling(pool, facts, taken),
            queues_file=queues_file,
            demands={one.ref: matches(one, facts.sources) for one in pool.of(Role.SERVING)},
        )
        for pool in _once(found)
        if pool.of(Role.SERVING)
    ]
    text, stops = _settled(sheets, facts, catalogue, file)
    return Draft(
        text=text,
        queues=manifests(sheet.filling for sheet in sheets),
        found=(*_found(facts, wanted), *map(_told, sheets)),
        left=tuple(_left(every, found, facts, wanted)),
        stops=stops,
        rules=tuple(sheet.name for sheet in sheets),
        missing=tuple(e.name for s in sheets if s.filling.manifest for e in s.filling.entries),
        no_definition=facts.no_definition,
        adopt=tuple((entry.name, s.name) for s in sheets for entry in s.filling.entries),
    )


def _once(found: list[Pool]) -> Iterator[Pool]:
    """The same pools, each target in the first of those that it is in: it has one rule."""
    rule_of: dict[Ref, str] = {}
    for pool in found:
        tenants = []
        for one in pool.tenants:
            first = rule_of.setdefault(one.ref, pool.name)
            if first != pool.name and one.role is Role.SERVING:
                why = f"it is a target of rule {first}, and a target has one rule"
                one = replace(one, role=Role.APART, why=(why,))  # noqa: PLW2901
            tenants.append(one)
        yield replace(pool, tenants=tuple(tenants))


def _settled(
    sheets: list[Sheet], facts: Facts, catalogue: Catalogue, file: str
) -> tuple[str, tuple[Finding, ...]]:
    """The text with what check stops at in each head: a line each, which moves what is below."""
    text = _written(sheets, (), facts)
    if not (stops := _errors(text, catalogue, file)):
        return text, stops
    # That says how many there are: with so many lines more it is seen where they are.
    stops = _errors(_written(sheets, stops, facts), catalogue, file)
    return _written(sheets, stops, facts), stops


def _written(sheets: list[Sheet], stops: tuple[Finding, ...], facts: Facts) -> str:
    return "---\n".join(written(replace(one, stops=_of(one, stops)), facts) for one in sheets)


def _of(sheet: Sheet, stops: tuple[Finding, ...]) -> tuple[str, ...]:
    return tuple(
        f"line {one.line}: {one.field}: {on_a_line(one.message).partition('; ')[0]}"
        for one in stops
        if one.rule == sheet.name
    )


def _errors(text: str, catalogue: Catalogue, file: str) -> tuple[Finding, ...]:
    if not text:
        return ()
    found = checked(read_text(Path(file), text), catalogue)
    return tuple(one for one in found.findings if not one.warning)


# -- what is said beside the file


def _found(facts: Facts, wanted: Wanted) -> Iterator[str]:
    for node in facts.nodes:
        for resource, count in sorted(node.cards.items()):
            if wanted.takes(resource) and count:
                owner = owner_of(facts, resource, node)
                ruled = f" (rule {owner.name} has them)" if owner else ""
                yield f"cards: {count} {resource} on {node.name}{ruled}"
    alive = [seen.source.name for seen in facts.sources if seen.alive]
    if alive:
        yield f"sources that are alive: {', '.join(alive)}"


def _told(sheet: Sheet) -> str:
    pool, queues = sheet.pool, [entry.name for entry in sheet.filling.entries]
    serving = ", ".join(str(one.ref) for one in pool.of(Role.SERVING))
    none = "no queue was found" if sheet.filling.manifest else f"queues {', '.join(queues)}"
    return f"rule {sheet.name}: {pool.count} {pool.resource} on {pool.where}; {serving}; {none}"


def _left(every: list[Pool], found: list[Pool], facts: Facts, wanted: Wanted) -> Iterator[str]:
    for kind, why in facts.unseen.items():
        yield f"{kind} could not be listed: {why}"
    if facts.no_prometheus:
        yield f"demand and activity: {facts.no_prometheus}"
    for seen in facts.sources:
        if seen.trouble:
            yield f"source {seen.source.name}: {seen.trouble}"
    for pool in every:
        rules = owners(facts, pool)
        if any(rules) and not all(rules):
            yield _parted(pool, facts)
    for pool in found:
        if not pool.of(Role.SERVING):
            yield _unserved(pool)
    for tenant in nowhere(every, facts, wanted):
        yield f"{tenant.ref} asks for cards and has none, and it is not known whose it would get"
    yield from _no_cards(facts, wanted)


def _no_cards(facts: Facts, wanted: Wanted) -> Iterator[str]:
    for node in facts.nodes:
        for resource, count in sorted(node.cards.items()):
            if wanted.takes(resource) and not count:
                yield f"{node.name} has 0 {resource}: is its device plugin well?"
    others = {r for n in facts.nodes for r, count in n.cards.items() if count}
    others = {r for r in others if not wanted.takes(r)}
    if others and not wanted.resources:
        yield f"taken for no cards: {listed(sorted(others))}; --resource NAME takes one for cards"


def _parted(pool: Pool, facts: Facts) -> str:
    """Cards that a rule has in part: a target has one rule, and would have two."""
    ruled = {o.name: n.name for n, o in zip(pool.nodes, owners(facts, pool), strict=True) if o}
    told = ", ".join(f"rule {rule} has those of {node}" for rule, node in ruled.items())
    return (
        f"{pool.resource} on {pool.where}: no rule, for {told}, and who serves there serves on the "
        "others too; let that rule's nodeSelector take all of them"
    )


def _unserved(pool: Pool) -> str:
    what = f"{pool.count} {pool.resource} on {pool.where}"
    if pool.tenants:
        there = listed(str(one.ref) for one in pool.tenants)
        return f"{what}: no rule, for none of who is there can be lowered: {there}"
    return (
        f"{what}: no rule, for nobody is on them: a rule lends what somebody serves on. "
        "Kueue alone gives them to batch"
    )
