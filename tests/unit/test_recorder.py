"""The recorder: it looks for real, keeps what it would write, and sends nothing."""

from dataclasses import replace

import pytest

from idlewin.adapters.recorder import KEPT, Recorder
from idlewin.core.decision import HoldRule, ReleaseRule, Remember, ScaleBack, Verdict
from idlewin.core.pool import Pool, RuleObject, Scope
from idlewin.core.status import Status
from idlewin.core.target import Ref
from idlewin.ports import LookError

SERVER = Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name="qwen")
SCOPE = Scope(rule="b580", targets=(SERVER,), queues=(), resource="gpu.intel.com/xe")
YIELDING = Status(phase="Yielding", epoch=3)


class Shown:
    """The reads of a cluster with one rule. It has no write: a recorder that tried would fail."""

    def __init__(self):
        self.stored = RuleObject(
            name="b580", uid="u1", generation=1, resource_version="7", rule=None
        )
        self.away = False

    def names(self):
        return [self.stored.name] if self.stored else []

    def rule(self, name):
        return self.stored if self.stored and name == self.stored.name else None

    def look(self, scope, *, fresh=False):
        if self.away:
            raise LookError("no answer")
        return Pool(allocatable=1, nodes=(f"{scope.rule}-{fresh}",))


@pytest.fixture
def shown():
    return Shown()


@pytest.fixture
def recorder(shown):
    return Recorder(shown)


def remember(status=YIELDING):
    return Remember("b580", "7", None, status)


def test_looks_are_real_and_fail_as_the_real_ones_do(shown, recorder):
    assert recorder.look(SCOPE, fresh=True).nodes == ("b580-True",)

    shown.away = True

    with pytest.raises(LookError):
        recorder.look(SCOPE)


def test_what_would_be_written_is_kept_and_counts_as_done(recorder):
    actions = (HoldRule("b580", "1"), remember(), ScaleBack(SERVER, "u2", 2, "b580", 9))

    outcomes = [recorder.apply(action) for action in actions]

    assert recorder.written == actions
    assert {outcome.verdict for outcome in outcomes} == {Verdict.DONE}
    assert all("dry run" in outcome.message for outcome in outcomes)


def test_the_phase_goes_on_in_memory_while_the_spec_stays_the_stored_one(shown, recorder):
    recorder.apply(remember())
    shown.stored = replace(shown.stored, generation=2, resource_version="9")

    rule = recorder.rule("b580")

    assert rule.status == YIELDING
    assert (rule.generation, rule.resource_version) == (2, "9")
    assert shown.stored.status is None


def test_a_status_that_could_not_be_read_is_replaced_by_the_remembered_one(shown, recorder):
    shown.stored = replace(shown.stored, status_error="status.phase: 3 is no text")

    recorder.apply(remember())

    assert recorder.rule("b580").status_error == ""


def test_the_finalizer_is_remembered_too(recorder):
    recorder.apply(HoldRule("b580", "1"))
    held = recorder.rule("b580").finalizer

    recorder.apply(ReleaseRule("b580", "1"))

    assert (held, recorder.rule("b580").finalizer) == (True, False)


def test_a_rule_that_is_made_anew_begins_anew(shown, recorder):
    recorder.apply(remember())

    shown.stored = replace(shown.stored, uid="u2")

    assert recorder.rule("b580").status is None


def test_a_rule_that_is_gone_is_forgotten(shown, recorder):
    recorder.apply(remember())
    stored, shown.stored = shown.stored, None
    assert recorder.names() == []
    assert recorder.rule("b580") is None

    shown.stored = stored

    assert recorder.rule("b580").status is None


def test_remembering_for_a_rule_that_is_gone_is_harmless(shown, recorder):
    shown.stored = None

    assert recorder.apply(remember()).verdict is Verdict.DONE
    assert recorder.rule("b580") is None


def test_the_record_is_bounded(recorder):
    for _ in range(KEPT + 5):
        recorder.apply(HoldRule("b580", "1"))

    assert len(recorder.written) == KEPT


def test_nothing_is_asked_by_a_rehearsal(recorder):
    assert recorder.rehearse((remember(),)) == ()
    assert recorder.written == ()
