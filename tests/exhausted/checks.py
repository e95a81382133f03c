"""The promises, at each write and in each state. What is true is compared, not what is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idlewin.core.decision import (
    EvictPod,
    ReleaseRule,
    Remember,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    Verdict,
)
from idlewin.core.phase import Phase
from tests.exhausted.state import (
    DONE,
    NO_PODS,
    ON_CARDS,
    OPEN,
    PERSON,
    RUNNING,
    Cluster,
    Queue,
    Statuses,
)

if TYPE_CHECKING:
    from tests.exhausted.cycle import Cycles, Node

LENT = (Phase.YIELDING, Phase.HARVESTING)


def broken_by_plan(cycles: Cycles, cluster: Cluster, number: int) -> str:
    """What is wrong with what a leader would do on a look that shows this."""
    scene, phase = cycles.scene, cycles.statuses.phase(cluster.status)
    serving = any(target.pods != NO_PODS for target in cluster.targets)
    batch = any(queue.work in ON_CARDS for queue in cluster.queues)
    first = cycles.nodes[number]
    if phase is Phase.HARVESTING and serving and any(q.policy is OPEN for q in cluster.queues):
        gives_back = first.status and cycles.statuses.phase(first.status[0]) is Phase.RECLAIMING
        if not gives_back:
            return "P2: a queue is kept open beside a serving pod"
    while number:
        node = cycles.nodes[number]
        match node.action:
            case SetStopPolicy(policy=policy) if policy is OPEN and serving:
                return "P2: a queue is opened beside a serving pod"
            case ScaleBack(target=ref) if batch and not scene.claims[scene.refs.index(ref)]:
                return f"P2: {ref.name} opens the device node, and is raised beside a batch pod"
            case action if (
                cluster.paused and phase is Phase.SERVING and not isinstance(action, Remember)
            ):
                return "P6: something is written while the rule is paused and serving is back"
        number = dict(node.then)[Verdict.DONE]
    return ""


class Checks:
    """Compares before and after."""

    def __init__(self, scene, statuses: Statuses) -> None:
        self._scene, self._statuses = scene, statuses

    def written(self, before: Cluster, after: Cluster, node: Node, *, stale: bool) -> str:
        """What an accepted write has broken; ``stale``: another has gone on since the look."""
        phase = self._statuses.phase(before.status)
        if self._forgotten(before, after):
            return "P1: work is asleep, and on nobody's record"
        match node.action:
            case ScaleToZero(target=ref):
                return self._lowered(before, after, self._scene.refs.index(ref), stale=stale)
            case ScaleBack(target=ref):
                return self._restored(before, after, self._scene.refs.index(ref))
            case SetStopPolicy(queue=name, policy=policy) if policy is OPEN:
                queue = before.queues[self._index(name)]
                back = phase in (Phase.RESTORING, Phase.SERVING) and not before.lost
                up = any(target.replicas or target.pods != NO_PODS for target in before.targets)
                if back and up and queue.local is OPEN:
                    return "P2: a stale leader opens a queue beside serving"
                # One that a person has closed as we had left it does not show whose it is.
                theirs = queue.policy is not OPEN and queue.policy is not queue.left
                if theirs and queue.writer == PERSON:
                    return "P6: a queue is opened that a person has closed"
            case ReleaseRule() if after.gone:
                return self._let_go(after)
            case (SetActive(active=False) | EvictPod()) as action:
                return self._evicted(before, action)
        return self.stands(after)

    def _forgotten(self, before: Cluster, after: Cluster) -> bool:
        """Whether this write has put work to sleep, or off the record, and not both."""
        return not before.lost and any(
            now.work != DONE and not now.active and not self._owes(after, index)
            and (was.active or self._owes(before, index))
            for index, (was, now) in enumerate(zip(before.queues, after.queues, strict=True))
        )  # fmt: skip

    def _owes(self, cluster: Cluster, index: int) -> bool:
        status = self._statuses.get(cluster.status)
        return status is not None and f"w-{index}" in [w.uid for w in status.owed.workloads]

    def _index(self, name: str) -> int:
        names = [self._scene.queue_name(i) for i in range(len(self._scene.queues))]
        return names.index(name)

    def _let_go(self, after: Cluster) -> str:
        if any(target.at_our_zero or target.record for target in after.targets):
            named = after.lost and after.pruned
            return "" if named else "P3: the rule is let go while serving is at our zero"
        if any(_ours_open(queue) for queue in after.queues):
            return "P3: the rule is let go while a queue of ours stands open"
        return ""

    def _evicted(self, before: Cluster, action: SetActive | EvictPod) -> str:
        name = action.pod.owner.partition("/")[2] if isinstance(action, EvictPod) else action.name
        index = int(name.rpartition("-")[2])
        queue = before.queues[index]
        if isinstance(action, EvictPod) and queue.work != RUNNING:
            return ""
        agreed = self._scene.agreed(index, queue) or queue.past
        return "" if agreed else f"P4: {name} is evicted, and never agreed to that"

    def _lowered(self, before: Cluster, after: Cluster, index: int, *, stale: bool) -> str:
        was, now = before.targets[index], after.targets[index]
        if was.replicas == 0:
            return ""
        if now.record is None or now.record[0] != was.wants:
            return f"P1: lowered from {was.replicas} with {now.record} on it"
        if not stale:
            kept = self._kept(before, index)
            if kept != was.wants:
                return f"P1: lowered from {was.replicas}, on record in the status is {kept}"
            if was.raised:
                return "P6: lowered again, though its owner had scaled it in this window"
        return self.stands(after)

    def _restored(self, before: Cluster, after: Cluster, index: int) -> str:
        was, now = before.targets[index], after.targets[index]
        if not was.at_our_zero:
            return "P6: raised from a zero that is not ours"
        if now.replicas != was.wants:
            return f"P1: restored to {now.replicas}, its owner had {was.wants}"
        if not self._scene.claims[index] and any(_ours_open(queue) for queue in before.queues):
            return "P2: serving on the device node is raised while a queue of ours stands open"
        batch = any(queue.work in ON_CARDS for queue in before.queues)
        lent = self._statuses.phase(before.status) in LENT
        if batch and lent and not self._scene.claims[index]:
            return "P2: a stale leader raises serving on the device node beside batch"
        return self.stands(after)

    def _kept(self, cluster: Cluster, index: int) -> int | None:
        status = self._statuses.get(cluster.status)
        entries = (
            (*status.not_lowered, *(status.window.targets if status.window else ()))
            if status
            else ()
        )
        return next((t.replicas for t in entries if t.uid == f"t-{index}"), None)

    def stands(self, cluster: Cluster) -> str:
        """Whatever is at our zero is on record, with what its owner wants."""
        for index, target in enumerate(cluster.targets):
            if not target.at_our_zero:
                continue
            kept = [n for n in (self._kept(cluster, index),) if n is not None]
            kept += [target.record[0]] if target.record else []
            if not kept and not (cluster.lost and cluster.pruned):
                return "P1: at our zero, and on no record"
            if any(replicas != target.wants for replicas in kept):
                return f"P1: on record as {kept}, its owner had {target.wants}"
        return ""

    def back(self, cluster: Cluster) -> bool:
        """Whether serving is back, or cannot be by anybody's knowledge; the queues shut."""
        if not cluster.gone and self._statuses.phase(cluster.status) is not Phase.SERVING:
            return False
        for target in cluster.targets:
            named = cluster.lost and cluster.pruned and target.at_our_zero
            if not named and (target.replicas != target.wants or target.record is not None):
                return False
            if target.replicas and target.pods != "ready":
                return False
        return not any(_ours_open(queue) for queue in cluster.queues)


def _ours_open(queue: Queue) -> bool:
    return queue.policy is OPEN and queue.writer != PERSON and queue.local is OPEN
