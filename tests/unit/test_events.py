"""What Events say, and on what: the rule, and serving while it is away."""

from __future__ import annotations

from dataclasses import replace

from idlewin.adapters.events import events_of
from idlewin.core.decide import decide
from idlewin.core.phase import Phase
from tests.builders import a_pool, a_situation, a_status, a_target, a_window, away, gone


def told(situation):
    return {
        event["regarding"]["kind"]: event
        for event in events_of(decide(situation), "r1", "idlewin-0")
    }


def test_serving_is_told_who_lowers_it_till_when_and_how_to_have_it_back():
    events = told(a_situation())

    event = events["Deployment"]
    assert (event["metadata"]["namespace"], event["regarding"]["uid"]) == ("ai", "t1")
    assert "rule b580 scales it from 2 to 0" in event["note"]
    assert "until about 2026-03-04T0" in event["note"]
    assert "'idlewin wake b580'" in event["note"]
    assert events["IdleRule"]["metadata"]["namespace"] == "default"


def test_serving_is_told_that_it_comes_back():
    event = told(away(Phase.RECLAIMING))["Deployment"]

    assert "gives it back, as it was: 2 replicas" in event["note"]


def test_a_target_that_was_at_zero_before_us_is_told_nothing():
    zero = replace(a_window().targets[0], replicas=0, lowered=False)
    status = a_status(Phase.RECLAIMING, window=a_window(targets=(zero,)))

    assert set(told(a_situation(Phase.RECLAIMING, status=status))) == {"IdleRule"}
    assert set(told(a_situation(pool=a_pool(targets=(a_target(replicas=0, ready=0),))))) == {
        "IdleRule"
    }


def test_a_give_back_names_what_was_seen():
    raised = a_target(replicas=3, replicas_writer="argocd-controller")
    event = told(away(Phase.HARVESTING, pool=gone(targets=(raised,))))["IdleRule"]

    assert event["reason"] == "ServingRaised"
    assert "Deployment ai/qwen by argocd-controller" in event["note"]


def test_an_alarm_without_a_change_of_phase_is_a_warning_that_says_so():
    lost = gone(targets=(replace(a_target(replicas=0, ready=0), replicas_writer="idlewin"),))
    (event,) = events_of(
        decide(a_situation(pool=lost, status=a_status(since=None))), "r1", "idlewin-0"
    )

    assert event["type"] == "Warning"
    assert event["note"].startswith("Serving: ")
    assert "scale it by hand" in event["note"]
