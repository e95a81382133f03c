"""What deciding returns: a reason, what was compared, and the writes that follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from idlewin.core.load import Load
from idlewin.core.phase import Phase
from idlewin.core.pool import LocalQueue, Pod, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.status import Status
from idlewin.core.target import Ref, Scaled


@dataclass(frozen=True, slots=True)
class Check:
    """One compared fact: what was seen, what was asked for."""

    name: str
    passed: bool
    observed: str
    limit: str = ""
    otherwise: Reason | None = None
    """The reason for staying, where this check fails."""
    turns_at: datetime | None = None
    """When time alone will change the verdict, if nothing else does."""


Checks = tuple[Check, ...]


# -- actions: wishes, not deltas; carrying one out twice is the same as once


@dataclass(frozen=True, slots=True)
class Remember:
    """Write the status, by resourceVersion. Always the first action of a change of phase."""

    rule: str
    resource_version: str
    before: Status | None
    """The status as it was read; None: it had none."""
    status: Status


@dataclass(frozen=True, slots=True)
class ScaleToZero:
    """Lower a target and put our record on it, in one patch by resourceVersion.

    On a conflict the target is read again; it is tried once more only if UID, generation and
    replicas are as remembered.
    """

    target: Ref
    uid: str
    replicas: int
    resource_version: str
    rule: str
    epoch: int
    resource: str = ""
    """The window's cards, for the record."""
    nodes: dict[str, str] = field(default_factory=dict)
    """The labels of the nodes that they are on, for the record."""
    devices: tuple[str, ...] = ()
    """Their device nodes, for the record."""
    exempt: tuple[str, ...] = ()
    """The namespaces that are exempt from those, for the record."""
    generation: int = 0
    """0: not known."""
    settings: dict[str, str] = field(default_factory=dict)
    """``Target.settings`` as remembered: it is lowered only with these."""
    scaled: Scaled | None = None
    """What it scales, for the record."""


@dataclass(frozen=True, slots=True)
class ScaleBack:
    """Give a target what was remembered, and take our record off, in one patch.

    Refused where the target is not at our zero any more: a raise by its owner is never overwritten.
    Refused too where its record is of a later epoch, for another window has begun meanwhile, and
    where its zero is somebody else's.
    """

    target: Ref
    uid: str
    replicas: int
    rule: str
    epoch: int
    settings: dict[str, str] = field(default_factory=dict)
    """Given back with them, or, where it is held until it is ready, by ForgetRecord."""
    by: str = ""
    """Whose zero is ours too: of what scaled it for us, and is gone."""


@dataclass(frozen=True, slots=True)
class ForgetRecord:
    """Take our record off a target that its owner has raised, or that we have let settle.

    Nothing else of it is written but the settings that are still ours. Refused where the record is
    of a later epoch: another window has begun meanwhile.
    """

    target: Ref
    uid: str
    rule: str
    epoch: int
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SetStopPolicy:
    """Write a ClusterQueue's stopPolicy, our epoch, and what we wrote, by resourceVersion.

    An opening (``NONE``) reads the queue anew first, and is refused where the epoch on it is newer
    than ours, its UID is another, or somebody else closed it meanwhile. A closing is a conflict
    where somebody else closed it meanwhile: theirs stands. A hold wins whatever its epoch is; a
    drain of an older one is refused, for the work that it was meant for is that of an older window.
    Both are refused where another has gone on with the rule, and the queue is not the rule's any
    more, or open by somebody else: that is for the other to see.
    """

    queue: str
    uid: str
    policy: StopPolicy
    epoch: int
    rule: str
    corrects: bool = False
    """It undoes an opening by somebody else; counted once it is done."""


@dataclass(frozen=True, slots=True)
class FenceQueue:
    """Write our epoch on a ClusterQueue whose stop policy is right, or is a person's, as it is."""

    queue: str
    uid: str
    epoch: int
    rule: str
    marks: bool = False
    """Where it has no mark of what we wrote last, what is there is put on it as that."""


@dataclass(frozen=True, slots=True)
class StopLocalQueue:
    """Write a LocalQueue's stopPolicy: no webhook, so it works while Kueue is down.

    A conflict where it is not as it was looked at: that is on record as what it has to be again.
    Refused where another has given it back at a later epoch: nobody would open it any more.
    """

    queue: LocalQueue
    cluster_queue: str
    policy: StopPolicy
    epoch: int


@dataclass(frozen=True, slots=True)
class ReopenLocalQueue:
    """Give a LocalQueue its former value, if what we wrote still is there; our epoch in any case.

    The same value by somebody else is theirs, and stays. The epoch is the fence against a closing
    that was decided before, and is on its way. Refused where another has gone on with the rule: it
    may have closed it once more, and rest on that.
    """

    namespace: str
    name: str
    uid: str
    wrote: str
    was: str
    epoch: int
    rule: str


@dataclass(frozen=True, slots=True)
class SetActive:
    """Write a Workload's spec.active: the drain of one, and its undoing.

    Waking leaves what another than us has stopped, and puts our epoch on it in any case: a stop of
    an earlier epoch, decided before and on its way, is refused. A stop is a conflict where it is
    not as it was looked at: another may have stopped it, woken it, and struck it off the record.
    """

    namespace: str
    name: str
    uid: str
    active: bool
    epoch: int
    generation: int = 0
    """That of the Workload, as it was looked at; 0: not known, so not compared."""
    woken: int = 0
    """The epoch that it carried then."""


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Evict a batch pod; delete it where eviction is refused, or where it is a pod of serving."""

    pod: Pod
    delete: bool = False


@dataclass(frozen=True, slots=True)
class ReleaseRule:
    """Take our finalizer off a rule that is being deleted, by the version looked at."""

    rule: str
    resource_version: str


@dataclass(frozen=True, slots=True)
class HoldRule:
    """Put our finalizer on a rule, by the version looked at, before anything is changed for it."""

    rule: str
    resource_version: str


RuleAction = Remember | ReleaseRule | HoldRule
ServingAction = ScaleToZero | ScaleBack | ForgetRecord
BatchAction = SetStopPolicy | FenceQueue | StopLocalQueue | ReopenLocalQueue | SetActive | EvictPod
Action = RuleAction | ServingAction | BatchAction


class Verdict(StrEnum):
    """What became of an action."""

    DONE = "Done"
    CONFLICT = "Conflict"
    """The object changed since we looked: look again."""
    GONE = "Gone"
    """The object is not there."""
    REFUSED = "Refused"
    """The API server, a webhook or our own precondition said no."""
    FAILED = "Failed"
    """No answer, or a server error: it may have been written or not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An action and what became of it."""

    action: Action
    verdict: Verdict
    message: str = ""
    resource_version: str = ""
    """After ``Remember``: the rule's version that was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one cycle decided."""

    rule: str
    at: datetime
    before: Phase
    after: Phase
    reason: Reason
    checks: Checks
    status: Status
    """The status that follows; equal to the one before where nothing is worth writing."""
    actions: tuple[Action, ...] = ()
    revisit_at: datetime
    """When to look again, if nothing wakes the pool earlier."""
    alarms: tuple[str, ...] = field(default=())
    """Named conditions that need a person, in sentences."""
    load: Load | None = None
    """The demand that was seen; None: it was not looked at."""

    @property
    def changes_phase(self) -> bool:
        """Whether the pool moves."""
        return self.before is not self.after
