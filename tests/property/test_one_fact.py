"""One fact alone is enough: to keep a window shut, to end it, to keep serving away from batch.

Each law starts where all is well, and takes the facts one at a time, together with any others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from idlewin.core.calendar import Calendar
from idlewin.core.decide import decide
from idlewin.core.decision import (
    EvictPod,
    FenceQueue,
    ForgetRecord,
    HoldRule,
    Outcome,
    ReleaseRule,
    ScaleBack,
    ScaleToZero,
    SetStopPolicy,
    Verdict,
)
from idlewin.core.follow import LOST
from idlewin.core.lint import Fault, Refusal
from idlewin.core.note import noted
from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.rule import Mode
from idlewin.core.scope import scope_of
from idlewin.core.situation import Rehearsal, Situation
from idlewin.core.status import Counters, Owed
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
from tests.property.facts import (
    BATCH,
    CLAIM,
    NOT_ADOPTED,
    OTHER,
    OWED,
    PAUSED,
    SECOND,
    THEIRS,
    each,
    in_window,
    look,
    pod,
    policy,
    pool,
    queue,
    spec,
    status,
    stored,
    target,
)

# -- opening

AGAINST = {
    "deleted": stored(deleting=True),
    "paused": PAUSED,
    "observes": spec(mode=Mode.OBSERVE),
    "contested": status(contested_by="argocd"),
    "not ours": NOT_ADOPTED,
    "at fault": look(refusals=(Refusal(Fault.CARDS_MISMATCH, "count"),)),
    "claimed": CLAIM,
    "demand": look(load=BUSY),
    "unknown demand": look(load=UNKNOWN),
    "idle for a moment": lambda s: replace(s, load=replace(s.load, since=NOW)),
    "back a moment ago": status(since=NOW - SECOND),
    "backing off": status(back_off_until=NOW + MINUTE),
    "late the last time": status(unproven=True, failure="late"),
    "enough for a day": status(counters=Counters(windows_today=99, day="2026-03-04")),
    "calendar closed": policy(calendar=Calendar(deny=("Wed",))),
    "no forecast": look(outlook=None),
    "a forecast that is not ready": look(outlook=an_outlook(ready=False)),
    "demand to come before a window is worth it": policy(min=9 * HOUR),
    "demand to come soon": look(outlook=an_outlook(20 * MINUTE)),
    # Soon it is safer, so that waiting brings more.
    "a risk that is dear": look(
        outlook=an_outlook(chances=((MINUTE, 0.9), (8 * HOUR, 0.9)), price=5000.0)
    ),
    "no work": pool(queues=(a_queue(), a_queue("resumable"))),
    "no work that fits": lambda s: pool(
        queues=(a_queue(workloads=(a_workload(max_runtime=None),)), a_queue("resumable"))
    )(look(outlook=an_outlook(34 * MINUTE))(s)),
    "work that Kueue keeps out": queue(workloads=(a_workload(kept_out_until=NOW + HOUR),)),
    "something owed": status(owed=OWED),
    "others on the cards": OTHER,
    "batch on the cards": BATCH,
    "serving not ready": target(ready=1),
    "serving that fell": lambda s: target(replicas=0, ready=0)(
        status(seen_up=(str(s.pool.targets[0].ref),))(s)
    ),
    "closed by a person": queue(**THEIRS),
    "refused by dry run": look(rehearsal=Rehearsal(at=NOW, refused="no")),
}


def test_where_nothing_speaks_against_it_a_window_opens():
    assert decide(a_situation()).after is Phase.YIELDING


@each(AGAINST)
def test_whatever_speaks_against_a_window_keeps_it_shut(fact):
    decision = decide(fact(a_situation()))

    assert decision.after is not Phase.YIELDING
    assert not [a for a in decision.actions if isinstance(a, ScaleToZero)]


# -- ending a window

ENDS = {
    "deleted": stored(deleting=True),
    "paused": PAUSED,
    "observes": spec(mode=Mode.OBSERVE),
    "unreadable": stored(rule=None),
    "contested": status(contested_by="argocd"),
    "claimed": CLAIM,
    "a claim that cannot be read": stored(wake_error="soon"),
    "demand": look(load=BUSY),
    "long unknown demand": look(load=replace(UNKNOWN, since=NOW - HOUR)),
    "the target is gone": pool(targets=()),
    "the target is another": target(uid="new"),
    "a card is gone": pool(allocatable=0),
    "serving was raised": target(replicas=1, replicas_writer="keda"),
    "the batch part was edited": lambda s: spec(
        batch=replace(s.rule.batch, queues=s.rule.batch.queues[:1])
    )(s),
    "a queue is gone": lambda s: pool(queues=s.pool.queues[1:])(s),
    "a queue was made anew": queue(uid="new"),
    "a queue was let go": queue(adopted_by=""),
    "a queue is deleted": queue(terminating=True),
    "the calendar closed": policy(calendar=Calendar(deny=("Wed",))),
    "the maximum is near": policy(max=HOUR),
    "demand to come now": look(outlook=an_outlook(MINUTE)),
    "the last plan is reached": lambda s: in_window(reclaim_at=NOW - MINUTE)(look(outlook=None)(s)),
    "raised before that was noted": lambda s: target(replicas=1, replicas_writer="keda")(
        in_window(targets=(replace(s.window.targets[0], lowered=False),))(s)
    ),
}
A_JOB = a_workload("r", "resumable", admitted=True, admitted_at=NOW - MINUTE)
OPEN = {"stop_policy": StopPolicy.NONE, "left": StopPolicy.NONE, "stopped_since": None}
RUNNING = (
    a_queue(**OPEN), a_queue("resumable", workloads=(A_JOB,), **OPEN)
)  # fmt: skip


def harvesting() -> Situation:
    return away(Phase.HARVESTING, pool=gone(queues=RUNNING, pods=(a_batch_pod(owner="batch/r"),)))


def yielding() -> Situation:
    window = a_window(opened_at=NOW - MINUTE)
    leaving = gone(pods=(a_serving_pod(terminating=True),))
    return away(
        Phase.YIELDING,
        status=replace(a_status(Phase.YIELDING), since=NOW - SECOND, window=window),
        pool=leaving,
    )


def test_where_nothing_ends_it_a_window_goes_on():
    goes_on = decide(harvesting())

    assert goes_on.after is Phase.HARVESTING
    assert not [a for a in goes_on.actions if isinstance(a, ScaleBack)]
    assert decide(yielding()).after is Phase.YIELDING


@each(ENDS)
def test_whatever_ends_a_window_ends_it_at_once(fact):
    assert decide(fact(harvesting())).after is Phase.RECLAIMING
    beginning = fact(yielding())
    maximum = beginning.rule and beginning.rule.window.max == HOUR
    assert maximum or decide(beginning).after is Phase.RECLAIMING
    assert decide(fact(away(Phase.YIELDING, pool=gone()))).after is Phase.RECLAIMING


def test_a_serving_pod_in_an_open_window_ends_it():
    assert decide(pod(a_serving_pod())(harvesting())).after is Phase.RECLAIMING


def test_a_target_that_was_scaled_or_deployed_before_it_was_lowered_ends_the_window():
    fresh = replace(a_window().targets[0], lowered=False, template="first", generation=3)
    start = in_window(targets=(fresh,))(yielding())
    as_it_was = {"record": None, "replicas": 2, "ready": 2, "template": "first", "generation": 3}

    assert decide(target(**as_it_was)(start)).after is Phase.YIELDING
    for change in ({"replicas": 3}, {"template": "second"}):
        assert decide(target(**{**as_it_was, **change})(start)).after is Phase.RECLAIMING


# -- giving away

STILL = {
    "a target is up": target(replicas=1, record=None, replicas_writer="idlewin"),
    "a pod of serving": pod(a_serving_pod()),
    "a pod of serving that leaves": pod(a_serving_pod(terminating=True)),
    "another pod": OTHER,
    "a queue that is open": queue(**OPEN),
    "a queue whose stop is not seen": queue(stopped_since=None),
    "a queue without our mark": queue(left=None),
}


def test_once_serving_has_left_the_window_is_open():
    assert decide(away(Phase.YIELDING, pool=gone())).after is Phase.HARVESTING


@each(STILL)
def test_whatever_is_still_there_keeps_a_window_from_opening(fact):
    decision = decide(fact(away(Phase.YIELDING, pool=gone())))

    assert decision.after is not Phase.HARVESTING
    opened = [a for a in decision.actions if isinstance(a, SetStopPolicy) and a.policy == "None"]
    assert opened == []


def test_serving_is_lowered_once_and_from_what_is_on_record():
    start = yielding()
    fresh = in_window(targets=(replace(a_window().targets[0], lowered=False),))(start)
    up = {"replicas": 2, "record": None, "replicas_writer": "kubectl"}

    def lowered(s: Situation) -> list[Any]:
        return [a for a in decide(s).actions if isinstance(a, ScaleToZero)]

    (first,) = lowered(target(**up)(fresh))
    assert (first.replicas, first.uid, first.epoch) == (2, "t1", fresh.status.epoch)
    assert lowered(target(**up)(start)) == []
    assert lowered(target(**up, uid="new")(fresh)) == []


# -- giving back

LOCALS_SHUT = tuple(replace(one, stop_policy=StopPolicy.HOLD) for one in a_queue().local_queues)
KEEPS_OUT = {
    "a queue is open": queue(**OPEN),
    "a stop is not seen": queue(stopped_since=None),
    "a stop was seen a moment ago": queue(stopped_since=NOW - 4 * SECOND),
    "a stop was written a moment ago": queue(stop_written_at=NOW - 4 * SECOND),
    "a queue came since": lambda s: pool(queues=(*s.pool.queues, a_queue("new", **OPEN)))(s),
    "a pod": BATCH,
    "a pod that leaves": pod(a_batch_pod(terminating=True)),
    "admitted work": queue(workloads=(a_workload(admitted=True, admitted_at=NOW - MINUTE),)),
    "one LocalQueue of a stop that is not seen": queue(
        stopped_since=None,
        local_queues=(*LOCALS_SHUT, replace(LOCALS_SHUT[0], uid="b", stop_policy=StopPolicy.NONE)),
    ),
    "LocalQueues that were closed a moment ago": lambda s: queue(
        stopped_since=None, local_queues=LOCALS_SHUT
    )(status(owed=Owed(local_queues=(replace(OWED.local_queues[0], at=NOW - 4 * SECOND),)))(s)),
}


def reclaiming(**pods: Any) -> Situation:
    return away(Phase.RECLAIMING, pool=gone(**pods))


def test_once_batch_has_left_and_its_queues_are_sealed_serving_comes_back():
    sealed = queue(stopped_since=None, local_queues=LOCALS_SHUT)(reclaiming())
    dead = pod(a_batch_pod(node_dead=True))(reclaiming())

    for s in (reclaiming(), sealed, dead):
        assert decide(s).after is Phase.RESTORING


@each(KEEPS_OUT)
def test_whatever_may_still_use_the_cards_keeps_serving_out(fact):
    s = fact(reclaiming())
    decision = decide(s)
    assert decision.after is Phase.RECLAIMING
    assert not [a for a in decision.actions if isinstance(a, ScaleBack)]

    bare = target(claims=0)(replace(s, object=replace(s.object, status=_restoring(s))))
    assert not [a for a in decide(bare).actions if isinstance(a, ScaleBack)] or not s.pool.pods


def _restoring(s: Situation) -> Any:
    return replace(s.status, phase=Phase.RESTORING.value)


def test_work_that_kueue_does_not_end_keeps_serving_out_till_drain_timeout_only():
    left = queue(workloads=(a_workload(admitted=True, admitted_at=None),))(reclaiming())

    assert decide(left).after is Phase.RECLAIMING
    assert decide(status(since=NOW - HOUR)(left)).after is Phase.RESTORING


def test_drain_timeout_counts_from_the_last_bound_and_opens_the_device_node_to_nobody():
    work = a_workload(admitted=True, admitted_at=NOW - 10 * MINUTE)
    overdue = status(since=NOW - HOUR)(BATCH(reclaiming()))
    waits = queue(workloads=(work,))(overdue)
    bare = target(claims=0)(overdue)

    assert decide(overdue).after is Phase.RESTORING
    assert decide(waits).after is Phase.RECLAIMING
    assert decide(bare).after is Phase.RECLAIMING
    assert decide(replace(bare, forced=True)).after is Phase.RESTORING
    assert decide(replace(waits, forced=True)).after is Phase.RESTORING


def restoring() -> Situation:
    return away(Phase.RESTORING, pool=a_pool(targets=(a_target(replicas_writer="idlewin"),)))


NOT_BACK = {
    "at our zero": pool(targets=(a_lowered_target(),)),
    "not ready": target(ready=1),
    "beside batch": BATCH,
    "a queue of ours open": queue(**OPEN),
}


def test_a_return_ends_with_serving_ready():
    decision = decide(restoring())

    assert (decision.after, decision.status.window) == (Phase.SERVING, None)


@pytest.mark.parametrize(
    "start", [yielding(), CLAIM(harvesting()), reclaiming(), PAUSED(away(Phase.RESTORING))]
)
def test_what_is_open_is_shut_outside_a_window(start):
    shut = [a for a in decide(queue(**OPEN)(start)).actions if isinstance(a, SetStopPolicy)]

    assert "short" in {a.queue for a in shut}
    assert StopPolicy.NONE not in {a.policy for a in shut}


def test_a_rule_is_held_before_anything_is_begun():
    (first, *_) = decide(stored(finalizer=False)(a_situation())).actions

    assert isinstance(first, HoldRule)


@each(NOT_BACK)
def test_a_return_goes_on_till_all_is_back(fact):
    assert decide(fact(restoring())).after is not Phase.SERVING


def test_batch_beside_a_device_node_that_is_due_goes_first():
    due = away(Phase.RESTORING, pool=gone(targets=(a_lowered_target(claims=0),)))

    assert [a for a in decide(due).actions if isinstance(a, ScaleBack)]
    assert decide(BATCH(due)).after is Phase.RECLAIMING
    assert decide(replace(BATCH(due), forced=True)).after is Phase.RESTORING


OTHERS_NOW = {
    "raised": target(replicas=3, replicas_writer="kubectl"),
    "another": target(uid="new"),
    "its owner's zero": target(replicas_writer="kubectl"),
    "restored already": in_window(targets=(replace(a_window().targets[0], restored=True),)),
    "zero before us": in_window(targets=(replace(a_window().targets[0], replicas=0),)),
}


@each(OTHERS_NOW)
def test_serving_that_is_not_at_our_zero_is_not_brought_back(fact):
    due = away(Phase.RESTORING, pool=gone())
    assert [a for a in decide(due).actions if isinstance(a, ScaleBack)]

    assert not [a for a in decide(fact(due)).actions if isinstance(a, ScaleBack)]


def test_a_raised_target_keeps_no_record_of_ours():
    raised = OTHERS_NOW["raised"](away(Phase.RESTORING, pool=gone()))

    assert [a for a in decide(raised).actions if isinstance(a, ForgetRecord)]


@pytest.mark.parametrize("said", [None, NOW - 2 * HOUR])
@pytest.mark.parametrize("phase", list(Phase))
def test_what_a_person_closed_is_written_by_nobody(phase, said):
    start = {Phase.SERVING: a_situation(), Phase.YIELDING: yielding()}
    s = start.get(phase) or away(phase, pool=gone())
    decision = decide(stored(resume_at=said)(queue(**THEIRS)(s)))

    kept = [a for a in decision.actions if isinstance(a, SetStopPolicy) and a.queue == "short"]
    assert kept == []


def test_what_stands_on_a_queue_when_a_window_begins_is_marked():
    marks = [a for a in decide(queue(left=None)(yielding())).actions if isinstance(a, FenceQueue)]

    assert [(a.queue, a.marks) for a in marks] == [("short", True)]


def test_work_that_has_its_time_yet_is_not_ended():
    late = a_workload(admitted=True, admitted_at=NOW - 21 * MINUTE)
    early = replace(late, admitted_at=NOW - 19 * MINUTE)
    pods = (a_batch_pod(owner="batch/job"),)

    def ended(work: Any) -> list[Any]:
        queues = (a_queue(workloads=(work,)), a_queue("resumable"))
        return [a for a in decide(reclaiming(queues=queues, pods=pods)).actions
                if isinstance(a, EvictPod)]  # fmt: skip

    assert len(ended(late)) == 1
    assert ended(early) == []


# -- on record


def test_what_serving_was_is_on_record_before_it_is_changed():
    (kept,) = decide(a_situation()).status.window.targets

    assert (kept.uid, kept.replicas, kept.claims, kept.lowered) == ("t1", 2, 1, False)


def after(status_: Any, action: Any) -> Situation:
    """Bringing back, after an action was noted, where the record was pruned and nobody is known."""
    noted_ = noted(status_, action, Verdict.DONE)
    s = away(Phase.RESTORING, pool=gone(targets=(a_lowered_target(record=None),)))
    return target(replicas_writer="")(in_window(targets=noted_.window.targets)(s))


def test_what_was_lowered_comes_back_though_only_the_note_of_it_is_left_and_once():
    fresh = in_window(targets=(replace(a_window().targets[0], lowered=False),))(yielding())
    up = target(replicas=2, record=None, replicas_writer="kubectl")(fresh)
    (lowered,) = [a for a in decide(up).actions if isinstance(a, ScaleToZero)]

    due = after(up.status, lowered)
    (back,) = [a for a in decide(due).actions if isinstance(a, ScaleBack)]
    done = after(due.status, back)

    assert not [a for a in decide(done).actions if isinstance(a, ScaleBack)]


@pytest.mark.parametrize("whose", ["b580", "other"])
def test_a_record_that_is_found_is_given_back_by_the_rule_that_it_names(whose):
    found = a_lowered_target()
    record = replace(found.record, rule=whose)
    lost = stored(status=None)(a_situation(pool=gone(targets=(replace(found, record=record),))))
    decision = decide(lost)

    assert (decision.after is Phase.RECLAIMING) is (whose == "b580")
    kept = decision.status.window.targets if decision.status.window else ()
    assert ((2, True) in [(t.replicas, t.lowered) for t in kept]) is (whose == "b580")


def test_giving_back_writes_each_queue_anew_also_where_it_is_closed_already():
    held = CLAIM(pool(queues=(a_queue(), RUNNING[1]))(harvesting()))
    decision = decide(held)

    written = {a.queue: a.epoch for a in decision.actions
               if isinstance(a, SetStopPolicy | FenceQueue)}  # fmt: skip
    assert written == dict.fromkeys(("short", "resumable"), decision.status.epoch)


@each({
    "a queue": queue(epoch=20),
    "a LocalQueue": queue(local_queues=(replace(a_queue().local_queues[0], epoch=20),)),
    "work": queue(workloads=(replace(a_workload(), epoch=20),)),
    "a record": target(record=replace(a_lowered_target().record, epoch=20)),
})  # fmt: skip
def test_a_status_that_is_behind_goes_far_ahead_of_whatever_has_an_epoch(fact):
    assert decide(CLAIM(fact(harvesting()))).status.epoch == 20 + LOST


def test_an_epoch_is_one_ahead_of_the_status():
    assert decide(CLAIM(status(epoch=20)(harvesting()))).status.epoch == 21


def test_a_queue_of_another_rule_is_not_sealed():
    theirs = a_queue("theirs", adopted_by="other", **OPEN)
    s = pool(queues=(*gone().queues, theirs))(reclaiming())

    assert "theirs" not in {getattr(a, "queue", "") for a in decide(s).actions}


def test_a_queue_is_opened_anew_so_often_and_no_more():
    held = away(Phase.HARVESTING, pool=gone(pods=(a_batch_pod(),)))

    def opened(times: int) -> bool:
        first, *others = a_window().queues
        s = in_window(queues=(replace(first, closed_for_fit=times), *others))(held)
        actions = decide(s).actions
        return any(isinstance(a, SetStopPolicy) and a.queue == "short" for a in actions)

    assert [opened(times) for times in (0, 1, 2, 3)] == [True, True, True, False]
    closing = SetStopPolicy("short", "q-short", StopPolicy.HOLD, 1, "b580")
    noted_ = noted(held.status, closing, Verdict.DONE)
    assert [queue.closed_for_fit for queue in noted_.window.queues] == [1, 0]


def test_a_window_whose_pods_run_is_not_dry():
    busy = pool(queues=(RUNNING[0], a_queue("resumable", **OPEN)))(harvesting())
    long = status(since=NOW - HOUR)(busy)

    assert decide(long).after is Phase.HARVESTING
    assert decide(pool(pods=())(long)).after is Phase.RECLAIMING


# -- who may not act


@each({name: AGAINST[name] for name in ("paused", "observes", "contested", "not ours")})
def test_who_may_not_act_corrects_nothing(fact):
    opened = queue(stop_policy=StopPolicy.NONE, stop_writer="kubectl", stopped_since=None)
    used = look(load=BUSY)(opened(a_situation()))
    assert [a for a in decide(used).actions if isinstance(a, SetStopPolicy)]

    actions = decide(fact(used)).actions
    assert not [a for a in actions if isinstance(a, SetStopPolicy | FenceQueue | ScaleToZero)]


@each({
    "serving is away": pool(targets=(a_lowered_target(),)),
    "our record is on it": target(record=a_lowered_target().record),
    "a queue is open by our hand": queue(**OPEN),
    "something is owed": status(owed=OWED),
})  # fmt: skip
def test_a_rule_that_is_deleted_stays_till_all_is_given_back(fact):
    deleted = stored(deleting=True)
    back = replace(restoring(), pool=restoring().pool)
    assert [a for a in decide(deleted(back)).actions if isinstance(a, ReleaseRule)]

    s = deleted(fact(back))
    for _ in range(3):
        actions = decide(s).actions
        assert not [a for a in actions if isinstance(a, ReleaseRule)]
        # Nor where what is still to be written is refused, and the next rung as well.
        s = replace(s, refused=(*s.refused, *(Outcome(one, Verdict.REFUSED) for one in actions)))


def test_a_look_at_an_edited_rule_has_all_that_its_window_has():
    edited = with_rule(harvesting(), rule=replace(
        a_rule(), serving=(replace(a_rule().serving[0], name="other"),),
        cards=replace(a_rule().cards, node_selector={"a": "b"}),
        batch=replace(a_rule().batch, queues=a_rule().batch.queues[:1]),
    ))  # fmt: skip
    scope, window = scope_of(edited.object), edited.window
    assert window is not None
    assert {one.ref for one in window.targets} <= set(scope.targets)
    assert {one.spec.cluster_queue for one in window.queues} <= set(scope.queues)
    assert scope.node_selector == window.node_selector
    owed = with_rule(a_situation(), rule=None, status=replace(a_status(), owed=OWED))
    assert scope_of(owed.object).queues == ("short",)


@each({"a version of later days": status(version=99), "a phase of later days": status(phase="Zz"),
       "a window that is lost": status(window=None)})  # fmt: skip
def test_a_status_that_is_not_understood_is_given_back(fact):
    decision = decide(fact(harvesting()))

    assert decision.after in GIVING_BACK
