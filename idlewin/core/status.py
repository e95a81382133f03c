"""What a rule remembers: the status of an IdleRule. The process itself holds no state.

``window`` is the frozen contract of one window, written before anything is changed; giving back
reads it and never the spec. ``owed`` is what we closed on the way and have to open again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from idlewin.core.phase import Phase
from idlewin.core.rule import OnReturn, QueueClass
from idlewin.core.tally import Tallies
from idlewin.core.target import OnOverdue, Ref, Scaled
from idlewin.core.text import SCHEMA, Duration, camel

#: Raised when a status could not be understood by the version before.
VERSION = 1

#: A status is read leniently: a newer version's extra fields must not hide the record.
_LENIENT: dict[str, Any] = {**SCHEMA, "extra": "ignore", "alias_generator": camel}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """A serving target as it was before the window."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    ref: Ref
    uid: str
    replicas: int
    """What it was. 0: it was at zero before us, so it is not ours to raise."""
    claims: int = 0
    """Cards that one replica requests from the scheduler; 0: it opens the device node."""
    ready_timeout: Duration = timedelta(minutes=15)
    on_overdue: OnOverdue = OnOverdue.ALARM
    generation: int = 0
    """Its generation; another one before we lowered it is somebody's write. 0: not known."""
    template: str = ""
    """A digest of its pod template; empty: not known, so not compared."""
    settings: dict[str, str] = field(default_factory=dict)
    """What its size rested on beside its replicas; given back as it was."""
    lowered: bool = False
    """Our patch to zero was accepted."""
    restored: bool = False
    """Written back, or found to be its owner's; never written again in this window."""
    overdue: bool = False
    """It was not back readyTimeout after serving was first brought back."""
    scaled: Scaled | None = None
    """What it scales, which is brought back itself where it does so no more by then."""
    scaled_by: Ref | None = None
    """The target that scaled it, had lowered it for us, and is gone or scales something else."""
    by: str = ""
    """Its zero is written by that name: as whom the controller of what scaled it writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowQueue:
    """A ClusterQueue of a window."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    spec: QueueClass
    uid: str
    closed_for_fit: int = 0
    """How often it was closed in this window because the end came near."""
    refused: bool = False
    """Nor could a LocalQueue of it be closed in this return: that is not waited for again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What a window was opened on, frozen: it is given back from this alone."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    epoch: int
    """The epoch at which it was opened."""
    generation: int
    """The generation of the rule that it was opened under."""
    opened_at: datetime
    resource: str
    node_selector: dict[str, str]
    count: int
    targets: tuple[Remembered, ...]
    queues: tuple[WindowQueue, ...]
    on_return: OnReturn = OnReturn.WAIT
    drain_timeout: Duration = timedelta(minutes=5)
    reclaim_at: datetime | None = None
    """When giving back is due, as last written; small moves are not written."""
    give_back: str = ""
    """The reason why it was given back."""
    give_back_epoch: int = 0
    """The epoch at which giving back began: what each queue must carry, as the fence."""
    restoring_since: datetime | None = None
    """When serving was first brought back; start-up times are measured from here."""
    failure: str = ""
    """What went wrong in this handover on the way; empty: nothing."""
    nodes: tuple[str, ...] = ()
    """The nodes that it was opened on: one that is relabelled has its batch pods still."""
    device_nodes: tuple[str, ...] = ()
    """How pods get at the cards without a claim."""
    exempt_namespaces: tuple[str, ...] = ()
    """Namespaces whose pods mount /dev for something else than cards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedQueue:
    """A LocalQueue that we closed on the way."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    namespace: str
    name: str
    uid: str
    cluster_queue: str
    was: str
    """Its stop policy before us."""
    wrote: str
    """What we wrote; a value changed since is its owner's."""
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedWorkload:
    """A Workload that we put to ``active: false``."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """What we closed on the way and have to open again."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    local_queues: tuple[OwedQueue, ...] = ()
    workloads: tuple[OwedWorkload, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What happened so far."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    windows: int = 0
    """Windows that were opened."""
    windows_today: int = 0
    """Of these, on ``day``."""
    day: str = ""
    """The local day that ``windowsToday`` counts, as YYYY-MM-DD."""
    returns: int = 0
    """Windows that were given back."""
    late_returns: int = 0
    """Returns at which demand was there before serving was ready."""
    harvested_card_seconds: int = 0
    """Card-seconds in which batch pods ran in a window."""
    corrections: int = 0
    """Foreign changes in a row that were corrected; at the limit the rule is Contested."""
    failures: int = 0
    """Handovers in a row that failed; the next is tried later and later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadTimes:
    """Start-ups of one target that were measured, the latest last."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    target: str
    seconds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """How the budget of late returns stands, over the last four weeks."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    allowed: float = 0.0
    """So many may be late in four weeks, or in as long as the rule is there."""
    spent: int = 0
    """So many were."""
    price: float = 0.0
    """What the next one costs, in minutes of batch: it rises as the budget is spent."""
    method: str = ""
    """The forecaster that is asked: of several, the one that would have brought most."""
    late_at: tuple[datetime, ...] = ()
    """When they were late."""


class Truth(StrEnum):
    """A condition's status, in Kubernetes' spelling."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition, as Kubernetes' API conventions have it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    type: str
    status: Truth
    reason: str
    message: str
    last_transition_time: datetime
    observed_generation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The status of an IdleRule."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _LENIENT

    version: int = VERSION
    phase: str = Phase.SERVING
    """Serving, Yielding, Harvesting, Reclaiming or Restoring."""
    since: datetime | None = None
    """Since when."""
    until: datetime | None = None
    """When giving back is due, while a window is open."""
    reason: str = ""
    """Why it is in this phase, or why it stays."""
    message: str = ""
    """The same in a sentence."""
    epoch: int = 0
    """Counts the changes of phase; the fence against a controller that was believed dead."""
    window: Window | None = None
    owed: Owed = field(default_factory=Owed)
    contested_by: str = ""
    """Who keeps changing what idlewin owns."""
    contested_since: datetime | None = None
    back_off_until: datetime | None = None
    """No window is opened before."""
    failure: str = ""
    """What went wrong in the last handover; empty: nothing."""
    unproven: bool = False
    """Serving came back late and nobody has seen it answer: no window until ``idlewin resume``."""
    seen_up: tuple[str, ...] = ()
    """Targets that were ready outside a window: one of these that falls to zero is an alarm."""
    not_lowered: tuple[Remembered, ...] = ()
    """Targets that the last window ended without lowering, as they were: a leader that froze on
    the way may do so yet."""
    counters: Counters = field(default_factory=Counters)
    lead_times: tuple[LeadTimes, ...] = ()
    opening_seconds: tuple[int, ...] = ()
    """How long it took to give the cards away, the latest last."""
    budget: Account = field(default_factory=Account)
    tallies: Tallies = field(default_factory=Tallies)
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
