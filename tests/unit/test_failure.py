"""What goes wrong in a handover: told, held against the next one, and never silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decide import decide
from idlewin.core.decision import EvictPod
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.status import Counters, Remembered
from idlewin.core.target import HttpProbe, OnOverdue, Probe
from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    QWEN,
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
    gone,
    with_rule,
)

PROBE = Probe(http=HttpProbe(url="http://qwen.ai/health"))


def returning(target=None, *, since=NOW - HOUR, pods=(), **remembered):
    """Serving is on its way back since an hour, four times its readyTimeout."""
    kept = Remembered(ref=QWEN, uid="t1", replicas=2, claims=1, lowered=True, restored=True)
    window = a_window(targets=(replace(kept, **remembered),), restoring_since=since)
    pool = a_pool(targets=(target or a_target(ready=0),), pods=pods)
    status = a_status(Phase.RESTORING, window=window, epoch=4)
    return a_situation(Phase.RESTORING, status=status, pool=pool)


def after(situation, **changes):
    """The situation in which the status of a decision on this one is stored."""
    return with_rule(replace(situation, **changes), status=decide(situation).status)


def test_a_target_that_is_late_is_marked_so_for_the_rest_of_its_return():
    decision = decide(returning())

    assert decision.status.window.targets[0].overdue
    assert "Deployment ai/qwen 0/2 ready" in decision.alarms[0]


def test_serving_that_came_back_late_is_not_lent_again_until_a_person_says_so():
    back = after(returning(), pool=a_pool())
    done = decide(back)
    assert done.reason is Reason.HANDOVER_COMPLETE
    assert done.status.failure == "Deployment ai/qwen came back later than readyTimeout"

    later = NOW + 24 * HOUR
    rested = with_rule(
        a_situation(now=later, load=replace(back.load, since=later - HOUR)), status=done.status
    )
    stays = decide(rested)
    assert stays.reason is Reason.RETURN_UNPROVEN
    assert "run 'idlewin resume b580'" in stays.alarms[0]

    said = decide(with_rule(rested, resume_at=later - MINUTE))
    assert (said.status.failure, said.status.unproven) == ("", False)
    assert said.reason is not Reason.RETURN_UNPROVEN


def test_serving_that_came_back_late_and_answers_its_probe_is_lent_again_after_the_back_off():
    serving = replace(a_rule().serving[0], probe=PROBE)
    situation = with_rule(returning(), rule=a_rule(serving=(serving,)))

    status = decide(after(situation, pool=a_pool())).status

    assert not status.unproven
    assert status.back_off_until == NOW + 5 * MINUTE
    assert status.counters.failures == 1


def test_a_return_that_is_ready_and_does_not_answer_says_that_it_is_the_probe():
    decision = decide(returning(a_target(ready=0, answers=False)))

    assert "its probe has no good answer" in decision.alarms[0]


def test_pods_of_a_late_target_are_made_anew_once_where_the_rule_says_so():
    old = a_serving_pod(ready=False, created_at=NOW - 50 * MINUTE)
    new = a_serving_pod(uid="p3", ready=False, created_at=NOW - 40 * MINUTE)

    decision = decide(returning(pods=(old, new), on_overdue=OnOverdue.RESTART))

    assert EvictPod(old, delete=True) in decision.actions
    assert EvictPod(new, delete=True) not in decision.actions


@pytest.mark.parametrize(
    "situation",
    [
        returning(pods=(a_serving_pod(ready=False, created_at=NOW - 50 * MINUTE),)),
        returning(
            pods=(a_serving_pod(ready=False, created_at=NOW - 50 * MINUTE),),
            since=NOW - 5 * MINUTE,
            on_overdue=OnOverdue.RESTART,
        ),
        returning(
            a_target(ready=1),
            pods=(a_serving_pod(ready=True, created_at=NOW - 50 * MINUTE),),
            on_overdue=OnOverdue.RESTART,
        ),
    ],
    ids=["the rule says Alarm", "it is not late", "that pod is ready"],
)
def test_no_pod_of_serving_is_deleted_otherwise(situation):
    assert not [a for a in decide(situation).actions if isinstance(a, EvictPod)]


def test_pods_that_are_ready_and_do_not_answer_are_made_anew_too():
    old = a_serving_pod(ready=True, created_at=NOW - 50 * MINUTE)
    silent = a_target(ready=0, answers=False)

    decision = decide(returning(silent, pods=(old,), on_overdue=OnOverdue.RESTART))

    assert EvictPod(old, delete=True) in decision.actions


# -- work that is not let in


def open_and_waiting(since):
    pending = a_queue(stop_policy=StopPolicy.NONE, stopped_since=None, workloads=(a_workload(),))
    status = a_status(Phase.HARVESTING, since=since)
    return a_situation(
        Phase.HARVESTING, status=status, pool=gone(queues=(pending, a_queue("resumable")))
    )


def test_work_that_waits_in_an_open_queue_for_long_is_an_alarm():
    assert not decide(open_and_waiting(NOW - 7 * MINUTE)).alarms

    decision = decide(open_and_waiting(NOW - 8 * MINUTE))

    assert decision.after is Phase.HARVESTING
    assert "batch/job waits in an open queue and is not admitted" in decision.alarms[0]


def test_work_of_a_stopped_local_queue_is_not_waited_for():
    status = a_status(Phase.HARVESTING, since=NOW - 8 * MINUTE)
    stopped = replace(a_queue().local_queues[0], stop_policy=StopPolicy.HOLD)
    queue = a_queue(
        stop_policy=StopPolicy.NONE,
        stopped_since=None,
        workloads=(a_workload(),),
        local_queues=(stopped,),
    )
    pool = gone(queues=(queue, a_queue("resumable")))

    assert not decide(a_situation(Phase.HARVESTING, status=status, pool=pool)).alarms


def test_a_window_in_which_waiting_work_was_not_let_in_is_a_failed_handover():
    decision = decide(open_and_waiting(NOW - 15 * MINUTE))
    assert decision.reason is Reason.QUEUE_DRY
    assert "batch/job waited for 15m" in decision.status.window.failure

    restoring = replace(decision.status, phase=Phase.RESTORING.value, window=decision.status.window)
    closed = decide(a_situation(Phase.RESTORING, status=restoring, pool=a_pool()))
    assert closed.status.back_off_until == NOW + 5 * MINUTE
    served = decide(a_situation(status=closed.status))
    assert served.reason in (Reason.MIN_SERVING, Reason.BACKING_OFF)
    assert "compare its requests" in served.alarms[0]


def test_a_window_that_ran_dry_with_nothing_waiting_is_no_failure():
    empty = a_queue(stop_policy=StopPolicy.NONE, stopped_since=None)
    status = a_status(Phase.HARVESTING, since=NOW - 15 * MINUTE)

    decision = decide(
        a_situation(
            Phase.HARVESTING, status=status, pool=gone(queues=(empty, a_queue("resumable")))
        )
    )

    assert decision.reason is Reason.QUEUE_DRY
    assert decision.status.window.failure == ""


@pytest.mark.parametrize("phase", [Phase.YIELDING, Phase.HARVESTING])
def test_cards_in_which_nothing_can_be_started_any_more_are_given_back(phase):
    soon = replace(a_window(), reclaim_at=NOW + MINUTE)
    status = replace(a_status(phase, window=soon), since=NOW - MINUTE)
    pool = gone(queues=(a_queue(workloads=(a_workload(),)), a_queue("resumable")))

    decision = decide(a_situation(phase, status=status, pool=pool, outlook=None))

    assert decision.reason is Reason.RECLAIM_REACHED


def test_work_that_runs_keeps_a_window_in_which_nothing_more_can_be_started():
    soon = replace(a_window(), reclaim_at=NOW + MINUTE)
    running = a_workload(admitted=True, admitted_at=NOW - 10 * MINUTE)
    pool = gone(queues=(a_queue(workloads=(running,)), a_queue("resumable")))
    status = a_status(Phase.HARVESTING, window=soon)

    decision = decide(a_situation(Phase.HARVESTING, status=status, pool=pool, outlook=None))

    assert decision.after is Phase.HARVESTING


# -- failures in a row


def test_each_failure_in_a_row_waits_longer_and_a_good_handover_forgets_them():
    window = a_window(failure="serving did not leave", give_back=Reason.YIELD_OVERDUE.value)
    failed = a_status(Phase.RESTORING, window=window, counters=Counters(failures=2))
    status = decide(a_situation(Phase.RESTORING, status=failed, pool=a_pool())).status
    assert status.counters.failures == 3
    assert status.back_off_until == NOW + 20 * MINUTE

    good = a_status(Phase.RESTORING, counters=status.counters, failure=status.failure)
    status = decide(a_situation(Phase.RESTORING, status=good, pool=a_pool())).status
    assert (status.counters.failures, status.failure, status.back_off_until) == (0, "", None)


# -- serving that falls to zero outside a window


def down(target, *, since=NOW - MINUTE, seen=True, **changes):
    status = a_status(seen_up=(str(QWEN),) if seen else ())
    return a_situation(
        status=status, pool=a_pool(targets=(target,)), down_since={str(QWEN): since}, **changes
    )


def test_serving_that_was_up_and_is_put_to_zero_outside_a_window_is_an_alarm_that_names_who():
    decision = decide(down(a_target(replicas=0, ready=0)))

    assert decision.after is Phase.SERVING
    assert "Deployment ai/qwen (by kubectl) is at zero" in decision.alarms[0]
    assert not [a for a in decision.actions if type(a).__name__ == "ScaleBack"]


def test_serving_without_a_ready_pod_is_an_alarm_after_its_ready_timeout():
    crashing = a_target(ready=0)
    early = decide(down(crashing, since=NOW - 14 * MINUTE))
    assert not early.alarms
    assert early.revisit_at == NOW + MINUTE

    late = decide(down(crashing, since=NOW - 15 * MINUTE))
    assert "Deployment ai/qwen 0/2 ready" in late.alarms[0]


def test_a_zero_that_was_there_before_us_is_no_alarm():
    assert not decide(down(a_target(replicas=0, ready=0), seen=False)).alarms


def test_a_person_who_meant_the_zero_says_resume_and_hears_no_more_of_it():
    meant = with_rule(down(a_target(replicas=0, ready=0)), resume_at=NOW)

    decision = decide(meant)
    assert decision.status.seen_up == ()
    assert not decide(with_rule(meant, status=decision.status)).alarms


def test_a_target_is_known_as_up_once_it_was_ready():
    assert decide(a_situation()).status.seen_up == (str(QWEN),)
    assert (
        decide(a_situation(pool=a_pool(targets=(a_lowered_target(record=None),)))).status.seen_up
        == ()
    )


@pytest.mark.parametrize("reason", [Reason.UNKNOWN_PHASE, Reason.RECORD_FOUND])
def test_a_window_that_another_began_does_not_forget_what_went_wrong(reason):
    later = NOW + HOUR
    window = a_window(give_back=reason.value)
    status = a_status(
        Phase.RESTORING,
        window=window,
        counters=Counters(failures=2),
        failure="serving did not leave",
        back_off_until=later,
    )

    closed = decide(a_situation(Phase.RESTORING, status=status, pool=a_pool())).status

    assert (closed.failure, closed.back_off_until) == ("serving did not leave", later)
