"""The ladder of a return: the ClusterQueue, its LocalQueues, single workloads, then pods.

Each rung is for what the one before it could not be told, or was told and did not do in time.
"""

from __future__ import annotations

from collections.abc import Iterator

from idlewin.core import batch, sealing, timing, whose
from idlewin.core.decision import (
    Action,
    EvictPod,
    FenceQueue,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.pool import Pod, Queue, StopPolicy, Workload
from idlewin.core.situation import Situation
from idlewin.core.status import WindowQueue
from idlewin.core.timing import DRAIN_SEEN_WITHIN


def stop(s: Situation, queue: Queue, policy: StopPolicy) -> SetStopPolicy:
    """The write of a queue's stop policy."""
    return SetStopPolicy(queue.name, queue.uid, policy, s.status.epoch, s.object.name)


def fence(s: Situation, queue: Queue) -> FenceQueue:
    """The write of our epoch alone."""
    return FenceQueue(queue.name, queue.uid, s.status.epoch, s.object.name)


def rungs(s: Situation, entry: WindowQueue, queue: Queue) -> Iterator[Action]:
    """What has to be written now so that nothing of a queue is left on the cards."""
    policy = sealing.sealing_policy(s, entry, queue)
    below = sealing.only_below(s, queue)
    if _is_due(s, queue, policy):
        yield stop(s, queue, policy)
    elif not sealing.fenced(s, queue):
        yield fence(s, queue)
    if sealing.refused(s, queue) or sealing.unseen(s, queue) or below or whose.contested(s, queue):
        yield from _local_rung(s, queue, policy)
    elif policy is StopPolicy.HOLD_AND_DRAIN:
        # A drain of the ClusterQueue passes by jobs whose LocalQueue is on Hold.
        held = [q for q in queue.local_queues if q.stop_policy is StopPolicy.HOLD]
        yield from (StopLocalQueue(q, queue.name, policy, s.status.epoch) for q in held)
    yield from _single_rung(s, entry, queue, policy)
    yield from _pod_rung(s, entry, queue)


def left_over(s: Situation, queue: Queue) -> Iterator[SetActive]:
    """Work that agreed to leave and is admitted yet, though its return is over."""
    spec = sealing.class_of(s, queue)
    if sealing.sealed_since(queue) is None:
        return
    for work in queue.workloads:
        if work.admitted and work.active and sealing.agreed(work, spec, on_return=None):
            yield _sleep(s, work)


def _is_due(s: Situation, queue: Queue, policy: StopPolicy) -> bool:
    """Whether the stop policy of a queue is to be written: what a person closed is not."""
    theirs = sealing.only_below(s, queue) or whose.closed_by_other(s, queue)
    return queue.stop_policy is not policy and not theirs


def _local_rung(s: Situation, queue: Queue, policy: StopPolicy) -> Iterator[Action]:
    for local in queue.local_queues:
        if local.stop_policy not in (policy, StopPolicy.HOLD_AND_DRAIN):
            yield StopLocalQueue(local, queue.name, policy, s.status.epoch)


def _sleep(s: Situation, work: Workload) -> SetActive:
    return SetActive(
        work.namespace,
        work.name,
        work.uid,
        active=False,
        epoch=s.status.epoch,
        generation=work.generation,
        woken=work.epoch or 0,
    )


def _single_rung(
    s: Situation, entry: WindowQueue, queue: Queue, policy: StopPolicy
) -> Iterator[Action]:
    """One by one: who agreed beside one that did not, and those that a drain missed."""
    assert s.window is not None  # noqa: S101 - asked while giving back
    beside = sealing.waits(entry, queue, s.window)
    if not beside and not _had_its_time(s, queue, policy):
        return
    for work in queue.workloads:
        runs = work.admitted and work.active and (beside or not work.evicted)
        if runs and sealing.agreed(work, entry.spec, s.window.on_return):
            yield _sleep(s, work)


def _had_its_time(s: Situation, queue: Queue, policy: StopPolicy) -> bool:
    """Whether a stop was written long enough ago, or cannot be written for as long."""
    refused = sealing.refused(s, queue)
    since = sealing.stopped_from(s, queue) or (s.since if refused else None)
    if since is None:
        return False
    due = policy is StopPolicy.HOLD or _is_due(s, queue, policy)
    held = queue.stop_policy is StopPolicy.HOLD and due
    if held and not refused and not sealing.unseen(s, queue):
        # A drain follows, or is written now: it has its own time.
        since += timing.STOP_SEEN_WITHIN + timing.SETTLE
    return s.now >= since + DRAIN_SEEN_WITHIN


def _pod_rung(s: Situation, entry: WindowQueue, queue: Queue) -> Iterator[Action]:
    """Pods, where Kueue does not act: of work that agreed, and of work past its agreed bound."""
    assert s.window is not None  # noqa: S101 - asked while giving back
    dead = sealing.unheard(s, queue)
    work_of = {str(work): work for work in queue.workloads}
    for pod in batch.batch_pods(s):
        work = work_of.get(pod.owner)
        if work is None or pod.terminating:
            continue
        bound = timing.bound_of(work, entry.spec, queue)
        past = bound is not None and s.now >= bound + timing.PAST_BOUND
        agreed = sealing.agreed(work, entry.spec, s.window.on_return)
        if past or (agreed and (dead or _ignored(s, queue, work))):
            # A disruption budget may refuse the eviction of work that agreed to it: delete then.
            yield EvictPod(pod, delete=_eviction_refused(s, pod))


def _ignored(s: Situation, queue: Queue, work: Workload) -> bool:
    """Whether Kueue was told to end this work, and cannot be told again or has not done so.

    It may have died with the stop already shown, when nothing is left to be written that it would
    have to answer. One that lives ends about a job a second, whichever queue they are in.
    """
    if any(
        isinstance(no.action, SetActive) and no.action.uid == work.uid
        for no in s.refused
        if no.verdict is Verdict.REFUSED
    ):
        return True
    jobs = sum(len(queue.workloads) for queue in s.pool.queues)
    wait = 2 * DRAIN_SEEN_WITHIN + jobs * timing.DRAIN_PER_JOB
    since = s.told_since.get(work.uid)
    if since is None and queue.stop_policy is StopPolicy.HOLD_AND_DRAIN:
        # Stopping it by itself was tried meanwhile.
        since = sealing.stopped_from(s, queue)
        wait += 2 * DRAIN_SEEN_WITHIN
    stopped, longest = sealing.stopped_from(s, queue), s.window.drain_timeout if s.window else wait
    # What was looked at is lost with a restart; when the stop was written is not.
    late = stopped is not None and s.now >= stopped + longest
    return since is not None and (late or s.now >= since + min(wait, longest))


def _eviction_refused(s: Situation, pod: Pod) -> bool:
    no = [one.action for one in s.refused if one.verdict is Verdict.REFUSED]
    return any(isinstance(action, EvictPod) and action.pod.uid == pod.uid for action in no)
