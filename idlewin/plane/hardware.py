"""What a file of a plane says of hardware: cards, how users get at them, where they are.

What is said here is what each entry says about itself alone; the rest is read.py's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from idlewin.core.rule import ForecastPolicy, Mode, WindowPolicy
from idlewin.core.target import Arbiter, Serving
from idlewin.core.text import SCHEMA, Text

#: Three of these and two hyphens are the name of a queue, which as a label has 63 at most.
_LONGEST = 20
_NAME = re.compile(rf"[a-z](?:[-a-z0-9]{{0,{_LONGEST - 2}}}[a-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:m|[kMGTPE]|[KMGTPE]i)?")
_LABEL = re.compile(r"(?:[a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def parse_name(text: object) -> str:
    """A name of which objects' names are made. Raises ValueError."""
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is no name here: write at most {_LONGEST} lower-case letters, digits and "
            "hyphens, the first of them a letter; names of queues are made of it"
        )
    return text


def parse_quantity(text: object) -> str:
    """A quantity as Kubernetes writes it: 8, 500m, 32Gi. Raises ValueError."""
    said = str(text) if isinstance(text, int) and not isinstance(text, bool) else text
    if not isinstance(said, str) or not _QUANTITY.fullmatch(said):
        raise ValueError(f"{text!r} is no quantity; write one such as 8, 500m or 32Gi")
    return said


Name = Annotated[str, Text(parse_name, str, rf"^{_NAME.pattern}$", "b580")]
Quantity = Annotated[str, Text(parse_quantity, str, rf"^{_QUANTITY.pattern}$", "32Gi")]


class DeviceKind(StrEnum):
    """What keeps the users of a card apart."""

    MEDIATED = "Mediated"
    EXCLUSIVE = "Exclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClass:
    """How users get at cards, and so who can take them off again."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: Name
    """What cards call it."""
    kind: DeviceKind
    """Mediated: users speak a protocol to an arbiter. Exclusive: they open the device node."""
    arbiter: Arbiter | None = None
    """Of Mediated: the program that owns the cards."""
    device_nodes: tuple[str, ...] = ()
    """Of Exclusive: how pods get at the cards without a claim, such as /dev/dri."""
    exempt_namespaces: tuple[str, ...] = ()
    """Of Exclusive: namespaces whose pods mount /dev for something else than cards."""

    def __post_init__(self) -> None:
        if self.kind is DeviceKind.MEDIATED and self.arbiter is None:
            raise ValueError(
                "kind Mediated means that a program owns the cards; name it, arbiter: LlamaSwap, "
                "or write Exclusive"
            )
        if self.kind is DeviceKind.MEDIATED and (self.device_nodes or self.exempt_namespaces):
            raise ValueError(
                "deviceNodes belongs to Exclusive: who opens a device node passes every arbiter"
            )
        if self.kind is DeviceKind.EXCLUSIVE and self.arbiter is not None:
            raise ValueError("arbiter belongs to Mediated: there is nobody to ask in Exclusive")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What batch may use of the nodes beside their cards."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    cpu: Quantity
    """Cores, of all nodes of the cards together."""
    memory: Quantity
    """Memory, of all nodes of the cards together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """Cards of one resource on some nodes: a pool. One flavor, one Cohort, one rule."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: Name
    """The name of its ResourceFlavor, Cohort and IdleRule."""
    resource: str
    """The extended resource that one card counts as, such as gpu.intel.com/xe."""
    nodes: tuple[str, ...]
    """The nodes that have them, by name."""
    node_labels: dict[str, str] = field(default_factory=dict)
    """Labels that these nodes have and no others: Kueue knows nodes by labels alone. Of a single
    node its name is enough."""
    per_node: int = 1
    """Cards on each of the nodes."""
    shared: int = 1
    """Pods that the device plugin lets at one card. Only 1 can be governed."""
    model: str
    """What it is, for people: Intel Arc B580."""
    memory: Quantity
    """What one card has, for people. Nothing enforces a part of it."""
    device_class: str
    """The device class, by name."""
    host: Host
    """What batch may use of the nodes beside the cards."""
    topology: str | None = None
    """A topology by name: work is placed by it."""
    serving: tuple[Serving, ...] = ()
    """Who owns the cards outside windows, as in a rule. Empty: batch has the cards for itself, its
    queues are always open, and there is no rule."""
    mode: Mode = Mode.OBSERVE
    """What its rule may do, as in a rule: Observe changes nothing, Act hands cards over."""
    window: WindowPolicy = field(default_factory=WindowPolicy)
    """When, and for how long, as in a rule."""
    forecast: ForecastPolicy = field(default_factory=ForecastPolicy)
    """How the next demand is predicted, as in a rule."""

    @property
    def count(self) -> int:
        """All of them."""
        return len(self.nodes) * self.per_node

    @property
    def labels(self) -> dict[str, str]:
        """The labels by which the nodes are selected."""
        return dict(self.node_labels) or {"kubernetes.io/hostname": self.nodes[0]}

    def __post_init__(self) -> None:
        if self.shared != 1:
            raise ValueError(
                f"shared is {self.shared}; write 1, and set the device plugin so. Replication is "
                "no partition: it offers one card to several pods, and neither memory nor time of "
                "it is anybody's own, so a quota of such shares would limit nothing"
            )
        if not self.nodes:
            raise ValueError("nodes is empty; name the nodes that have the cards")
        if len(self.nodes) > 1 and not self.node_labels:
            raise ValueError(
                f"nodeLabels is missing, and there are {len(self.nodes)} nodes: give them a label "
                "that no other node has, and write it here"
            )
        if self.per_node < 1:
            raise ValueError(f"perNode is {self.per_node}; write how many cards each node has")
        if not self.serving:
            whole = {"mode": Mode.OBSERVE, "window": WindowPolicy(), "forecast": ForecastPolicy()}
            for part, default in whole.items():
                if getattr(self, part) != default:
                    raise ValueError(
                        f"{part} has no use without serving: nobody's return ends a window there, "
                        "and there is no rule; name who serves on the cards, or take it out"
                    )
        vendor, _, name = self.resource.partition("/")
        if "." not in vendor or not name:
            raise ValueError(
                f"resource {self.resource!r} is no extended resource; write it as the nodes have "
                "it, such as gpu.intel.com/xe"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Where nodes are: from the widest to the narrowest."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: Name
    """What cards call it."""
    levels: tuple[str, ...]
    """Labels of nodes, the widest first; kubernetes.io/hostname, if at all, last."""

    def __post_init__(self) -> None:
        for level in self.levels:
            if not _LABEL.fullmatch(level):
                raise ValueError(
                    f"levels has {level!r}, which is no label of a node; write its key alone"
                )
        if not 1 <= len(self.levels) <= 16 or len({*self.levels}) < len(self.levels):
            raise ValueError("levels are 1 to 16 labels, each of them once")
        if "kubernetes.io/hostname" in self.levels[:-1]:
            raise ValueError("levels has kubernetes.io/hostname before others; nothing is narrower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine with a card that is no node of the cluster."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: str
    """What people call it."""
    model: str
    """Its card, for people."""
    memory: Quantity
    """What the card has, for people."""
    why: str
    """Why it is no node."""
