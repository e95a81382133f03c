"""What happens of itself, and what goes wrong: each a name and the cluster that follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from idlewin.core.phase import Phase
from tests.exhausted.furnish import Scene, drains
from tests.exhausted.state import (
    ADMITTED,
    BETWEEN,
    DELETED,
    DONE,
    ENDING,
    EVICTED,
    HOLD,
    LEAVING,
    NO_PODS,
    ON_CARDS,
    OPEN,
    PENDING,
    PERSON,
    READY,
    RUNNING,
    UNPODDED,
    US,
    WAITING,
    Cluster,
    Queue,
    Statuses,
)


class Step(NamedTuple):
    """One step of the world."""

    words: str
    after: Cluster
    broken: str = ""
    """The promise that it breaks."""
    due: bool = True
    """It comes by itself, sooner or later."""
    touches: str = ""
    """What is another by it: "status", a queue or target that a person writes, a pod, work."""


class World:
    """The steps of one scene."""

    def __init__(self, scene: Scene, statuses: Statuses) -> None:
        self._scene, self._statuses = scene, statuses
        self._faults: dict[str, Callable[[Cluster], Iterator[Step]]] = {
            "scale up": self._scaled_up,
            "scale down": self._scaled_down,
            "open": self._opened,
            "close": self._closed,
            "kueue": self._killed,
            "prune": self._pruned,
            "lose": self._lost,
            "pause": self._paused,
            "delete": self._deleted,
            "unanswered": lambda _: iter(()),  # A leader's own: explore.py.
        }

    # -- by itself

    def steps(self, c: Cluster) -> Iterator[Step]:
        """What may happen next, without anybody's fault."""
        yield from self._serving(c)
        for index in range(len(c.queues)):
            yield from self._seen(c, index)
            yield from self._work(c, index)

    def _serving(self, c: Cluster) -> Iterator[Step]:
        batch = any(queue.work in ON_CARDS for queue in c.queues)
        for index, target in enumerate(c.targets):
            name = self._scene.refs[index].name
            if target.replicas and target.pods in (NO_PODS, PENDING):
                if not batch or not self._scene.claims[index]:
                    yield Step(f"{name} is ready", c.with_target(index, pods=READY))
                elif self._scene.pending and target.pods == NO_PODS:
                    yield Step(f"{name}'s pod waits", c.with_target(index, pods=PENDING))
            elif not target.replicas and target.pods == READY:
                yield Step(f"{name}'s pods end", c.with_target(index, pods=ENDING))
            elif target.pods in (ENDING, PENDING):
                yield Step(f"{name}'s pods are gone", c.with_target(index, pods=NO_PODS))

    def _seen(self, c: Cluster, index: int) -> Iterator[Step]:
        queue, name = c.queues[index], self._scene.queue_name(index)
        if c.up and (
            queue.seen is not queue.policy or (queue.policy is not OPEN and not queue.settled)
        ):
            settled = 0 if queue.policy is OPEN else 1
            # From one stop to another nothing is let in.
            late = queue.policy is not OPEN and (queue.seen is OPEN or queue.late)
            yield Step(
                f"Kueue sees {name} at {queue.policy}",
                c.with_queue(index, seen=queue.policy, settled=settled, late=late),
            )
        if c.up and queue.local_seen is not queue.local:
            yield Step(
                f"Kueue sees {name}'s LocalQueue at {queue.local}",
                c.with_queue(index, local_seen=queue.local),
            )
        if queue.settled == 1:
            yield Step(f"the stop of {name} settles", c.with_queue(index, settled=2, late=False))
        if not queue.local_settled and (not c.up or queue.local_seen is queue.local):
            yield Step(
                f"the stop of {name}'s LocalQueue settles", c.with_queue(index, local_settled=True)
            )

    def _work(self, c: Cluster, index: int) -> Iterator[Step]:  # noqa: C901, PLR0912 - a case a state
        queue, name = c.queues[index], f"{self._scene.queue_name(index)}'s job"
        to = {
            work: c.with_queue(index, work=work, past=queue.past and work in ADMITTED)
            for work in (WAITING, BETWEEN, RUNNING, EVICTED, LEAVING, UNPODDED, DONE)
        }
        match queue.work:
            case "waiting" if c.up and self._admits(c, queue):
                yield Step(f"{name} is admitted", to[BETWEEN], due=False)
            case "admitted, between pods":
                free = not any(q.work in ON_CARDS for q in c.queues)
                free = free and not any(
                    t.pods in (READY, ENDING) and claims
                    for t, claims in zip(c.targets, self._scene.claims, strict=True)
                )
                if c.up and free:
                    yield Step(f"{name} gets a pod", to[RUNNING], due=False)
                if c.up:
                    yield Step(f"{name} is done", to[DONE])
            case "its pod runs":
                yield Step(f"{name}'s pod is done", to[BETWEEN], touches=f"b-{index}")
            case "its pod ends, by hand":
                yield Step(f"{name}'s pod is gone", to[BETWEEN], touches=f"b-{index}")
            case "evicted, its pod ends":
                yield Step(
                    f"{name}'s pod is gone", to[WAITING if c.up else UNPODDED], touches=f"b-{index}"
                )
                if c.up:
                    yield Step(f"{name}'s quota is free", to[LEAVING])
            case "evicted, its pod gone" if c.up:
                yield Step(f"{name}'s quota is free", to[WAITING])
            case "not admitted, its pod ends":
                yield Step(f"{name}'s pod is gone", to[WAITING], touches=f"b-{index}")
            case "done" if not self._owed(c, index):
                kinds = (False, True) if self._scene.queues[index] == "odd" else (False,)
                for odd in kinds:
                    words = f"there is new work for {name}{', without a contract' if odd else ''}"
                    after = to[WAITING].with_queue(index, odd=odd, woken=0)
                    yield Step(words, after, due=False, touches=f"w-{index}")
        if (
            queue.work in (BETWEEN, RUNNING)
            and self._scene.queues[index] == "wait"
            and not queue.past
        ):
            yield Step(f"{name}'s bound is over", c.with_queue(index, past=True))
        yield from self._evictions(c, index)

    def _owed(self, c: Cluster, index: int) -> bool:
        status = self._statuses.get(c.status)
        return status is not None and f"w-{index}" in [w.uid for w in status.owed.workloads]

    def _admits(self, c: Cluster, queue: Queue) -> bool:
        taken = any(other.work in ADMITTED for other in c.queues)
        is_open = (queue.seen is OPEN or queue.late) and queue.local_seen is OPEN
        return queue.active and is_open and not taken

    def _evictions(self, c: Cluster, index: int) -> Iterator[Step]:
        queue, name = c.queues[index], f"{self._scene.queue_name(index)}'s job"
        if not c.up or queue.work not in (BETWEEN, RUNNING, DELETED):
            return
        if drains(queue) or not queue.active:
            after = c.with_queue(
                index, work=WAITING if queue.work == BETWEEN else EVICTED, past=False
            )
            ours = queue.writer == US or queue.local_seen is not OPEN
            broken = ours and not self._scene.agreed(index, queue) and not queue.past
            yield Step(
                f"Kueue evicts {name}", after, f"P4: {name} never agreed to that" if broken else ""
            )

    # -- faults

    def faults(self, c: Cluster) -> Iterator[Step]:
        """What may go wrong next, at the cost of one fault."""
        for kind in () if c.gone else self._scene.kinds:
            yield from self._faults[kind](c)

    def recoveries(self, c: Cluster) -> Iterator[Step]:
        """The end of a fault."""
        if not c.up:
            queues = tuple(
                q._replace(
                    seen=q.policy,
                    local_seen=q.local,
                    settled=q.settled or int(q.policy is not OPEN),
                    late=q.late or (q.seen is OPEN and q.policy is not OPEN),
                )
                for q in c.queues
            )
            yield Step("Kueue is back", c._replace(up=True, queues=queues))

    def _scaled(self, c: Cluster, index: int, replicas: int) -> Cluster:
        away = self._statuses.phase(c.status) is not Phase.SERVING
        return c.with_target(index, replicas=replicas, wants=replicas, writer=PERSON,
                             at_our_zero=False, raised=away)  # fmt: skip

    def _scaled_up(self, c: Cluster) -> Iterator[Step]:
        for index, target in enumerate(c.targets):
            if target.replicas != 2:
                words = f"A PERSON scales {self._scene.refs[index].name} to 2"
                yield Step(words, self._scaled(c, index, 2), touches=f"t-{index}")

    def _scaled_down(self, c: Cluster) -> Iterator[Step]:
        for index, target in enumerate(c.targets):
            if target.replicas:
                words = f"A PERSON scales {self._scene.refs[index].name} to 0"
                yield Step(words, self._scaled(c, index, 0), touches=f"t-{index}")

    def _opened(self, c: Cluster) -> Iterator[Step]:
        for index, queue in enumerate(c.queues):
            name = self._scene.queue_name(index)
            if c.up and queue.policy is not OPEN:
                after = c.with_queue(index, policy=OPEN, writer=PERSON, settled=0)
                yield Step(f"A PERSON opens {name}", after, touches=name)

    def _closed(self, c: Cluster) -> Iterator[Step]:
        for index, queue in enumerate(c.queues):
            name = self._scene.queue_name(index)
            if c.up and queue.policy is OPEN:
                after = c.with_queue(index, policy=HOLD, writer=PERSON, settled=0)
                yield Step(f"A PERSON holds {name}", after, touches=name)

    def _killed(self, c: Cluster) -> Iterator[Step]:
        if c.up:
            yield Step("KUEUE is killed", c._replace(up=False))

    def _pruned(self, c: Cluster) -> Iterator[Step]:
        for index, target in enumerate(c.targets):
            if target.record:
                after = c.with_target(index, record=None)._replace(pruned=True)
                yield Step(f"the ANNOTATION of {self._scene.refs[index].name} is pruned", after)

    def _lost(self, c: Cluster) -> Iterator[Step]:
        if c.status:
            yield Step(
                "the STATUS is lost",
                # And with it which window it was in which an owner scaled something.
                c._replace(
                    status=0,
                    epochs=(0, 0),
                    lost=True,
                    targets=tuple(target._replace(raised=False) for target in c.targets),
                ),
                touches="status",
            )

    def _paused(self, c: Cluster) -> Iterator[Step]:
        if not c.paused:
            yield Step("A PERSON pauses the rule", c._replace(paused=True), touches="status")

    def _deleted(self, c: Cluster) -> Iterator[Step]:
        if not c.deleting:
            yield Step("A PERSON deletes the rule", c._replace(deleting=True), touches="status")
