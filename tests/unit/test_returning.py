"""Giving back without a controller: rules look paused, demand is not asked."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from idlewin.adapters.returning import Returning, UnaskedMetrics
from idlewin.cli.give_back import _Task, _until_back
from idlewin.core.decision import Check, Decision, Outcome, Remember, Verdict
from idlewin.core.load import Level, judge
from idlewin.core.phase import Phase
from idlewin.core.pool import RuleObject
from idlewin.core.reason import Reason
from idlewin.core.status import Owed, OwedQueue, OwedWorkload, Status
from idlewin.errors import IdlewinError
from idlewin.service import AloneLease
from tests.builders import a_rule

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


class Shown:
    def __init__(self, **rules):
        self.rules = rules

    def rule(self, name):
        return self.rules.get(name)

    def apply(self, action):
        return Outcome(action, Verdict.GONE)


class Noon:
    def now(self):
        return NOW


def stored(name, rule):
    return RuleObject(name=name, uid="u", generation=1, resource_version="1", rule=rule)


def test_only_the_named_rules_look_paused_and_nothing_else_of_them_changes():
    asked, other = stored("asked", a_rule()), stored("other", a_rule())
    cluster = Returning(Shown(asked=asked, other=other), ["asked"])

    assert cluster.rule("asked") == replace(asked, rule=replace(asked.rule, paused=True))
    assert cluster.rule("other") is other
    assert cluster.rule("none") is None


def test_a_rule_that_cannot_be_read_is_left_as_it_is():
    broken = stored("broken", None)

    assert Returning(Shown(broken=broken), ["broken"]).rule("broken") is broken


def test_demand_that_is_not_asked_is_unknown_now_and_in_the_past():
    metrics = UnaskedMetrics(Noon())

    level, _ = judge(metrics.read(a_rule()), at_zero=("Deployment ai/qwen",))
    history = metrics.history(a_rule(), timedelta(days=1), timedelta(minutes=1))

    assert level is Level.UNKNOWN
    assert history.unknown == (history.covers,)
    assert history.covers.end == NOW


def test_a_rule_that_is_gone_is_stood_in_for_and_remembers_till_it_is_made_anew():
    shown = Shown()
    cluster = Returning(shown, [], gone=["lost"])
    status = Status(phase="Reclaiming", epoch=4)

    first = cluster.rule("lost")
    outcome = cluster.apply(Remember("lost", "", None, status))
    second = cluster.rule("lost")
    shown.rules["lost"] = again = stored("lost", a_rule())

    assert (first.deleting, first.finalizer, first.rule, first.status) == (True, False, None, None)
    assert (outcome.verdict, second.status) == (Verdict.DONE, status)
    assert cluster.rule("lost") is again
    assert cluster.apply(Remember("lost", "1", None, status)).verdict is Verdict.GONE
    assert cluster.apply(Remember("other", "1", None, status)).verdict is Verdict.GONE


class Stumbles:
    """A controller whose cycle fails for one rule, and finds the other gone."""

    def cycle(self, name, *, forced=False):
        if name == "bad" or forced:
            raise KeyError(name)


def test_a_rule_whose_cycle_fails_keeps_no_other_from_coming_back(capsys):
    task = _Task(rules=("bad", "good"), paused=True, gone=(), lease=AloneLease())

    with pytest.raises(IdlewinError, match="bad: its cycle failed"):
        _until_back(Stumbles(), task, Event(), timedelta(), force=False)

    assert "good: the rule is gone" in capsys.readouterr().out


WORK = OwedWorkload(namespace="batch", name="asleep", uid="w")
LOCAL = OwedQueue(
    namespace="batch", name="closed", uid="l", cluster_queue="q", wrote="Hold", was="", at=NOW
)


class Serves:
    """A controller with nothing to do: serving is back, with so much owed."""

    def __init__(self, owed, *, deleted):
        self.owed, self.deleted = owed, deleted

    def cycle(self, name, **_how):
        check = Check("deleted", not self.deleted, "", "", Reason.RULE_CHANGED)
        return Decision(
            rule=name, at=NOW, before=Phase.SERVING, after=Phase.SERVING,
            reason=Reason.RULE_CHANGED, checks=(check,), revisit_at=NOW,
            status=Status(phase="Serving", owed=self.owed),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("owed", "named"),
    [(Owed(workloads=(WORK,)), "Workload batch/asleep"),
     (Owed(local_queues=(LOCAL,)), "LocalQueue batch/closed")],
)  # fmt: skip
def test_of_a_rule_that_goes_nothing_is_left_asleep_or_closed_for_ever(owed, named):
    task = _Task(rules=(), paused=False, gone=("lost",), lease=AloneLease())

    with pytest.raises(IdlewinError, match=f"lost: its deletion: {named}"):
        _until_back(Serves(owed, deleted=True), task, Event(), timedelta(), force=False)


def test_of_a_rule_that_stays_what_is_owed_is_left_to_the_next_controller(capsys):
    task = _Task(rules=("here",), paused=True, gone=(), lease=AloneLease())

    controller = Serves(Owed(workloads=(WORK,)), deleted=False)
    _until_back(controller, task, Event(), timedelta(), force=False)

    assert "here: serving is back" in capsys.readouterr().out
