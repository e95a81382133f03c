"""What a file of a plane may say: its tenants and what their work agrees to, beside the hardware.

The field names are a contract, as in core/rule.py. What is said here is what each entry says about
itself alone; what entries mean to each other is read.py's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from idlewin.core.rule import Contract
from idlewin.core.text import SCHEMA, Duration, camel
from idlewin.plane.hardware import Cards, DeviceClass, Machine, Name, Topology

_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueClass:
    """What work of a kind agrees to: an end, or to save itself and resume."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: Name
    """A part of the names of its queues."""
    max_runtime: Duration | None = None
    """No work of it runs longer. Kueue ends it by a label of the Job, which a policy asks for."""
    contract: Contract | None = None
    """Checkpoint: work may be evicted, for it saves itself and resumes. A policy asks for it."""
    grace: Duration | None = None
    """How long work takes to stop after it is told to; as in a rule where it is not said."""
    min_slice: Duration | None = None
    """Work under a contract is not started for less; as in a rule where it is not said."""
    protected: bool | None = None
    """True: no other work ever preempts this. Without a contract nothing else can be said;
    under one it is false where it is not said."""

    @property
    def is_protected(self) -> bool:
        """Whether nobody's work may preempt it."""
        return self.contract is None or bool(self.protected)

    def __post_init__(self) -> None:
        if (self.max_runtime is None) == (self.contract is None):
            raise ValueError(
                "a queue class has either maxRuntime or contract: Checkpoint. Without any nobody "
                "could be told when the cards are free; with both a maximum would count over all "
                "windows, and end for good what agreed to resume"
            )
        if self.max_runtime is not None and self.max_runtime.total_seconds() < 1:
            raise ValueError("maxRuntime must be 1s or longer")
        if self.min_slice is not None and self.contract is None:
            raise ValueError("minSlice belongs to a contract; other work runs to its end")
        if self.protected is False and self.contract is None:
            raise ValueError(
                "protected is false, and the class has no contract: preemption would destroy work "
                "that never agreed to it; leave it out, or write contract: Checkpoint"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Priority:
    """A WorkloadPriorityClass."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: Name
    """Its name, which Jobs carry as the label kueue.x-k8s.io/priority-class."""
    value: int
    """Higher goes first."""
    description: str = ""
    """Who should use it, for people."""

    def __post_init__(self) -> None:
        if not -(2**31) <= self.value < 2**31:
            raise ValueError(f"value is {self.value}; Kueue has 32 bits for it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A queue of a tenant: cards, and what its work there agrees to."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    cards: str
    """Cards by name."""
    queue_class: str
    """A queue class by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """Who has batch work: some namespaces, with their share and their limits."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: Name
    """A part of the names of its queues."""
    namespaces: tuple[str, ...]
    """Its namespaces. Each Job there names a queue and a priority of this tenant."""
    weight: int = 1
    """Its share where several want the same cards, beside the weights of the others."""
    quota: dict[str, int] = field(default_factory=dict)
    """The most cards that it has at a time, by the name of the cards. Not said: all of them."""
    priorities: tuple[str, ...]
    """The priorities that its work may have, by name."""
    queues: tuple[Use, ...]
    """Where its work may run, and as what."""

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise ValueError(f"weight is {self.weight}; write 1 or more")
        for name in ("namespaces", "priorities", "queues"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty; write one at least, or take the tenant out")
        for namespace in self.namespaces:
            if not _NAMESPACE.fullmatch(namespace):
                raise ValueError(
                    f"namespaces has {namespace!r}, which is no namespace's name; write it"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A whole file."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: Name
    """The plane's; policies are called by it."""
    device_classes: tuple[DeviceClass, ...]
    """How users get at cards."""
    cards: tuple[Cards, ...]
    """What there is to be shared."""
    queue_classes: tuple[QueueClass, ...]
    """What work agrees to."""
    priorities: tuple[Priority, ...]
    """What goes first."""
    tenants: tuple[Tenant, ...]
    """Who has work."""
    topologies: tuple[Topology, ...] = ()
    """Where nodes are."""
    outside: tuple[Machine, ...] = ()
    """Machines that are no nodes. They are on record, and no object is made of them."""

    def __post_init__(self) -> None:
        for name in ("device_classes", "cards", "queue_classes", "priorities", "tenants"):
            if not getattr(self, name):
                raise ValueError(f"{camel(name)} is empty; write one at least")
