"""What an audit takes objects for: whose pods they are, which settings, which work, and not."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from idlewin.adapters.audit_lists import idle_of
from idlewin.adapters.audit_pods import Object
from idlewin.adapters.audited import facts_of
from idlewin.adapters.objects import rule_of
from idlewin.audit.audited import audited
from idlewin.audit.checks import Id
from idlewin.audit.facts import Idle
from idlewin.core.load import History, Reading
from idlewin.core.rule import Rule
from idlewin.core.window import Span

Json = dict[str, Any]
NOW = datetime(2026, 3, 1, tzinfo=UTC)
LONG_AGO = "2026-01-05T10:00:00Z"
XE = "gpu.intel.com/xe"


def thing(kind: str, name: str, namespace: str = "lab", **parts: Any) -> Json:
    meta = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}", **parts.pop("meta", {})}
    return {"kind": kind, "metadata": meta, **parts}


def owned(kind: str, name: str) -> Json:
    owner = {"kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}
    return {"ownerReferences": [owner]}


def spec(cards: int = 1, resource: str = XE, **more: Any) -> Json:
    limits = {resource: str(cards)} if cards else {}
    return {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}], **more}


def node(name: str = "n1", cards: int = 1, count: int | None = None, resource: str = XE) -> Json:
    labels = {} if count is None else {"gpu.intel.com/device-id.0300-e20b.count": str(count)}
    status = {"allocatable": {resource: str(cards)}}
    return thing("Node", name, "", meta={"labels": labels}, status=status)


def deployment(name: str, pod: Json, **meta: Any) -> Json:
    selector = {"matchLabels": {"app": name}}
    return thing(
        "Deployment", name, meta=meta, spec={"selector": selector, "template": {"spec": pod}}
    )


def job(name: str, pod: Json, queue: str = "", **meta: Any) -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return thing("Job", name, meta={"labels": labels, **meta}, spec={"template": {"spec": pod}})


def pod(name: str, of: tuple[str, str], on: str, its: Json | None = None, **labels: str) -> Json:
    placed = {**(its or spec()), "nodeName": on}
    status = {"phase": "Running", "startTime": LONG_AGO}
    return thing("Pod", name, meta={"labels": labels, **owned(*of)}, spec=placed, status=status)


def queue(name: str, quota: int, cohort: str = "", **more: Any) -> Json:
    quotas = [{"name": XE, "nominalQuota": str(quota)}]
    group = {"coveredResources": [XE], "flavors": [{"name": "b60", "resources": quotas}]}
    return thing(
        "ClusterQueue", name, "", spec={"cohortName": cohort, "resourceGroups": [group], **more}
    )


def rule(**parts: Any) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "lab", "name": "swap"}
    cards = {"resource": XE, "count": 1, "nodeSelector": {"a": "b"}, **parts.pop("cards", {})}
    queues = [parts.pop("queue", {"clusterQueue": "short", "maxRuntime": "30m"})]
    made = {
        "mode": "Observe",
        "cards": cards,
        "serving": [{**target, "demand": "CalendarOnly"}],
        "batch": {"queues": queues},
        "window": {
            "min": "30m",
            "max": "4h",
            "calendar": {"timeZone": "UTC", "allow": ["Mon-Sun 01:00-05:00"]},
        },
    }
    return thing("IdleRule", "b60", "", spec={**made, **parts})


def found(*raws: Json) -> list[tuple[str, str, str]]:
    facts = facts_of([Object(copy.deepcopy(raw)) for raw in raws])
    return [(one.id, one.about, one.seen) for one in audited(facts, NOW)]


def ids(*raws: Json) -> list[str]:
    return [one[0] for one in found(*raws)]


# -- whose pods


def test_pods_count_for_the_topmost_object_that_is_known():
    shared = [node(cards=2, count=2), node("n2", cards=2, count=1)]
    isvc = thing("InferenceService", "qwen", spec={"predictor": {"model": {}}})
    made = deployment("qwen-predictor", spec(), **owned("InferenceService", "qwen"))
    pods = [
        pod(f"qwen-{n}", ("ReplicaSet", "qwen-predictor-5d"), "n2", app="qwen-predictor")
        for n in range(2)
    ]

    told = found(*shared, isvc, made, *pods)

    assert [one[0] for one in told] == [Id.OVERSUBSCRIBED, Id.SHARED]
    assert told[1][2] == "1 card on node n2, and 2 are asked for: InferenceService lab/qwen (2)"


def test_who_waits_for_a_card_is_told_beside_whoever_has_it():
    apps = [deployment("swap", spec()), deployment("embed", spec())]

    told = found(node(), *apps, pod("swap-1", ("ReplicaSet", "swap-5"), "n1", app="swap"))

    assert [one[0] for one in told] == [Id.SHARED]
    assert "Deployment lab/embed (1), Deployment lab/swap (1)" in told[0][2]


def test_two_cards_that_are_given_out_five_times_each_have_four_claimants_and_no_arbiter():
    on = {"llama-swap": "b60", "qwen3-embed": "b60", "qwen3-8b": "b580", "jellyfin": "b580"}
    nodes = [node(name, cards=5, count=1) for name in ("b580", "b60")]
    apps = [deployment(name, spec()) for name in on]
    pods = [pod(f"{n}-1", ("ReplicaSet", f"{n}-5"), at, app=n) for n, at in on.items()]
    shared = thing("GpuDevicePlugin", "gpu", "", spec={"sharedDevNum": 5})

    told = found(*nodes, *apps, *pods, shared)

    assert [one[:2] for one in told] == [
        (Id.OVERSUBSCRIBED, "Node b580"),
        (Id.OVERSUBSCRIBED, "Node b60"),
        (Id.SHARED, "Node b580"),
        (Id.SHARED, "Node b60"),
        (Id.REPLICAS, "GpuDevicePlugin gpu"),
    ]
    assert told[2][2].endswith("Deployment lab/qwen3-8b (1), Deployment lab/jellyfin (1)")


def test_partitions_that_hardware_keeps_are_cards():
    mig = node(cards=7, resource="nvidia.com/mig-1g.10gb")
    mig["metadata"]["labels"] = {"nvidia.com/gpu.count": "1"}
    apps = [deployment(f"a{n}", spec(resource="nvidia.com/mig-1g.10gb")) for n in range(7)]

    assert ids(mig, *apps) == []
    assert ids(mig, *apps, deployment("more", spec(resource="nvidia.com/mig-1g.10gb"))) == [
        Id.SHARED
    ]


def test_serving_that_waits_for_queued_work_to_end_is_no_finding():
    pods = pod("w-1", ("Job", "w"), "n1")

    assert ids(node(), deployment("swap", spec()), job("w", spec(), "mine"), pods) == []
    assert Id.SHARED in ids(node(), deployment("swap", spec()), job("w", spec()), pods)


def test_pods_that_have_ended_and_what_is_at_zero_hold_nothing():
    ended = pod("old", ("Job", "gone"), "n1")
    ended["status"]["phase"] = "Succeeded"
    off = deployment("embed", spec())
    off["spec"]["replicas"] = 0

    assert ids(node(), deployment("swap", spec()), off, ended) == []


def test_a_daemonset_and_a_static_pod_see_to_their_node():
    privileged = spec(0)
    privileged["containers"][0]["securityContext"] = {"privileged": True}
    static = pod("plugin-n1", ("Node", "n1"), "n1", privileged)
    daemon = thing("DaemonSet", "plugin", spec={"template": {"spec": privileged}})

    assert ids(node(), static, daemon) == []
    assert ids(node(), deployment("app", privileged)) == [Id.OPENS_ALL]


def test_privileged_pods_on_nodes_without_cards_are_nobodys_matter():
    privileged = spec(0)
    privileged["containers"][0]["securityContext"] = {"privileged": True}
    plain = thing("Node", "n2", "", status={"allocatable": {"cpu": "4"}})

    on = pod("app-1", ("ReplicaSet", "app-5"), "n2", privileged, app="app")

    assert ids(node(), plain, deployment("app", privileged), on) == []
    assert ids(deployment("app", privileged)) == [], "and without any card neither"


def test_the_runtime_gives_all_cards_to_a_pod_that_asks_by_the_variable():
    sees = spec(0)
    sees["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]

    ((check, _, seen),) = found(node(resource="nvidia.com/gpu"), deployment("app", sees))

    assert (check, seen) == (
        Id.OPENS_ALL,
        "1 pod: NVIDIA_VISIBLE_DEVICES=all, and no card requested",
    )


def mounts(path: str, cards: int = 0) -> Json:
    made = spec(cards, volumes=[{"name": "d", "hostPath": {"path": path}}])
    made["containers"][0]["volumeMounts"] = [{"name": "d", "mountPath": path}]
    return made


@pytest.mark.parametrize("path", ["/dev/dri/renderD128", "/dev/nvidia0", "/dev/kfd", "/dev", "/"])
def test_each_way_to_a_card_is_a_bypass_also_beside_a_request(path):
    ((check, _, seen),) = found(node(), deployment("app", mounts(path, 1)))

    assert check == Id.BYPASS
    assert seen == f"1 pod with {path} of the host mounted, and 1 {XE} requested as well"


@pytest.mark.parametrize("path", ["/dev/ttyUSB0", "/dev/shm", "/var/lib"])
def test_other_devices_are_none(path):
    assert ids(node(), deployment("app", mounts(path))) == []


def test_a_namespace_that_a_rule_exempts_mounts_dev_for_something_else():
    exempts = rule(cards={"deviceNodes": ["/dev/dri"], "exemptNamespaces": ["lab"]})

    assert ids(node(), exempts, deployment("longhorn", mounts("/dev"))) == []


# -- settings


def plugin(**meta: Any) -> Json:
    containers = [{"name": "p", "image": "x", "args": ["-shared-dev-num=3"]}]
    return thing(
        "DaemonSet", "p", meta=meta, spec={"template": {"spec": {"containers": containers}}}
    )


def test_what_an_operator_made_is_told_where_a_person_wrote_it():
    written = thing("GpuDevicePlugin", "gpu", "", spec={"sharedDevNum": 3})
    flux = "helm.toolkit.fluxcd.io"
    release = thing("HelmRelease", "gpu", spec={"values": {"sharedDevNum": 3}})
    marks = {f"{flux}/name": "gpu", f"{flux}/namespace": "lab"}

    assert found(plugin(**owned("GpuDevicePlugin", "gpu")), written)[0][1] == "GpuDevicePlugin gpu"
    assert [one[1] for one in found(plugin(labels=marks), release)] == ["HelmRelease lab/gpu"]
    assert ids(plugin(labels=marks)) == [Id.REPLICAS], "the release is not among these files"


def test_without_labels_of_feature_discovery_the_plugins_setting_tells_how_many_cards_there_are():
    apps = [deployment(name, spec()) for name in ("swap", "embed")]

    told = found(node(cards=3), plugin(), *apps)

    assert [one[0] for one in told] == [Id.SHARED, Id.REPLICAS]
    assert told[0][2].startswith("1 card on n1, and 2 are asked for: ")


# -- batch


def test_a_job_of_something_that_is_not_looked_at_may_be_queued_there():
    assert ids(job("part", spec(), **owned("JobSet", "whole"))) == []
    assert ids(job("alone", spec())) == [Id.UNQUEUED]


def test_a_cronjob_is_told_once_and_not_by_each_of_its_jobs():
    cron = thing(
        "CronJob", "nightly", spec={"jobTemplate": {"spec": {"template": {"spec": spec()}}}}
    )

    told = found(cron, job("nightly-1", spec(), **owned("CronJob", "nightly")))

    assert [one[:2] for one in told] == [(Id.UNQUEUED, "CronJob lab/nightly")]


def workload(owner: Json) -> Json:
    usage = {"name": "main", "count": 1, "resourceUsage": {XE: "1"}}
    admitted = {"type": "Admitted", "status": "True", "lastTransitionTime": LONG_AGO}
    status = {
        "conditions": [admitted],
        "admission": {"clusterQueue": "short", "podSetAssignments": [usage]},
    }
    return thing("Workload", "w", meta=owner, spec={}, status=status)


def test_work_whose_pods_are_a_jobs_of_a_jobset_has_pods():
    its = job("part", spec(), "short", **owned("JobSet", "whole"))
    work = workload(owned("JobSet", "whole"))

    assert ids(work, its, pod("p", ("Job", "part"), "n1")) == []
    assert ids(work, its) == [Id.ORPHANED_QUOTA]


def test_work_that_runs_elsewhere_or_of_a_kind_that_is_not_looked_at_is_no_orphan():
    away = job("away", spec(), "short")
    away["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"

    assert ids(workload(owned("Job", "away")), away) == []
    assert ids(workload(owned("RayJob", "ray"))) == []


def test_a_queue_whose_rule_counts_on_a_contract_is_held_to_it():
    counts = rule(queue={"clusterQueue": "short", "contract": "Checkpoint"})
    home = thing("LocalQueue", "mine", spec={"clusterQueue": "short"})
    work = job("embed", spec(), "mine")

    ((check, about, seen),) = found(counts, queue("short", 1), home, work)

    assert (check, about) == (Id.NO_CONTRACT, "ClusterQueue short")
    assert seen == (
        "IdleRule b60 counts on a contract, and there is no contract of Job lab/embed (1 card)"
    )
    work["metadata"]["annotations"] = {"idlewin.dev/contract": "Checkpoint"}
    assert ids(counts, queue("short", 1), home, work) == []


# -- quota, writers, priorities


def test_a_cohort_through_which_a_stopped_queue_lends_is_a_leak():
    lends = [queue("short", 1, "all"), queue("other", 0, "all")]

    ((check, about, seen),) = found(rule(), *lends)

    assert (check, about) == (Id.GATE_LEAKS, "IdleRule b60")
    assert "ClusterQueue short lends its gpu.intel.com/xe of flavor b60 to other" in seen


def test_a_queue_that_is_held_reaches_nothing_now():
    assert ids(rule(), queue("short", 0), queue("stray", 1)) == [Id.GATE_LEAKS]
    assert ids(rule(), queue("short", 0), queue("stray", 1, stopPolicy="Hold")) == []


def test_a_scaledobject_that_raises_what_a_rule_lowers_is_a_fight_with_the_way_out():
    aim = {"kind": "Deployment", "name": "swap"}
    scaled = thing("ScaledObject", "swap", spec={"scaleTargetRef": aim})

    ((check, about, seen),) = found(rule(), deployment("swap", spec()), scaled)

    assert (check, about) == (Id.FIGHT, "Deployment lab/swap")
    assert "scaled by ScaledObject swap" in seen


def test_who_applies_the_stop_policy_of_a_rules_queue_fights_it():
    fields = {"f:spec": {"f:stopPolicy": {}}}
    entry = {"manager": "argocd", "operation": "Apply", "fieldsV1": fields, "time": LONG_AGO}
    applied = queue("short", 1, stopPolicy="Hold")
    applied["metadata"]["managedFields"] = [entry]

    ((check, _, seen),) = found(rule(), applied)

    assert check == Id.FIGHT
    assert seen.startswith("argocd has its stopPolicy")
    assert ids(applied) == [], "a queue of no rule is its owner's"


@pytest.mark.parametrize(
    ("batch", "serving", "more", "expected"),
    [
        (1000, 0, {}, [Id.PRIORITY]),
        (0, 1000, {}, [Id.PRIORITY]),
        (0, 0, {}, []),
        (1000, 0, {"preemptionPolicy": "Never"}, []),
        (1000, 0, {"nodeSelector": {"zone": "b"}}, []),
    ],
)
def test_the_higher_of_two_that_may_meet_is_told(batch, serving, more, expected):
    app = deployment("app", spec(priority=serving, nodeSelector={"zone": "a"}))

    assert ids(app, job("work", spec(priority=batch, **more), "mine")) == expected


def test_cards_by_claim_beside_cards_by_resource_name_both():
    devices = {"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu.intel.com"}}]}
    claim = thing("ResourceClaim", "one", spec={"devices": devices})
    by_claim = spec(0, resourceClaims=[{"name": "g", "resourceClaimName": "one"}])
    apps = [deployment("comfy", by_claim), deployment("swap", spec())]

    told = [one for one in found(node(), claim, *apps) if one[0] == Id.BESIDE_CLAIMS]

    assert [one[1] for one in told] == ["Deployment lab/comfy"]
    assert "1 given out by nodes; asked for by Deployment lab/swap" in told[0][2]
    assert ids(claim, apps[0]) == []


# -- how long idle


class Past:
    """A Prometheus that knows one past of every rule."""

    def __init__(self, past: History) -> None:
        self._past = past

    def read(self, _rule: Rule) -> tuple[Reading, ...]:
        return ()

    def history(self, _rule: Rule, _past: timedelta, _step: timedelta) -> History:
        return self._past


def test_unknown_time_is_not_idle_and_a_rule_without_demand_is_not_asked_for():
    day, hour = timedelta(days=1), timedelta(hours=1)
    start = NOW - 7 * day
    busy, unknown = Span(start, start + 8 * hour), Span(start + day, start + 2 * day)
    past = Past(History(covers=Span(start, NOW), busy=(busy,), unknown=(unknown,)))
    by_calendar = rule()
    looks = rule()
    looks["spec"]["serving"][0]["demand"] = [{"source": "vllm-requests"}]
    rules = [
        rule_of({**one, "metadata": {**one["metadata"], "resourceVersion": "1"}})
        for one in (by_calendar, looks)
    ]

    told = idle_of(past, rules[:1]), idle_of(past, rules[1:])

    assert told == ({}, {"b60": Idle(idle=6 * day - 8 * hour, known=6 * day)})
