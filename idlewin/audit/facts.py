"""What an audit rests on, in words that say nothing of where it came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from idlewin.draft.facts import is_card


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """An object, and where it is written down."""

    kind: str
    name: str
    namespace: str = ""
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")


class Role(StrEnum):
    """What a holder is to its cards."""

    SERVING = "serving"
    BATCH = "batch"
    NODE = "node"
    """It sees to its node: a DaemonSet, a static pod."""
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """How long there was no demand, of the time that is known."""

    idle: timedelta
    known: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """Where pods stand before the scheduler."""

    value: int = 0
    preempts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Whoever asks for cards or gets at them: the topmost object that owns pods."""

    thing: Thing
    role: Role
    claims: Mapping[str, int] = field(default_factory=dict)
    """Extended resources that one pod requests."""
    replicas: int = 1
    held: Mapping[str, int] = field(default_factory=dict)
    """Pods that are on nodes now, by node."""
    since: datetime | None = None
    """When the oldest of these pods began."""
    selects: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    """What it mounts of the host's /dev."""
    opens_all: str = ""
    """How it gets at every device of its node without mounting one."""
    device_classes: tuple[str, ...] = ()
    """Of its ResourceClaims."""
    priority: Priority = Priority()
    rule: str = ""
    """The rule that has it in serving."""
    idle: Idle | None = None
    """None: it is not known."""
    local_queue: str = ""
    cluster_queue: str = ""
    contract: bool = False
    loses: tuple[str, ...] = ()
    """Volumes that go with the pod, where it has no other."""
    part: bool = False
    """Whether something controls it that is not looked at, and may be queued in its place."""
    managed_by: str = ""
    created_at: datetime | None = None
    taken_up: bool = True
    """Whether anything has written its status, or it is suspended."""

    @property
    def cards(self) -> dict[str, int]:
        """Of its claims the cards."""
        return {name: count for name, count in self.claims.items() if count and is_card(name)}

    def wants(self, domain: str) -> int:
        """Cards of a vendor that one pod requests."""
        return sum(count for name, count in self.cards.items() if domain_of(name) == domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with what it says that it can allocate."""

    thing: Thing
    labels: Mapping[str, str]
    cards: Mapping[str, int]

    def allocates(self, domain: str) -> int:
        """Cards of a vendor that the scheduler gives out."""
        return sum(n for name, n in self.cards.items() if domain_of(name) == domain)


class Kind(StrEnum):
    """What a setting does, or seems to."""

    SHARED = "shared"
    MANAGER = "manager"
    LIMITER = "limiter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a device plugin or of what stands beside it."""

    thing: Thing
    kind: Kind
    text: str
    """As it is written."""
    domain: str = ""
    count: int = 1
    """Shared: pods a card."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Cards of a flavor that a ClusterQueue or a Cohort may let in."""

    thing: Thing
    flavor: str
    resource: str
    count: int
    held: bool = False
    """Whether its queue is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue, as far as it ends work."""

    thing: Thing
    preempts: str = ""
    """The setting by which Kueue itself ends work in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """A rule with its queues."""

    thing: Thing
    resource: str
    queues: tuple[str, ...]
    evicts: tuple[str, ...] = ()
    """Those whose work is taken to be under a contract, and has no other bound."""
    acts: bool = False
    exempt_namespaces: tuple[str, ...] = ()
    """Whose pods mount /dev for something else than cards."""
    leaks: tuple[str, ...] = ()
    """How its quota may be used while they are closed."""
    fights: tuple[tuple[Thing, str], ...] = ()
    """Who else writes what it writes, each with the remedy after a semicolon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A Workload that Kueue has let in and that has not ended."""

    thing: Thing
    queue: str
    cards: Mapping[str, int]
    since: datetime | None
    pods: int
    """Those that are there and have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was seen."""

    holders: tuple[Holder, ...] = ()
    nodes: tuple[Node, ...] = ()
    settings: tuple[Setting, ...] = ()
    flavors: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()
    queues: tuple[Queue, ...] = ()
    gates: tuple[Gate, ...] = ()
    admitted: tuple[Admitted, ...] = ()

    def with_cards(self, domain: str, labels: Mapping[str, str]) -> list[Node]:
        """Nodes with such labels that have cards of a vendor."""
        return [
            node
            for node in self.nodes
            if node.allocates(domain) and labels.items() <= node.labels.items()
        ]

    @property
    def domains(self) -> list[str]:
        """The vendors whose cards are given out or asked for."""
        names = [*(n for node in self.nodes for n in node.cards)]
        names += [name for holder in self.holders for name in holder.cards]
        return sorted({domain_of(name) for name in names if is_card(name)})

    def physical(self, node: Node, domain: str) -> int:
        """The cards that a node has, as far as its labels or the plugin's settings tell."""
        if (told := counted(node, domain)) is not None:
            return told
        shares = [s.count for s in self.settings if s.kind is Kind.SHARED and s.domain == domain]
        return -(-node.allocates(domain) // max(shares, default=1))


def domain_of(resource: str) -> str:
    """The vendor of an extended resource; a partition that hardware keeps is a card by itself."""
    vendor, _, name = resource.partition("/")
    return resource if name.startswith("mig-") else vendor


def counted(node: Node, domain: str) -> int | None:
    """The cards that a node's labels tell of: those of feature discovery. None: they tell none."""
    names = {
        "nvidia.com": ("nvidia.com/gpu.count", ""),
        "gpu.intel.com": ("gpu.intel.com/device-id.", ".count"),
    }.get(domain)
    if names is None:
        return None
    found = [
        int(value)
        for label, value in node.labels.items()
        if label.startswith(names[0]) and label.endswith(names[1]) and value.isdigit()
    ]
    return sum(found) if found else None
