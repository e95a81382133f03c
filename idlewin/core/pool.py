"""Pool: what the cluster shows of one rule's cards, at one look. Facts only, no judgment.

Filled by what the API server says; guards read it. Who writes an object is its field manager.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from idlewin.core.rule import Rule
from idlewin.core.status import Status
from idlewin.core.target import Ref, Scaled

#: The field manager of all our writes.
MANAGER = "idlewin"

# Annotations and the finalizer that are ours.
ADOPTED_BY = "idlewin.dev/rule"
EPOCH = "idlewin.dev/epoch"
RECORD = "idlewin.dev/record"
WAKE_UNTIL = "idlewin.dev/wake-until"
RESUME = "idlewin.dev/resume"
BEFORE_US = "idlewin.dev/stop-policy-before"
#: The stop policy that we wrote last: another value there is somebody else's.
LEFT = "idlewin.dev/stop-policy"
FINALIZER = "idlewin.dev/give-back"
#: On a Job's pod template, or its Workload: it agreed to the checkpoint contract (``Checkpoint``).
CONTRACT = "idlewin.dev/contract"
#: On a ClusterQueue, "true": a policy in the cluster ends what runs longer than maxRuntime.
MAX_RUNTIME_ENFORCED = "idlewin.dev/max-runtime-enforced"


class StopPolicy(StrEnum):
    """Kueue's stopPolicy (KEP 1284): Hold lets admitted work run on, HoldAndDrain evicts it."""

    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The second copy of what a target was: the annotation on the target itself."""

    rule: str
    uid: str
    replicas: int
    epoch: int
    resource: str = ""
    """The window's cards: who else is on them has to be seen, whatever else is lost."""
    nodes: dict[str, str] = field(default_factory=dict)
    """The labels of the nodes that they are on; below, the rest of ``Window`` that tells cards."""
    devices: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    """``Target.settings``, as they were; below, its ``scaled``."""
    scaled: Scaled | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A serving target that exists."""

    ref: Ref
    uid: str
    resource_version: str
    replicas: int
    """What its owner or we want of it; an absent spec.replicas is 1."""
    ready: int
    """Pods that are ready, and answer the probe where the rule has one."""
    answers: bool = True
    """False: its pods are ready, and the probe has no good answer."""
    claims: int = 0
    """Cards that one replica claims from the scheduler; 0: it opens the device node."""
    record: Record | None = None
    """Our record on it, if any."""
    replicas_writer: str = ""
    """Who wrote spec.replicas last."""
    generation: int = 0
    """Counts the writes of its spec, and on some kinds those of its annotations."""
    settings: dict[str, str] = field(default_factory=dict)
    """What its size rests on beside its replicas, by its kind: others are somebody's write."""
    settling: bool = False
    """We hold it at its count until it is ready; only then it is its owner's again."""
    resting: bool = False
    """At 0 by its own scaler, which raises it on demand: that is no fall."""
    lever: str = ""
    """What makes its controller stop it, where that is not its replicas."""
    template: str = ""
    """A digest of its pod template: another one is a deploy."""
    scaled: Scaled | None = None
    trouble: tuple[str, ...] = ()
    """Why it must not be lowered, each in a sentence: an HPA with minReplicas 0, an owner."""
    inside_kueue: bool = False
    """Its namespace is inside Kueue's webhooks: with Kueue down it cannot return."""


class Role(StrEnum):
    """Whose pod it is."""

    SERVING = "Serving"
    BATCH = "Batch"
    OTHER = "Other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod that has not ended, and holds a card of the pool or belongs to a target.

    A Terminating one holds its card until it is gone; a Pending one without a node is a target's.
    """

    namespace: str
    name: str
    uid: str
    role: Role
    owner: str
    """The target (its Ref as text), the workload (namespace/name), or whatever made it."""
    claims: int = 0
    """Cards that it claims from the scheduler."""
    on_cards: bool = True
    """It is on a node of the pool, and claims a card or opens the device node."""
    running: bool = True
    ready: bool = True
    created_at: datetime | None = None
    terminating: bool = False
    node_dead: bool = False
    """Its node is gone or has not been ready for long: nothing runs there any more."""
    grace: timedelta = timedelta(seconds=30)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Kueue Workload of one of the queues, not finished."""

    namespace: str
    name: str
    uid: str
    cluster_queue: str
    local_queue: str
    admitted: bool
    active: bool = True
    evicted: bool = False
    contract: bool = False
    """Its job agreed to the checkpoint contract."""
    grace: timedelta = timedelta(seconds=30)
    """The shortest termination grace of its pods."""
    max_runtime: timedelta | None = None
    """What is left of its own maximum execution time: the maximum minus what is accumulated."""
    admitted_at: datetime | None = None
    claims: int = 1
    """Cards that it wants."""
    kept_out_until: datetime | None = None
    """Kueue does not let it in before: it took it back, and has it wait."""
    timed_out: bool = False
    """Kueue took it back because its pods were not ready in time (waitForPodsReady)."""
    epoch: int | None = None
    """The epoch at which we woke it last; None: never."""
    generation: int = 0
    """It counts the writes of its spec; 0: not known."""
    active_writer: str = ""
    """Who wrote spec.active last; empty where that does not show."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalQueue:
    """A LocalQueue of one of the ClusterQueues."""

    namespace: str
    name: str
    uid: str
    stop_policy: StopPolicy
    stop_writer: str = ""
    """Who wrote stopPolicy last; empty where that does not show."""
    stop_written_at: datetime | None = None
    """When, as far as the API server tells."""
    epoch: int | None = None
    """The epoch at which we gave it back last; None: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A ClusterQueue that exists."""

    name: str
    uid: str
    resource_version: str
    stop_policy: StopPolicy
    stop_writer: str = ""
    """Who wrote stopPolicy last."""
    stop_written_at: datetime | None = None
    """When, as far as the API server tells."""
    stopped_since: datetime | None = None
    """Since when Kueue shows it stopped, at its present generation; None: it does not."""
    terminating: bool = False
    adopted_by: str = ""
    epoch: int | None = None
    """The epoch that we wrote on it; None: never ours."""
    left: StopPolicy | None = None
    """The stop policy that we wrote last; None: we never wrote one."""
    adopted_at: StopPolicy | None = None
    """The stop policy that adoption found; None: adopted by hand, without that on record."""
    local_queues: tuple[LocalQueue, ...] = ()
    workloads: tuple[Workload, ...] = ()
    leaks: tuple[str, ...] = ()
    """How its quota could be used past the gate, each in a sentence."""
    bound_enforced: bool = True
    """Whether something in the cluster ends work after maxRuntime."""

    def gate_of(self, work: Workload) -> LocalQueue | None:
        """The LocalQueue that a workload waits in, if it exists."""
        key = (work.namespace, work.local_queue)
        return next((one for one in self.local_queues if (one.namespace, one.name) == key), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """One look at everything that a rule and its window name."""

    targets: tuple[Target, ...] = ()
    queues: tuple[Queue, ...] = ()
    pods: tuple[Pod, ...] = ()
    allocatable: int = 0
    """Cards of the resource on the selected nodes."""
    nodes: tuple[str, ...] = ()
    labels: dict[str, dict[str, str]] = field(default_factory=dict)
    """The labels of these nodes: another rule may select one of them too."""
    quota: int | None = None
    """Cards that Kueue may admit work of the queues for, together; None: it does not show."""
    unseen: tuple[str, ...] = ()
    """Kinds that are needed only to check whether a window may open and are not seen, and why."""
    no_kueue: bool = False
    """The cluster knows no ClusterQueue at all."""

    def target(self, ref: Ref) -> Target | None:
        """The target of a name, if it exists."""
        return next((target for target in self.targets if target.ref == ref), None)

    def queue(self, name: str) -> Queue | None:
        """The ClusterQueue of a name, if it exists."""
        return next((queue for queue in self.queues if queue.name == name), None)

    def on_cards(self, role: Role) -> tuple[Pod, ...]:
        """The pods of a role that hold cards."""
        return tuple(pod for pod in self.pods if pod.role is role and pod.on_cards)

    def others_on_cards(self) -> tuple[Pod, ...]:
        """The pods that hold cards and are not serving's."""
        return tuple(p for p in self.pods if p.on_cards and p.role is not Role.SERVING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleObject:
    """An IdleRule as it is stored."""

    name: str
    uid: str
    generation: int
    resource_version: str
    rule: Rule | None
    """The spec; None where it cannot be read."""
    error: str = ""
    """Why it cannot be read: field, value, what would be right."""
    status: Status | None = None
    """None: it has no status, as after a restore from a backup."""
    status_error: str = ""
    """A status that is there but cannot be read."""
    deleting: bool = False
    finalizer: bool = False
    wake_until: datetime | None = None
    """The end of a claim: demand that was pushed to us."""
    wake_error: str = ""
    resume_at: datetime | None = None
    """When a person last said ``idlewin resume``."""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What has to be looked at for one rule: what it names, and what its window named."""

    rule: str
    targets: tuple[Ref, ...]
    queues: tuple[str, ...]
    resource: str
    node_selector: dict[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    """Nodes whose pods count too, whatever their labels are now."""
    device_nodes: tuple[str, ...] = ()
    exempt_namespaces: tuple[str, ...] = ()
    heirs: tuple[Ref, ...] = ()
    """What a target of the window scales: looked at once nothing scales it any more."""
