"""What is kept against a leader that froze before a write, and makes it once another went on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from idlewin.adapters.queues import epoch_of
from idlewin.core.decide import decide
from idlewin.core.decision import (
    FenceQueue,
    Outcome,
    ReopenLocalQueue,
    ScaleBack,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.follow import next_epoch
from idlewin.core.note import noted
from idlewin.core.phase import Phase
from idlewin.core.pool import EPOCH, LocalQueue, Record, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.scope import scope_of
from idlewin.core.situation import Situation
from idlewin.core.status import Owed, Remembered
from tests.builders import (
    HOUR,
    NOW,
    QWEN,
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
    away,
    gone,
    with_rule,
)
from tests.property.facts import OWED, in_window, pool, queue, status

SPARED = replace(a_window().targets[0], lowered=False)
OTHER = replace(SPARED, ref=replace(QWEN, name="other"), uid="t2")


def serving(**changes: Any) -> Situation:
    return a_situation(status=a_status(**changes))


# -- a target that is lowered when its window is over


def at_our_zero(s: Situation, **changes: Any) -> Situation:
    return pool(targets=(a_lowered_target(record=None, **changes),), pods=())(s)


def closed(*targets: Remembered) -> tuple[Remembered, ...]:
    up = a_pool(targets=(a_target(replicas=2, ready=2),))
    s = in_window(targets=targets)(away(Phase.RESTORING, pool=up))
    decision = decide(s)
    assert decision.reason is Reason.HANDOVER_COMPLETE
    return decision.status.not_lowered


def test_what_a_window_did_not_lower_stays_on_record():
    assert closed(SPARED) == (SPARED,)
    assert closed(replace(SPARED, lowered=True)) == ()
    assert closed(replace(SPARED, replicas=0)) == (), "that zero was there before us"


def test_who_is_lowered_late_and_without_a_record_comes_back_to_what_it_was():
    s = at_our_zero(serving(not_lowered=(replace(SPARED, restored=True),)))
    decision = decide(s)

    assert decision.reason is Reason.RECORD_FOUND
    back = replace(s, object=replace(s.object, status=replace(
        decision.status, phase=Phase.RESTORING.value, since=NOW)))  # fmt: skip
    (raised,) = [a for a in decide(back).actions if isinstance(a, ScaleBack)]
    assert (raised.uid, raised.replicas) == ("t1", 2)
    assert "RecordLost" not in [c.type for c in decision.status.conditions]


@pytest.mark.parametrize(
    "found",
    [
        lambda s: at_our_zero(s, uid="another"),
        lambda s: at_our_zero(s, replicas_writer="kubectl"),
        pool(targets=(a_target(),)),
    ],
    ids=["another of its name", "a person's zero", "it is up"],
)
def test_what_is_not_at_our_zero_is_not_taken_for_lowered_late(found):
    decision = decide(found(serving(not_lowered=(SPARED,))))

    assert decision.reason is not Reason.RECORD_FOUND
    assert not [a for a in decision.actions if isinstance(a, ScaleBack)]


def test_who_came_back_late_from_the_window_before_is_not_held_against_the_next_return():
    s = at_our_zero(serving(not_lowered=(replace(SPARED, overdue=True),)))

    taken = decide(s).status.window

    assert taken is not None
    assert [target.overdue for target in taken.targets] == [False]


EDITED = a_rule(serving=(replace(a_rule().serving[0], name="new"),))


@pytest.mark.parametrize("rule", [None, EDITED], ids=["unreadable", "it names another"])
def test_what_a_window_did_not_lower_is_looked_at_though_the_rule_names_it_no_more(rule):
    edited = replace(serving(not_lowered=(SPARED,)).object, rule=rule)
    lent = replace(edited, status=a_status(Phase.HARVESTING, not_lowered=(OTHER,)))

    assert SPARED.ref in scope_of(edited).targets
    assert OTHER.ref not in scope_of(lent).targets, "a pod of it would end the window"


def test_a_target_that_the_rule_names_no_more_holds_its_cards():
    beside = a_serving_pod(name="other-x", uid="p9", owner=str(OTHER.ref))
    decision = decide(pool(pods=(a_serving_pod(), beside))(serving(not_lowered=(OTHER,))))

    assert decision.reason is Reason.CARDS_HELD


KNOWN = replace(SPARED, generation=4)
THEIRS = Record(rule="another", uid="t1", replicas=2, epoch=1)


@pytest.mark.parametrize(
    ("found", "stays"),
    [
        (a_target(generation=4), True),
        (a_target(generation=5), False),
        (a_target(generation=4, uid="another"), False),
        (a_lowered_target(generation=5), True),
        (a_lowered_target(generation=5, record=None), True),
        (a_lowered_target(generation=5, record=THEIRS), False),
    ],
    ids=["as it was", "written since", "made anew", "lowered", "record lost", "another rule's"],
)
def test_what_cannot_be_lowered_late_any_more_is_struck_off(found, stays):
    off = serving(not_lowered=(KNOWN,), back_off_until=NOW + HOUR)

    left = decide(pool(targets=(found,))(off)).status.not_lowered

    assert left == ((KNOWN,) if stays else ())


def test_what_a_window_did_not_lower_stays_on_record_over_a_return_of_something_else():
    up = a_pool(targets=(a_target(replicas=2, ready=2),), pods=())
    s = status(not_lowered=(OTHER, SPARED))(away(Phase.RESTORING, pool=up))

    assert decide(s).status.not_lowered == (OTHER,), "the window's own is told by that alone"


def test_the_next_window_begins_anew():
    decision = decide(serving(not_lowered=(SPARED,)))

    assert decision.after is Phase.YIELDING
    assert decision.status.not_lowered == ()


# -- a queue that is opened when its window is over


def overdue(**changes: Any) -> Situation:
    """Batch had its time; the queue has no epoch of this return."""
    s = away(Phase.RECLAIMING, pool=gone(pods=(a_batch_pod(),)))
    began = in_window(give_back_epoch=7)(status(since=NOW - HOUR, epoch=7)(s))
    queues = (a_queue(epoch=7), a_queue("resumable", **{"epoch": 3, **changes}))
    return pool(queues=queues)(began)


CLOSED = tuple(
    replace(one, stop_policy=StopPolicy.HOLD) for one in a_queue("resumable").local_queues
)


def test_serving_does_not_come_back_before_a_late_leader_is_fenced_off():
    decision = decide(overdue())

    assert decision.after is Phase.RECLAIMING
    assert "resumable" in [a.queue for a in decision.actions if isinstance(a, FenceQueue)]


@pytest.mark.parametrize(
    "s",
    [
        overdue(epoch=7),
        overdue(local_queues=CLOSED),
        overdue(local_queues=()),
        replace(overdue(), forced=True),
    ],
    ids=["fenced", "closed from below", "nothing comes in by it", "a person says so"],
)
def test_it_comes_back_where_none_can_open_the_queue(s):
    assert decide(s).after is Phase.RESTORING


def test_it_comes_back_where_nothing_can_be_written_to_the_queue_at_all():
    s = overdue()
    below = LocalQueue(namespace="batch", name="lq", uid="l", stop_policy=StopPolicy.NONE)
    stop = StopLocalQueue(below, "resumable", StopPolicy.HOLD, 7)
    for verdict in (Verdict.REFUSED, Verdict.FAILED, Verdict.CONFLICT):
        tried = noted(s.status, stop, verdict)
        after = replace(s, object=replace(s.object, status=tried))
        assert decide(after).after is Phase.RESTORING

    assert noted(s.status, stop, Verdict.DONE) == s.status
    lent = replace(s.status, phase=Phase.HARVESTING.value)
    assert noted(lent, stop, Verdict.REFUSED) == lent, "that says nothing of the return to come"


def test_it_comes_back_where_a_stop_got_through_and_others_undo_it():
    def after(epoch: int) -> Phase:
        return decide(replace(overdue(), stopped=frozenset({("resumable", epoch)}))).after

    assert after(7) is Phase.RESTORING
    assert after(6) is Phase.RECLAIMING, "that was before this return"


def test_serving_on_a_device_node_waits_until_what_a_late_leader_opened_is_stopped():
    """Its opening came just before the fence, and Kueue was killed: the drain never shows."""

    def writes(refused: tuple[Outcome, ...] = (), **changes: Any) -> list[type]:
        target = a_lowered_target(claims=0)
        s = away(Phase.RESTORING, pool=gone(targets=(target,), pods=()))
        s = in_window(give_back_epoch=7)(status(since=NOW - HOUR, epoch=7)(s))
        opened = {"epoch": 7, "stop_policy": StopPolicy.NONE, "left": StopPolicy.NONE, **changes}
        queues = (a_queue(epoch=7), a_queue("resumable", **opened))
        s = replace(pool(queues=queues)(s), refused=refused)
        kinds = (SetStopPolicy, StopLocalQueue, ScaleBack)
        return [type(action) for action in decide(s).actions if isinstance(action, kinds)]

    stop = SetStopPolicy("resumable", "q-resumable", StopPolicy.HOLD, 7, "b580")
    assert writes() == [SetStopPolicy]
    assert writes(refused=(Outcome(stop, Verdict.REFUSED),)) == [
        SetStopPolicy,
        StopLocalQueue,
        ScaleBack,
    ]
    assert writes(stop_policy=StopPolicy.HOLD, stopped_since=None)[-1] is ScaleBack
    assert writes(left=StopPolicy.HOLD)[-1] is ScaleBack, "another opens it each time"


def test_what_kept_a_queue_shut_from_below_is_opened_behind_a_fence():
    def kinds(epoch: int, *stopped: tuple[str, int]) -> tuple[list[Any], list[Any]]:
        s = serving(epoch=9, owed=Owed(local_queues=OWED.local_queues), back_off_until=NOW + HOUR)
        actions = decide(replace(queue(epoch=epoch)(s), stopped=frozenset(stopped))).actions
        return (
            [(a.queue, a.epoch) for a in actions if isinstance(a, FenceQueue)],
            [a for a in actions if isinstance(a, ReopenLocalQueue)],
        )

    assert kinds(7) == ([(OWED.local_queues[0].cluster_queue, 9)], [])
    assert [len(found) for found in kinds(7, ("short", 8))] == [1, 0]
    assert [len(found) for found in kinds(7, ("short", 9))] == [0, 1], "others undo it"
    fences, (opened,) = kinds(9)
    assert fences == []
    assert opened.uid == OWED.local_queues[0].uid


def test_a_queue_that_is_anothers_by_now_is_not_fenced():
    s = serving(epoch=9, owed=Owed(local_queues=OWED.local_queues), back_off_until=NOW + HOUR)
    actions = decide(queue(epoch=7, adopted_by="else")(s)).actions

    assert not [action for action in actions if isinstance(action, FenceQueue)]
    assert [action.uid for action in actions if isinstance(action, ReopenLocalQueue)] == ["l-short"]


@pytest.mark.parametrize("theirs", ["7", "9" * 15, "9" * 16, "9" * 30, "-1", "seven"])
def test_whatever_epoch_a_tenant_writes_we_read_our_own_fence_after_it(theirs):
    below = {"namespace": "batch", "annotations": {EPOCH: theirs}}
    work = a_workload(epoch=epoch_of({"metadata": below}))

    ours = next_epoch(queue(workloads=(work,))(serving(epoch=3)))

    assert ours > max(3, work.epoch or 0)
    assert epoch_of({"metadata": {"annotations": {EPOCH: str(ours)}}}) == ours
    assert ours < 2**63, "the status holds it"


# -- a status that is lost while something is closed


def test_what_we_have_closed_is_on_record_again_once_the_status_is_lost():
    def found(**changes: Any) -> Owed:
        local = replace(a_queue().local_queues[0], stop_policy=StopPolicy.HOLD)
        locals_ = (replace(local, stop_writer="idlewin"), replace(local, uid="l-theirs"))
        asleep = a_workload(active=False, active_writer="idlewin")
        works = (asleep, a_workload("theirs", active=False), a_workload("awake"))
        queues = (a_queue(local_queues=locals_, workloads=works, **changes), a_queue("resumable"))
        lost = with_rule(a_situation(pool=a_pool(queues=queues)), status=None)
        return decide(lost).status.owed

    owed = found()
    assert [(one.uid, one.wrote, one.was) for one in owed.local_queues] == [
        ("l-short", "Hold", "None")
    ]
    assert [work.uid for work in owed.workloads] == ["w-job"]
    assert found(adopted_by="another") == Owed()
