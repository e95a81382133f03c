"""Where the demand of a tenant shows: sources whose series have it by pod, by Service, by name.

Nothing is guessed that would be taken for knowledge: what rests on a name alone says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from idlewin.draft.facts import Node, Seen, Tenant
from idlewin.source import Source, SourceKind

_NAMESPACE = re.compile(r"(^|_)namespace(_name)?$")
#: Labels that say whose series it is, beside a source's own keys.
_NODES = ("node", "hostname", "Hostname", "exported_node", "kubernetes_node", "nodename")
#: What Kubernetes makes names of: no word that a person would call a Job by.
_MADE = "bcdfghjklmnpqrstvwxz2456789"
#: How the names of the shipped sources begin that measure one vendor's cards.
_VENDORS = ("intel", "nvidia", "amd")
_MODEL_OPTIONS = (
    "--served-model-name",
    "--model",
    "--model_name",
    "--model-id",
    "--alias",
    "serve",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A demand or activity to write: a source, and what picks the keys that are meant."""

    source: Source
    match: Mapping[str, str]
    by: str
    """What it rests on; empty: on the pod itself."""
    doubt: str = ""
    """Why it shows nothing now that is believed; empty: it does."""


def matches(tenant: Tenant, sources: Iterable[Seen]) -> tuple[Match, ...]:
    """The demands of a tenant, those in front of it first."""
    found: list[Match] = []
    for seen in sources:
        if not seen.measures:
            found += _of_source(tenant, seen)
    return tuple(sorted(found, key=lambda one: one.source.kind is SourceKind.RUNNING))


def _of_source(tenant: Tenant, seen: Seen) -> Iterator[Match]:
    told: dict[tuple[tuple[str, str], ...], Match] = {}
    places = [at for at, label in enumerate(seen.source.keys) if _NAMESPACE.search(label)]
    for key, series in seen.by_key.items():
        if places and not any(key[at] == tenant.ref.namespace for at in places):
            continue
        found = [_evidence(tenant, seen.source, key, labels) for labels in series]
        reasons = [by for by in found if by is not None]
        # A pod's name is another one at each start.
        named = zip(seen.source.keys, key, strict=True)
        match = {label: value for label, value in named if value and label != "pod"}
        if not reasons or not match:
            continue
        one = Match(
            source=seen.source,
            match=match,
            by=min(reasons, key=len),
            doubt=seen.doubts.get(key, ""),
        )
        # Of several pods one that is there speaks for all.
        before = told.setdefault(tuple(match.items()), one)
        if before.doubt and not one.doubt:
            told[tuple(match.items())] = one
    yield from told.values()


def _evidence(
    tenant: Tenant, source: Source, key: Sequence[str], labels: Mapping[str, str]
) -> str | None:
    """Why a series is of a tenant; empty: it has its pod's name. None: it is not."""
    values = dict(zip(source.keys, key, strict=True))
    spaces = [value for label, value in values.items() if _NAMESPACE.search(label)]
    rest = [value for label, value in values.items() if not _NAMESPACE.search(label) and value]
    here = tenant.ref.namespace
    if source.running_work and not source.visible_at_zero:
        return _of_server(tenant, source, rest, labels) if spaces else None
    if spaces and any(value in named(tenant) for value in rest):
        return "the name of its Service or route"
    if spaces:
        # A Knative revision is its service's name and a number.
        alike = any(
            re.fullmatch(rf"{re.escape(n)}-\d{{5}}", v) for n in named(tenant) for v in rest
        )
        return "the name of its service" if alike else None
    told = [by for n in named(tenant) for value in rest if (by := _beside(here, n, value))]
    return min(told, key=len, default=None)


def _of_server(
    tenant: Tenant, source: Source, rest: Iterable[str], labels: Mapping[str, str]
) -> str | None:
    if pod := labels.get("pod", ""):
        if pod in tenant.pods or _made_by(tenant, pod):
            return ""
        own = {labels.get(name, "") for name in ("service", "job")} & {
            s.name for s in tenant.services
        }
        if own:
            return "its Service"
    if models(tenant) & {_plain(value) for value in rest}:
        return "the name of its model"
    program = source.name.partition("-")[0]
    if (
        "job" in source.keys
        and "pod" not in source.keys
        and any(_plain(program) in _plain(text) for text in (tenant.ref.name, *tenant.images))
    ):
        # An exporter beside the server knows no pod of it.
        return f"its namespace, and {program} in this one's name or image"
    return None


def _made_by(tenant: Tenant, pod: str) -> bool:
    """Whether a pod of former days was a tenant's, by how its controller names them."""
    stem = re.escape(tenant.workload or tenant.ref.name)
    made = f"[{_MADE}]{{5,10}}-[{_MADE}]{{5}}"
    number = r"\d+" if tenant.ref.kind == "StatefulSet" else made
    return re.fullmatch(f"{stem}-{number}", pod) is not None


def named(tenant: Tenant) -> list[str]:
    """What a tenant is called, and what leads to it."""
    names = (tenant.ref.name, tenant.workload, *(s.name for s in tenant.services), *tenant.routes)
    return list(dict.fromkeys(filter(None, names)))


def models(tenant: Tenant) -> set[str]:
    """Names of the models that a tenant serves, as its arguments say, without their spelling."""
    found = {_plain(tenant.ref.name)}
    words = list(tenant.arguments)
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in _MODEL_OPTIONS:
            value = value if equals else (words[at + 1] if at + 1 < len(words) else "")
            found |= {_plain(value), _plain(value.rpartition("/")[2])}
    return found - {""}


def _beside(namespace: str, name: str, text: str) -> str | None:
    """How a namespace and a name stand together in a text, or the name as DNS has it; None: not.

    Between dashes, as Traefik writes them, a name that begins or ends with another looks like it.
    """
    first, second = re.escape(namespace.lower()), re.escape(name.lower())
    text = text.lower().partition("@")[0]
    pattern = rf"(?<![a-z0-9-])({first}[^a-z0-9-]+{second}|{second}\.{first})(?![a-z0-9-])"
    if re.search(pattern, text):
        return "the names in it"
    dashed = re.fullmatch(rf"([a-z0-9-]+-)?{first}-{second}(-[a-z0-9-]+)?", text)
    return "names between dashes in it, which may be part of another's" if dashed else None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


# -- how busy the cards are


def activity(
    resource: str, nodes: Sequence[Node], sources: Iterable[Seen]
) -> tuple[Match | None, list[str]]:
    """A source that measures these nodes' cards and no others; and why others do not do."""
    told = []
    for seen in sources:
        if not seen.measures or not seen.alive or _of_another(seen.source, resource):
            continue
        name = seen.source.name
        ours = {key for key, series in seen.by_key.items() if any(_on(nodes, s) for s in series)}
        if not ours:
            told.append(f"{name} is alive, and none of its series names these nodes")
            continue
        match = _picks(seen, ours)
        doubt = next((seen.doubts[key] for key in sorted(ours) if key in seen.doubts), "")
        if match is None:
            told.append(f"{name} shows these cards and others, and one match cannot pick them")
        elif doubt:
            told.append(f"{name} is there, and not believed: {doubt}")
        else:
            return Match(source=seen.source, match=match, by=""), []
    return None, told


def _of_another(source: Source, resource: str) -> bool:
    """Whether a source measures cards of another vendor: two may be in one box."""
    vendor = source.name.partition("-")[0]
    return vendor in _VENDORS and vendor not in resource


def _on(nodes: Iterable[Node], labels: Mapping[str, str]) -> bool:
    said = {labels[name] for name in _NODES if name in labels}
    said.add(labels.get("instance", "").rpartition(":")[0] or labels.get("instance", ""))
    return any(said & {node.name, *node.addresses} for node in nodes)


def _picks(seen: Seen, ours: set[tuple[str, ...]]) -> dict[str, str] | None:
    """The fewest labels that pick some keys, and no other; None: no one match does."""
    keys, every = seen.source.keys, set(seen.by_key)
    if ours == every and len(ours) > 1:
        return _shared(keys, ours)
    # An exporter's address is another one with its next pod: it comes last.
    order = sorted(range(len(keys)), key=lambda place: keys[place] == "instance")
    sizes = chain.from_iterable(combinations(order, n) for n in range(1, len(keys) + 1))
    for places in sizes:
        values = {tuple(key[place] for place in places) for key in ours}
        if len(values) == 1:
            (value,) = values
            picked = {key for key in every if tuple(key[p] for p in places) == value}
            if picked == ours and all(value):
                return dict(zip((keys[place] for place in places), value, strict=True))
    return None


def _shared(keys: Sequence[str], ours: set[tuple[str, ...]]) -> dict[str, str]:
    """The labels that all of them have alike: more would have to be written for none."""
    return {
        label: next(iter(values))
        for place, label in enumerate(keys)
        if len(values := {key[place] for key in ours}) == 1 and values != {""}
    }
