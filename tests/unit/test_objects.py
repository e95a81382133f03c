"""Raw objects in the core's words; the shapes are those that the real API servers answer with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from idlewin.adapters import fields, objects, queues, quota
from idlewin.adapters.serving import Around
from idlewin.adapters.serving.deployment import DEPLOYMENT
from idlewin.adapters.serving.statefulset import STATEFUL_SET
from idlewin.adapters.webhooks import inside, trim_webhooks
from idlewin.core.pool import CONTRACT, Record, StopPolicy

GPU = "gpu.intel.com/xe"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
A_RECORD = Record(rule="r", uid="u1", replicas=3, epoch=2)


def meta(name="x", **more):
    return {"name": name, "namespace": "ai", "uid": "u1", "resourceVersion": "7", **more}


def container(**kinds):
    return {"name": "c", "resources": {kind: {GPU: count} for kind, count in kinds.items()}}


def a_pod(phase="Running", *, spec=None, **metadata):
    spec = {"nodeName": "n", "containers": [container(requests="1")], **(spec or {})}
    running = {"state": {"running": {}}} if phase == "Running" else {"state": {"terminated": {}}}
    status = {"phase": phase, "containerStatuses": [running]}
    return {"metadata": meta(**metadata), "spec": spec, "status": status}


def a_deployment(*, owner=None, annotations=None, **spec):
    template = {"metadata": {"labels": {"app": "q"}}, "spec": {"containers": [container(limits=1)]}}
    refs = [{"kind": owner, "name": "o", "uid": "ou", "controller": True}] if owner else []
    return {
        "metadata": meta(annotations=annotations or {}, ownerReferences=refs),
        "spec": {"selector": {"matchLabels": {"app": "q"}}, "template": template, **spec},
        "status": {"readyReplicas": 2},
    }


def an_hpa(*, minimum=1, labels=None, zeroed="False"):
    aim = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    return {
        "metadata": meta("h", labels=labels or {}),
        "spec": {"scaleTargetRef": aim, "minReplicas": minimum},
        "status": {"conditions": [{"type": "ScaledToZero", "status": zeroed}]},
    }


def read(raw, *scalers, kind=DEPLOYMENT):
    return kind.read(kind.trim(raw), Around(resource=GPU, autoscalers=scalers))


# -- cards


@pytest.mark.parametrize(
    ("spec", "claimed"),
    [
        ({"containers": [container(requests="1"), container(limits="2")]}, 3),
        ({"containers": [container(requests="1")], "initContainers": [container(limits="4")]}, 4),
        ({"containers": [{"name": "c"}]}, 0),
        ({"containers": [container(requests="1", limits="1")]}, 1),
    ],
)
def test_claims_are_counted_as_the_scheduler_does(spec, claimed):
    assert fields.claims(spec, GPU) == claimed


def test_a_sidecar_adds_to_the_containers_and_to_later_init_containers():
    sidecar = {**container(requests="1"), "restartPolicy": "Always"}
    spec = {"containers": [container(requests="1")], "initContainers": [sidecar]}

    assert fields.claims(spec, GPU) == 2
    spec["initContainers"].append(container(requests="5"))
    assert fields.claims(spec, GPU) == 6


@pytest.mark.parametrize(
    ("text", "number"), [("2", 2), ("1k", 1000), ("1500m", 2), ("1Ki", 1024), ("2e1", 20)]
)
def test_quantities_are_whole_cards(text, number):
    assert fields.whole(text) == number


# -- pods and nodes


def test_a_pod_that_neither_claims_nor_serves_is_not_kept():
    bare = a_pod(spec={"containers": [{"name": "c"}]})

    assert objects.trim_pod(bare, {"ReplicaSet"}) is None
    owned = [{"kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}]
    bare["metadata"]["ownerReferences"] = owned
    assert objects.trim_pod(bare, {"ReplicaSet"}) is not None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_ended_pod_holds_no_card_unless_its_containers_still_run(phase):
    pod = a_pod(phase)

    assert objects.ended(objects.trim_pod(pod, ()))
    pod["status"]["containerStatuses"].append({"state": {"running": {}}})
    assert not objects.ended(objects.trim_pod(pod, ()))


def test_a_terminating_pod_has_not_ended():
    pod = objects.trim_pod(a_pod(deletionTimestamp="2026-03-01T12:00:00Z"), ())

    assert not objects.ended(pod)


def test_kueue_marks_a_batch_pod_by_annotation_or_label():
    named = objects.trim_pod(a_pod(annotations={"kueue.x-k8s.io/workload": "w"}), ())
    marked = objects.trim_pod(a_pod(labels={"kueue.x-k8s.io/podset": "main"}), ())

    assert objects.batch_owner(named) == "ai/w"
    assert objects.batch_owner(marked) == "ai/"
    assert objects.batch_owner(objects.trim_pod(a_pod(), ())) is None


def a_node(ready="True", since="2026-03-01T11:59:00Z", taints=()):
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": since}
    return objects.trim_node(
        {
            "metadata": {"name": "n", "uid": "n", "resourceVersion": "1"},
            "spec": {"taints": [{"key": key} for key in taints]},
            "status": {"allocatable": {GPU: "1", "cpu": "4"}, "conditions": [condition]},
        }
    )


@pytest.mark.parametrize(
    ("node", "dead"),
    [
        (None, True),
        (a_node(), False),
        (a_node("Unknown"), False),
        (a_node("Unknown", "2026-03-01T11:50:00Z"), True),
        (a_node(taints=["node.kubernetes.io/out-of-service"]), True),
    ],
)
def test_a_node_is_dead_when_gone_given_up_or_long_not_ready(node, dead):
    assert objects.node_dead(node, NOW) is dead


# -- rules


def a_rule_object(**annotations):
    named = {f"idlewin.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    metadata = {"name": "r", "uid": "u", "resourceVersion": "1", "annotations": named}
    return objects.rule_of({"metadata": metadata, "spec": {"nonsense": 1}, "status": {}})


def test_a_rule_that_cannot_be_read_says_why_and_is_still_a_rule():
    told = a_rule_object()

    assert (told.name, told.rule, told.status) == ("r", None, None)
    assert "nonsense" in told.error


def test_a_claim_has_its_instant_in_utc():
    assert a_rule_object(wake_until="2026-03-01T13:00:00+01:00").wake_until == NOW


@pytest.mark.parametrize(
    "text", ["tomorrow", "2026-03-01T12:00:00", "1772366400", "9999-12-31T23:59:59-05:00"]
)
def test_a_claim_without_an_exact_instant_is_told_and_no_claim(text):
    told = a_rule_object(wake_until=text)

    assert told.wake_until is None
    assert "idlewin wake" in told.wake_error


@pytest.mark.parametrize("text", ["yes", "0001-01-01T00:00:00+01:00"])
def test_a_resume_that_cannot_be_read_is_none(text):
    assert a_rule_object(resume=text).resume_at is None


# -- writers


def managed(manager, time, tree, **more):
    return {"manager": manager, "time": time, "fieldsV1": tree, **more}


def test_the_last_writer_of_a_field_is_told_scale_subresource_included():
    tree = {"f:spec": {"f:replicas": {}}}
    raw = {
        "metadata": meta(
            managedFields=[
                managed("kubectl", "2026-03-01T10:00:00Z", tree),
                managed("hpa", "2026-03-01T11:00:00Z", tree, subresource="scale"),
                managed("other", "2026-03-01T12:00:00Z", {"f:spec": {"f:paused": {}}}),
            ]
        )
    }

    assert fields.last_writer(raw, "spec", "replicas") == ("hpa", "2026-03-01T11:00:00Z")
    assert fields.last_writer(raw, "spec", "stopPolicy") == ("", "")


# -- selectors


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
    ],
)
def test_label_selectors_select_as_the_api_server_does(selector, taken):
    assert fields.selects(selector, {"a": "1"}) is taken


# -- serving


def test_an_absent_replica_count_is_one_and_limits_are_claims():
    target = read(a_deployment())

    assert (target.replicas, target.ready, target.claims, target.trouble) == (1, 2, 1, ())


def test_to_zero_is_one_patch_that_the_next_look_reads_back():
    record = read(a_deployment(annotations={})).record
    assert record is None
    patch = DEPLOYMENT.to_zero(A_RECORD)

    lowered = a_deployment(annotations=patch["metadata"]["annotations"], **patch["spec"])
    assert read(lowered).record == A_RECORD
    assert read(lowered).replicas == 0


def test_a_record_that_cannot_be_read_is_trouble_not_silence():
    (trouble,) = read(a_deployment(annotations={"idlewin.dev/record": "{"})).trouble

    assert "cannot be read" in trouble


def test_a_zero_with_the_record_of_another_object_is_not_ours_to_raise():
    text = DEPLOYMENT.to_zero(replace(A_RECORD, uid="old"))["metadata"]["annotations"]

    copied = read(a_deployment(annotations=text, replicas=0))
    scaled = read(a_deployment(annotations=text, replicas=2))

    assert copied.record is None
    assert "scale it by hand" in copied.trouble[0]
    assert (scaled.record is None, scaled.trouble) == (False, ()), "taken off as any other"


def test_another_pod_template_is_seen_and_another_size_is_not_one():
    first, larger = read(a_deployment()), read(a_deployment(replicas=5))
    deployed = a_deployment()
    deployed["spec"]["template"]["metadata"]["annotations"] = {"restartedAt": "now"}

    assert first.template == larger.template
    assert read(deployed).template != first.template


@pytest.mark.parametrize(
    ("scaler", "word"),
    [
        (an_hpa(minimum=0), "minReplicas 0"),
        (an_hpa(zeroed="True"), "minReplicas 0"),
        (an_hpa(labels={"scaledobject.keda.sh/name": "so"}), "ScaledObject so"),
    ],
)
def test_an_autoscaler_that_would_fight_is_trouble(scaler, word):
    (trouble,) = read(a_deployment(), scaler).trouble

    assert word in trouble


def test_an_autoscaler_with_a_minimum_of_one_is_no_trouble():
    assert read(a_deployment(), an_hpa()).trouble == ()


def test_an_owner_that_controls_the_target_is_trouble():
    (trouble,) = read(a_deployment(owner="InferenceService")).trouble

    assert "InferenceService o" in trouble


@pytest.mark.parametrize("where", [[], ["spec", "template"]])
def test_serving_that_kueue_queues_is_trouble(where):
    raw = part = a_deployment()
    for key in where:
        part = part[key]
    part["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "day"}

    (trouble,) = read(raw).trouble

    assert "LocalQueue day" in trouble


def test_a_statefulset_that_deletes_its_volumes_when_lowered_is_trouble():
    policy = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}

    (trouble,) = read(a_deployment(**policy), kind=STATEFUL_SET).trouble
    assert "Retain" in trouble


# -- kueue


def a_queue(name="q", *, cohort="", lending=None, borrowing=None, nominal="1", **more):
    cards = {"name": GPU, "nominalQuota": nominal}
    if lending is not None:
        cards["lendingLimit"] = lending
    if borrowing is not None:
        cards["borrowingLimit"] = borrowing
    groups = [{"coveredResources": [GPU], "flavors": [{"name": "f", "resources": [cards]}]}]
    spec = {"resourceGroups": groups, **({"cohortName": cohort} if cohort else {})}
    stopped = {"type": "Active", "status": "False", "reason": "Stopped", "observedGeneration": 3}
    stopped["lastTransitionTime"] = "2026-03-01T12:00:00Z"
    raw = {"metadata": meta(name, generation=3), "spec": spec}
    return queues.trim_queue({**raw, "status": {"conditions": [{**stopped, **more}]}})


@pytest.mark.parametrize(
    ("seen", "since"),
    [
        ({}, NOW),
        ({"observedGeneration": 2}, None),
        ({"reason": "FlavorNotFound"}, None),
        ({"status": "True", "reason": "Ready"}, None),
    ],
)
def test_stopped_means_shown_by_kueue_at_the_present_generation(seen, since):
    assert queues.stopped_since(a_queue(**seen)) == since


def leaking(queue, *others, cohorts=()):
    return list(quota.leaks(queue, frozenset({"q"}), [queue, *others], list(cohorts), GPU))


def a_cohort(name, parent="", nominal=None):
    cards = [{"name": GPU, "nominalQuota": nominal}] if nominal else []
    flavors = [{"flavors": [{"name": "f", "resources": cards}]}]
    raw = {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
    return queues.trim_cohort({**raw, "spec": {"parentName": parent, "resourceGroups": flavors}})


def test_a_queue_alone_or_with_lending_limit_zero_leaks_nothing():
    neighbour = a_queue("other", cohort="c")

    assert leaking(a_queue(), neighbour) == []
    assert leaking(a_queue(cohort="c"), a_queue("far", cohort="d")) == []
    assert leaking(a_queue(cohort="c", lending="0"), neighbour) == []


def test_a_stopped_queue_lends_to_its_cohort_through_parents_too():
    near, far = a_queue("other", cohort="c"), a_queue("far", cohort="child")

    assert "lends" in leaking(a_queue(cohort="c"), near)[0]
    (leak,) = leaking(a_queue(cohort="c"), far, cohorts=[a_cohort("child", "c"), a_cohort("c")])
    assert "far" in leak


@pytest.mark.parametrize(
    ("ours", "others", "cohorts", "cards"),
    [
        ([a_queue(nominal="1")], [], [], 1),
        ([a_queue(nominal="1"), a_queue("r", nominal="1")], [], [], 2),
        ([a_queue(cohort="c", nominal="0"), a_queue("r", cohort="c", nominal="0")], [],
         [a_cohort("c", nominal="1")], 1),
        ([a_queue(cohort="c", nominal="1")], [a_queue("far", cohort="c", nominal="3")], [], 4),
        ([a_queue(cohort="c", nominal="1")],
         [a_queue("far", cohort="c", nominal="3", lending="1")], [], 2),
        ([a_queue(cohort="c", nominal="1", borrowing="0")],
         [a_queue("far", cohort="c", nominal="3")], [], 1),
        ([], [], [], None),
    ],
)  # fmt: skip
def test_quota_reaches_as_far_as_kueue_lets_it(ours, others, cohorts, cards):
    assert quota.reach(ours, [*ours, *others], cohorts, GPU) == cards


def test_quota_of_a_cohort_leaks_where_another_queue_is_a_member():
    ours, pool = a_queue(cohort="c", nominal="0"), a_cohort("c", nominal="2")

    assert leaking(ours, cohorts=[pool]) == []
    assert "Cohort c" in leaking(ours, a_queue("other", cohort="c"), cohorts=[pool])[0]


def a_workload(*conditions, spec=None, status=None, annotations=None):
    template = {"metadata": {"annotations": annotations or {}}}
    template["spec"] = {"containers": [container(requests="1")], "terminationGracePeriodSeconds": 9}
    shown = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
        for kind in conditions
    ]
    pod_sets = [{"name": "main", "count": 2, "template": template}]
    return queues.trim_workload(
        {
            "metadata": meta("w"),
            "spec": {"queueName": "lq", "podSets": pod_sets, **(spec or {})},
            "status": {"conditions": shown, **(status or {})},
        }
    )


def test_a_finished_workload_is_left_out_though_it_still_says_admitted():
    assert a_workload("Admitted", "Finished") is None


def test_a_workload_tells_its_bound_contract_grace_and_cards():
    raw = a_workload(
        "Admitted",
        spec={"maximumExecutionTimeSeconds": 60},
        status={"accumulatedPastExecutionTimeSeconds": 20, "admission": {"clusterQueue": "q"}},
        annotations={CONTRACT: "Checkpoint"},
    )
    work = queues.workload_of(raw, "other", GPU)

    assert (work.cluster_queue, work.admitted, work.admitted_at) == ("q", True, NOW)
    assert (work.max_runtime, work.grace) == (timedelta(seconds=40), timedelta(seconds=9))
    assert (work.contract, work.claims) == (True, 2)


def test_a_workload_tells_that_its_pods_were_not_ready_in_time_and_how_long_it_is_kept_out():
    until = {"requeueState": {"count": 1, "requeueAt": "2026-03-01T12:00:00Z"}}
    evicted = {"type": "Evicted", "status": "True", "lastTransitionTime": "2026-03-01T11:59:00Z"}
    late, drained = (
        queues.workload_of(
            a_workload(status={"conditions": [{**evicted, "reason": reason}], **state}), "q", GPU
        )
        for reason, state in (("PodsReadyTimeout", until), ("ClusterQueueStopped", {}))
    )

    assert (late.timed_out, late.kept_out_until) == (True, NOW)
    assert (drained.timed_out, drained.kept_out_until) == (False, None)


@pytest.mark.parametrize("spec", [{}, {"spec": {}}, {"spec": {"podSets": [{"template": {}}]}}])
def test_what_kueue_lets_people_leave_out_hides_nothing(spec):
    raw = {"metadata": meta("odd"), **spec}
    queue = queues.queue_of(queues.trim_queue(raw), [queues.trim_local_queue(raw)], [], [])
    work = queues.workload_of(queues.trim_workload(raw), "q", GPU)

    assert {queue.stop_policy, queue.local_queues[0].stop_policy} == {StopPolicy.NONE}
    assert (work.local_queue, work.admitted, work.contract, work.claims) == ("", False, False, 0)


def test_a_waiting_workload_is_its_local_queues_and_without_a_mark_under_no_contract():
    work = queues.workload_of(a_workload(), "q", GPU)

    assert (work.cluster_queue, work.admitted, work.contract) == ("q", False, False)
    assert (work.max_runtime, work.admitted_at, work.active) == (None, None, True)


def test_a_queue_tells_its_stop_and_what_is_ours_of_it():
    raw = a_queue()
    raw["metadata"]["annotations"] = {"idlewin.dev/rule": "r", "idlewin.dev/epoch": "4"}
    queue = queues.queue_of(raw, [], [], [])

    assert (queue.stop_policy, queue.adopted_by, queue.epoch) == (StopPolicy.NONE, "r", 4)
    assert not queue.bound_enforced


# -- webhooks


def a_webhook(resource, operation, *, namespaces=None, policy="Fail", name="kueue-mutating"):
    hook = {
        "name": "m.kb.io",
        "failurePolicy": policy,
        "clientConfig": {"service": {"name": "webhook-service", "namespace": "system"}},
        "rules": [{"resources": [resource], "operations": [operation]}],
        "namespaceSelector": namespaces,
    }
    trimmed = trim_webhooks({"metadata": meta(name), "webhooks": [hook]})
    return [trimmed] if trimmed else []


OUTSIDE = {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["ai"]}]}


@pytest.mark.parametrize(
    ("hooks", "covered"),
    [
        (a_webhook("pods", "CREATE"), True),
        (a_webhook("deployments", "UPDATE"), True),
        (a_webhook("deployments", "CREATE"), False),
        (a_webhook("jobs", "CREATE"), False),
        (a_webhook("pods", "CREATE", namespaces=OUTSIDE), False),
        (a_webhook("pods", "CREATE", policy="Ignore"), False),
        (a_webhook("pods", "CREATE", name="istio"), False),
    ],
)
def test_inside_kueue_is_a_failing_webhook_on_the_way_back(hooks, covered):
    assert inside(hooks, {"name": "ai"}, ("deployments", {}), {"app": "q"}) is covered
