"""A leader's write, carried out by the simulator on the part of the cluster that it can depend on.

So equal writes to equal parts are carried out once, whatever pods and Kueue do beside them.
"""

from __future__ import annotations

from typing import NamedTuple

from idlewin.core.decision import Action, EvictPod, ScaleToZero, SetActive, SetStopPolicy, Verdict
from tests.exhausted.furnish import Room, Scene, Since, writes
from tests.exhausted.state import (
    DELETED,
    DONE,
    NO_PODS,
    OPEN,
    RUNNING,
    US,
    WAITING,
    Cluster,
    Queue,
    Statuses,
    Target,
)


class _Written(NamedTuple):
    """What became of a write."""

    verdict: Verdict
    targets: tuple[tuple, ...]
    queues: tuple[tuple, ...]
    deleted: int | None = None
    """Of which queue the pod was deleted."""
    gone: bool = False
    """The rule is."""


class Writing:
    """Writes, each made once."""

    def __init__(self, scene: Scene, statuses: Statuses) -> None:
        self._scene, self._statuses = scene, statuses
        self._known: dict[tuple[int, int, Cluster, frozenset[str]], _Written] = {}

    def apply(
        self, cluster: Cluster, action: Action, name: int, moved: frozenset[str]
    ) -> tuple[Cluster, Verdict]:
        """The cluster after a write.

        ``name``: equal for equal actions. ``moved``: queues that a person wrote since the look,
        pods and work of the same name that are others by now.
        """
        part = _part(cluster, action)
        key = (name, getattr(action, "epoch", 0), part, moved)
        done = self._known.get(key)
        if done is None:
            done = self._known[key] = self._carried_out(part, action, moved)
        targets = tuple(
            before._replace(replicas=now[0], writer=now[1], record=now[2], at_our_zero=now[3])
            for before, now in zip(cluster.targets, done.targets, strict=True)
        )
        queues = tuple(
            _queue_after(before, now, deleted=done.deleted == index)
            for index, (before, now) in enumerate(zip(cluster.queues, done.queues, strict=True))
        )
        gone = cluster.gone or done.gone
        return cluster._replace(targets=targets, queues=queues, gone=gone), done.verdict

    def _carried_out(self, part: Cluster, action: Action, moved: frozenset[str]) -> _Written:
        objects, deleted = Room(self._scene, part, self._statuses, Since()).objects, []
        verdict = of_another(action, moved)
        if verdict is None and isinstance(action, SetStopPolicy):
            verdict = _closed_by_other(objects.queues[action.queue], action, moved)
        if verdict is None:
            verdict = writes(objects, deleted, up=part.up).carry_out(action).verdict
        targets, queues, gone = [], [], None
        for ref in self._scene.refs:
            now = objects.deployments[ref]
            record = (now.record.replicas, now.record.epoch) if now.record else None
            targets.append((now.replicas, now.writer, record, now.at_our_zero))
        for index in range(len(self._scene.queues)):
            name = self._scene.queue_name(index)
            queue, local = objects.queues[name], objects.local_queues["batch", name]
            work = objects.works.get(("batch", f"job-{index}"))
            queues.append((queue.stop_policy, queue.writer, queue.left or OPEN, queue.epoch or 0,
                           local.stop_policy, work.active if work else True,
                           (work.epoch or 0) if work else 0))  # fmt: skip
            if objects.pods.get(f"b-{index}") in deleted:
                gone = index
        left = not objects.rules
        return _Written(verdict, tuple(targets), tuple(queues), gone, left)


def of_another(action: Action, moved: frozenset[str]) -> Verdict | None:
    """The adapters' own no: what was looked at is another by now."""
    match action:
        case EvictPod(pod=pod):
            return Verdict.GONE if pod.uid in moved else None
        case SetActive(uid=uid) if uid in moved:
            return Verdict.GONE
        case SetActive(uid=uid, active=False) if f"spec of {uid}" in moved:
            # Its generation tells, or the epoch on it.
            return Verdict.CONFLICT
        case ScaleToZero(uid=uid):
            # Its generation tells.
            return Verdict.CONFLICT if uid in moved else None
        case _:
            return None


def _closed_by_other(queue, action: SetStopPolicy, moved: frozenset[str]) -> Verdict | None:
    """The adapters' own no: an opening of what somebody else has written, a closing over theirs."""
    theirs, unseen = queue.stop_policy not in (OPEN, queue.left), action.queue in moved
    if action.policy is not OPEN:
        return Verdict.CONFLICT if theirs and unseen else None
    return Verdict.REFUSED if theirs or (unseen and queue.writer != US) else None


def _part(cluster: Cluster, action: Action) -> Cluster:
    """All that a write can depend on."""
    evicts = isinstance(action, EvictPod)
    return Cluster(
        targets=tuple(_target_part(target) for target in cluster.targets),
        queues=tuple(_queue_part(queue, evicts=evicts) for queue in cluster.queues),
        status=int(cluster.status > 0),
        epochs=(cluster.epochs[0], 0),
        up=cluster.up,
        deleting=cluster.deleting,
    )


def _target_part(target: Target) -> Target:
    return target._replace(pods=NO_PODS, wants=0, raised=False)


def _queue_part(queue: Queue, *, evicts: bool) -> Queue:
    work = queue.work if evicts or queue.work == DONE else WAITING
    return Queue(queue.policy, queue.writer, queue.left, queue.epoch, local=queue.local,
                 active=queue.active, woken=queue.woken, work=work)  # fmt: skip


def _queue_after(before: Queue, now: tuple, *, deleted: bool) -> Queue:
    policy, writer, left, epoch, local, active, woken = now
    after = before._replace(
        policy=policy,
        writer=writer,
        left=left,
        epoch=epoch,
        settled=before.settled if policy is before.policy else 0,
        local=local,
        local_settled=before.local_settled and local is before.local,
        active=active,
        woken=woken,
    )
    return after._replace(work=DELETED) if deleted and before.work == RUNNING else after
