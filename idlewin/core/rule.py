"""IdleRule: what an operator writes. One rule, one pool of cards.

Only the shape and what a rule says about itself; what the cluster must agree with is lint.py's.
The field names are a contract (``idlewin.dev/v1alpha1``): add, do not rename. Attribute
docstrings become the descriptions of the CRD.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar

from idlewin.core.calendar import Calendar
from idlewin.core.target import Serving
from idlewin.core.text import SCHEMA, Duration, Share, format_duration

API_VERSION = "idlewin.dev/v1alpha1"
KIND = "IdleRule"


#: What device plugins offer, for whoever writes something like it.
_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe", "gpu.intel.com/i915")


class Mode(StrEnum):
    """What a rule may do."""

    OBSERVE = "Observe"
    ACT = "Act"


class OnReturn(StrEnum):
    """What a returning user does to work without a contract."""

    WAIT = "Wait"
    EVICT = "Evict"


class Contract(StrEnum):
    """What the work of a queue has agreed to."""

    CHECKPOINT = "Checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """How busy the cards themselves are, as an exporter says."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    source: str
    """A source of the catalogue that measures cards, such as intel-xpumd."""
    match: dict[str, str] = field(default_factory=dict)
    """Labels that pick these cards among the source's series."""
    busy_above: float = 0.05
    """A utilisation above this, from 0 to 1, counts as busy."""

    def __post_init__(self) -> None:
        if not 0 <= self.busy_above < 1:
            raise ValueError(
                f"cards.activity.busyAbove is {self.busy_above:g}; a utilisation is from 0 to 1"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """All cards of one resource on the nodes that are selected."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    resource: str
    """The extended resource that one card counts as, such as gpu.intel.com/xe."""
    count: int
    """How many there are; checked against what the nodes can allocate."""
    node_selector: dict[str, str]
    """Labels of the nodes. The rule owns every card of the resource there."""
    activity: Activity | None = None
    """How busy the cards are; without it only demand counts."""
    device_nodes: tuple[str, ...] = ()
    """How pods get at these cards without a claim, such as /dev/dri: a pod on the nodes that mounts
    one of them, a part of it or a directory above it from the host is on the cards. Not those of
    DaemonSets, which see to cards and do not use them. Empty: only claims count."""
    exempt_namespaces: tuple[str, ...] = ()
    """Namespaces whose pods mount /dev for something else than cards, such as longhorn-system."""

    def __post_init__(self) -> None:
        for path in self.device_nodes:
            if not path.startswith("/dev/") or posixpath.normpath(path) != path:
                raise ValueError(
                    f"cards.deviceNodes has {path!r}, which names nothing below /dev; write the "
                    "path as the node has it, such as /dev/dri or /dev/nvidia0"
                )
        if self.exempt_namespaces and not self.device_nodes:
            raise ValueError(
                "cards.exemptNamespaces has no use without cards.deviceNodes: pods that claim "
                "cards always count; name the device nodes, or take it out"
            )
        if self.count < 1:
            raise ValueError(f"cards.count is {self.count}; write how many cards the nodes have")
        if not self.node_selector:
            raise ValueError("cards.nodeSelector is empty and would take every node; name labels")
        vendor, _, name = self.resource.partition("/")
        if "." not in vendor or not name:
            likely = (known for known in _RESOURCES if vendor and vendor.lower() in known)
            raise ValueError(
                f"cards.resource {self.resource!r} is no extended resource, whose vendor is a "
                f"domain; write {next(likely, ' or '.join(_RESOURCES))}, as the nodes have it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueClass:
    """A ClusterQueue that fills the cards, with a runtime bound or a contract."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    cluster_queue: str
    """The adopted ClusterQueue's name."""
    max_runtime: Duration | None = None
    """No work of this queue runs longer. Kueue enforces it where the Job has the label
    kueue.x-k8s.io/max-exec-time-seconds, or a policy of yours does; idlewin decides what fits."""
    contract: Contract | None = None
    """Checkpoint: work may be evicted, for it saves itself and resumes."""
    grace: Duration = timedelta(seconds=30)
    """How long work takes to stop after it is told to."""
    min_slice: Duration = timedelta(minutes=5)
    """Work under a contract is not started for less."""

    def __post_init__(self) -> None:
        if self.max_runtime is not None and self.max_runtime <= timedelta():
            raise ValueError("maxRuntime must be longer than 0s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Who uses the cards in a window."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    queues: tuple[QueueClass, ...]
    """ClusterQueues that fill the cards."""
    on_return: OnReturn = OnReturn.WAIT
    """What a returning user does to work without a contract. Wait: whoever returns unexpectedly
    waits up to the longest maxRuntime plus drainTimeout. Evict: the work is evicted."""
    drain_timeout: Duration = timedelta(minutes=5)
    """How long a drain may take before serving is brought back all the same."""
    dry_after: Duration = timedelta(minutes=15)
    """A window in which no work ran for so long is given back."""

    def __post_init__(self) -> None:
        if self.dry_after <= timedelta():
            raise ValueError("batch.dryAfter must be longer than 0s, or every window ends at once")
        if not self.queues:
            raise ValueError("batch.queues is empty; name the ClusterQueues that fill the cards")
        names = [queue.cluster_queue for queue in self.queues]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"batch.queues names {', '.join(twice)} twice")
        for queue in self.queues:
            if self.on_return is OnReturn.WAIT and queue.contract is None and not queue.max_runtime:
                raise ValueError(
                    f"queue {queue.cluster_queue} has neither maxRuntime nor a contract, so a "
                    "returning user could wait for ever; give it a maxRuntime that the cluster "
                    "enforces, contract: Checkpoint, or write onReturn: Evict"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPolicy:
    """When cards may be given away, and for how long."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    idle_for: Duration = timedelta(minutes=10)
    """Idle at least so long before giving away."""
    min: Duration = timedelta(minutes=30)
    """A window shorter than this is not opened."""
    max: Duration = timedelta(hours=12)
    """Serving is wanted back by then."""
    max_per_day: int = 8
    """Windows a day, in the calendar's zone."""
    min_serving: Duration = timedelta(minutes=10)
    """The shortest stay with serving between two windows."""
    yield_timeout: Duration = timedelta(minutes=10)
    """Serving that has not left by then gets the cards back."""
    calendar: Calendar = field(default_factory=Calendar)
    """Hours in which a window may be open; without one, always."""

    def __post_init__(self) -> None:
        if self.max_per_day < 1:
            raise ValueError("maxPerDay must be at least 1; to stop a rule, write paused: true")
        if self.min > self.max:
            raise ValueError(
                f"window.min {format_duration(self.min)} is longer than "
                f"window.max {format_duration(self.max)}"
            )
        if self.min <= timedelta():
            raise ValueError("window.min must be longer than 0s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many late returns are allowed: so many a week, or a share of users' returns."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    per_week: float | None = None
    """Late returns a week of the pool, however many cards and users it has."""
    share: Share | None = None
    """Late returns as a share of users' returns after half an hour of idle time or more, lent or
    not, such as 5%; 100%: no forecast is asked."""

    def __post_init__(self) -> None:
        if (self.per_week is None) == (self.share is None):
            raise ValueError("a budget is either perWeek or share, such as {perWeek: 1}")
        if self.per_week is not None and self.per_week <= 0:
            raise ValueError("budget.perWeek must be above 0; without any risk nothing is lent")


@dataclass(frozen=True, slots=True, kw_only=True)
class DayTypes:
    """Days that are unlike others."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    holidays: str | None = None
    """A country, or country and region, whose public holidays count as a day type: AT, DE-BY."""


#: Asks whichever of the other methods would have brought most.
AUTO = "auto"
#: What ``forecast.method`` may be, the plainest first.
METHODS = ("elapsed", "hazard", "boosted", AUTO)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastPolicy:
    """How the next demand is predicted, and at what risk."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    method: str = "auto"
    """The forecaster: elapsed, hazard, boosted, or auto, which asks the one that would have
    brought most."""
    budget: Budget = field(default_factory=lambda: Budget(per_week=1.0))
    """Late returns that are allowed: perWeek or share. Default: {perWeek: 1}."""
    day_types: DayTypes = field(default_factory=DayTypes)
    """Days that are unlike others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The spec of an IdleRule."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    mode: Mode = Mode.OBSERVE
    """Observe: decide and record, change nothing. Act: hand cards over."""
    cards: Cards
    """The cards of the pool."""
    serving: tuple[Serving, ...]
    """Who owns the cards outside windows; brought back in this order."""
    batch: Batch
    """Who uses them in a window."""
    window: WindowPolicy = field(default_factory=WindowPolicy)
    """When, and for how long."""
    forecast: ForecastPolicy = field(default_factory=ForecastPolicy)
    """How the next demand is predicted."""
    stale_after: Duration = timedelta(minutes=5)
    """Demand that is unknown for so long gives an open window back."""
    paused: bool = False
    """True: serving is brought back, and nothing more is written."""

    @property
    def calendar_only(self) -> bool:
        """Whether its hours decide alone: no demand is looked at, so no budget holds."""
        return all(serving.demand == "CalendarOnly" for serving in self.serving)

    def __post_init__(self) -> None:
        if not self.serving:
            raise ValueError("serving is empty; name the workloads that own the cards")
        refs = [serving.ref for serving in self.serving]
        if twice := sorted({str(ref) for ref in refs if refs.count(ref) > 1}):
            raise ValueError(f"serving names {', '.join(twice)} twice")
