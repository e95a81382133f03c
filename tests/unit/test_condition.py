"""Conditions that ask for a person: seen where they hold, and told in words that help."""

from __future__ import annotations

import re
from dataclasses import replace

from idlewin.core.condition import ConditionType
from idlewin.core.decide import decide
from idlewin.core.phase import Phase
from tests.builders import (
    HOUR,
    NOW,
    a_batch_pod,
    a_lowered_target,
    a_pool,
    a_queue,
    a_situation,
    a_status,
    a_window,
    a_workload,
)
from tests.docs import DOCS, STANDING


def test_a_return_that_batch_keeps_out_past_its_time_is_an_alarm_that_names_it():
    bare = replace(a_window().targets[0], claims=0)
    status = a_status(Phase.RECLAIMING, since=NOW - HOUR, window=a_window(targets=(bare,)))
    pool = a_pool(targets=(a_lowered_target(claims=0),), pods=(a_batch_pod(terminating=True),))

    decision = decide(a_situation(Phase.RECLAIMING, status=status, pool=pool))

    assert decision.after is Phase.RECLAIMING
    assert "batch/job-x keeps serving out" in "".join(decision.alarms)


def test_a_target_that_cannot_be_raised_is_an_alarm_as_one_that_does_not_get_ready():
    window = a_window(restoring_since=NOW - HOUR)
    pool = a_pool(targets=(a_lowered_target(),), pods=())

    decision = decide(
        a_situation(Phase.RESTORING, status=a_status(Phase.RESTORING, window=window), pool=pool)
    )

    assert decision.after is Phase.RESTORING
    assert "Deployment ai/qwen 0/2 ready" in "".join(decision.alarms)


def test_work_that_kueue_took_back_for_its_pods_is_named_with_what_to_do():
    queue = a_queue(workloads=(a_workload(timed_out=True, active=False),))

    decision = decide(a_situation(pool=a_pool(queues=(queue, a_queue("resumable")))))

    (told,) = (c for c in decision.status.conditions if c.type == "PodsNotReadyInTime")
    assert "took back batch/job" in told.message
    assert not decision.alarms


def test_quota_for_more_cards_than_there_are_is_told_and_hinders_nothing():
    fits, much = (decide(a_situation(pool=replace(a_pool(), quota=quota))) for quota in (1, 2))

    told = [c.message for c in much.status.conditions if c.type == "QuotaTooLarge"]
    assert "for 2 cards, and the rule has 1" in told[0]
    assert not [c for c in fits.status.conditions if c.type == "QuotaTooLarge"]
    assert (much.after, much.alarms) == (fits.after, fits.alarms)


def test_two_conditions_stand_and_are_true_while_nothing_is_wrong():
    decision = decide(a_situation())

    assert {c.type: c.status for c in decision.status.conditions} == dict.fromkeys(STANDING, "True")


def test_every_condition_that_tells_of_trouble_is_on_the_page_about_trouble():
    _, _, trouble = (DOCS / "operations.md").read_text().partition("\n## Trouble\n")
    told = set(re.findall(r"^\| `(\w+)`", trouble.partition("\n## ")[0], flags=re.MULTILINE))

    # Demand that cannot be told is there under its reason.
    assert set(ConditionType) - {ConditionType.LOAD_KNOWN} - told == set()
    assert "LoadUnknown" in told
