"""A target whose controller's object is deleted in a window: what that scaled is brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from idlewin.adapters.api import Api
from idlewin.adapters.look import targets_of
from idlewin.adapters.serving import SCALED_OBJECT
from idlewin.adapters.watched import Watched
from idlewin.core.decide import decide
from idlewin.core.decision import ScaleBack
from idlewin.core.phase import Phase
from idlewin.core.pool import Scope, Target
from idlewin.core.reason import Reason
from idlewin.core.scope import scope_of
from idlewin.core.situation import Situation
from idlewin.core.target import Ref, Scaled
from tests.builders import QWEN, XE, a_batch_pod, a_target, a_window, away, gone, with_rule
from tests.property.facts import in_window
from tests.property.test_switched_kinds import a_deployment, a_scaled_object, read

PAUSED = Ref(api_version="keda.sh/v1alpha1", kind="ScaledObject", namespace="ai", name="q")
REMEMBERED = replace(
    a_window().targets[0],
    ref=PAUSED,
    uid="s1",
    replicas=2,
    lowered=True,
    settings={"generation": "5"},
    scaled=Scaled(ref=QWEN, uid="d1", by="keda"),
)


def left(**changes: Any) -> Target:
    """What KEDA leaves of a Deployment whose ScaledObject is deleted while it is paused at 0."""
    found = {"uid": "d1", "replicas": 0, "ready": 0, "replicas_writer": "keda", **changes}
    return a_target(record=None, **found)


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
    paused = a_target(ref=PAUSED, uid="s1", replicas=0, ready=0, replicas_writer="idlewin")

    assert [back.target for back in raised(found(paused, left()))] == [PAUSED]


def test_one_made_anew_for_something_else_leaves_it_to_us():
    """As a look shows it: what nothing scales is there beside the new one."""
    anew = a_target(ref=PAUSED, uid="s2", replicas=1, ready=1, replicas_writer="kubectl")

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


def a_scaler(name: str, scales: str) -> dict[str, Any]:
    raw = a_scaled_object()
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
    ],
    ids=["none", "one of its name", "one of another name", "one of something else"],
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
    assert read(SCALED_OBJECT, a_scaled_object()).scaled is None
