"""What is written in a situation, and what is not: stories of one decision each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.decide import decide
from idlewin.core.decision import (
    EvictPod,
    Outcome,
    ReleaseRule,
    Remember,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.follow import LOST
from idlewin.core.load import Level, Load
from idlewin.core.phase import Phase
from idlewin.core.pool import Record, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode, OnReturn
from idlewin.core.status import VERSION, Counters, Owed, OwedQueue, OwedWorkload
from tests.builders import (
    BUSY,
    HOUR,
    MINUTE,
    NOW,
    UNKNOWN,
    a_batch_pod,
    a_lowered_target,
    a_pool,
    a_queue,
    a_rule,
    a_serving_pod,
    a_situation,
    a_status,
    a_target,
    a_window,
    a_workload,
    an_outlook,
    away,
    gone,
    with_rule,
)

S, Y, H, R, T = Phase


def test_unknown_demand_gives_back_only_after_stale_after():
    situation = away(H, load=UNKNOWN, pool=gone(pods=(a_batch_pod(),)))

    decision = decide(situation)

    assert decision.reason is Reason.HARVESTING
    assert decision.revisit_at <= NOW + 4 * MINUTE


def test_a_phase_of_a_newer_version_is_given_back():
    situation = a_situation(H, status=replace(a_status(H), phase="Dreaming"))

    decision = decide(situation)

    assert (decision.after, decision.reason) == (R, Reason.UNKNOWN_PHASE)


@pytest.mark.parametrize("phase", ["Yielding", "Harvesting", "Reclaiming", "Restoring", "Dreaming"])
def test_a_status_that_has_lost_its_window_is_made_good_by_the_annotation(phase):
    status = replace(a_status(H), phase=phase, epoch=7, window=None)

    decision = decide(a_situation(H, status=status, pool=gone()))

    assert (decision.after, decision.reason) == (R, Reason.UNKNOWN_PHASE)
    assert decision.status.window.targets[0].replicas == 2
    assert (decision.status.epoch, decision.status.window.give_back_epoch) == (8, 8)


@pytest.mark.parametrize("phase", [S, R, "Dreaming"])
def test_what_a_newer_version_left_is_given_back_in_the_words_of_this_one(phase: str):
    status = replace(a_status(S), phase=str(phase), window=None, version=VERSION + 1)

    decision = decide(a_situation(S, status=status))

    assert (decision.after, decision.reason) == (R, Reason.UNKNOWN_PHASE)
    assert decision.status.version == VERSION
    assert decision.status.window is not None


def test_the_record_carries_what_was_remembered_and_not_a_fresh_value():
    situation = away(Y, pool=a_pool(targets=(a_target(replicas=7, ready=7),)))
    status = replace(a_status(Y), since=NOW - MINUTE, window=a_window(
        targets=(replace(a_window().targets[0], lowered=False),)))  # fmt: skip

    decision = decide(with_rule(situation, status=status))

    assert decision.reason is Reason.TARGET_CHANGED
    assert not any(isinstance(a, ScaleToZero) for a in decision.actions)


def test_serving_comes_back_at_what_was_remembered():
    decision = decide(a_situation(T))

    assert ScaleBack(a_target().ref, "t1", 2, "b580", epoch=1) in decision.actions


def test_a_target_that_was_at_zero_before_us_is_never_raised():
    target = replace(a_window().targets[0], replicas=0, lowered=False)
    status = a_status(T, window=a_window(targets=(target,)))

    decision = decide(
        a_situation(T, status=status, pool=gone(targets=(a_target(replicas=0, ready=0),)))
    )

    assert decision.reason is Reason.HANDOVER_COMPLETE
    assert not any(isinstance(a, ScaleBack) for a in decision.actions)


def test_a_status_that_is_lost_is_made_good_by_the_annotation():
    situation = with_rule(a_situation(pool=gone()), status=None)

    decision = decide(situation)

    assert decision.reason is Reason.RECORD_FOUND
    assert decision.status.window.targets[0].replicas == 2


def test_a_record_alone_says_which_cards_to_look_at():
    record = Record(
        rule="b580", uid="t1", replicas=2, epoch=1, resource="gpu.intel.com/xe", nodes={"a": "b"}
    )
    targets = (a_lowered_target(record=record, claims=0),)
    lost = with_rule(a_situation(pool=gone(targets=targets)), status=None, rule=None)

    window = decide(lost).status.window

    assert (window.resource, window.node_selector) == ("gpu.intel.com/xe", {"a": "b"})


def test_a_target_is_lowered_with_the_cards_of_its_window_on_the_record():
    window = a_window(targets=(replace(a_window().targets[0], lowered=False),))
    status = replace(a_status(Y), since=NOW - MINUTE, window=window)
    situation = with_rule(away(Y, pool=a_pool()), status=status)
    (lower,) = [a for a in decide(situation).actions if isinstance(a, ScaleToZero)]

    assert (lower.resource, lower.nodes) == (
        situation.window.resource,
        situation.window.node_selector,
    )


def test_a_lost_status_does_not_fall_behind_the_epoch_of_its_queues():
    queues = (a_queue(epoch=41, stop_policy=StopPolicy.NONE), a_queue("resumable"))
    situation = with_rule(a_situation(pool=gone(queues=queues)), status=None)

    assert decide(situation).status.epoch == 41 + LOST


def test_a_refused_stop_is_answered_by_the_local_queues_and_by_pods_that_agreed():
    queue = a_queue("resumable", stop_policy=StopPolicy.NONE, stopped_since=None,
                    workloads=(a_workload(queue="resumable", admitted=True),))  # fmt: skip
    pool = gone(queues=(a_queue(), queue), pods=(a_batch_pod(),))
    no = Outcome(SetStopPolicy("resumable", "q-resumable", StopPolicy.HOLD_AND_DRAIN, 1, "b580"),
                 Verdict.REFUSED)  # fmt: skip

    kinds = [type(a).__name__ for a in decide(away(R, pool=pool, refused=(no,))).actions]

    assert {"StopLocalQueue", "EvictPod"} <= set(kinds)
    assert kinds[0] == "Remember"


@pytest.mark.parametrize(
    ("written", "climbs"),
    [(None, False), (5, False), (16, True)],
    ids=["yet to write", "5s", "16s"],
)
def test_the_ladder_waits_for_kueue_from_our_write_on_however_late_that_came(written, climbs):
    """After an outage the first stop comes long after giving back began."""
    policy = StopPolicy.HOLD_AND_DRAIN if written else StopPolicy.NONE
    at = NOW - timedelta(seconds=written) if written else NOW - HOUR
    queue = a_queue("resumable", stop_policy=policy, left=policy, stop_written_at=at,
                    stopped_since=None,
                    workloads=(a_workload(queue="resumable", admitted=True),))  # fmt: skip
    pod = a_batch_pod(owner="batch/job")

    found = decide(away(R, pool=gone(queues=(a_queue(), queue), pods=(pod,)))).actions

    kinds = {type(action) for action in found}
    assert (SetStopPolicy in kinds) is (written is None)
    assert {kind in kinds for kind in (StopLocalQueue, EvictPod)} == {climbs}
    assert SetActive not in kinds


def test_work_without_a_contract_is_held_and_not_drained():
    works = (
        a_workload("good", "resumable", admitted=True),
        a_workload("bad", "resumable", admitted=True, contract=False),
    )
    queue = a_queue("resumable", stop_policy=StopPolicy.NONE, workloads=works)

    actions = decide(away(R, pool=gone(queues=(a_queue(), queue)))).actions

    stops = [a.policy for a in actions if isinstance(a, SetStopPolicy) and a.queue == "resumable"]
    assert stops == [StopPolicy.HOLD]
    assert [a.name for a in actions if isinstance(a, SetActive)] == ["good"]


def test_a_wait_queue_is_held_by_its_local_queues_and_never_drained():
    queue = a_queue(stop_policy=StopPolicy.NONE, stopped_since=None,
                    workloads=(a_workload(admitted=True, admitted_at=NOW),))  # fmt: skip

    situation = a_situation(R, pool=gone(queues=(queue,), pods=(a_batch_pod(),)))
    actions = decide(situation).actions

    policies = {a.policy for a in actions if isinstance(a, StopLocalQueue | SetStopPolicy)}
    assert policies == {StopPolicy.HOLD}


def test_evict_drains_work_without_a_contract_because_the_rule_says_so():
    batch = replace(a_rule().batch, on_return=OnReturn.EVICT)
    queue = a_queue(stop_policy=StopPolicy.NONE, workloads=(a_workload(admitted=True),))
    status = replace(a_status(R), since=NOW, window=a_window(on_return=OnReturn.EVICT))

    decision = decide(
        a_situation(R, rule=a_rule(batch=batch), status=status, pool=gone(queues=(queue,)))
    )

    stops = [a for a in decision.actions if isinstance(a, SetStopPolicy)]
    assert stops[0].policy is StopPolicy.HOLD_AND_DRAIN


def test_drain_overdue_counts_from_the_last_agreed_bound():
    work = a_workload(admitted=True, admitted_at=NOW - 10 * MINUTE)
    pool = gone(queues=(a_queue(workloads=(work,)), a_queue("resumable")), pods=(a_batch_pod(),))

    decision = decide(a_situation(R, pool=pool))

    assert decision.reason is Reason.BATCH_LEAVING
    assert decision.after is R


def test_device_node_serving_does_not_come_back_beside_batch_however_late():
    target = replace(a_window().targets[0], claims=0)
    status = a_status(R, window=a_window(targets=(target,)))
    pool = gone(targets=(a_lowered_target(claims=0),), pods=(a_batch_pod(terminating=True),))

    decision = decide(a_situation(R, status=status, pool=pool))

    assert decision.after is R


@pytest.mark.parametrize("left", [20 * MINUTE, 3 * HOUR])
def test_a_queue_is_open_only_while_its_work_ends_in_time(left):
    situation = away(H, outlook=an_outlook(left), pool=gone(pods=(a_batch_pod(),)))

    actions = decide(situation).actions

    opened = {a.queue for a in actions if isinstance(a, SetStopPolicy) and a.policy == "None"}
    assert opened == ({"short", "resumable"} if left > HOUR else {"resumable"})


def test_a_person_who_closes_a_queue_in_a_window_keeps_it_closed():
    queues = (a_queue(stop_policy=StopPolicy.HOLD_AND_DRAIN), a_queue("resumable"))
    situation = away(H, pool=gone(queues=queues, pods=(a_batch_pod(),)))

    actions = decide(situation).actions

    assert [a.queue for a in actions if isinstance(a, SetStopPolicy)] == ["resumable"]


def test_an_opening_by_somebody_else_is_corrected_three_times_and_then_contested():
    queue = a_queue(stop_policy=StopPolicy.NONE, stop_writer="argocd", workloads=())
    pool = a_pool(queues=(queue, a_queue("resumable")))
    statuses = [a_status(counters=Counters(corrections=n)) for n in range(4)]

    decisions = [decide(a_situation(status=status, pool=pool)) for status in statuses]

    writes = [any(isinstance(a, SetStopPolicy) for a in d.actions) for d in decisions]
    assert writes == [True, True, True, False]
    assert decisions[3].status.contested_by == "argocd"
    assert "argocd" in decisions[3].alarms[0]


def test_resume_ends_a_contest():
    status = a_status(contested_by="argocd", counters=Counters(corrections=4))

    decision = decide(with_rule(a_situation(status=status), resume_at=NOW - MINUTE))

    assert decision.reason is Reason.WINDOW_OPEN
    assert decision.status.contested_by == ""


def test_nothing_is_written_while_paused():
    queue = a_queue(stop_policy=StopPolicy.NONE)
    pool = a_pool(queues=(queue,))

    actions = decide(a_situation(rule=a_rule(paused=True), pool=pool)).actions

    assert [type(a) for a in actions] == [Remember]


def test_a_local_queue_is_reopened_only_after_its_cluster_queue_is_seen_stopped():
    owed = OwedQueue(namespace="batch", name="lq-short", uid="l-short", cluster_queue="short",
                     was="None", wrote="Hold", at=NOW - HOUR)  # fmt: skip
    status = a_status(owed=Owed(local_queues=(owed,)))

    def reopened(stopped_since):
        pool = a_pool(queues=(a_queue(stopped_since=stopped_since), a_queue("resumable")))
        actions = decide(a_situation(status=status, pool=pool)).actions
        return any(isinstance(a, ReopenLocalQueue) for a in actions)

    assert (reopened(None), reopened(NOW - HOUR)) == (False, True)


def test_a_rule_being_deleted_is_let_go_once_everything_is_back():
    away_still = with_rule(a_situation(T), deleting=True)
    back = with_rule(a_situation(), deleting=True)

    def released(situation):
        return any(isinstance(a, ReleaseRule) for a in decide(situation).actions)

    assert (released(away_still), released(back)) == (False, True)


def test_a_late_return_is_counted():
    window_ = a_window(give_back="DemandReturned", restoring_since=NOW - MINUTE)
    status = a_status(T, window=window_)

    decision = decide(a_situation(T, status=status, pool=a_pool()))

    assert decision.status.counters.late_returns == 1
    assert decision.status.lead_times[0].seconds == (60,)


def test_the_same_situation_gives_no_second_write():
    first = decide(a_situation(rule=a_rule(mode=Mode.OBSERVE)))

    again = decide(a_situation(rule=a_rule(mode=Mode.OBSERVE), status=first.status))

    assert again.actions == ()


def test_the_wait_ends_when_the_first_fact_turns_by_time_alone():
    load = Load(level=Level.IDLE, since=NOW - 9 * MINUTE, why="")

    decision = decide(a_situation(load=load))

    assert decision.revisit_at == NOW + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("ago", "written"), [(None, "Hold"), (4, None), (5, "HoldAndDrain")], ids=str
)
def test_what_a_queue_that_is_being_deleted_has_admitted_is_drained_too(ago, written):
    """Of such a queue Kueue shows no stop."""
    work = a_workload(queue="resumable", admitted=True)
    deleted = a_queue("resumable", terminating=True, workloads=(work,), stopped_since=None)
    if ago is None:
        deleted = replace(deleted, stop_policy=StopPolicy.NONE)
    else:
        deleted = replace(deleted, stop_written_at=NOW - timedelta(seconds=ago))
    pool = gone(queues=(a_queue(), deleted), pods=(a_batch_pod(),))

    decision = decide(away(R, pool=pool))

    stops = [(a.queue, a.policy) for a in decision.actions if isinstance(a, SetStopPolicy)]
    assert stops == ([("resumable", written)] if written else [])


def test_an_eviction_that_a_budget_refuses_is_followed_by_a_deletion():
    works = (a_workload(queue="resumable", admitted=True),)
    queue = a_queue("resumable", stop_policy=StopPolicy.NONE, stopped_since=None, workloads=works)
    pool = gone(queues=(a_queue(), queue), pods=(a_batch_pod(),))
    no = tuple(
        Outcome(action, Verdict.REFUSED)
        for action in (
            SetStopPolicy("resumable", "q-resumable", StopPolicy.HOLD_AND_DRAIN, 1, "b580"),
            EvictPod(a_batch_pod()),
        )
    )

    actions = decide(away(R, pool=pool, refused=no)).actions

    assert EvictPod(a_batch_pod(), delete=True) in actions


def test_a_stop_settles_from_when_it_was_written_though_an_older_one_is_shown():
    queue = a_queue(stopped_since=NOW - HOUR, stop_written_at=NOW - MINUTE / 30)

    decision = decide(away(R, pool=gone(queues=(queue, a_queue("resumable")))))

    assert decision.reason is Reason.SEALING
    assert decision.revisit_at == NOW + MINUTE / 20


def test_a_queue_whose_local_queues_are_closed_does_not_count_as_open():
    closed = tuple(replace(q, stop_policy=StopPolicy.HOLD) for q in a_queue().local_queues)
    work = (a_workload(admitted=True),)
    queue = a_queue(stop_policy=StopPolicy.NONE, local_queues=closed, workloads=work)

    decision = decide(a_situation(pool=a_pool(queues=(queue, a_queue("resumable")))))

    assert decision.after is not R


@pytest.mark.parametrize("phase", [Y, H])
def test_an_opening_by_somebody_else_is_contested_in_a_window_too(phase):
    opened = a_queue(stop_policy=StopPolicy.NONE, stop_writer="argocd")
    pool = gone(queues=(opened, a_queue("resumable")), pods=(a_serving_pod(terminating=True),))
    pool = pool if phase is Y else replace(pool, pods=(a_batch_pod(),))
    status = replace(a_status(phase), since=NOW - MINUTE, counters=Counters(corrections=3))
    soon = an_outlook(20 * MINUTE)

    decision = decide(a_situation(phase, status=status, pool=pool, outlook=soon))
    after = decide(a_situation(phase, status=decision.status, pool=pool, outlook=soon))

    assert decision.status.contested_by == "argocd"
    assert (after.after, after.reason) == (R, Reason.CONTESTED)
    assert [a.queue.name for a in after.actions if isinstance(a, StopLocalQueue)] == ["lq-short"]


def test_batch_in_a_queue_that_a_person_took_from_us_does_not_hold_up_the_return():
    work = a_workload(queue="resumable", admitted=True)
    taken = a_queue("resumable", uid="new", adopted_by="", workloads=(work,))
    pool = a_pool(queues=(a_queue(), taken), pods=(a_serving_pod(), a_batch_pod()), allocatable=2)

    decision = decide(a_situation(T, pool=pool))

    assert decision.reason is Reason.HANDOVER_COMPLETE


def test_a_lost_status_takes_nothing_back_that_a_person_opened_or_another_rule_owns():
    opened = a_queue(stop_policy=StopPolicy.NONE, stop_writer="kubectl")
    theirs = a_queue("resumable", stop_policy=StopPolicy.NONE, left=StopPolicy.NONE)
    pool = a_pool(queues=(opened, replace(theirs, adopted_by="another")))
    observing = a_rule(mode=Mode.OBSERVE)

    decision = decide(with_rule(a_situation(pool=pool), status=None, rule=observing))

    assert decision.after is S
    assert [a for a in decision.actions if isinstance(a, SetStopPolicy)] == []


@pytest.mark.parametrize("paused", [False, True])
def test_a_rule_being_deleted_shuts_what_its_return_could_not_and_wakes_what_it_stopped(paused):
    left = a_queue(stop_policy=StopPolicy.NONE, left=StopPolicy.NONE)
    owed = Owed(workloads=(OwedWorkload(namespace="batch", name="job", uid="w-job"),))
    first = a_situation(status=a_status(owed=owed), pool=a_pool(queues=(left,)))
    goes = {"deleting": True, "rule": a_rule(paused=paused)}

    shut = decide(with_rule(first, **goes)).actions
    woken = decide(with_rule(replace(first, pool=a_pool(queues=(a_queue(),))), **goes)).actions

    assert [(a.queue, a.policy) for a in shut if isinstance(a, SetStopPolicy)] == [
        ("short", StopPolicy.HOLD)
    ]
    assert not any(isinstance(a, SetActive) for a in shut)
    assert [(a.name, a.active) for a in woken if isinstance(a, SetActive)] == [("job", True)]


def test_a_contract_queue_closes_for_the_longest_work_that_may_still_be_let_in():
    odd = a_workload("odd", "resumable", contract=False, max_runtime=2 * HOUR)
    queue = a_queue("resumable", workloads=(odd,))
    pool = gone(queues=(a_queue(), queue), pods=(a_batch_pod(),))

    def opened(left):
        actions = decide(away(H, outlook=an_outlook(left), pool=pool)).actions
        return {a.queue for a in actions if isinstance(a, SetStopPolicy) and a.policy == "None"}

    assert "resumable" not in opened(HOUR)
    assert "resumable" in opened(3 * HOUR)


def test_batch_on_the_cards_outside_a_window_is_an_alarm():
    decision = decide(a_situation(pool=a_pool(pods=(a_serving_pod(), a_batch_pod()))))

    assert any("no window is open" in alarm for alarm in decision.alarms)


def test_the_end_of_a_contest_is_written_over_what_is_stored():
    contested = a_status(contested_by="argocd", contested_since=NOW - HOUR)
    situation = a_situation(status=contested, load=BUSY)

    decision = decide(with_rule(situation, resume_at=NOW - MINUTE))

    (write,) = [action for action in decision.actions if isinstance(action, Remember)]
    assert (write.before.contested_by, write.status.contested_by) == ("argocd", "")


@pytest.mark.parametrize(("claims", "raised"), [(0, False), (1, True)])
def test_serving_that_opens_the_device_node_waits_while_a_queue_is_not_sealed(claims, raised):
    target = replace(a_window().targets[0], claims=claims)
    window = a_window(targets=(target,), give_back_epoch=1, restoring_since=NOW - MINUTE)
    by_somebody = a_queue(
        stop_policy=StopPolicy.NONE, stop_writer="kubectl", stopped_since=None, left=StopPolicy.HOLD
    )
    pool = gone(
        targets=(a_lowered_target(claims=claims),), queues=(by_somebody, a_queue("resumable"))
    )
    status = a_status(T, since=NOW - MINUTE, window=window)

    actions = decide(a_situation(T, status=status, pool=pool)).actions
    assert any(isinstance(action, ScaleBack) for action in actions) is raised

    for_long = replace(status, since=NOW - HOUR)
    actions = decide(a_situation(T, status=for_long, pool=pool)).actions
    assert any(isinstance(action, ScaleBack) for action in actions)
