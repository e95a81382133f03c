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


def matches(tenant: Tenant, sources: Iterable[Seen]) -> list[Match]:
    """The demands of a tenant, those in front of it first."""
    found: list[Match] = []
    for seen in sources:
        if not seen.measures:
            found += _of_source(tenant, seen)
    return sorted(found, key=lambda one: one.source.kind is SourceKind.RUNNING)


def _of_source(tenant: Tenant, seen: Seen) -> Iterator[Match]:
    told: dict[tuple[tuple[str, str], ...], Match] = {}
    for key, series in seen.by_key.items():
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
    if spaces and here not in spaces:
        return None
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
    if any(_within(here, value) and _leads_to(tenant, value) for value in rest):
        return "the names in it"
    return None


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
    if "job" in source.keys and any(
        _plain(program) in _plain(text) for text in (tenant.ref.name, *tenant.images)
    ):
        # An exporter beside the server knows no pod of it.
        return f"its namespace, and {program} in this one's name or image"
    return None


def _made_by(tenant: Tenant, pod: str) -> bool:
    """Whether a pod of former days was a tenant's, by how its controller names them."""
    pods = tenant.pods or (f"{tenant.ref.name}-{'0' * 9}-{'0' * 5}",)
    if tenant.ref.kind == "StatefulSet":
        return re.fullmatch(rf"{re.escape(tenant.ref.name)}-\d+", pod) is not None
    stems = {one.rsplit("-", 2)[0] for one in pods}
    return any(re.fullmatch(rf"{re.escape(stem)}-[a-z0-9]+-[a-z0-9]{{5}}", pod) for stem in stems)


def named(tenant: Tenant) -> list[str]:
    """What a tenant is called, and what leads to it."""
    return list(
        dict.fromkeys([tenant.ref.name, *(s.name for s in tenant.services), *tenant.routes])
    )


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


def _leads_to(tenant: Tenant, text: str) -> bool:
    return any(_within(name, text) for name in named(tenant))


def _within(name: str, text: str) -> bool:
    """Whether a name stands in a text, with no letter or digit next to it."""
    pattern = rf"(?<![a-z0-9]){re.escape(name.lower())}(?![a-z0-9])"
    return bool(name) and re.search(pattern, text.lower()) is not None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


# -- how busy the cards are


def activity(nodes: Sequence[Node], sources: Iterable[Seen]) -> tuple[Match | None, list[str]]:
    """A source that measures these nodes' cards and no others; and why others do not do."""
    told = []
    for seen in sources:
        if not seen.measures or not seen.alive:
            continue
        ours = {key for key, series in seen.by_key.items() if any(_on(nodes, s) for s in series)}
        if not ours:
            continue
        match = _picks(seen, ours)
        doubt = next((seen.doubts[key] for key in sorted(ours) if key in seen.doubts), "")
        if match is None:
            told.append(
                f"{seen.source.name} shows these cards and others, and one match cannot pick them"
            )
        elif doubt:
            told.append(f"{seen.source.name} is there, and not believed: {doubt}")
        else:
            return Match(source=seen.source, match=match, by=""), told
    return None, told


def _on(nodes: Iterable[Node], labels: Mapping[str, str]) -> bool:
    said = {labels[name] for name in _NODES if name in labels}
    said.add(labels.get("instance", "").rpartition(":")[0] or labels.get("instance", ""))
    return any(said & {node.name, *node.addresses} for node in nodes)


def _picks(seen: Seen, ours: set[tuple[str, ...]]) -> dict[str, str] | None:
    """The fewest labels that pick some keys, and no other; None: no one match does."""
    keys, every = seen.source.keys, set(seen.by_key)
    if ours == every and len(ours) > 1:
        return _shared(keys, ours)
    sizes = chain.from_iterable(combinations(range(len(keys)), n) for n in range(1, len(keys) + 1))
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
