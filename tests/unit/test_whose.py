"""What somebody else wrote is told from what we wrote, respected, and named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decide import decide
from idlewin.core.decision import FenceQueue, SetStopPolicy, StopLocalQueue
from idlewin.core.note import owed_by
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.status import Owed, OwedQueue
from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_batch_pod,
    a_lowered_target,
    a_pool,
    a_queue,
    a_situation,
    a_status,
    a_target,
    a_window,
    a_workload,
    away,
    gone,
    with_rule,
)

S, Y, H, R, T = Phase
WORK = (a_workload(),)


def queues_written(decision) -> list[str]:
    return [action.queue for action in decision.actions if isinstance(action, SetStopPolicy)]


def condition(decision, kind: str):
    return next(
        (c for c in decision.status.conditions if c.type == kind and c.status == "True"), None
    )


@pytest.mark.parametrize("adopted_at", [StopPolicy.HOLD, None])
def test_a_stop_before_our_first_write_is_seen_where_adoption_knows_what_was_there(adopted_at):
    drained = a_queue(
        stop_policy=StopPolicy.HOLD_AND_DRAIN, left=None, epoch=None, workloads=WORK,
        adopted_at=adopted_at, stop_writer="kubectl-patch",
    )  # fmt: skip

    decision = decide(a_situation(pool=a_pool(queues=(drained, a_queue("resumable")))))

    if adopted_at is None:
        assert decision.reason is Reason.WINDOW_OPEN
    else:
        assert decision.reason is Reason.QUEUE_CLOSED_BY_OTHER
        assert (
            "short at HoldAndDrain by kubectl-patch"
            in condition(decision, "QueueClosedByOther").message
        )
        assert not queues_written(decision)


def test_a_queue_that_is_lent_for_the_first_time_is_marked_as_it_is():
    unmarked = a_queue(left=None, epoch=None, stop_writer="kubectl")

    decision = decide(away(Y, pool=gone(queues=(unmarked, a_queue("resumable")))))

    assert [a.queue for a in decision.actions if isinstance(a, FenceQueue)] == ["short"]
    assert decision.reason is Reason.QUEUES_NOT_SETTLED


def test_a_queue_whose_mark_is_pruned_in_a_window_is_not_opened_again():
    pruned = a_queue(left=None, epoch=None, stop_writer="argocd-controller", workloads=WORK)
    situation = away(H, pool=gone(queues=(pruned, a_queue("resumable")), pods=(a_batch_pod(),)))

    decision = decide(situation)
    resumed = decide(with_rule(situation, resume_at=NOW))

    assert queues_written(decision) == ["resumable"]
    assert "argocd-controller" in condition(decision, "QueueClosedByOther").message
    assert queues_written(resumed) == ["short", "resumable"]


def test_an_opening_that_prunes_our_mark_is_a_correction_all_the_same():
    opened = a_queue(stop_policy=StopPolicy.NONE, left=None, epoch=None, stop_writer="argocd")

    decision = decide(a_situation(pool=a_pool(queues=(opened, a_queue("resumable")))))

    assert [a.corrects for a in decision.actions if isinstance(a, SetStopPolicy)] == [True]


def test_a_lost_record_stays_an_alarm_in_a_window_that_remembers_the_zero():
    zero = replace(a_window().targets[0], replicas=0, lowered=False)
    status = replace(a_status(H), since=NOW - MINUTE, window=a_window(targets=(zero,)))
    pool = gone(targets=(a_lowered_target(record=None),), pods=(a_batch_pod(),))

    decision = decide(a_situation(H, status=status, pool=pool))

    assert "scale it by hand" in condition(decision, "RecordLost").message


def test_a_zero_of_its_owner_is_no_lost_record():
    pool = gone(targets=(a_target(replicas=0, ready=0, replicas_writer="kubectl"),))

    decision = decide(a_situation(pool=pool))

    assert condition(decision, "RecordLost") is None


def test_a_target_that_was_raised_and_pruned_before_we_heard_of_its_zero_is_not_lowered_again():
    unheard = replace(a_window().targets[0], lowered=False, generation=4)
    status = replace(a_status(Y), since=NOW - MINUTE, window=a_window(targets=(unheard,)))
    raised = a_target(generation=6, replicas_writer="model-operator")

    decision = decide(a_situation(Y, status=status, pool=a_pool(targets=(raised,))))

    assert decision.reason is Reason.TARGET_CHANGED
    assert "model-operator" in decision.checks[0].observed


@pytest.mark.parametrize(("seen", "was"), [(StopPolicy.NONE, "None"), (StopPolicy.HOLD, "Hold")])
def test_a_local_queue_that_its_owner_opened_meanwhile_is_owed_open(seen, was):
    local = replace(a_queue().local_queues[0], stop_policy=seen, stop_writer="kubectl")
    known = OwedQueue(
        namespace="batch", name="lq-short", uid="l-short", cluster_queue="short", was="Hold",
        wrote="Hold", at=NOW,
    )  # fmt: skip
    situation = a_situation(R, status=a_status(R, owed=Owed(local_queues=(known,))))

    stop = StopLocalQueue(local, "short", StopPolicy.HOLD_AND_DRAIN, 1)
    (owed,) = owed_by(situation, (stop,)).owed.local_queues

    assert (owed.was, owed.wrote) == (was, "HoldAndDrain")


@pytest.mark.parametrize(("now", "kept"), [(1, "at 1 by kubectl"), (0, "at 0 by kubectl")])
def test_what_somebody_scaled_meanwhile_is_named_when_all_is_back(now, kept):
    target = a_target(replicas=now, ready=now)

    decision = decide(a_situation(T, pool=a_pool(targets=(target,), pods=())))

    assert decision.reason is Reason.HANDOVER_COMPLETE
    assert any(kept in check.observed for check in decision.checks)


def test_a_deploy_after_the_return_began_changes_nothing_of_it():
    old = replace(a_window().targets[0], template="old")
    status = a_status(R, since=NOW - HOUR, window=a_window(targets=(old,)))

    decision = decide(
        a_situation(R, status=status, pool=gone(targets=(a_lowered_target(template="new"),)))
    )

    assert decision.after is T
