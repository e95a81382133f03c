"""What was seen of a cluster and of Prometheus, in words that say nothing of where it came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property

from idlewin.core.target import Ref
from idlewin.source import Source, SourceKind

#: What accelerators are called as extended resources; ``--resource`` takes any other.
_CARD = re.compile(
    r"(^|[/.-])(x?gpu|i915|xe|npu|tpu|hpu|vpu|mlu|dcu|gaudi|mig-[\w.]+|accel|neuron(core|device)?"
    r"|ascend\w*|hailo\d*)($|[.-])",
    re.IGNORECASE,
)
#: Parts and measures of a card, beside the card itself.
_PART = re.compile(r"monitoring|memory|millicores|tiles|shared-dev|cores$", re.IGNORECASE)


def is_card(resource: str) -> bool:
    """Whether an extended resource is, by its name, an accelerator that is given out whole."""
    vendor, _, name = resource.partition("/")
    return "." in vendor and bool(_CARD.search(f"/{name}")) and not _PART.search(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node, and what it can allocate."""

    name: str
    labels: Mapping[str, str]
    cards: Mapping[str, int]
    """Every extended resource that it has."""
    cpu: int = 1
    """Whole cores."""
    memory: int = 1
    """Whole GiB."""
    addresses: tuple[str, ...] = ()


class Role(StrEnum):
    """What a tenant of cards is to a rule."""

    SERVING = "serving"
    BATCH = "batch"
    APART = "apart"
    """Neither: idlewin cannot lower it, or it sees to the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A Service before a tenant's pods."""

    name: str
    ports: tuple[tuple[str, int], ...]
    """Name and number of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Whoever holds cards, or asks for some: the topmost object that owns its pods."""

    ref: Ref
    role: Role
    why: tuple[str, ...] = ()
    """Apart: why it cannot be in serving. Serving: what stands in the way of lowering it."""
    claims: Mapping[str, int] = field(default_factory=dict)
    """Cards that one replica requests."""
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Cards that its pods hold now: by node and resource."""
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What its pods mount of the host's /dev without a request: by node."""
    workload: str = ""
    """The name that its pods' begin with, where it is not its own: of what it scales."""
    pods: tuple[str, ...] = ()
    replicas: int = 1
    """What is wanted of it now."""
    selects: Mapping[str, str] = field(default_factory=dict)
    """The labels of nodes that its pods want."""
    services: tuple[Service, ...] = ()
    routes: tuple[str, ...] = ()
    """Names of Ingresses and routes that lead to its Services."""
    images: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue, as a rule would name it."""

    name: str
    flavors: Mapping[str, tuple[str, ...]]
    """By resource, the flavors that it has quota of."""
    rule: str = ""
    """The rule that it is in the hands of."""
    longest: timedelta | None = None
    """The longest maximum execution time of its work; None: some has none, or there is no work."""
    checkpoint: bool = False
    """Whether all of its work, and some is there, is under the checkpoint contract."""
    works: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A rule that is in the cluster already."""

    name: str
    resource: str
    node_selector: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a Prometheus has of one source."""

    source: Source
    alive: bool
    trouble: str = ""
    """Why it is not, though it was there lately, or could not be asked for."""
    series: tuple[Mapping[str, str], ...] = ()
    """The labels of every series that it had lately."""
    doubts: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    """Keys that show no value now that is believed, and why."""

    @property
    def measures(self) -> bool:
        """Whether it shows how busy cards are, and not demand."""
        return self.source.kind is SourceKind.ACTIVITY

    @property
    def unlabelled(self) -> list[str]:
        """The keys that none of its series has: no match by them finds one."""
        keys = list(self.by_key)
        places = enumerate(self.source.keys)
        return [label for place, label in places if keys and not any(key[place] for key in keys)]

    @cached_property
    def by_key(self) -> dict[tuple[str, ...], list[Mapping[str, str]]]:
        """Its series by key."""
        found: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
        for labels in self.series:
            found.setdefault(self.source.key_of(labels), []).append(labels)
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was seen."""

    nodes: tuple[Node, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    queues: tuple[Queue, ...] = ()
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The node labels of each ResourceFlavor."""
    rules: tuple[Owned, ...] = ()
    no_kueue: bool = False
    no_definition: bool = False
    """Whether the cluster does not know IdleRule."""
    sources: tuple[Seen, ...] = ()
    no_prometheus: str = ""
    """Why no source was looked at."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """Kinds that could not be listed, by their plural, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the drafts are narrowed to; empty: everything."""

    nodes: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def takes(self, resource: str) -> bool:
        """Whether a resource counts as cards here."""
        return resource in self.resources if self.resources else is_card(resource)


def listed(names: Iterable[str], most: int = 5) -> str:
    """Names in a sentence, of very many some."""
    told = list(names)
    more = f" and {len(told) - most} more" if len(told) > most else ""
    return ", ".join(told[:most]) + more
