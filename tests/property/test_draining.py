"""When a queue is drained: once it is held, and nothing can come in that a look did not show."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from idlewin.core.decide import decide
from idlewin.core.decision import (
    EvictPod,
    ReleaseRule,
    ReopenLocalQueue,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
)
from idlewin.core.load import Level, Load
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.rule import OnReturn
from idlewin.core.situation import Situation
from idlewin.core.status import Owed, OwedWorkload
from idlewin.core.timing import SETTLE, drain_time
from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_batch_pod,
    a_pool,
    a_queue,
    a_rule,
    a_situation,
    a_target,
    a_window,
    a_workload,
    away,
    gone,
    with_rule,
)
from tests.property.facts import OWED, SECOND, in_window, pool, status, stored

A_JOB = a_workload("r", "resumable", admitted=True, admitted_at=NOW - MINUTE)
OPEN = {"stop_policy": StopPolicy.NONE, "left": StopPolicy.NONE, "stopped_since": None}

#: Held, and that has settled.
HELD = a_queue("resumable", workloads=(A_JOB,))
DRAINED = {"stop_policy": StopPolicy.HOLD_AND_DRAIN, "left": StopPolicy.HOLD_AND_DRAIN}


def reclaiming() -> Situation:
    return away(Phase.RECLAIMING, pool=gone())


def actions(s: Situation | None = None, **changes: Any) -> list[Any]:
    """What a return does that finds the queue so."""
    return list(
        decide(pool(queues=(a_queue(), replace(HELD, **changes)))(s or reclaiming())).actions
    )


def sealing(s: Situation | None = None, **changes: Any) -> list[str]:
    """The stop policies that it writes, the ClusterQueue's before its LocalQueues'."""
    found = actions(s, **changes)
    own = [a.policy for a in found if isinstance(a, SetStopPolicy) and a.queue == HELD.name]
    below = [a.policy for a in found if isinstance(a, StopLocalQueue)]
    return [str(policy) for policy in (*own, *below)]


@pytest.mark.parametrize(
    "odd",
    [{"contract": False}, {"grace": SECOND}, {"contract": False, "evicted": True}],
    ids=["has no contract", "its grace is short", "leaves already"],
)
def test_a_queue_is_not_drained_while_anything_of_it_did_not_agree(odd):
    work = a_workload("odd", "resumable", admitted=True, admitted_at=NOW - MINUTE, **odd)

    assert sealing() == ["HoldAndDrain"]
    assert sealing(workloads=(A_JOB, work)) == []
    assert sealing(workloads=(A_JOB, work), **DRAINED) == ["Hold"]


def test_who_is_stopped_alone_is_stopped_as_it_was_looked_at():
    odd = a_workload("odd", "resumable", admitted=True, admitted_at=NOW - MINUTE, contract=False)
    agreed = replace(A_JOB, generation=4, epoch=2)

    (stop,) = [a for a in actions(workloads=(agreed, odd)) if isinstance(a, SetActive)]

    assert (stop.uid, stop.generation, stop.woken) == (agreed.uid, 4, 2)


SOON = {
    "open": OPEN,
    "a stop that Kueue does not show yet": {"stopped_since": None, "stop_written_at": NOW - SECOND},
    "a stop that was seen a moment ago": {"stopped_since": NOW - 4 * SECOND},
    "a stop that was written a moment ago": {"stop_written_at": NOW - 4 * SECOND},
    "a stop that a leader who sleeps may take back": {"epoch": None},
}


@pytest.mark.parametrize("fact", list(SOON.values()), ids=list(SOON))
def test_a_queue_is_drained_only_after_a_look_that_nothing_can_follow(fact):
    """What is let in between a look and the drain that follows it need not have agreed."""
    assert "HoldAndDrain" not in sealing(**fact)

    evict = in_window(on_return=OnReturn.EVICT)(reclaiming())
    assert sealing(evict, **fact) == ["HoldAndDrain"]


def test_local_queues_take_the_drain_of_a_dead_kueue_once_they_were_held_for_long_enough():
    away_ = {"stopped_since": None, "stop_written_at": NOW - 21 * SECOND}
    shut = tuple(replace(one, stop_policy=StopPolicy.HOLD) for one in HELD.local_queues)

    def closed(before: Any) -> Situation:
        owed = replace(OWED.local_queues[0], uid=shut[0].uid, at=NOW - before)
        return status(owed=Owed(local_queues=(owed,)))(reclaiming())

    assert sealing(**away_) == ["Hold"]
    assert sealing(closed(4 * SECOND), local_queues=shut, **away_) == []
    assert sealing(closed(5 * SECOND), local_queues=shut, **away_) == ["HoldAndDrain"] * 2


def test_where_nothing_has_to_leave_a_queue_is_held_only():
    waits = a_workload("odd", "resumable", contract=False)

    assert sealing(workloads=(waits,)) == []
    assert sealing(workloads=(waits, A_JOB)) == ["HoldAndDrain"], "a drain leaves it alone"
    assert sealing(workloads=(waits,), **DRAINED) == []


PERSON = {"left": StopPolicy.NONE, "stop_writer": "kubectl"}
TOLD = {
    "a drain is written now": ({"stop_written_at": NOW - 39 * SECOND}, False),
    "a drain could not be written for long": ({"stop_written_at": NOW - 40 * SECOND}, True),
    "a drain was written a moment ago": ({**DRAINED, "stop_written_at": NOW - 19 * SECOND}, False),
    "a drain has missed it": ({**DRAINED, "stop_written_at": NOW - 20 * SECOND}, True),
    "a stop shows late, and a drain may follow": (
        {"stopped_since": NOW - SECOND, "stop_written_at": NOW - 39 * SECOND},
        False,
    ),
    "a person holds the queue": ({**PERSON, "stop_written_at": NOW - MINUTE}, True),
    "nothing is shown for long": (
        {"stopped_since": None, "stop_written_at": NOW - 20 * SECOND},
        True,
    ),
}


@pytest.mark.parametrize(("fact", "told"), list(TOLD.values()), ids=list(TOLD))
def test_work_is_stopped_by_itself_where_no_drain_reaches_it_in_time(fact, told):
    stopped = [a.name for a in actions(**fact) if isinstance(a, SetActive)]

    assert stopped == (["r"] if told else [])


@pytest.mark.parametrize("evict", [False, True])
def test_drain_timeout_does_not_count_the_hold_before_the_drain(evict):
    policy = OnReturn.EVICT if evict else OnReturn.WAIT
    begun = NOW - a_window().drain_timeout
    window = a_window(on_return=policy)
    s = status(since=begun, window=window)(away(Phase.RECLAIMING, pool=gone(pods=(a_batch_pod(),))))

    assert decide(s).after is (Phase.RESTORING if evict else Phase.RECLAIMING)
    late = status(since=begun - SETTLE, window=window)(s)
    assert decide(late).after is Phase.RESTORING


ASLEEP = Owed(workloads=(OwedWorkload(namespace="batch", name="r", uid="w-r"),))


def _woken(s: Situation) -> SetActive:
    return SetActive("batch", "r", "w-r", active=True, epoch=s.status.epoch)


@pytest.mark.parametrize(
    ("fact", "woken"),
    [({"workloads": ()}, True), ({}, False), ({"workloads": (), "stopped_since": None}, False)],
    ids=["it has left", "it is admitted yet", "the stop does not show"],
)
def test_work_that_is_asleep_is_woken_while_serving_once_it_has_left_its_cards(fact, woken):
    """Nothing else might wait in the queues, and no window would open to wake it."""
    busy = Load(level=Level.BUSY, since=NOW, why="")
    s = status(owed=ASLEEP)(a_situation(pool=a_pool(), load=busy))

    assert (_woken(s) in actions(s, **fact)) is woken


OPENED = {"stop_writer": "argocd", "stop_policy": StopPolicy.NONE, "stopped_since": None}


def held_below(writer: str, closed: timedelta, noted: timedelta | None = None) -> Situation:
    """A queue that somebody opened, whose LocalQueue has been closed for so long."""
    opened = replace(a_queue(), **OPENED)
    local = replace(opened.local_queues[0], stop_policy=StopPolicy.HOLD, stop_writer=writer,
                    stop_written_at=NOW - closed)  # fmt: skip
    owed = tuple(replace(one, at=NOW - (noted or closed)) for one in OWED.local_queues)
    s = status(since=NOW - MINUTE, owed=Owed(local_queues=owed if noted else ()))(reclaiming())
    return pool(queues=(replace(opened, local_queues=(local,)), a_queue("resumable")))(s)


@pytest.mark.parametrize(
    ("writer", "closed", "noted", "settled"),
    [
        ("kubectl", SETTLE, None, True),
        ("kubectl", SECOND, None, False),
        ("kubectl", SECOND, HOUR, False),
        ("idlewin", SECOND, HOUR, True),
        ("idlewin", HOUR, SECOND, False),
    ],
    ids=["theirs", "theirs, just now", "theirs, after ours was undone", "a drain after our hold",
         "ours, just now"],
)  # fmt: skip
def test_a_local_queue_counts_from_when_it_was_closed(writer, closed, noted, settled):
    s = held_below(writer, closed, noted)

    assert decide(s).after is (Phase.RESTORING if settled else Phase.RECLAIMING)


def test_a_local_queue_that_somebody_opened_settles_anew_once_it_is_closed():
    s = held_below("kubectl", SECOND, noted=MINUTE)
    opened, other = s.pool.queues
    (local,) = opened.local_queues
    open_ = replace(opened, local_queues=(replace(local, stop_policy=StopPolicy.NONE),))
    first = decide(pool(queues=(open_, other))(s))
    assert [a.queue.name for a in first.actions if isinstance(a, StopLocalQueue)] == [local.name]

    ours = replace(opened, local_queues=(replace(local, stop_writer="idlewin"),))
    s = pool(queues=(ours, other))(stored(status=first.status)(s))

    assert decide(s).after is Phase.RECLAIMING
    assert decide(replace(s, now=NOW + SETTLE)).after is Phase.RESTORING


@pytest.mark.parametrize("evict", [False, True])
def test_a_planned_return_begins_early_enough_to_hold_and_then_to_drain(evict):
    queue = a_rule().batch.queues[1]
    policy = OnReturn.EVICT if evict else OnReturn.WAIT
    rule = a_rule(batch=replace(a_rule().batch, on_return=policy, queues=(queue,)))

    held = timedelta() if evict else SETTLE
    assert drain_time(rule, cards=3) == held + queue.grace + 3 * SECOND


def test_work_that_is_asleep_is_not_woken_before_the_return_is_over():
    """Stop and wake would have one epoch, and the fence could not tell a late stop from them."""
    s = status(owed=ASLEEP)(away(Phase.RESTORING, pool=gone()))

    assert not [a for a in actions(s, workloads=()) if isinstance(a, SetActive)]


def test_work_that_is_asleep_is_woken_when_a_window_opens():
    s = status(owed=ASLEEP)(away(Phase.HARVESTING, pool=gone(pods=(a_batch_pod(),))))

    assert _woken(s) in decide(s).actions


@pytest.mark.parametrize(("there", "opens"), [((A_JOB,), False), ((), True)], ids=["there", "gone"])
def test_a_local_queue_that_drains_for_a_dead_kueue_is_not_opened_before_that_is_done(there, opens):
    """Its ClusterQueue may be on Hold only, and Kueue would leave the work where it is."""
    owed = replace(OWED.local_queues[0], cluster_queue=HELD.name, wrote="HoldAndDrain")
    s = status(owed=Owed(local_queues=(owed,)))(a_situation(pool=a_pool()))

    found = [a for a in actions(s, workloads=there) if isinstance(a, ReopenLocalQueue)]
    assert bool(found) is opens


@pytest.mark.parametrize(("told", "ended"), [(5, False), (60, True)])
def test_a_pod_is_evicted_only_when_kueue_has_had_its_time_since_it_was_told(told, ended):
    """However long ago the queue was stopped: stopping this work may have got through just now."""
    work = replace(A_JOB, active=False)
    pods = (a_batch_pod(owner=str(A_JOB)),)
    s = replace(
        away(Phase.RECLAIMING, pool=gone(pods=pods)), told_since={work.uid: NOW - told * SECOND}
    )

    found = actions(s, workloads=(work,), stop_written_at=NOW - 3 * MINUTE)

    assert any(isinstance(a, EvictPod) for a in found) is ended


@pytest.mark.parametrize("there", [True, False])
def test_a_deleted_rule_does_not_go_while_work_that_is_left_over_is_stopped(there):
    work = replace(A_JOB, admitted=there)
    held = replace(HELD, workloads=(work,))
    s = with_rule(a_situation(pool=a_pool(queues=(a_queue(), held))), deleting=True, finalizer=True)

    found = decide(s).actions

    assert any(isinstance(a, SetActive) for a in found) is there
    assert any(isinstance(a, ReleaseRule) for a in found) is not there


@pytest.mark.parametrize("ago", [1, 60])
def test_a_rule_that_is_taken_out_by_force_stays_till_its_drain_could_be_written(ago):
    """Serving is back by force, and the stop was written a moment ago: nothing was drained yet."""
    stopped = replace(HELD, stopped_since=NOW - ago * SECOND, stop_written_at=NOW - ago * SECOND)
    pool_ = gone(queues=(a_queue(), stopped), targets=(a_target(ready=0),))
    s = replace(away(Phase.RESTORING, pool=pool_), forced=True)

    found = decide(with_rule(s, deleting=True, finalizer=True)).actions

    assert not any(isinstance(a, ReleaseRule) for a in found)
    drained = [a for a in found if isinstance(a, SetStopPolicy) and a.queue == HELD.name]
    assert [a.policy for a in drained] == ([StopPolicy.HOLD_AND_DRAIN] if ago > 5 else [])
