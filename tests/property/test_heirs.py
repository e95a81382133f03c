"""A target that scales something else, or is gone, in a window: what it scaled is brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from idlewin.adapters.api import Api
from idlewin.adapters.look import targets_of
from idlewin.adapters.serving import SCALED_OBJECT
from idlewin.adapters.watched import Watched
from idlewin.codec import read_record, write_record
from idlewin.core.decide import decide
from idlewin.core.decision import ScaleBack, ScaleToZero
from idlewin.core.phase import Phase
from idlewin.core.pool import Record, Scope, Target
from idlewin.core.reason import Reason
from idlewin.core.scope import scope_of
from idlewin.core.situation import Situation
from idlewin.core.target import Ref, Scaled
from tests.builders import (
    QWEN,
    XE,
    a_batch_pod,
    a_situation,
    a_target,
    a_window,
    away,
    gone,
    with_rule,
)
from tests.property.facts import in_window
from tests.property.test_switched_kinds import (
    PAUSED as FROZEN,
    a_deployment,
    a_scaled_object,
    read,
)

PAUSED = Ref(api_version="keda.sh/v1alpha1", kind="ScaledObject", namespace="ai", name="q")
AIM = Scaled(ref=QWEN, uid="d1", by="keda")
OTHER = Scaled(ref=replace(QWEN, name="other"), uid="d9", by="keda")
REMEMBERED = replace(
    a_window().targets[0],
    ref=PAUSED,
    uid="s1",
    replicas=2,
    lowered=True,
    settings={"generation": "5"},
    scaled=AIM,
)


def left(**changes: Any) -> Target:
    """What KEDA leaves of a Deployment whose ScaledObject is deleted while it is paused at 0."""
    found = {"uid": "d1", "replicas": 0, "ready": 0, "replicas_writer": "keda", **changes}
    return a_target(record=None, **found)


def paused(**changes: Any) -> Target:
    """The ScaledObject at our zero."""
    found = {"uid": "s1", "replicas": 0, "ready": 0, "replicas_writer": "idlewin", "scaled": AIM}
    return a_target(ref=PAUSED, **(found | changes))


def found(*targets: Target, phase: Phase = Phase.RESTORING, **changes: Any) -> Situation:
    pods = (a_batch_pod(),) if phase is Phase.HARVESTING else ()
    s = away(phase, pool=gone(targets=targets, pods=pods))
    s = in_window(targets=(replace(REMEMBERED, **changes),))(s)
    assert s.rule is not None
    names = {name: getattr(PAUSED, name) for name in ("api_version", "kind", "namespace", "name")}
    serving = (replace(s.rule.serving[0], **names),)
    return with_rule(s, rule=replace(s.rule, serving=serving))


def raised(s: Situation) -> list[ScaleBack]:
    return [action for action in decide(s).actions if isinstance(action, ScaleBack)]


@pytest.mark.parametrize("restored", [False, True], ids=["not yet", "its pause was, at the count"])
def test_what_it_scaled_comes_back_to_its_count_and_is_on_record(restored):
    s = found(left(), restored=restored)

    (back,) = raised(s)

    assert (back.target, back.uid, back.replicas, back.by) == (QWEN, "d1", 2, "keda")
    window = decide(s).status.window
    assert window is not None
    assert window.targets[0].ref == QWEN
    again = with_rule(s, status=decide(s).status)
    assert raised(again) == [back], "from the status, which names it now"


@pytest.mark.parametrize(
    "now",
    [
        left(replicas_writer="kubectl"),
        left(uid="d2"),
        left(replicas=1, ready=1, replicas_writer="kubectl"),
        a_target(ref=PAUSED, uid="s2", replicas=0, ready=0, replicas_writer="kubectl"),
    ],
    ids=["a person's zero", "another of its name", "somebody raised it", "made anew"],
)
def test_what_is_anothers_by_now_is_left_alone(now):
    assert raised(found(now)) == []


def test_one_that_lives_is_brought_back_itself():
    assert [back.target for back in raised(found(paused(), left()))] == [PAUSED]


@pytest.mark.parametrize("to", [OTHER, replace(OTHER, uid="")], ids=["another", "none that exists"])
def test_what_it_scaled_comes_back_where_it_scales_something_else_now(to):
    s = found(paused(scaled=to), left())

    assert [(b.target, b.replicas, b.by) for b in raised(s)] == [(PAUSED, 2, ""), (QWEN, 2, "keda")]
    again = with_rule(s, status=decide(s).status)
    assert raised(again) == raised(s), "once, from the status, which names both now"
    window = decide(again).status.window
    assert window is not None
    assert [(one.ref, one.scaled, one.scaled_by) for one in window.targets] == [
        (PAUSED, None, None),
        (QWEN, None, PAUSED),
    ]


@pytest.mark.parametrize(
    "now",
    [
        (),
        (left(replicas_writer="kubectl"),),
        (left(replicas=1, ready=1, replicas_writer="kubectl"),),
        (left(uid="d2"),),
    ],
    ids=["scaled by another, or gone", "a person's zero", "somebody raised it", "another"],
)
def test_what_it_scaled_is_left_alone_where_it_is_anothers_by_now(now):
    assert [back.target for back in raised(found(paused(scaled=OTHER), *now))] == [PAUSED]


@pytest.mark.parametrize("others", [(), (left(),)], ids=["gone", "at our zero"])
def test_a_window_ends_when_its_target_scales_something_else(others):
    decision = decide(found(paused(scaled=OTHER), *others, phase=Phase.HARVESTING))

    assert decision.reason is Reason.TARGET_CHANGED


@pytest.mark.parametrize("lowered", [True, False], ids=["heard", "unheard"])
def test_what_its_owner_paused_at_zero_in_the_window_stays_there_when_it_is_deleted(lowered):
    def deleted_after(writer: str) -> Situation:
        seen = found(paused(replicas_writer=writer), phase=Phase.HARVESTING, lowered=lowered)
        status = replace(decide(seen).status, phase=Phase.RESTORING.value)
        return with_rule(found(left()), status=status)

    assert raised(deleted_after("kubectl")) == []
    assert [back.target for back in raised(deleted_after("idlewin"))] == [QWEN]
    assert [back.target for back in raised(deleted_after("keda"))] == [QWEN], "that is ours too"


def test_a_window_whose_scaler_is_not_known_ends_for_what_has_happened():
    decision = decide(found(left(), phase=Phase.HARVESTING, scaled=replace(AIM, by="")))

    assert decision.reason is Reason.TARGET_CHANGED


def test_what_it_scales_is_on_its_record_too():
    """So it comes back too where the status is lost, and it scales something else by then."""
    up = paused(replicas=2, ready=2, replicas_writer="keda", settings=REMEMBERED.settings)
    s = found(up, phase=Phase.YIELDING, lowered=False)
    (lower,) = (action for action in decide(s).actions if isinstance(action, ScaleToZero))
    kept = {"rule": lower.rule, "uid": lower.uid, "replicas": 2, "epoch": lower.epoch}
    record, why = read_record(write_record(Record(**kept, scaled=lower.scaled)))
    assert why == ""

    lost = a_situation(pool=gone(targets=(paused(record=record, scaled=OTHER),)))
    status = replace(decide(lost).status, phase=Phase.RESTORING.value)
    now = with_rule(found(paused(record=record, scaled=OTHER), left()), status=status)

    assert [back.target for back in raised(now)] == [PAUSED, QWEN]


@pytest.mark.parametrize("scaled", [OTHER, AIM], ids=["for something else", "for it, but frozen"])
def test_one_made_anew_that_does_not_raise_it_leaves_it_to_us(scaled):
    """As a look shows it: what nothing brings to a count is there beside the new one."""
    anew = paused(uid="s2", replicas_writer="kubectl", scaled=scaled)

    assert [back.target for back in raised(found(anew, left()))] == [QWEN]


def test_a_window_ends_when_what_scaled_serving_is_deleted():
    decision = decide(found(left(), phase=Phase.HARVESTING))

    assert decision.reason is Reason.TARGET_CHANGED


def test_a_window_is_not_over_before_it_is_ready():
    starting = left(replicas=2, replicas_writer="idlewin")

    assert decide(found(starting)).after is Phase.RESTORING
    assert decide(found(replace(starting, ready=2))).after is Phase.SERVING


def test_what_is_scaled_is_looked_at_beside_the_target():
    scope = scope_of(found().object)

    assert (PAUSED in scope.targets, scope.heirs) == (True, (QWEN,))


def test_what_is_inherited_is_looked_at_on_no_other_terms():
    s = found(left())

    scope = scope_of(with_rule(s, status=decide(s).status).object)

    assert (scope.targets, scope.heirs) == ((PAUSED,), (QWEN,))


def a_scaler(name: str, scales: str, **annotations: str) -> dict[str, Any]:
    raw = a_scaled_object(**annotations)
    raw["metadata"] |= {"name": name, "uid": f"uid of {name}"}
    raw["spec"]["scaleTargetRef"] = {"name": scales}
    return raw


@pytest.mark.parametrize(
    ("others", "seen"),
    [
        ([], True),
        ([a_scaler("q", QWEN.name)], False),
        ([a_scaler("renamed", QWEN.name)], False),
        ([a_scaler("renamed", "something-else")], True),
        ([a_scaler("q", QWEN.name, paused="true")], True),
        ([a_scaler("q", QWEN.name, paused="true"), a_scaler("renamed", QWEN.name)], False),
        ([a_scaler("q", QWEN.name, paused="false")], False),
        ([a_scaler("q", QWEN.name, **{f"{FROZEN}-scale-out": "true"})], True),
        ([a_scaler("q", QWEN.name, **{f"{FROZEN}-scale-in": "true"})], False),
        ([a_scaler("q", QWEN.name, paused_at="0", paused="true")], False),
        ([a_scaler("q", QWEN.name, paused_at="3")], False),
        ([a_scaler("q", QWEN.name, paused_at="three")], True),
    ],
    ids=[
        "none",
        "one of its name",
        "one of another name",
        "one of something else",
        "frozen",
        "one of two is frozen",
        "not frozen",
        "frozen upwards",
        "frozen downwards",
        "a person's own zero",
        "a count that KEDA brings it to",
        "a count that KEDA cannot read",
    ],
)
def test_what_another_scaled_object_scales_by_now_is_left_to_that_one(others, seen):
    stores = Watched(Api.__new__(Api))
    stores.serving[QWEN.kind].upsert(a_deployment(QWEN.name))
    for raw in others:
        stores.serving[SCALED_OBJECT.kind].upsert(raw)
    scope = Scope(rule="b580", targets=(PAUSED,), queues=(), resource=XE, heirs=(QWEN,))

    refs = [kind.ref(raw) for kind, raw in targets_of(stores, scope)]

    assert (QWEN in refs) is seen


def test_a_scaled_object_tells_what_it_scales_and_as_whom_keda_writes_it():
    raw = a_scaled_object(below=a_deployment("web"))
    kept = {"f:status": {"f:scaleTargetKind": {}}}
    raw["metadata"]["managedFields"].append(
        {"manager": "keda", "time": "2026-03-01T12:00:00Z", "fieldsV1": kept}
    )

    scaled = read(SCALED_OBJECT, raw).scaled

    assert scaled == Scaled(ref=SCALED_OBJECT.scaled(raw), uid="d1", by="keda")
    unknown = read(SCALED_OBJECT, a_scaled_object()).scaled
    assert unknown == Scaled(ref=SCALED_OBJECT.scaled(raw), uid="", by="keda"), "as KEDA does"
