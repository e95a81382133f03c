"""Laws of giving back, for situations that nobody thought of: who is evicted, what is fenced."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from idlewin.core.decide import decide
from idlewin.core.decision import (
    EvictPod,
    FenceQueue,
    Outcome,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.note import noted
from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.pool import Record, Role, StopPolicy
from idlewin.core.rule import OnReturn
from idlewin.core.situation import Situation
from idlewin.core.status import Owed, OwedQueue, OwedWorkload
from tests.builders import HOUR, MINUTE, NOW, a_batch_pod, a_window, with_rule
from tests.property.test_core import situations

some = settings(max_examples=60, deadline=None)


@st.composite
def returns(draw) -> Situation:
    """Situations while giving back: pods of known work, refused writes, epochs that differ."""
    s = draw(situations())
    pods = tuple(
        a_batch_pod(owner=str(work), name=work.name, uid=work.uid, terminating=draw(st.booleans()))
        for queue in s.pool.queues
        for work in queue.workloads
        if work.admitted and draw(st.booleans())
    )  # fmt: skip
    queues = tuple(
        replace(
            queue,
            workloads=tuple(
                replace(work, grace=draw(st.sampled_from([MINUTE / 60, 2 * MINUTE])))
                for work in queue.workloads
            ),
        )
        for queue in s.pool.queues
    )
    window = replace(
        s.window or a_window(),
        give_back="DemandReturned",
        give_back_epoch=draw(st.integers(2, 9)),
        on_return=draw(st.sampled_from(list(OnReturn))),
    )
    status = replace(
        s.status,
        phase=draw(st.sampled_from(sorted(GIVING_BACK))).value,
        window=window,
        epoch=window.give_back_epoch + draw(st.integers(0, 2)),
    )
    refused = tuple(
        Outcome(SetStopPolicy(q.name, q.uid, StopPolicy.HOLD, 1, "b580"), Verdict.REFUSED)
        for q in queues
        if draw(st.booleans())
    )
    s = replace(s, pool=replace(s.pool, pods=(*s.pool.pods, *pods), queues=queues), refused=refused)
    return with_rule(s, status=status)


def agreed(s: Situation, work) -> bool:
    """As the rule's words have it: the queue asks for a contract, and the work has it in full."""
    spec = {e.spec.cluster_queue: e.spec for e in s.window.queues}.get(work.cluster_queue)
    own = spec is not None and spec.contract is not None
    return s.window.on_return is OnReturn.EVICT or (
        own and work.contract and work.grace >= spec.grace
    )


def past(s: Situation, work) -> bool:
    bounds = [work.max_runtime] if work.max_runtime else []
    spec = {e.spec.cluster_queue: e.spec for e in s.window.queues}.get(work.cluster_queue)
    bounds += [spec.max_runtime] if spec and spec.max_runtime else []
    return bool(bounds and work.admitted_at and work.admitted_at + min(bounds) + MINUTE / 2 <= NOW)


@some
@given(returns())
def test_only_who_agreed_or_had_the_agreed_time_is_stopped_one_by_one(s):
    works = {work.uid: work for queue in s.pool.queues for work in queue.workloads}
    owners = {str(work): work for work in works.values()}

    decision = decide(s)

    for action in decision.actions:
        if isinstance(action, SetActive) and not action.active:
            assert agreed(s, works[action.uid])
        if isinstance(action, EvictPod) and action.pod.role is Role.BATCH:
            work = owners[action.pod.owner]
            assert agreed(s, work) or past(s, work)


@some
@given(returns())
def test_no_queue_is_drained_while_work_of_it_did_not_agree_or_may_yet_be_let_in(s):
    for action in decide(s).actions:
        drains = isinstance(action, SetStopPolicy | StopLocalQueue)
        if drains and action.policy is StopPolicy.HOLD_AND_DRAIN:
            name = action.cluster_queue if isinstance(action, StopLocalQueue) else action.queue
            queue = s.pool.queue(name)
            assert all(agreed(s, w) for w in queue.workloads if w.admitted)
            shut = [queue.stop_policy, *(one.stop_policy for one in queue.local_queues)]
            assert s.window.on_return is OnReturn.EVICT or set(shut) != {StopPolicy.NONE}


@some
@given(returns())
def test_giving_back_shuts_or_fences_each_queue_that_is_not_fenced_yet(s):
    decision = decide(s)
    if decision.after not in GIVING_BACK:
        return

    written = {a.queue for a in decision.actions if isinstance(a, SetStopPolicy | FenceQueue)}
    known = {entry.uid for entry in s.window.queues}
    for queue in s.pool.queues:
        behind = queue.epoch is None or queue.epoch < s.window.give_back_epoch
        if queue.uid in known and behind:
            assert queue.name in written


@some
@given(returns())
def test_queues_are_written_before_serving(s):
    kinds = [
        isinstance(action, ScaleBack | ScaleToZero)
        for action in decide(s).actions
        if isinstance(action, ScaleBack | ScaleToZero | SetStopPolicy | FenceQueue)
    ]

    assert kinds == sorted(kinds)


@some
@given(returns())
def test_what_is_closed_on_the_way_is_owed_before_it_is_closed(s):
    decision = decide(s)

    owed = decision.status.owed
    for action in decision.actions:
        if isinstance(action, StopLocalQueue):
            (entry,) = [one for one in owed.local_queues if one.uid == action.queue.uid]
            assert entry.was == action.queue.stop_policy
            assert entry.wrote == action.policy
        if isinstance(action, SetActive) and not action.active:
            assert action.uid in {one.uid for one in owed.workloads}


@some
@given(returns())
def test_what_was_owed_keeps_what_it_was(s):
    local = next((one for queue in s.pool.queues for one in queue.local_queues), None)
    if local is None:
        return
    entry = OwedQueue(
        namespace=local.namespace, name=local.name, uid=local.uid,
        cluster_queue=s.pool.queues[0].name, was="None", wrote="Hold", at=NOW - HOUR,
    )  # fmt: skip
    s = with_rule(s, status=replace(s.status, owed=Owed(local_queues=(entry,))))

    decision = decide(s)

    (kept,) = [one for one in decision.status.owed.local_queues if one.uid == local.uid]
    assert kept.was == "None"
    stops = [a for a in decision.actions if isinstance(a, StopLocalQueue) and a.queue == local]
    assert kept.wrote == (stops[0].policy if stops else "Hold")


@some
@given(returns())
def test_an_epoch_is_ahead_of_all_that_were_ever_written(s):
    record = Record(rule="b580", uid="t1", replicas=2, epoch=20)
    targets = tuple(replace(t, record=record if t.record else None) for t in s.pool.targets)
    s = replace(s, pool=replace(s.pool, targets=targets))

    decision = decide(s)

    if decision.changes_phase:
        seen = [q.epoch for q in s.pool.queues if q.epoch is not None]
        seen += [t.record.epoch for t in targets if t.record]
        seen += [one.epoch for q in s.pool.queues for one in q.local_queues if one.epoch]
        assert decision.status.epoch > max(seen, default=0)


@some
@given(situations())
def test_a_window_that_is_on_record_while_serving_is_given_back(s):
    s = with_rule(s, status=replace(s.status, phase=Phase.SERVING.value, window=a_window()))

    assert decide(s).after is Phase.RECLAIMING


@some
@given(situations())
def test_a_phase_that_nobody_knows_is_given_back(s):
    s = with_rule(s, status=replace(s.status, phase="Dreaming", window=s.window or a_window()))

    assert decide(s).after is Phase.RECLAIMING


@some
@given(returns(), st.sampled_from([Verdict.REFUSED, Verdict.FAILED, Verdict.CONFLICT]))
def test_what_did_not_get_through_is_not_noted(s, verdict):
    reopen = ReopenLocalQueue("batch", "lq-short", "l-short", "Hold", "None", 1, "b580")
    for action in (*decide(s).actions, reopen):
        if not isinstance(action, StopLocalQueue):
            assert noted(s.status, action, verdict) == s.status


@some
@given(returns())
def test_what_is_undone_is_not_owed_any_more(s):
    queue = OwedQueue(
        namespace="batch", name="lq", uid="l", cluster_queue="short", was="None", wrote="Hold",
        at=NOW,
    )  # fmt: skip
    work = OwedWorkload(namespace="batch", name="w", uid="w")
    status = replace(s.status, owed=Owed(local_queues=(queue,), workloads=(work,)))

    status = noted(
        status, ReopenLocalQueue("batch", "lq", "l", "Hold", "None", 1, "b580"), Verdict.DONE
    )
    status = noted(status, SetActive("batch", "w", "w", active=True, epoch=1), Verdict.GONE)

    assert status.owed == Owed()
