"""Settings that look like limits; batch, its quota and its end; who writes and who preempts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime, timedelta

from idlewin.audit.cards import at, cards, round_to_hours
from idlewin.audit.checks import Id
from idlewin.audit.facts import Facts, Gate, Holder, Kind, Role, domain_of
from idlewin.audit.finding import Finding, found
from idlewin.core.text import format_duration
from idlewin.draft.facts import is_card, listed

#: Kueue, and whoever makes pods, need less.
_LONG = timedelta(hours=1)
_TAKEN_UP = timedelta(minutes=10)
_SETTINGS = {
    Kind.SHARED: Id.REPLICAS,
    Kind.MANAGER: Id.RESOURCE_MANAGER,
    Kind.LIMITER: Id.LIMITER,
}


def of_settings(facts: Facts) -> Iterator[Finding]:
    """Settings that look like enforcement and are none."""
    for one in facts.settings:
        beside = f": one card is given out as {one.count}" if one.kind is Kind.SHARED else ""
        yield found(_SETTINGS[one.kind], one.thing, f"{one.text}{beside}")


def of_batch(facts: Facts, now: datetime) -> Iterator[Finding]:
    """Work past the queues, without a controller, without pods, without a contract."""
    batch = [one for one in facts.holders if one.role is Role.BATCH]
    for one in batch:
        wanted = ", ".join(f"{n * one.replicas} {name}" for name, n in one.cards.items())
        if wanted and not (one.local_queue or one.managed_by or one.part):
            yield found(Id.UNQUEUED, one.thing, f"it requests {wanted} and is in no queue")
        waited = now - one.created_at if one.created_at else timedelta()
        if one.managed_by and not one.taken_up and waited >= _TAKEN_UP:
            asks = f" and asks for {wanted}" if wanted else ""
            since = format_duration(round_to_hours(waited))
            seen = f"it waits for {one.managed_by} since {since}{asks}"
            yield found(Id.NOBODY_MANAGES, one.thing, seen)
        if one.contract and one.loses:
            seen = f"it is under the contract and mounts only {', '.join(one.loses)}"
            yield found(Id.NOT_KEPT, one.thing, seen)
    for work in facts.admitted:
        held = now - work.since if work.since else timedelta()
        if not work.pods and held >= _LONG:
            has = ", ".join(f"{n} {name}" for name, n in work.cards.items())
            since = format_duration(round_to_hours(held))
            seen = f"it has had {has} of ClusterQueue {work.queue} since {since}, and has no pod"
            yield found(Id.ORPHANED_QUOTA, work.thing, seen)
    yield from _without_contract(facts, batch)


def _without_contract(facts: Facts, batch: list[Holder]) -> Iterator[Finding]:
    rules = {name: gate.thing for gate in facts.gates for name in gate.evicts}
    for queue in facts.queues:
        name = queue.thing.name
        why = queue.preempts or (f"{rules[name]} counts on a contract" if name in rules else "")
        bare = [one for one in batch if one.cluster_queue == name and not one.contract]
        if why and bare:
            work = listed(f"{at(one)} ({_wanted(one)})" for one in bare)
            yield found(Id.NO_CONTRACT, queue.thing, f"{why}, and there is no contract of {work}")


def _wanted(one: Holder) -> str:
    return cards(sum(one.cards.values()) * one.replicas)


def of_quota(facts: Facts) -> Iterator[Finding]:
    """Quota beside cards, and beside the gate."""
    for flavor, labels in sorted(facts.flavors.items()):
        here = [quota for quota in facts.quotas if quota.flavor == flavor and quota.count]
        for resource in sorted({quota.resource for quota in here if is_card(quota.resource)}):
            domain = domain_of(resource)
            nodes = facts.with_cards(domain, labels)
            has = sum(facts.physical(node, domain) for node in nodes)
            given = [quota for quota in here if quota.resource == resource]
            total = sum(quota.count for quota in given)
            if nodes and total > has:
                parts = listed(f"{quota.thing} ({quota.count})" for quota in given)
                names = listed(node.thing.name for node in nodes)
                seen = f"flavor {flavor} has {cards(has)} on {names}, and quota of {total}: {parts}"
                yield found(Id.QUOTA, given[0].thing, seen)
    for gate in facts.gates:
        yield from _leaks(facts, gate)


def _leaks(facts: Facts, gate: Gate) -> Iterator[Finding]:
    for text in gate.leaks:
        seen, _, remedy = text.rpartition("; ")
        yield found(Id.GATE_LEAKS, gate.thing, seen, remedy)
    # Queues of other rules are closed by those; two rules on the same cards are refused.
    gated = {name for one in facts.gates for name in one.queues}
    queues = [q for q in facts.quotas if q.resource == gate.resource and q.thing.kind != "Cohort"]
    flavors = {quota.flavor for quota in queues if quota.thing.name in gate.queues}
    for quota in queues:
        past = quota.flavor in flavors and quota.thing.name not in gated
        if past and quota.count and not quota.held:
            mine = ", ".join(sorted(gate.queues))
            yield found(
                Id.GATE_LEAKS,
                quota.thing,
                f"it has quota of {quota.count} {quota.resource} of flavor {quota.flavor}, and "
                f"{gate.thing} closes only {mine}",
            )


def of_writers(facts: Facts) -> Iterator[Finding]:
    """Who writes what a rule writes."""
    for gate in facts.gates:
        for thing, text in gate.fights:
            seen, _, remedy = text.rpartition("; ")
            yield found(Id.FIGHT, thing, f"{seen or text} ({gate.thing})", remedy if seen else "")


def of_priorities(facts: Facts) -> Iterator[Finding]:
    """Whose pods would end whose, of those that may meet."""
    of = {
        role: sorted((one for one in facts.holders if one.cards and one.role is role), key=_rank)
        for role in (Role.SERVING, Role.BATCH)
    }
    for role, other in ((Role.SERVING, Role.BATCH), (Role.BATCH, Role.SERVING)):
        for high in (one for one in of[role] if one.priority.preempts):
            lower = of[other][: bisect_left(of[other], high.priority.value, key=_rank)]
            under = [low for low in lower if not low.contract and _may_meet(facts, high, low)]
            if under:
                value = high.priority.value
                ended = listed(f"{at(low)} ({low.priority.value}, {low.role})" for low in under)
                seen = f"its pods ({value}, {high.role}) would take the card from those of {ended}"
                yield found(Id.PRIORITY, high.thing, seen)


def _rank(one: Holder) -> int:
    return one.priority.value


def _may_meet(facts: Facts, one: Holder, other: Holder) -> bool:
    common = [name for name in one.cards if name in other.cards]
    if not common:
        return False
    if any(other.selects.get(label, value) != value for label, value in one.selects.items()):
        return False
    both = {**one.selects, **other.selects}
    return not facts.nodes or bool(facts.with_cards(domain_of(common[0]), both))
