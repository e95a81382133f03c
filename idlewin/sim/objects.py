"""The objects of the simulated cluster: what the API server would store, and what runs.

State only, and who is told of a change. What changes them, and when, is the business of kueue.py,
serving.py, nodes.py and writes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

from idlewin.core.pool import Record, StopPolicy
from idlewin.core.rule import Rule
from idlewin.core.status import Status
from idlewin.core.target import Ref


@dataclass(slots=True, kw_only=True, eq=False)
class Stored:
    """Whatever the API server stores. ``pool`` is the rule whose affair it is."""

    name: str
    uid: str
    pool: str
    version: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class SimRule(Stored):
    """An IdleRule."""

    rule: Rule | None
    created_at: datetime
    generation: int = 1
    error: str = ""
    status: Status | None = None
    status_error: str = ""
    deleting: bool = False
    finalizer: bool = False
    wake_until: datetime | None = None
    wake_error: str = ""
    resume_at: datetime | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class SimNode(Stored):
    """A node with whole cards."""

    labels: dict[str, str]
    resource: str
    cards: int
    allocatable: int
    dead: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Deployment(Stored):
    """A serving target. The fields after ``start_up`` say what its owner and we did to it."""

    ref: Ref
    replicas: int
    claims: int = 1
    grace: timedelta = timedelta(seconds=30)
    start_up: tuple[float, float] = (60.0, 0.2)
    """Median seconds until a pod is ready, and the spread of their logarithm."""
    inside_kueue: bool = False
    priority: int = 0
    """Its PriorityClass: the scheduler ends pods of a lower one where it does not fit."""
    record: Record | None = None
    writer: str = "kubectl"
    template: str = "first"
    """Its pod template; another one is a deploy."""
    trouble: tuple[str, ...] = ()
    generation: int = 1
    owner_wants: int = 0
    """What its owner last wrote."""
    owner_wrote_at: datetime | None = None
    """When its owner last changed it."""
    at_our_zero: bool = False
    """At zero by our write, and untouched since."""


@dataclass(slots=True, kw_only=True, eq=False)
class SimQueue(Stored):
    """A ClusterQueue: what is written, and what Kueue has seen of it."""

    quota: int
    """Its nominal quota, in cards."""
    cohort: str = ""
    lending: int | None = None
    """How much of it others of the cohort may use; None: all."""
    stop_policy: StopPolicy = StopPolicy.HOLD
    writer: str = "kubectl"
    wrote_at: datetime | None = None
    """When stopPolicy last got another value; the same value written again changes no owner."""
    generation: int = 1
    adopted_by: str = ""
    epoch: int | None = None
    left: StopPolicy | None = None
    """The stop policy that idlewin wrote last."""
    terminating: bool = False
    bound_enforced: bool = True
    seen: StopPolicy = StopPolicy.HOLD
    observed: int = 1
    stopped_since: datetime | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class SimCohort(Stored):
    """A Cohort: quota that every queue in it may use."""

    quota: int


@dataclass(slots=True, kw_only=True, eq=False)
class SimLocalQueue(Stored):
    """A LocalQueue: what is written, and what Kueue has seen of it."""

    namespace: str
    cluster_queue: str
    stop_policy: StopPolicy = StopPolicy.NONE
    writer: str = "kubectl"
    wrote_at: datetime | None = None
    """When stopPolicy last got another value."""
    seen: StopPolicy = StopPolicy.NONE
    epoch: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Work(Stored):
    """A batch Job and its Workload: what it needs, what it has had, what it agreed to."""

    namespace: str
    cluster_queue: str
    local_queue: str
    created_at: datetime
    runtime: timedelta
    left: timedelta
    """Work still to do; goes down when it finishes or saves itself."""
    contract: bool = False
    grace: timedelta = timedelta(seconds=30)
    stops_within: float = 1.0
    """The share of its grace that it takes to stop."""
    max_runtime: timedelta | None = None
    used: timedelta = timedelta()
    """Time admitted so far, as Kueue accumulates it."""
    claims: int = 1
    active: bool = True
    active_writer: str = ""
    """Who wrote that last; empty: nobody has."""
    epoch: int | None = None
    """That of idlewin, when it woke it last."""
    generation: int = 1
    """It counts the writes of its spec."""
    admitted: bool = False
    admitted_at: datetime | None = None
    evicted: bool = False
    requeued: bool = True
    """Kueue may admit it: not kept out by a drain that has not been undone."""
    expired: bool = False
    """Its maximum execution time ran out: it never comes back."""
    finished: bool = False
    retries: bool = True
    """Its Job makes a new pod for one that was ended by others; else it has failed then."""
    lost: bool = False
    """Its Job has failed: the work is not done, and never will be."""
    late: int = 0
    """How often Kueue took it back because its pods were not ready in time."""
    kept_out_until: datetime | None = None
    """It waits for its time after that."""
    timed_out: bool = False
    """Its last eviction was for that."""

    def set_active(self, *, active: bool, writer: str) -> None:
        """Write spec.active."""
        self.active, self.active_writer = active, writer
        self.generation += 1


@dataclass(slots=True, kw_only=True, eq=False)
class SimPod(Stored):
    """A pod, of a target, of a job or of nobody."""

    namespace: str
    owner: Deployment | Work | None
    claims: int
    created_at: datetime
    grace: timedelta
    node: SimNode | None = None
    running: bool = False
    ready: bool = False
    terminating: bool = False
    started_at: datetime | None = None
    stuck: bool = False
    """Its kubelet does not let it go."""
    mute: bool = False
    """Its server never gets ready."""
    device: str = ""
    """The device node that it mounts from its host."""
    priority: int = 0


@dataclass(slots=True)
class Objects:
    """Everything that is stored, and who is told when it changes."""

    rules: dict[str, SimRule] = field(default_factory=dict)
    nodes: dict[str, SimNode] = field(default_factory=dict)
    deployments: dict[Ref, Deployment] = field(default_factory=dict)
    queues: dict[str, SimQueue] = field(default_factory=dict)
    cohorts: dict[str, SimCohort] = field(default_factory=dict)
    local_queues: dict[tuple[str, str], SimLocalQueue] = field(default_factory=dict)
    works: dict[tuple[str, str], Work] = field(default_factory=dict)
    pods: dict[str, SimPod] = field(default_factory=dict)
    listeners: list[Callable[[str], None]] = field(default_factory=list)
    _versions: count[int] = field(default_factory=lambda: count(1))
    _uids: count[int] = field(default_factory=lambda: count(1))

    def uid(self) -> str:
        """One that was never given before."""
        return f"uid-{next(self._uids)}"

    def touch(self, stored: Stored) -> None:
        """It has changed: a new resourceVersion, and its pool's rule is told."""
        stored.version = next(self._versions)
        self.tell(stored.pool)

    def tell(self, pool: str) -> None:
        """Something of a pool has changed."""
        for listener in self.listeners:
            listener(pool)

    def pods_of(self, owner: Deployment | Work) -> list[SimPod]:
        """The pods of a target or a job, in order of creation."""
        return [pod for pod in self.pods.values() if pod.owner is owner]

    def works_of(self, queue: str) -> list[Work]:
        """The workloads of a ClusterQueue that have not finished, oldest first."""
        return [work for work in self.works.values() if work.cluster_queue == queue]

    def local_queues_of(self, queue: str) -> list[SimLocalQueue]:
        """The LocalQueues of a ClusterQueue."""
        return [local for local in self.local_queues.values() if local.cluster_queue == queue]

    def local_queue_of(self, work: Work) -> SimLocalQueue:
        """The LocalQueue of a workload."""
        return self.local_queues[work.namespace, work.local_queue]
