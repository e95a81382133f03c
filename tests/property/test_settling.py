"""Kinds whose size rests on more than replicas: settings, and a hold until they are ready."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decide import decide
from idlewin.core.decision import ForgetRecord, ScaleBack, ScaleToZero
from idlewin.core.phase import Phase
from idlewin.core.pool import Pod, Record, Role
from idlewin.core.reason import Reason
from tests.builders import (
    MINUTE,
    NOW,
    a_lowered_target,
    a_pool,
    a_situation,
    a_status,
    a_target,
    a_window,
    gone,
    with_rule,
)

SETTINGS = {"autoscaling.keda.sh/paused-replicas": "2"}
HELD = a_target(
    ready=2,
    settling=True,
    replicas_writer="idlewin",
    record=Record(rule="b580", uid="t1", replicas=2, epoch=1, settings=SETTINGS),
)


def restoring(target, *, restored=True):
    entry = replace(a_window().targets[0], settings=SETTINGS, lowered=True, restored=restored)
    status = a_status(Phase.RESTORING, window=a_window(targets=(entry,)))
    return a_situation(Phase.RESTORING, status=status, pool=gone(targets=(target,)))


def forgotten(decision):
    return [action for action in decision.actions if isinstance(action, ForgetRecord)]


def test_it_comes_back_with_its_settings():
    (back,) = [
        action
        for action in decide(restoring(a_lowered_target(), restored=False)).actions
        if isinstance(action, ScaleBack)
    ]

    assert back.settings == SETTINGS


@pytest.mark.parametrize("restored", [True, False])
def test_what_we_hold_is_let_go_once_it_is_ready(restored):
    starting = decide(restoring(replace(HELD, ready=1), restored=restored))
    (let_go,) = forgotten(decide(restoring(HELD, restored=restored)))

    assert forgotten(starting) == []
    assert let_go.settings == SETTINGS


def test_a_rule_that_is_deleted_does_not_wait_for_what_it_holds():
    situation = restoring(replace(HELD, ready=0))
    deleted = replace(situation, object=replace(situation.object, deleting=True, finalizer=True))

    assert len(forgotten(decide(deleted))) == 1


def test_a_return_is_not_over_while_we_hold_a_target():
    decision = decide(restoring(HELD))

    assert decision.after is Phase.RESTORING
    assert decide(restoring(replace(HELD, settling=False, record=None))).after is Phase.SERVING


def test_settings_come_back_from_the_record_alone():
    record = Record(rule="b580", uid="t1", replicas=2, epoch=1, settings=SETTINGS)
    lost = with_rule(
        a_situation(pool=gone(targets=(a_lowered_target(record=record),))), status=None
    )

    assert decide(lost).status.window.targets[0].settings == SETTINGS


def yielding(target, *, lowered=False):
    entry = replace(a_window().targets[0], settings=SETTINGS, lowered=lowered)
    status = replace(
        a_status(Phase.YIELDING), since=NOW - MINUTE, window=a_window(targets=(entry,))
    )
    return a_situation(Phase.YIELDING, status=status, pool=a_pool(targets=(target,)))


def test_it_is_lowered_only_with_the_settings_that_were_remembered():
    same = decide(yielding(a_target(settings=SETTINGS)))
    other = decide(yielding(a_target(settings={})))

    (lower,) = [action for action in same.actions if isinstance(action, ScaleToZero)]
    assert lower.settings == SETTINGS
    assert other.reason is Reason.TARGET_CHANGED


def test_who_does_not_heed_a_switch_is_told_with_it():
    target = a_lowered_target(lever="the annotation x; is KServe running?")
    pod = Pod(namespace="ai", name="p", uid="p", role=Role.SERVING, owner=str(target.ref))
    situation = yielding(target, lowered=True)
    held = replace(
        situation,
        now=NOW + 60 * MINUTE,
        pool=replace(situation.pool, pods=(pod,)),
    )

    decision = decide(held)

    assert decision.reason is Reason.YIELD_OVERDUE
    assert decision.status.window.failure.endswith(
        f"{target.ref} was told to stop by the annotation x; is KServe running?"
    )
