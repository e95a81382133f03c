"""What is kept against a leader that froze before a write, and makes it once another went on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from idlewin.core.decide import decide
from idlewin.core.decision import (
    FenceQueue,
    ReopenLocalQueue,
    ScaleBack,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.note import noted
from idlewin.core.phase import Phase
from idlewin.core.pool import LocalQueue, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.situation import Situation
from idlewin.core.status import Owed, Remembered
from tests.builders import (
    HOUR,
    NOW,
    a_batch_pod,
    a_lowered_target,
    a_pool,
    a_queue,
    a_situation,
    a_status,
    a_target,
    a_window,
    away,
    gone,
)
from tests.property.facts import OWED, in_window, pool, queue, status

SPARED = replace(a_window().targets[0], lowered=False)


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


def test_what_kept_a_queue_shut_from_below_is_opened_behind_a_fence():
    def actions(epoch: int) -> list[Any]:
        s = serving(epoch=9, owed=Owed(local_queues=OWED.local_queues), back_off_until=NOW + HOUR)
        return list(decide(queue(epoch=epoch)(s)).actions)

    def kinds(epoch: int) -> tuple[list[Any], list[Any]]:
        return (
            [(a.queue, a.epoch) for a in actions(epoch) if isinstance(a, FenceQueue)],
            [a for a in actions(epoch) if isinstance(a, ReopenLocalQueue)],
        )

    assert kinds(7) == ([(OWED.local_queues[0].cluster_queue, 9)], [])
    fences, (opened,) = kinds(9)
    assert fences == []
    assert opened.uid == OWED.local_queues[0].uid
