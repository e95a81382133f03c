"""Raw objects, from files or from an API server, to what an audit rests on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from idlewin.adapters.audit_pods import TEMPLATES, Around, Object, texts, with_pods
from idlewin.adapters.audit_queues import admitted, queue, quotas_of, with_spec
from idlewin.adapters.audit_settings import settings
from idlewin.adapters.edits import appliers_of
from idlewin.adapters.fields import labels_of, whole
from idlewin.adapters.quota import leaks
from idlewin.adapters.serving import SCALED_OBJECT, Around as Beside, kind_of
from idlewin.adapters.serving.replicated import trim_autoscaler
from idlewin.audit.facts import (
    Facts,
    Gate,
    Holder,
    Idle,
    Node,
    Setting,
    Thing,
)
from idlewin.codec import read_rule
from idlewin.core.pool import MANAGER
from idlewin.core.rule import Mode, Rule
from idlewin.core.target import Ref
from idlewin.draft.facts import is_card
from idlewin.errors import RuleError

Json = dict[str, Any]
Key = tuple[str, str, str]
_FLUX = "helm.toolkit.fluxcd.io"


@dataclass(frozen=True, slots=True)
class _Ruled:
    one: Object
    rule: Rule

    @property
    def name(self) -> str:
        return self.one.thing.name


class _Objects:
    """Objects by kind and by key."""

    def __init__(self, objects: Iterable[Object]) -> None:
        self.of: dict[str, list[Object]] = {}
        self.by: dict[Key, Object] = {}
        for one in objects:
            self.of.setdefault(one.kind, []).append(one)
            self.by[one.key] = one

    def __getitem__(self, kind: str) -> list[Object]:
        return self.of.get(kind, [])

    def raws(self, kind: str) -> list[Json]:
        return [one.raw for one in self[kind]]


def facts_of(objects: Iterable[Object], idle: Mapping[str, Idle] | None = None) -> Facts:
    """All of it, of sound objects; ``idle``: by rule, where demand was asked for."""
    there = _Objects(objects)
    rules = list(_rules(there))
    around = Around(
        priorities={one.thing.name: one.raw for one in there["PriorityClass"]},
        claims={
            one.key: one.raw
            for kind in ("ResourceClaim", "ResourceClaimTemplate")
            for one in there[kind]
        },
        queues={
            (one.thing.namespace, one.thing.name): one.raw["spec"].get("clusterQueue", "")
            for one in there["LocalQueue"]
        },
    )
    tops = {one.key: one for kind in TEMPLATES for one in there[kind]}
    found = with_pods(tops, there["Pod"], around)
    held = [one for one in found if not _owned(there, tops, one.thing)]
    return Facts(
        holders=tuple(_ruled(one, rules, there, idle or {}) for one in held),
        nodes=tuple(_node(one) for one in there["Node"]),
        settings=tuple(_settings(there)),
        flavors={
            one.thing.name: texts((one.raw.get("spec") or {}).get("nodeLabels"))
            for one in there["ResourceFlavor"]
        },
        quotas=tuple(quotas_of((*there["ClusterQueue"], *there["Cohort"]))),
        queues=tuple(map(queue, there["ClusterQueue"])),
        gates=tuple(_gate(one, there) for one in rules),
        admitted=tuple(admitted(there["Workload"], there["Job"], there["Pod"])),
    )


def _settings(there: _Objects) -> Iterator[Setting]:
    """Each where it is written by a person, and not where an operator copies it to."""
    for one in (one for every in there.of.values() for one in every):
        meta, marks = one.raw["metadata"], labels_of(one.raw)
        makers = [(o["kind"], "", o["name"]) for o in meta.get("ownerReferences") or ()]
        makers.append(
            ("HelmRelease", marks.get(f"{_FLUX}/namespace", ""), marks.get(f"{_FLUX}/name", ""))
        )
        if not any(maker in there.by for maker in makers):
            yield from settings(one)


def _owned(there: _Objects, tops: Mapping[Key, Object], thing: Thing) -> bool:
    """Whether another object that is known has it: that one is told of."""
    own = tops.get((thing.kind, thing.namespace, thing.name))
    owners = own.raw["metadata"].get("ownerReferences") or () if own else ()
    return any(
        (owner["kind"], thing.namespace, owner["name"]) in there.by
        for owner in owners
        if owner.get("controller")
    )


def _node(one: Object) -> Node:
    has = (one.raw.get("status") or {}).get("allocatable") or {}
    cards = {name: whole(count) for name, count in has.items() if is_card(name)}
    return Node(thing=one.thing, labels=texts(labels_of(one.raw)), cards=cards)


# -- rules


def _rules(there: _Objects) -> Iterator[_Ruled]:
    for one in there["IdleRule"]:
        try:
            yield _Ruled(one, read_rule(one.raw.get("spec")))
        except RuleError:
            continue  # what is wrong with it is told by check


def _ruled(one: Holder, rules: list[_Ruled], there: _Objects, idle: Mapping[str, Idle]) -> Holder:
    thing = one.thing
    for ruled in rules:
        for serving in ruled.rule.serving:
            if (thing.kind, thing.namespace, thing.name) in _pods_of(serving.ref, there):
                return replace(one, rule=ruled.name, idle=idle.get(ruled.name))
    return one


def _pods_of(ref: Ref, there: _Objects) -> set[Key]:
    """The target, and what has its pods."""
    keys = {(ref.kind, ref.namespace, ref.name)}
    one = there.by.get((ref.kind, ref.namespace, ref.name))
    if ref.kind == SCALED_OBJECT.kind and one is not None:
        aim = (one.raw.get("spec") or {}).get("scaleTargetRef") or {}
        keys.add((aim.get("kind", "Deployment"), ref.namespace, aim.get("name", "")))
    return keys


def _gate(one: _Ruled, there: _Objects) -> Gate:
    rule = one.rule
    names = [queue.cluster_queue for queue in rule.batch.queues]
    queues = [with_spec(raw) for raw in there.raws("ClusterQueue")]
    cohorts = [with_spec(raw) for raw in there.raws("Cohort")]
    found = [
        text
        for raw in queues
        if raw["metadata"]["name"] in names
        for text in leaks(raw, frozenset(names), queues, cohorts, rule.cards.resource)
    ]
    return Gate(
        thing=one.one.thing,
        resource=rule.cards.resource,
        queues=tuple(names),
        evicts=tuple(
            q.cluster_queue for q in rule.batch.queues if q.contract and not q.max_runtime
        ),
        acts=rule.mode is Mode.ACT and not rule.paused,
        exempt_namespaces=rule.cards.exempt_namespaces,
        leaks=tuple(found),
        fights=(*_targets(rule, there), *_stops(names, there)),
    )


def _targets(rule: Rule, there: _Objects) -> Iterator[tuple[Thing, str]]:
    """Who else raises and lowers a rule's serving."""
    for serving in rule.serving:
        ref = serving.ref
        kind, one = kind_of(ref), there.by.get((ref.kind, ref.namespace, ref.name))
        if kind is None or one is None:
            continue
        own = [raw for raw in there.raws(SCALED_OBJECT.kind) if _near(raw, ref)]
        scalers = [raw for raw in there.raws("HorizontalPodAutoscaler") if _near(raw, ref)]
        trimmed = kind.trim(_whole(one.raw))
        if (below := kind.scaled(trimmed)) and (its := kind_of(below)):
            made = there.by.get((below.kind, below.namespace, below.name))
            trimmed = {**trimmed, "scaled": its.trim(_whole(made.raw)) if made else None}
        beside = Beside(
            resource=rule.cards.resource,
            autoscalers=tuple(trim_autoscaler(_whole(raw)) for raw in scalers),
            scaled_objects=tuple(SCALED_OBJECT.trim(_whole(raw)) for raw in own),
        )
        for text in kind.read(trimmed, beside).trouble:
            yield one.thing, text


def _near(raw: Json, ref: Ref) -> bool:
    return bool(raw["metadata"].get("namespace") == ref.namespace)


def _whole(raw: Json) -> Json:
    """With what the API server adds to an object."""
    meta = {"uid": raw["metadata"]["name"], "resourceVersion": "0", **raw["metadata"]}
    return {**raw, "metadata": meta}


def _stops(names: list[str], there: _Objects) -> Iterator[tuple[Thing, str]]:
    for one in there["ClusterQueue"]:
        if one.thing.name not in names:
            continue
        who = sorted(set(appliers_of(one.raw)) - {MANAGER})
        if one.file and "stopPolicy" in (one.raw.get("spec") or {}) and not _stored(one.raw):
            who = ["what applies this file"]
        if who:
            yield (
                one.thing,
                (
                    f"{', '.join(who)} has its stopPolicy, and puts it back at each apply; take "
                    "stopPolicy out of what that applies"
                ),
            )


def _stored(raw: Json) -> bool:
    """Whether it was read from an API server, and is not what is applied to one."""
    return "uid" in raw["metadata"]
