"""What a first rule says of a cluster: pools, who serves, queues, and what could not be known."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.adapters.inventory import inventory
from idlewin.catalogue import SHIPPED
from idlewin.draft.facts import Facts, Seen, Wanted, is_card
from idlewin.draft.rules import Draft, drafted
from idlewin.errors import RefusedError
from idlewin.rulecheck import checked
from idlewin.rulefile import read_text
from tests.golden import cluster as c

GPU = "nvidia.com/gpu"
SERVER = {"containers": [c.container("vllm/vllm-openai", {GPU: 1}, "--model", "org/Big-1")]}
DOOR = c.seen("traefik-router", {"router": "web-ai-big-big-example@kubernetes"})
MODEL = c.seen(
    "vllm-requests", {"namespace": "ai", "model_name": "org/Big-1", "pod": "big-1-aaaaa"}
)
DRI = {
    "containers": [c.container("films")],
    "volumes": [{"name": "device", "hostPath": {"path": "/dev/dri"}}],
}
Json = dict[str, Any]


def served(**lists: Any) -> dict[str, Any]:
    """One card, and Deployment ai/big on it; ``lists`` by the names of cluster.py."""
    own = {
        c.NODES: [c.node("gpu-1", {GPU: 1})],
        c.PODS: [c.pod("ai/big-1-aaaaa", "ReplicaSet big-1", "gpu-1", SERVER, app="big")],
        c.DEPLOYMENTS: [c.deployment("ai/big", SERVER)],
    }
    return {**c.BARE, **own, **{getattr(c, name): found for name, found in lists.items()}}


def facts(lists: dict[str, Any], *sources: Seen) -> Facts:
    return replace(inventory(c.Listed(lists)), sources=sources or (DOOR, MODEL))


def draft(found: Facts, **wanted: Any) -> Draft:
    return drafted(found, Wanted(**{k: frozenset(v) for k, v in wanted.items()}), SHIPPED)


def specs(told: Draft) -> dict[str, Json]:
    return {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(told.text)}


def only(told: Draft) -> Json:
    (spec,) = specs(told).values()
    return spec


def serving(told: Draft) -> list[str]:
    return [f"{one['kind']} {one['namespace']}/{one['name']}" for one in only(told)["serving"]]


# -- cards and pools


@pytest.mark.parametrize(
    ("resource", "card"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/mig-1g.5gb", True),
        ("amd.com/gpu", True),
        ("gpu.intel.com/xe", True),
        ("gpu.intel.com/i915", True),
        ("npu.intel.com/accel", True),
        ("habana.ai/gaudi", True),
        ("google.com/tpu", True),
        ("aws.amazon.com/neuroncore", True),
        ("huawei.com/Ascend910", True),
        ("gpu.intel.com/xe_monitoring", False),
        ("gpu.intel.com/millicores", False),
        ("gpu.intel.com/memory.max", False),
        ("gpu.intel.com/tiles", False),
        ("devices.kubevirt.io/kvm", False),
        ("rdma/hca", False),
        ("hugepages-2Mi", False),
        ("smarter-devices/fuse", False),
    ],
)
def test_an_accelerator_is_known_by_its_name(resource: str, card: bool) -> None:
    assert is_card(resource) is card


def test_a_cluster_without_cards_has_no_rule_and_says_what_it_has() -> None:
    lists = {**c.BARE, c.NODES: [c.node("plain", {"devices.kubevirt.io/kvm": 110})]}

    told = draft(facts(lists))

    assert (told.text, told.rules) == ("", ())
    assert told.left == (
        "taken for no cards: devices.kubevirt.io/kvm; --resource NAME takes one for cards",
    )


def test_an_empty_cluster_has_no_rule() -> None:
    assert draft(facts(dict(c.BARE))).text == ""


def test_cards_that_nobody_holds_are_told_and_have_no_rule() -> None:
    lists = {**c.BARE, c.NODES: [c.node("gpu-1", {GPU: 2})]}

    told = draft(facts(lists))

    assert told.text == ""
    assert told.left[0].startswith(f"2 {GPU} on gpu-1: no rule, for nobody is on them")


def test_nodes_that_one_target_has_pods_on_are_one_pool_by_a_label_of_their_own() -> None:
    pods = [
        c.pod(f"ai/big-1-aaaa{n}", "ReplicaSet big-1", f"gpu-{n}", SERVER, app="big") for n in "12"
    ]
    nodes = [
        c.node("gpu-1", {GPU: 1}, {"team": "llm", "nvidia.com/driver": "570"}),
        c.node("gpu-2", {GPU: 1}, {"team": "llm", "nvidia.com/driver": "570"}),
        c.node("gpu-3", {GPU: 1}, {"team": "lab"}),
    ]

    told = draft(facts(served(NODES=nodes, PODS=pods)))

    assert specs(told)["gpu"]["cards"] == {
        "resource": GPU,
        "count": 2,
        "nodeSelector": {"team": "llm"},
    }


def test_nodes_that_nothing_tells_from_the_others_are_to_be_labelled() -> None:
    pods = [
        c.pod(f"ai/big-1-aaaa{n}", "ReplicaSet big-1", f"gpu-{n}", SERVER, app="big") for n in "12"
    ]
    driver = {"nvidia.com/driver": "570"}
    nodes = [c.node(f"gpu-{n}", {GPU: 1}, driver if n < 3 else {}) for n in (1, 2, 3)]

    told = draft(facts(served(NODES=nodes, PODS=pods)))

    assert only(told)["cards"]["nodeSelector"] == {"idlewin.dev/pool": "gpu"}
    assert "#   kubectl label node gpu-1 gpu-2 idlewin.dev/pool=gpu\n" in told.text


def test_cards_of_two_kinds_in_one_box_are_two_rules() -> None:
    small = {"containers": [c.container("whisper", {"gpu.intel.com/xe": 1})]}
    lists = served(
        NODES=[c.node("box.lan", {GPU: 1, "gpu.intel.com/xe": 1})],
        PODS=[
            c.pod("ai/big-1-aaaaa", "ReplicaSet big-1", "box.lan", SERVER, app="big"),
            c.pod("ai/small-1-aaaaa", "ReplicaSet s", "box.lan", small, app="small"),
        ],
        DEPLOYMENTS=[c.deployment("ai/big", SERVER), c.deployment("ai/small", small)],
    )

    assert set(specs(draft(facts(lists)))) == {"box-gpu", "box-xe"}


@pytest.mark.parametrize("odd", [{}, {"novel": 1}], ids=["read", "unreadable"])
def test_cards_that_a_rule_has_are_left_alone(odd: Json) -> None:
    rule = {
        "metadata": {"name": "mine", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "cards": {"resource": GPU, "count": 1, "nodeSelector": {c.HOSTNAME: "gpu-1"}},
            "serving": [{"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ai"}],
            "batch": {"queues": [{"clusterQueue": "q", "maxRuntime": "1h"}]},
            **odd,
        },
    }
    rule["spec"]["serving"][0] |= {"name": "big", "demand": "CalendarOnly"}

    told = draft(facts(served(RULES=[rule])))

    assert told.text == ""
    assert told.found[0] == f"cards: 1 {GPU} on gpu-1 (rule mine has them)"


@pytest.mark.parametrize(
    ("wanted", "rules"),
    [
        ({}, {"gpu-1", "gpu-2"}),
        ({"nodes": ["gpu-2"]}, {"gpu-2"}),
        ({"namespaces": ["lab"]}, {"gpu-2"}),
        ({"resources": [GPU]}, {"gpu-1", "gpu-2"}),
        ({"resources": ["example.com/odd"]}, {"gpu-1"}),
    ],
)
def test_what_is_written_can_be_narrowed(wanted: dict[str, Any], rules: set[str]) -> None:
    odd = {"containers": [c.container("odd", {GPU: 1, "example.com/odd": 1})]}
    lists = served(
        NODES=[c.node("gpu-1", {GPU: 1, "example.com/odd": 1}), c.node("gpu-2", {GPU: 1})],
        PODS=[
            c.pod("ai/big-1-aaaaa", "ReplicaSet b", "gpu-1", odd, app="big"),
            c.pod("lab/nb-1-aaaaa", "ReplicaSet n", "gpu-2", SERVER, app="nb"),
        ],
        DEPLOYMENTS=[c.deployment("ai/big", odd), c.deployment("lab/nb", SERVER)],
    )

    assert set(specs(draft(facts(lists), **wanted))) == rules


# -- who serves


def test_several_on_one_pool_are_all_listed() -> None:
    lists = served(
        NODES=[c.node("gpu-1", {GPU: 2})],
        PODS=[
            c.pod("ai/big-1-aaaaa", "ReplicaSet b", "gpu-1", SERVER, app="big"),
            c.pod("ai/store-0", "StatefulSet store", "gpu-1", SERVER, app="store"),
        ],
        STATEFULSETS=[c.deployment("ai/store", SERVER)],
    )
    lists[c.PODS][1]["metadata"]["ownerReferences"][0]["uid"] = "store"

    assert serving(draft(facts(lists))) == ["Deployment ai/big", "StatefulSet ai/store"]


def test_what_a_scaled_object_scales_is_named_by_that_also_while_it_is_at_zero() -> None:
    scaled = {
        "metadata": c.meta("ai", "http-big"),
        "spec": {"scaleTargetRef": {"name": "big"}, "minReplicaCount": 0},
    }
    there = draft(facts(served(SCALED=[scaled])))
    at_zero = [c.deployment("ai/big", SERVER, replicas=0)]
    away = draft(facts(served(SCALED=[scaled], PODS=[], DEPLOYMENTS=at_zero)))

    assert serving(there) == serving(away) == ["ScaledObject ai/http-big"]


def test_one_that_is_frozen_leaves_its_deployment_to_be_named() -> None:
    scaled = {
        "metadata": c.meta("ai", "so", annotations={"autoscaling.keda.sh/paused": "true"}),
        "spec": {"scaleTargetRef": {"name": "big"}},
    }

    assert serving(draft(facts(served(SCALED=[scaled])))) == ["Deployment ai/big"]


@pytest.mark.parametrize(
    ("owner", "said"),
    [
        ("", "TODO Pod ai/x is on these cards and not listed: nothing would bring a bare pod back"),
        ("DaemonSet ds", "TODO DaemonSet ai/ds is on these cards and not listed: a DaemonSet or a"),
        ("Node gpu-1", "TODO Node ai/x is on these cards and not listed: a DaemonSet or a static"),
        (
            "RayCluster ray",
            "TODO RayCluster ai/ray is on these cards and not listed: idlewin cannot",
        ),
        ("Job train", "Job ai/train has cards too, and is batch: it belongs into a queue below."),
    ],
)
def test_who_cannot_be_lowered_is_named_in_a_comment(owner: str, said: str) -> None:
    lists = served(NODES=[c.node("gpu-1", {GPU: 2})])
    lists[c.PODS] = [*lists[c.PODS], c.pod("ai/x", owner, "gpu-1", SERVER)]

    told = draft(facts(lists))

    assert serving(told) == ["Deployment ai/big"]
    comments = " ".join(told.text.replace("\n  # ", " ").split())
    assert said in comments


def test_a_server_beside_another_of_its_program_is_known_by_its_pod() -> None:
    llama = {"containers": [c.container("ggml-org/llama.cpp:server", {GPU: 1})]}
    lists = served(
        PODS=[c.pod("ai/big-1-aaaaa", "ReplicaSet b", "gpu-1", llama, app="big")],
        DEPLOYMENTS=[c.deployment("ai/big", llama)],
    )
    series = {"namespace": "ai", "job": "small", "pod": "small-1-aaaaa"}

    told = draft(facts(lists, c.seen("llamacpp-requests", series)))

    assert only(told)["serving"][0]["demand"] == []


def test_a_llama_swap_without_a_service_is_told_what_to_write() -> None:
    swap = {"containers": [c.container("ghcr.io/mostlygeek/llama-swap", {GPU: 1})]}

    told = draft(facts(served(DEPLOYMENTS=[c.deployment("ai/big", swap)]), DOOR))

    assert "#   - llamaSwap: {url: http://HOST:PORT}\n" in told.text
    assert "# arbiter: LlamaSwap\n" in told.text


def test_what_another_controls_is_no_target() -> None:
    owner = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "name": "lws"}
    made = c.deployment(
        "ai/big", SERVER, ownerReferences=[{**owner, "uid": "l", "controller": True}]
    )

    told = draft(facts(served(DEPLOYMENTS=[made])))

    assert told.text == ""
    assert "none of who is there can be lowered: Deployment ai/big" in told.left[0]


def test_one_that_waits_for_a_card_is_of_the_pool_that_it_would_get_one_of() -> None:
    lists = served()
    lists[c.PODS] = [*lists[c.PODS], c.pod("ai/new-1-aaaaa", "ReplicaSet n", "", SERVER, app="new")]
    lists[c.DEPLOYMENTS] = [*lists[c.DEPLOYMENTS], c.deployment("ai/new", SERVER)]
    one = draft(facts(lists))
    two = draft(facts({**lists, c.NODES: [c.node(f"gpu-{n}", {GPU: 1}) for n in "12"]}))

    assert serving(one) == ["Deployment ai/big", "Deployment ai/new"]
    assert serving(two) == ["Deployment ai/big"]
    assert any("Deployment ai/new asks for cards and has none" in left for left in two.left)


def test_a_pod_that_has_ended_holds_nothing() -> None:
    lists = served()
    lists[c.PODS][0]["status"]["phase"] = "Failed"
    lists[c.DEPLOYMENTS] = []

    assert draft(facts(lists)).text == ""


# -- queues


def with_queues(*queues: Json, work: tuple[Json, ...] = (), **labels: str) -> dict[str, Any]:
    flavors = [c.flavor("gpu", labels or {c.HOSTNAME: "gpu-1"})]
    local = [c.local(queue["metadata"]["name"]) for queue in queues]
    return served(QUEUES=[*queues], FLAVORS=flavors, LOCAL_QUEUES=local, WORKLOADS=[*work])


@pytest.mark.parametrize(
    ("work", "fields"),
    [
        ((), {"maxRuntime": "30m"}),
        ((c.work("q", 600), c.work("q", 5400)), {"maxRuntime": "1h30m"}),
        ((c.work("q", 600), c.work("q", None)), {"maxRuntime": "30m"}),
        ((c.work("q", None, contract=True),), {"contract": "Checkpoint"}),
        ((c.work("q", None, contract=True), c.work("q", 600)), {"maxRuntime": "30m"}),
    ],
)
def test_the_class_of_a_queue_is_that_of_its_work(
    work: tuple[Json, ...], fields: dict[str, str]
) -> None:
    told = draft(facts(with_queues(c.queue("q", "gpu", GPU, 1), work=work)))

    assert only(told)["batch"]["queues"] == [{"clusterQueue": "q", **fields}]
    assert ("TODO maxRuntime" in told.text) is (fields == {"maxRuntime": "30m"})
    assert told.queues == ""


def test_a_queue_of_other_cards_or_of_another_rule_is_left_out_and_a_manifest_written() -> None:
    others = (c.queue("cpu", "gpu", "cpu", 1), c.queue("taken", "gpu", GPU, 1, rule="mine"))

    told = draft(facts(with_queues(*others)))

    (queue,) = only(told)["batch"]["queues"]
    assert queue["clusterQueue"] == "gpu-1-batch"
    assert "ClusterQueue taken has quota for these cards too, and is rule mine's" in told.text
    made = list(yaml.safe_load_all(told.queues))
    # The flavor of these nodes is there already.
    assert [one["kind"] for one in made] == ["ClusterQueue", "LocalQueue"]
    (group,) = made[0]["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert flavor == {
        "name": "gpu",
        "resources": [
            {"name": GPU, "nominalQuota": "1"},
            {"name": "cpu", "nominalQuota": "15"},
            {"name": "memory", "nominalQuota": "62Gi"},
        ],
    }


def test_a_flavor_that_has_other_nodes_too_is_told() -> None:
    lists = with_queues(c.queue("q", "gpu", GPU, 1), team="llm")
    lists[c.NODES] = [c.node(f"gpu-{n}", {GPU: 1}, {"team": "llm"}) for n in "12"]

    told = " ".join(draft(facts(lists)).text.replace("# ", "").split())

    assert "its ResourceFlavor gpu also has gpu-2: give it the nodeLabels {kubernetes.io/" in told


def test_queues_that_must_not_be_listed_are_not_said_to_be_missing() -> None:
    told = draft(facts(served(QUEUES=403)))

    assert "TODO ClusterQueues could not be listed" in told.text
    assert "no ClusterQueue has quota" not in told.text
    assert told.left[0].startswith("clusterqueues could not be listed: clusterqueues is forbidden")


# -- what cannot be looked at


@pytest.mark.parametrize("kind", ["NODES", "PODS"])
def test_without_nodes_or_pods_there_is_nothing_to_draft_and_the_verb_is_named(kind: str) -> None:
    with pytest.raises(RefusedError, match=r'cannot list resource "(nodes|pods)"'):
        facts(served(**{kind: 403}))


def test_a_rule_is_what_check_takes_and_its_defaults_are_those_of_the_reference() -> None:
    told = draft(facts(served()))

    (document,) = checked(read_text(Path("my.yaml"), told.text)).documents
    assert document.findings == ()
    assert document.rule is not None
    assert document.rule.window.max == timedelta(hours=12)
