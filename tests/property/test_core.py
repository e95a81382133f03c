"""Laws of the core, for situations that nobody thought of."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import given, settings, strategies as st

from idlewin.core.decide import decide
from idlewin.core.decision import Remember, ScaleBack, ScaleToZero, SetStopPolicy
from idlewin.core.explain import explain
from idlewin.core.lint import Fault, Refusal
from idlewin.core.load import Level, Load
from idlewin.core.phase import TRANSITIONS, Phase
from idlewin.core.pool import Record, Role, StopPolicy
from idlewin.core.rule import Mode, OnReturn
from idlewin.core.status import Counters
from idlewin.core.tally import Tallies, Tally, WouldBe
from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_batch_pod,
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
    with_rule,
)

ago = st.integers(0, 7200).map(lambda seconds: NOW - seconds * (MINUTE / 60))
maybe = st.booleans()


@st.composite
def targets(draw):
    record = Record(rule=draw(st.sampled_from(["b580", "other"])), uid="t1", replicas=2, epoch=1)
    return a_target(
        uid=draw(st.sampled_from(["t1", "t1", "new"])),
        replicas=draw(st.integers(0, 3)),
        ready=draw(st.integers(0, 3)),
        claims=draw(st.integers(0, 1)),
        record=draw(st.sampled_from([None, record])),
        replicas_writer=draw(st.sampled_from(["", "idlewin", "argocd"])),
        inside_kueue=draw(maybe),
    )


@st.composite
def queues(draw, name):
    works = tuple(
        a_workload(
            f"{name}-{n}", name,
            admitted=draw(maybe), active=draw(maybe), evicted=draw(maybe), contract=draw(maybe),
            admitted_at=draw(st.one_of(st.none(), ago)),
            max_runtime=draw(st.sampled_from([None, MINUTE, HOUR])),
        )
        for n in range(draw(st.integers(0, 2)))
    )  # fmt: skip
    policy = st.sampled_from(list(StopPolicy))
    queue = a_queue(
        name,
        uid=draw(st.sampled_from([f"q-{name}", f"q-{name}", "new"])),
        stop_policy=draw(policy),
        left=draw(st.one_of(st.none(), policy)),
        epoch=draw(st.one_of(st.none(), st.integers(0, 9))),
        stopped_since=draw(st.one_of(st.none(), ago)),
        terminating=draw(st.sampled_from([False, False, True])),
        adopted_by=draw(st.sampled_from(["b580", "b580", ""])),
        workloads=works,
    )
    epochs = st.one_of(st.none(), st.integers(0, 30))
    local_queues = tuple(
        replace(local, stop_policy=draw(policy), epoch=draw(epochs)) for local in queue.local_queues
    )
    return replace(queue, local_queues=local_queues)


@st.composite
def situations(draw):
    phase = draw(st.sampled_from(list(Phase)))
    rule = a_rule(
        mode=draw(st.sampled_from(list(Mode))),
        paused=draw(maybe),
        batch=replace(a_rule().batch, on_return=draw(st.sampled_from(list(OnReturn)))),
    )
    pods = tuple(
        replace(pod, terminating=draw(maybe), running=draw(maybe), node_dead=draw(maybe))
        for pod in (a_serving_pod(), a_batch_pod(), a_batch_pod(name="z", role=Role.OTHER))
        if draw(maybe)
    )
    pool = a_pool(
        targets=tuple(draw(targets()) for _ in range(draw(st.integers(0, 1)))),
        queues=tuple(draw(queues(n)) for n in ("short", "resumable") if draw(st.integers(0, 3))),
        pods=pods,
        allocatable=draw(st.integers(0, 2)),
    )
    window = a_window(
        targets=(replace(
            a_window().targets[0], lowered=draw(maybe), restored=draw(maybe),
            replicas=draw(st.integers(0, 2)), claims=draw(st.integers(0, 1)),
        ),),
        on_return=rule.batch.on_return,
        restoring_since=draw(st.one_of(st.none(), ago)),
        give_back=draw(st.sampled_from(["", "DemandReturned", "YieldOverdue"])),
    )  # fmt: skip
    status = a_status(
        phase,
        since=draw(ago),
        window=window if phase is not Phase.SERVING else None,
        counters=Counters(corrections=draw(st.integers(0, 5)), windows=draw(st.integers(0, 9))),
        contested_by=draw(st.sampled_from(["", "", "argocd"])),
    )
    situation = a_situation(
        phase, rule=rule, status=status, pool=pool,
        load=Load(level=draw(st.sampled_from(list(Level))), since=draw(ago), why="x"),
        outlook=draw(st.sampled_from([None, an_outlook(), an_outlook(MINUTE)])),
        refusals=draw(st.sampled_from([(), (Refusal(Fault.NOT_ADOPTED, "adopt"),)])),
        rehearsal=draw(st.sampled_from([None, a_situation().rehearsal])),
        forced=draw(st.sampled_from([False, False, True])),
    )  # fmt: skip
    return with_rule(
        situation,
        rule=draw(st.sampled_from([rule, rule, None])),
        deleting=draw(st.sampled_from([False, False, True])),
        finalizer=draw(maybe),
        wake_until=draw(st.sampled_from([None, None, NOW + MINUTE, NOW - MINUTE])),
    )


many = settings(max_examples=150, deadline=None)


@many
@given(situations())
def test_every_situation_has_a_decision_with_a_reason_and_words(situation):
    decision = decide(situation)

    assert decision.reason.meaning
    assert decision.reason in explain(decision)
    assert decision.revisit_at >= situation.now


@many
@given(situations())
def test_a_change_of_phase_is_a_row_of_the_table_and_is_remembered_before_anything(situation):
    decision = decide(situation)

    if decision.changes_phase:
        rows = {(row.source, row.target, row.reason) for row in TRANSITIONS}
        assert (decision.before, decision.after, decision.reason) in rows
        writes = [a for a in decision.actions if type(a).__name__ != "HoldRule"]
        assert isinstance(writes[0], Remember)
        assert decision.status.epoch > situation.status.epoch


@many
@given(situations())
def test_serving_is_lowered_only_while_yielding_and_only_to_what_is_on_record(situation):
    decision = decide(situation)

    for action in decision.actions:
        if isinstance(action, ScaleToZero):
            assert decision.after is Phase.YIELDING
            record = {t.uid: t.replicas for t in decision.status.window.targets}
            assert record[action.uid] == action.replicas == situation.pool.targets[0].replicas


@many
@given(situations())
def test_serving_is_raised_only_from_our_zero_to_what_was_remembered(situation):
    decision = decide(situation)

    for action in decision.actions:
        if isinstance(action, ScaleBack):
            target = situation.pool.target(action.target)
            assert decision.after is Phase.RESTORING
            assert (target.uid, target.replicas) == (action.uid, 0)
            assert action.replicas > 0


@many
@given(situations())
def test_a_queue_is_opened_only_while_harvesting_without_a_serving_pod(situation):
    decision = decide(situation)

    for action in decision.actions:
        if isinstance(action, SetStopPolicy) and action.policy is StopPolicy.NONE:
            assert decision.after is Phase.HARVESTING
            assert not [p for p in situation.pool.pods if p.role is Role.SERVING]
            assert situation.pool.queue(action.queue).adopted_by == "b580"


@many
@given(situations())
def test_a_rule_that_may_not_act_never_opens_a_window(situation):
    decision = decide(situation)

    if decision.after is Phase.YIELDING and decision.changes_phase:
        rule = situation.rule
        assert rule is not None
        assert (rule.mode, rule.paused, situation.object.deleting) == (Mode.ACT, False, False)
        assert situation.load.level is Level.IDLE
        assert not situation.refusals


@many
@given(situations())
def test_unknown_or_present_demand_never_gives_anything_away(situation):
    decision = decide(replace(situation, load=replace(situation.load, level=Level.UNKNOWN)))

    assert not (decision.before is Phase.SERVING and decision.after is Phase.YIELDING)


@many
@given(situations())
def test_deciding_twice_on_what_was_written_writes_no_status_again(situation):
    first = decide(situation)
    if first.changes_phase:
        return

    again = decide(with_rule(situation, status=first.status))

    if not again.changes_phase and again.reason is first.reason:
        assert again.status == first.status


minutes = st.integers(-90, 90) | st.integers(-(10**9), 4 * 10**9)
ends = st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
instants = st.one_of(st.none(), ends, minutes.map(lambda n: NOW + n * MINUTE))
counts = st.integers(0, 9)
tallies = st.builds(
    Tallies,
    observe=st.none()
    | st.builds(Tally, since=instants, until=instants, windows=counts, late_returns=counts),
    act=st.none()
    | st.builds(Tally, since=instants, until=instants, windows=counts, late_returns=counts),
    would_be=st.none()
    | st.builds(
        WouldBe,
        opened_at=instants,
        back_at=instants,
        wanted_at=instants,
        again_at=instants,
        windows_today=st.integers(0, 30),
        day=st.sampled_from(["", "2026-03-04"]),
    ),
    wanted_at=instants,
)


@many
@given(situations(), tallies)
def test_nothing_is_decided_by_a_tally(situation, told):
    """It may have the pool looked at earlier, and the status written; nothing else."""

    def decided(tallies):
        status = replace(situation.status, tallies=tallies)
        found = decide(with_rule(situation, status=status))
        actions = tuple(a for a in found.actions if not isinstance(a, Remember))
        status = replace(found.status, tallies=Tallies())
        return replace(found, actions=actions, status=status, revisit_at=NOW), found.revisit_at

    (without, late), (beside, early) = decided(Tallies()), decided(told)

    assert beside == without
    assert early > NOW or late == NOW
