"""Kinds that are stopped by a switch of their own controller: KServe's stop, KEDA's pause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin import rulecheck
from idlewin.adapters.serving import INFERENCE_SERVICE, KINDS, SCALED_OBJECT, Around
from idlewin.adapters.serving.deployment import DEPLOYMENT
from idlewin.codec import write_record
from idlewin.core.pool import Record
from idlewin.core.target import Scaled

GPU = "gpu.intel.com/xe"
STOP = "serving.kserve.io/stop"
PAUSED_AT = "autoscaling.keda.sh/paused-replicas"
PAUSED = "autoscaling.keda.sh/paused"
RECORD = "idlewin.dev/record"
ISVC_RECORD = Record(rule="r", uid="i1", replicas=2, epoch=3, settings={"claims": "1"})
SO_RECORD = Record(rule="r", uid="s1", replicas=2, epoch=3, settings={"generation": "5"})


def written(manager, *annotations):
    fields = {f"f:{name}": {} for name in annotations}
    tree = {"f:metadata": {"f:annotations": fields}}
    return [{"manager": manager, "time": "2026-03-01T12:00:00Z", "fieldsV1": tree}]


def a_deployment(name, *, replicas=2, generation=5, owner="", annotations=None, writer="keda"):
    refs = [{"kind": "InferenceService", "apiVersion": "serving.kserve.io/v1beta1", "name": "m"}]
    refs[0] |= {"uid": owner, "controller": True}
    container = {"name": "c", "resources": {"limits": {GPU: "1"}}}
    scaled = {"f:spec": {"f:replicas": {}}}
    return {
        "metadata": {
            "name": name,
            "namespace": "ai",
            "uid": "d1",
            "resourceVersion": "8",
            "generation": generation,
            "annotations": annotations or {},
            "ownerReferences": refs if owner else [],
            "managedFields": [
                {"manager": writer, "time": "2026-03-01T12:00:00Z", "fieldsV1": scaled}
            ],
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "q"}},
            "template": {"metadata": {"labels": {"app": "q"}}, "spec": {"containers": [container]}},
        },
        "status": {"readyReplicas": replicas},
    }


def an_isvc(*, manager="kubectl", conditions=("Ready", "Stopped"), below=None, **annotations):
    marks = {name.replace("stop", STOP): text for name, text in annotations.items()}
    return {
        "metadata": {
            "name": "m",
            "namespace": "ai",
            "uid": "i1",
            "resourceVersion": "7",
            "generation": 1,
            "annotations": marks,
            "managedFields": written(manager, *marks),
        },
        "spec": {"predictor": {"model": {"resources": {"limits": {GPU: "2"}}}}},
        "status": {"conditions": [{"type": name, "status": "True"} for name in conditions]},
        "scaled": below,
    }


def a_scaled_object(*, manager="kubectl", below=None, acted=None, **annotations):
    names = {"paused_at": PAUSED_AT, "paused": PAUSED}
    marks = {names.get(name, name): text for name, text in annotations.items()}
    return {
        "metadata": {
            "name": "q",
            "namespace": "ai",
            "uid": "s1",
            "resourceVersion": "7",
            "generation": 1,
            "annotations": marks,
            "managedFields": written(manager, *marks),
        },
        "spec": {"scaleTargetRef": {"name": "web"}},
        "status": {} if acted is None else {"pausedReplicaCount": acted},
        "scaled": below,
    }


def stored(kind, raw):
    """As a look has it: trimmed, with what it scales trimmed too."""
    below = raw["scaled"]
    return {**kind.trim(raw), "scaled": DEPLOYMENT.trim(below) if below else None}


def read(kind, raw, **around):
    return kind.read(stored(kind, raw), Around(resource=GPU, **around))


def patched(raw, patch, manager="idlewin"):
    """The object after one of our merge patches."""
    after = {**raw, "metadata": {**raw["metadata"]}}
    marks = {**raw["metadata"]["annotations"], **patch["metadata"]["annotations"]}
    after["metadata"]["annotations"] = {n: t for n, t in marks.items() if t is not None}
    after["metadata"]["managedFields"] = written(manager, *patch["metadata"]["annotations"])
    return after


def test_a_rule_may_name_each_kind_that_can_be_lowered_and_no_other():
    assert [(kind.api_version, kind.kind) for kind in KINDS] == [*rulecheck.KINDS]


@pytest.mark.parametrize("kind", [k for k in KINDS if k.optional], ids=lambda kind: kind.kind)
def test_a_kind_that_a_cluster_may_lack_is_optional(kind):
    assert kind.path("ai", "m") == kind.watch_path.replace(
        f"/{kind.plural}", f"/namespaces/ai/{kind.plural}/m"
    )


# -- KServe


def running(replicas=2):
    return a_deployment("m-predictor", replicas=replicas, owner="i1", writer="kserve")


@pytest.mark.parametrize("text", ["true", "True", "TRUE"])
def test_kserve_stops_for_true_in_any_case(text):
    assert read(INFERENCE_SERVICE, an_isvc(stop=text)).replicas == 0


@pytest.mark.parametrize("text", ["false", "1", "yes", ""])
def test_kserve_stops_for_nothing_else(text):
    target = read(INFERENCE_SERVICE, an_isvc(stop=text, below=running()))

    assert (target.replicas, target.ready, target.claims) == (2, 2, 1)


@pytest.mark.parametrize("earlier", [{}, {"stop": "false"}])
def test_an_inference_service_is_stopped_and_given_back_as_it_was(earlier):
    raw = an_isvc(**earlier, below=running())
    before = read(INFERENCE_SERVICE, raw)
    record = replace(ISVC_RECORD, settings=before.settings)

    stopped = {**patched(raw, INFERENCE_SERVICE.to_zero(record)), "scaled": None}
    seen = read(INFERENCE_SERVICE, stopped)

    assert (seen.replicas, seen.record, seen.replicas_writer) == (0, record, "idlewin")
    assert seen.claims == 1, "of the Deployment that is gone, by the record"
    back = patched(stopped, INFERENCE_SERVICE.back(stopped, record))
    assert back["metadata"]["annotations"] == raw["metadata"]["annotations"]


def test_a_record_on_one_that_runs_says_nothing_and_is_left_there():
    text = INFERENCE_SERVICE.to_zero(ISVC_RECORD)["metadata"]["annotations"][RECORD]
    raw = an_isvc(**{RECORD: text}, below=running())

    assert read(INFERENCE_SERVICE, raw).record is None
    assert INFERENCE_SERVICE.void(raw)
    assert INFERENCE_SERVICE.forget(raw, {}) is None, "it would roll its pods"
    assert INFERENCE_SERVICE.forget(an_isvc(stop="true", **{RECORD: text}), {}) is not None


def test_the_copy_of_a_record_that_kserve_makes_is_not_the_deployments():
    text = INFERENCE_SERVICE.to_zero(ISVC_RECORD)["metadata"]["annotations"][RECORD]
    copied = a_deployment("m-predictor", owner="i1", annotations={RECORD: text})

    assert DEPLOYMENT.record(copied) is None
    assert DEPLOYMENT.void(copied)
    assert not DEPLOYMENT.void(a_deployment("q", annotations={RECORD: text}))


@pytest.mark.parametrize(
    ("minimum", "scaler", "count", "wanted"),
    [
        (3, None, 1, 3),  # an HPA brings it to its minimum a while after its start
        (0, None, 1, 1),
        (3, None, 0, 0),  # somebody's zero switches the HPA off
        (3, "external", 1, 1),
        (2, "none", 2, 2),
        (0, "keda", None, 1),  # its Deployment is on its way
        (3, None, None, 3),
    ],
)
def test_an_inference_service_is_back_at_what_its_scaler_brings_it_to(
    minimum, scaler, count, wanted
):
    below = None if count is None else running(count)
    raw = an_isvc(below=below, **({"serving.kserve.io/autoscalerClass": scaler} if scaler else {}))
    raw["spec"]["predictor"]["minReplicas"] = minimum

    assert read(INFERENCE_SERVICE, raw).replicas == wanted


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"serving.kserve.io/deploymentMode": "Knative"}, "mode Knative"),
        ({"serving.kserve.io/disable-auto-update": "true"}, "disable-auto-update"),
        ({"conditions": ("Ready",)}, "KServe 0.16 or newer"),
        ({"serving.kserve.io/autoscalerClass": "external"}, "starts with 1"),
        ({RECORD: "{", "stop": "true"}, "cannot be read"),
        (
            {RECORD: '{"rule":"r","uid":"old","replicas":1,"epoch":1}', "stop": "true"},
            "another object of its name",
        ),
    ],
)
def test_an_inference_service_that_a_stop_does_not_fit_is_trouble(changes, said):
    (trouble,) = read(INFERENCE_SERVICE, an_isvc(below=running(), **changes)).trouble

    assert said in trouble


def test_an_inference_service_as_kserve_has_it_is_no_trouble():
    marks = {"serving.kserve.io/deploymentMode": "Standard"}

    assert read(INFERENCE_SERVICE, an_isvc(below=running(), **marks)).trouble == ()


# -- KEDA


def web(replicas=2, generation=5, writer="keda"):
    return a_deployment("web", replicas=replicas, generation=generation, writer=writer)


@pytest.mark.parametrize("earlier", [{}, {"paused_at": "2"}, {"paused": "true"}])
def test_a_scaled_object_is_paused_held_and_let_go_as_it_was(earlier):
    raw = a_scaled_object(**earlier, below=web())
    before = read(SCALED_OBJECT, raw)
    record = replace(SO_RECORD, settings=before.settings)
    assert (before.replicas, before.settling) == (2, False)

    told = patched(raw, SCALED_OBJECT.to_zero(record))
    assert read(SCALED_OBJECT, told).replicas == 0, "KEDA has not acted yet"
    away = {**told, "scaled": web(0, 6), "status": {"pausedReplicaCount": 0}}
    seen = read(SCALED_OBJECT, away)
    assert (seen.replicas, seen.record, seen.replicas_writer) == (0, record, "idlewin")

    held = patched(away, SCALED_OBJECT.back(away, record))
    seen = read(SCALED_OBJECT, held)
    assert (seen.replicas, seen.ready, seen.settling, seen.record) == (2, 0, True, record)
    nothing = {**held, "scaled": None}
    seen = read(SCALED_OBJECT, nothing)
    assert (seen.replicas, seen.settling) == (0, True), "nothing there to be held until it is ready"
    back = patched(held, SCALED_OBJECT.forget(held, before.settings))
    assert back["metadata"]["annotations"] == raw["metadata"]["annotations"]


def test_a_count_of_ours_is_written_as_no_person_writes_it():
    """What changes nothing has no writer: a person's own pause at 0 would go for ours."""
    raw = a_scaled_object(below=web())

    for patch in (SCALED_OBJECT.to_zero(SO_RECORD), SCALED_OBJECT.back(raw, SO_RECORD)):
        text = patch["metadata"]["annotations"][PAUSED_AT]
        assert text != str(int(text))


@pytest.mark.parametrize(("text", "count"), [("2147483647", 2**31 - 1), ("0" * 5000 + "3", 3)])
def test_a_count_is_what_keda_can_read(text, count):
    assert read(SCALED_OBJECT, a_scaled_object(below=web(), paused_at=text)).replicas == count


def test_who_scales_a_paused_one_by_hand_is_seen_and_wins():
    text = SCALED_OBJECT.to_zero(SO_RECORD)["metadata"]["annotations"]
    raw = a_scaled_object(
        manager="idlewin",
        below=web(3, 7, "kubectl"),
        paused_at="0",
        acted=0,
        **{RECORD: text[RECORD]},
    )

    target = read(SCALED_OBJECT, raw)

    assert (target.replicas, target.replicas_writer, target.settling) == (3, "kubectl", False)
    assert SCALED_OBJECT.forget(raw, {}) == {
        "metadata": {"annotations": {RECORD: None, PAUSED_AT: None}}
    }


def test_a_pause_that_somebody_else_has_written_meanwhile_is_left():
    raw = a_scaled_object(manager="kubectl", below=web(), paused_at="2")

    assert SCALED_OBJECT.forget(raw, {}) == {"metadata": {"annotations": {RECORD: None}}}


def test_without_a_record_a_raise_shows_once_keda_has_acted():
    lag = a_scaled_object(manager="idlewin", below=web(2), paused_at="0")
    raised = a_scaled_object(manager="idlewin", below=web(2), paused_at="0", acted=0)

    assert read(SCALED_OBJECT, lag).replicas == 0
    assert read(SCALED_OBJECT, raised).replicas == 2


def test_a_write_of_what_it_scales_is_a_change():
    settings = SCALED_OBJECT.settings(stored(SCALED_OBJECT, a_scaled_object(below=web())))

    assert not SCALED_OBJECT.changed(a_scaled_object(below=web()), settings)
    assert SCALED_OBJECT.changed(a_scaled_object(below=web(generation=6)), settings)
    assert SCALED_OBJECT.changed(a_scaled_object(below=web(), paused_at="2"), settings)


def test_a_zero_of_keda_itself_is_no_fall():
    assert read(SCALED_OBJECT, a_scaled_object(below=web(0))).resting
    assert not read(SCALED_OBJECT, a_scaled_object(below=web(0), paused_at="0", acted=0)).resting


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"paused_at": "abc"}, "no count"),
        ({"paused_at": ""}, "no count"),
        ({"paused_at": "2147483648"}, "from 0 to 2147483647"),
        ({"paused_at": "0" * 5000 + "9" * 5000}, "no count"),
        ({"below": None}, "does not exist"),
        ({"below": a_deployment("web", owner="i1")}, "name InferenceService m"),
        ({RECORD: "{"}, "cannot be read"),
    ],
)
def test_a_scaled_object_that_a_pause_does_not_fit_is_trouble(changes, said):
    (trouble,) = read(SCALED_OBJECT, a_scaled_object(**{"below": web(), **changes})).trouble

    assert said in trouble


@pytest.mark.parametrize(
    ("kind", "below"),
    [
        (INFERENCE_SERVICE, INFERENCE_SERVICE.trim(an_isvc())),
        (SCALED_OBJECT, SCALED_OBJECT.trim(a_scaled_object())),
    ],
    ids=["an InferenceService", "itself"],
)
def test_a_kind_of_serving_that_is_no_kind_of_pods_is_trouble_and_can_be_read(kind, below):
    """Also while it is at our zero: who edits it so in a window has its pause back all the same."""
    record = write_record(SO_RECORD)
    raw = a_scaled_object(manager="idlewin", paused_at="0", **{RECORD: record})
    raw["spec"]["scaleTargetRef"] = {"apiVersion": kind.api_version, "kind": kind.kind, "name": "q"}
    stored = {**SCALED_OBJECT.trim(raw), "scaled": below}

    target = SCALED_OBJECT.read(stored, Around(resource=GPU))

    assert (target.replicas, target.record) == (0, SO_RECORD)
    assert target.scaled == Scaled(ref=SCALED_OBJECT.scaled(stored), uid="", by="keda")
    assert f"scales {kind.kind} ai/q ({kind.api_version}), whose pods" in target.trouble[0]
    assert SCALED_OBJECT.pod_selector(stored) == "scaledobject.keda.sh/name="
    assert not SCALED_OBJECT.owns(stored, {"metadata": {"name": "p", "namespace": "ai"}})


def test_a_kind_of_pods_that_is_not_known_is_trouble():
    raw = a_scaled_object(below=None)
    raw["spec"]["scaleTargetRef"] = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}

    (trouble,) = read(SCALED_OBJECT, raw).trouble

    assert "argoproj.io/v1alpha1" in trouble


# -- a Deployment that is theirs


def test_a_deployment_that_is_scaled_is_refused_with_what_to_name_instead():
    live = SCALED_OBJECT.trim(a_scaled_object(below=None))
    frozen = SCALED_OBJECT.trim(a_scaled_object(below=None, paused="true"))
    counted = SCALED_OBJECT.trim(a_scaled_object(below=None, paused="true", paused_at="2"))

    def troubles(*found):
        around = Around(resource=GPU, scaled_objects=found)
        return list(DEPLOYMENT.trouble(DEPLOYMENT.trim(web()), around))

    assert "name ScaledObject q (keda.sh/v1alpha1)" in troubles(live)[0]
    assert "name ScaledObject q" in troubles(counted)[0]
    assert troubles(frozen) == []


def test_a_deployment_of_kserve_is_refused_with_what_to_name_instead():
    (trouble,) = DEPLOYMENT.trouble(DEPLOYMENT.trim(running()), Around(resource=GPU))

    assert "name InferenceService m (serving.kserve.io/v1beta1) as the target" in trouble
