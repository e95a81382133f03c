"""Each reason of the machine, from the smallest change of a situation that gives it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decide import decide
from idlewin.core.decision import (
    Remember,
    ScaleToZero,
)
from idlewin.core.forecast import Outlook
from idlewin.core.lint import Fault, Refusal
from idlewin.core.load import Level, Load
from idlewin.core.phase import TRANSITIONS, Phase
from idlewin.core.pool import Record, Role, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode
from idlewin.core.situation import Rehearsal
from idlewin.core.status import Counters
from tests.builders import (
    BUSY,
    HOUR,
    MINUTE,
    NOW,
    UNKNOWN,
    a_batch_pod,
    a_forecast,
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
    window,
    with_rule,
)

S, Y, H, R, T = Phase
#: A pod that no node has: only the scheduler knows of it.
WAITS = {"name": "qwen-waits", "on_cards": False, "running": False, "ready": False}
STAYS = [
    ("a paused rule", a_situation(rule=a_rule(paused=True)), Reason.PAUSED),
    (
        "a queue that is not ours",
        a_situation(refusals=(Refusal(Fault.NOT_ADOPTED, "adopt it"),)),
        Reason.NOT_ADOPTED,
    ),
    (
        "a leaking queue",
        a_situation(refusals=(Refusal(Fault.QUOTA_LEAKS, "lends"),)),
        Reason.RULE_INVALID,
    ),
    ("a contested rule", a_situation(status=a_status(contested_by="argocd")), Reason.CONTESTED),
    (
        "a queue that a person closed",
        a_situation(pool=a_pool(queues=(a_queue(stop_policy=StopPolicy.HOLD_AND_DRAIN),))),
        Reason.QUEUE_CLOSED_BY_OTHER,
    ),
    (
        "a zero of ours without a record",
        a_situation(pool=gone(targets=(a_lowered_target(record=None),))),
        Reason.RECORD_LOST,
    ),
    ("a claim", with_rule(a_situation(), wake_until=NOW + MINUTE), Reason.WAKE_CLAIMED),
    ("users", a_situation(load=BUSY), Reason.LOAD_BUSY),
    ("unknown demand", a_situation(load=UNKNOWN), Reason.LOAD_UNKNOWN),
    (
        "serving that starts",
        a_situation(pool=a_pool(targets=(a_target(ready=1),))),
        Reason.SERVING_NOT_READY,
    ),
    (
        "nine idle minutes of ten",
        a_situation(load=Load(level=Level.IDLE, since=NOW - 9 * MINUTE, why="")),
        Reason.IDLE_TOO_SHORT,
    ),
    (
        "serving that has just come back",
        a_situation(status=a_status(since=NOW - MINUTE, counters=Counters(windows=1))),
        Reason.MIN_SERVING,
    ),
    (
        "serving that has just come back, of a rule whose counters were lost",
        a_situation(status=a_status(since=NOW - MINUTE, epoch=4)),
        Reason.MIN_SERVING,
    ),
    (
        "a handover that failed a moment ago",
        a_situation(status=a_status(back_off_until=NOW + MINUTE)),
        Reason.BACKING_OFF,
    ),
    (
        "a day whose windows are spent",
        a_situation(status=a_status(counters=Counters(windows_today=8, day="2026-03-04"))),
        Reason.HANDOVERS_SPENT,
    ),
    (
        "a pod of serving that waits for a card beside all that are ready",
        a_situation(pool=a_pool(pods=(a_serving_pod(), a_serving_pod(uid="p3", **WAITS)))),
        Reason.SERVING_NOT_READY,
    ),
    ("a forecaster without history", a_situation(outlook=an_outlook(ready=False)),
     Reason.FORECAST_NOT_READY),
    ("a short forecast", a_situation(outlook=an_outlook(20 * MINUTE)), Reason.WINDOW_TOO_SHORT),
    (
        "no work",
        a_situation(pool=a_pool(queues=(a_queue(), a_queue("resumable")))),
        Reason.NO_WORK_WAITING,
    ),
    (
        "work in a LocalQueue that a person stopped",
        a_situation(pool=a_pool(queues=(a_queue(
            workloads=(a_workload(),),
            local_queues=(replace(a_queue().local_queues[0], stop_policy=StopPolicy.HOLD),),
        ),))),
        Reason.NO_WORK_WAITING,
    ),
    (
        "work that Kueue has wait after a time-out",
        a_situation(pool=a_pool(queues=(a_queue(
            workloads=(a_workload(kept_out_until=NOW + MINUTE),)
        ),))),
        Reason.NO_WORK_WAITING,
    ),
    (
        "work that is too long for what is left",
        a_situation(
            outlook=an_outlook(36 * MINUTE),
            pool=a_pool(queues=(a_queue(workloads=(a_workload(max_runtime=30 * MINUTE),)),)),
        ),
        Reason.NOTHING_FITS,
    ),
    (
        "somebody else's pod on the card",
        a_situation(pool=a_pool(pods=(a_serving_pod(), a_batch_pod(role=Role.OTHER)))),
        Reason.CARDS_HELD,
    ),
    ("a rule that only observes", a_situation(rule=a_rule(mode=Mode.OBSERVE)), Reason.OBSERVE_ONLY),
    ("no dry run yet", a_situation(rehearsal=None), Reason.REHEARSAL_DUE),
    (
        "a dry run of long ago",
        a_situation(rehearsal=Rehearsal(at=NOW - 6 * MINUTE)),
        Reason.REHEARSAL_DUE,
    ),
    (
        "a dry run that was refused",
        a_situation(rehearsal=Rehearsal(at=NOW, refused="webhook said no")),
        Reason.REHEARSAL_REFUSED,
    ),
    (
        "a dry run that was not answered a moment ago",
        a_situation(rehearsal=Rehearsal(at=NOW, refused="no answer", final=False)),
        Reason.REHEARSAL_REFUSED,
    ),
    (
        "a dry run that was not answered a while ago",
        a_situation(rehearsal=Rehearsal(at=NOW - MINUTE, refused="no answer", final=False)),
        Reason.REHEARSAL_DUE,
    ),
    ("a rule that cannot be read", with_rule(a_situation(), rule=None, error="spec.mode"),
     Reason.RULE_INVALID),
    (
        "serving on its way out",
        away(Y, pool=gone(pods=(a_serving_pod(terminating=True),))),
        Reason.SERVING_LEAVING,
    ),
    (
        "a stop that Kueue does not show",
        away(Y, pool=gone(queues=(a_queue(stopped_since=None), a_queue("resumable")))),
        Reason.QUEUES_NOT_SETTLED,
    ),
    (
        "an open window",
        away(H, pool=gone(pods=(a_batch_pod(),))),
        Reason.HARVESTING,
    ),
    (
        "a queue that is not sealed",
        away(R, pool=gone(queues=(a_queue(stopped_since=None), a_queue("resumable")))),
        Reason.SEALING,
    ),
    ("batch that leaves", away(R, pool=gone(pods=(a_batch_pod(terminating=True),))),
     Reason.BATCH_LEAVING),
    (
        "serving that starts again",
        a_situation(T, pool=a_pool(targets=(a_target(ready=1),))),
        Reason.SERVING_STARTING,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("_", "situation", "reason"), STAYS, ids=[row[0] for row in STAYS])
def test_stays_and_says_what_stands_in_the_way(_, situation, reason):
    decision = decide(situation)

    assert (decision.reason, decision.changes_phase) == (reason, False)
    assert not any(isinstance(a, ScaleToZero) for a in decision.actions)


RAISED = a_target(record=Record(rule="b580", uid="t1", replicas=2, epoch=1))
MOVES = [
    (S, R, Reason.RECORD_FOUND, a_situation(pool=gone())),
    (
        S, R, Reason.OPEN_WITH_BATCH,
        a_situation(pool=a_pool(
            queues=(a_queue(stop_policy=StopPolicy.NONE),), pods=(a_batch_pod(),))),
    ),
    (S, Y, Reason.WINDOW_OPEN, a_situation()),
    (Y, H, Reason.SERVING_GONE, away(Y, pool=gone())),
    (Y, R, Reason.YIELD_OVERDUE, a_situation(Y)),
    (H, R, Reason.QUEUE_DRY, a_situation(H)),
    (R, T, Reason.BATCH_GONE, away(R)),
    (
        R, T, Reason.DRAIN_OVERDUE,
        a_situation(R, pool=gone(pods=(a_batch_pod(terminating=True),))),
    ),
    (
        T, R, Reason.BATCH_SEEN,
        a_situation(T, pool=gone(targets=(a_lowered_target(claims=0),), pods=(a_batch_pod(),))),
    ),
    (T, S, Reason.HANDOVER_COMPLETE, a_situation(T, pool=a_pool())),
]  # fmt: skip
GIVE_BACKS = [
    (Reason.RULE_CHANGED, lambda p: away(p, rule=a_rule(mode=Mode.OBSERVE))),
    (Reason.RULE_CHANGED, lambda p: with_rule(away(p), rule=None, error="broken")),
    (Reason.RULE_CHANGED, lambda p: with_rule(away(p), deleting=True)),
    (Reason.RULE_CHANGED, lambda p: away(p, rule=a_rule(batch=replace(
        a_rule().batch, queues=a_rule().batch.queues[:1])))),
    (Reason.RULE_CHANGED, lambda p: away(p, pool=gone(queues=(a_queue(),)))),
    (Reason.PAUSED, lambda p: away(p, rule=a_rule(paused=True))),
    (Reason.CONTESTED, lambda p: a_situation(p, status=replace(
        a_status(p), since=NOW - MINUTE, contested_by="argocd"))),
    (Reason.TARGET_CHANGED, lambda p: away(p, pool=gone(targets=()))),
    (Reason.TARGET_CHANGED, lambda p: away(p, pool=gone(targets=(a_target(uid="new"),)))),
    (Reason.TARGET_CHANGED, lambda p: away(p, status=replace(
        a_status(p), since=NOW - MINUTE, window=a_window(targets=(
            replace(a_window().targets[0], template="old"),))),
        pool=gone(targets=(a_lowered_target(template="new"),)))),
    (Reason.CARD_GONE, lambda p: away(p, pool=gone(allocatable=0))),
    (Reason.SERVING_RAISED, lambda p: away(p, pool=gone(targets=(RAISED,)))),
    (Reason.WAKE_CLAIMED, lambda p: with_rule(away(p), wake_until=NOW + MINUTE)),
    (Reason.WAKE_CLAIMED, lambda p: with_rule(away(p), wake_error="'soon' is no instant")),
    (Reason.DEMAND_RETURNED, lambda p: away(p, load=BUSY)),
    (Reason.LOAD_UNKNOWN, lambda p: away(p, load=replace(UNKNOWN, since=NOW - 5 * MINUTE))),
    (Reason.WINDOW_MAX, lambda p: away(p, rule=window(max=62 * MINUTE))),
    (Reason.RECLAIM_REACHED, lambda p: away(p, outlook=an_outlook(3 * MINUTE))),
]  # fmt: skip
MOVES += [
    (H, R, Reason.SERVING_RAISED, away(H, pool=gone(pods=(a_batch_pod(), a_serving_pod(**WAITS))))),
]
MOVES += [(p, R, reason, make(p)) for reason, make in GIVE_BACKS for p in (Y, H)]


@pytest.mark.parametrize(
    ("before", "after", "reason", "situation"),
    MOVES,
    ids=[f"{b}-{r}-{n}" for n, (b, _, r, _) in enumerate(MOVES)],
)
def test_moves_for_its_reason_and_remembers_first(before, after, reason, situation):
    decision = decide(situation)

    assert (decision.before, decision.after, decision.reason) == (before, after, reason)
    assert isinstance(decision.actions[0], Remember)
    assert decision.status.epoch > situation.status.epoch


def test_every_row_of_the_table_has_a_case():
    tried = {(before, after, reason) for before, after, reason, _ in MOVES}

    assert tried == {(row.source, row.target, row.reason) for row in TRANSITIONS}


def test_a_plan_as_far_ahead_as_a_forecast_sees_is_not_written_at_each_look():
    s, writes = a_situation(Phase.HARVESTING), 0
    s = with_rule(s, rule=window(max=72 * HOUR))
    for look in range(0, 12 * 60, 5):
        now = NOW + look * MINUTE
        forecast = a_forecast(made_at=now)
        s = replace(
            s,
            now=now,
            batch_seen_at=now,
            outlook=Outlook(forecast=forecast, opens=True, back=now + 24 * HOUR),
        )
        decision = decide(s)
        assert decision.after is Phase.HARVESTING
        writes += decision.status.until != s.status.until
        s = replace(s, object=replace(s.object, status=decision.status))

    assert 1 < writes <= 6


def test_a_plan_that_comes_near_is_written_at_once():
    s = away(Phase.HARVESTING)
    far, near = NOW + 20 * HOUR, NOW + 30 * MINUTE
    s = replace(s, object=replace(s.object, status=replace(s.status, until=far)))
    ahead = Outlook(forecast=a_forecast(), opens=True, back=near + 20 * MINUTE)

    written = decide(replace(s, outlook=ahead)).status

    assert written.until < NOW + HOUR
    assert written.window.reclaim_at == written.until
