"""The abstract cluster: everything that a look or a write depends on, as small frozen values.

Time is not in it. What time decides is either a fact here (a stop has settled, a bound is past) or
chosen anew at each look (cycle.py). Epochs are kept only as far as their order goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.status import Account, Counters, Status
from idlewin.core.tally import Tallies

NOW = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)
OPEN, HOLD, DRAIN = StopPolicy.NONE, StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN
US, PERSON = "idlewin", "kubectl"

# What has become of a queue's one workload.
WAITING = "waiting"
BETWEEN = "admitted, between pods"
RUNNING = "its pod runs"
DELETED = "its pod ends, by hand"
EVICTED = "evicted, its pod ends"
UNPODDED = "evicted, its pod gone"
LEAVING = "not admitted, its pod ends"
DONE = "done"
ADMITTED = frozenset({BETWEEN, RUNNING, DELETED, EVICTED, UNPODDED})
ON_CARDS = frozenset({RUNNING, DELETED, EVICTED, LEAVING})

NO_PODS, PENDING, READY, ENDING = "none", "pending", "ready", "ending"


class Target(NamedTuple):
    """A Deployment. The last three fields are what is true, and shown to nobody."""

    replicas: int = 1
    writer: str = PERSON
    record: tuple[int, int] | None = None
    """Our annotation: replicas, epoch."""
    pods: str = READY
    wants: int = 1
    """What its owner last wrote."""
    at_our_zero: bool = False
    raised: bool = False
    """Its owner has scaled it in this window."""


class Queue(NamedTuple):
    """A ClusterQueue with one LocalQueue and one workload."""

    policy: StopPolicy = HOLD
    writer: str = US
    left: StopPolicy = HOLD
    epoch: int = 1
    seen: StopPolicy = HOLD
    """What Kueue goes by."""
    settled: int = 2
    """Of the stop: 0 Kueue has not seen it, 1 it was seen a moment ago, 2 that is past."""
    late: bool = False
    """Kueue saw it open a moment ago, and may still admit."""
    local: StopPolicy = OPEN
    local_seen: StopPolicy = OPEN
    local_settled: bool = True
    work: str = WAITING
    active: bool = True
    woken: int = 0
    """Our epoch on its workload."""
    odd: bool = False
    """It has no contract in a queue whose work is to have one."""
    past: bool = False
    """Its bound, drainTimeout and all, is over."""


class Cluster(NamedTuple):
    """All of it."""

    targets: tuple[Target, ...]
    queues: tuple[Queue, ...]
    status: int = 0
    """Which of the known statuses is stored; 0: none."""
    epochs: tuple[int, int] = (0, 0)
    """The status's epoch, and the one at which giving back began."""
    up: bool = True
    """Kueue runs."""
    paused: bool = False
    deleting: bool = False
    gone: bool = False
    """The rule was deleted, and let go."""
    lost: bool = False
    """The status was lost, since the last handover was complete."""
    pruned: bool = False
    """So was an annotation."""

    def with_target(self, index: int, **changes: object) -> Cluster:
        """The same with one target changed."""
        targets = list(self.targets)
        targets[index] = targets[index]._replace(**changes)
        return self._replace(targets=tuple(targets))

    def with_queue(self, index: int, **changes: object) -> Cluster:
        """The same with one queue changed."""
        queues = list(self.queues)
        queues[index] = queues[index]._replace(**changes)
        return self._replace(queues=tuple(queues))


# -- the status, without what the space must not be split by


class Statuses:
    """The product's own statuses, each known by a number; instants and epochs taken out."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._known: list[Status | None] = [None]

    def number(self, status: Status | None) -> tuple[int, tuple[int, int]]:
        """Which one it is, and its two epochs."""
        if status is None:
            return 0, (0, 0)
        plain = _plain(status)
        key = repr(plain)
        if key not in self._numbers:
            self._numbers[key] = len(self._known)
            self._known.append(plain)
        began = status.window.give_back_epoch if status.window else 0
        return self._numbers[key], (status.epoch, began)

    def get(self, number: int) -> Status | None:
        """The status without its epochs and instants."""
        return self._known[number]

    def phase(self, number: int) -> Phase:
        """Where it stands."""
        status = self._known[number]
        return Phase(status.phase) if status else Phase.SERVING


#: Returns for these reasons keep the count of corrections; nothing else asks for the reason.
_BAD = {Reason.SERVING_RAISED, Reason.OPEN_WITH_BATCH}


def _plain(status: Status) -> Status:
    window = status.window
    if window is not None:
        window = replace(
            window,
            epoch=0,
            give_back_epoch=0,
            opened_at=NOW,
            reclaim_at=None,
            restoring_since=None,
            failure="",
            give_back=window.give_back if window.give_back in _BAD else "",
        )
    owed = tuple(replace(one, at=NOW) for one in status.owed.local_queues)
    return replace(
        status,
        since=None,
        until=None,
        reason="",
        message="",
        epoch=0,
        window=window,
        owed=replace(status.owed, local_queues=owed),
        contested_since=None,
        back_off_until=None,
        failure="",
        counters=Counters(corrections=status.counters.corrections),
        lead_times=(),
        opening_seconds=(),
        budget=Account(),
        tallies=Tallies(),
        conditions=(),
        observed_generation=1,
    )


# -- epochs: only their order counts, and whether one is the other's successor


def epochs_of(cluster: Cluster) -> frozenset[int]:
    """The epochs that are written anywhere."""
    found = {e for queue in cluster.queues for e in (queue.epoch, queue.woken)}
    found |= set(cluster.epochs)
    found |= {target.record[1] for target in cluster.targets if target.record}
    return frozenset(found - {0})


def ranks(used: Iterable[int]) -> dict[int, int]:
    """The smallest numbers in the same order; what was next to another, still is."""
    found, last, rank = {0: 0}, 0, 0
    for epoch in sorted(set(used) - {0}):
        rank += 1 if not rank else min(epoch - last, 2)
        found[epoch], last = rank, epoch
    return found


def relabelled(cluster: Cluster, to: Mapping[int, int]) -> Cluster:
    """The same with other numbers for its epochs."""
    return cluster._replace(
        epochs=(to[cluster.epochs[0]], to[cluster.epochs[1]]),
        queues=tuple(q._replace(epoch=to[q.epoch], woken=to[q.woken]) for q in cluster.queues),
        targets=tuple(
            target._replace(record=(target.record[0], to[target.record[1]]))
            if target.record
            else target
            for target in cluster.targets
        ),
    )


def told_apart(cluster: Cluster, phase: Phase) -> Cluster:
    """The same with the smallest epochs that no decision can tell from its own.

    A decision asks for the highest of all, to make a higher one; in a return for the queues that
    are at its beginning or later; in an open window for those that are at the status's own.
    """
    first, began = cluster.epochs
    top = max(epochs_of(cluster), default=0)
    gives_back = phase in GIVING_BACK

    def plain(epoch: int) -> int:
        return epoch if epoch in (0, top) else 1

    def of_queue(epoch: int) -> int:
        if phase is Phase.HARVESTING and epoch == first:
            return epoch
        return began if gives_back and began <= epoch < top else plain(epoch)

    queues = tuple(
        q._replace(epoch=of_queue(q.epoch), woken=plain(q.woken)) for q in cluster.queues
    )
    targets = tuple(
        t._replace(record=(t.record[0], plain(t.record[1]))) if t.record else t
        for t in cluster.targets
    )
    epochs = (first, began if gives_back else 0)
    return cluster._replace(epochs=epochs, queues=queues, targets=targets)
