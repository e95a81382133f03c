"""Where a first rule says that demand shows, and what it says where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden import cluster as c
from tests.unit.test_draft import DOOR, DRI, GPU, MODEL, draft, facts, only, served


def test_demand_is_found_by_the_pod_and_by_the_names_of_what_leads_there() -> None:
    told = draft(facts(served()))

    assert only(told)["serving"][0]["demand"] == [
        {"source": "traefik-router", "match": {"router": "web-ai-big-big-example@kubernetes"}},
        {"source": "vllm-requests", "match": {"namespace": "ai", "model_name": "org/Big-1"}},
    ]
    assert told.stops == ()


@pytest.mark.parametrize(
    ("name", "series", "match"),
    [
        ("llamacpp-requests", {"namespace": "ai", "job": "llm", "pod": "big-1-aaaaa"},
         {"namespace": "ai", "job": "llm"}),
        ("llamacpp-requests", {"namespace": "ai", "job": "llm", "pod": "big-77f9c-zzzzz"},
         {"namespace": "ai", "job": "llm"}),
        ("vllm-requests", {"namespace": "ai", "model_name": "org/big_1"},
         {"namespace": "ai", "model_name": "org/big_1"}),
        ("ingress-nginx", {"exported_namespace": "ai", "exported_service": "front",
                           "namespace": "ingress"}, {"namespace": "ai", "service": "front"}),
        ("istio-requests", {"destination_service_namespace": "ai",
                            "destination_service_name": "big"},
         {"destination_service_namespace": "ai", "destination_service_name": "big"}),
        ("knative-activator", {"k8s_namespace_name": "ai", "kn_revision_name": "big-00007"},
         {"k8s_namespace_name": "ai", "kn_revision_name": "big-00007"}),
        ("haproxy-backend", {"proxy": "ai_front_http"}, {"proxy": "ai_front_http"}),
        ("envoy-cluster", {"envoy_cluster_name": "outbound|80||front.ai.svc.cluster.local"},
         {"envoy_cluster_name": "outbound|80||front.ai.svc.cluster.local"}),
    ],
)  # fmt: skip
def test_each_kind_of_source_has_its_way_to_be_matched(
    name: str, series: dict[str, str], match: dict[str, str]
) -> None:
    lists = served(SERVICES=[c.service("ai/front", 80, app="big")])

    told = draft(facts(lists, c.seen(name, series)))

    (demand,) = only(told)["serving"][0]["demand"]
    assert demand == {"source": name, "match": match}


@pytest.mark.parametrize(
    ("name", "series"),
    [
        ("vllm-requests", {"namespace": "lab", "model_name": "org/Big-1", "pod": "big-1-aaaaa"}),
        ("vllm-requests", {"namespace": "ai", "model_name": "other", "pod": "bigger-1-aaaaa"}),
        ("llamacpp-requests", {"namespace": "ai", "job": "llm", "pod": "other-1-aaaaa"}),
        ("traefik-router", {"router": "web-lab-big-big-example@kubernetes"}),
        ("traefik-router", {"router": "web-ai-bigger-example@kubernetes"}),
        ("traefik-router", {"router": "big-ai-other-example@kubernetes"}),
        # A Job's pod, and names that begin or end with its.
        ("vllm-requests", {"namespace": "ai", "model_name": "other", "pod": "big-eval-xxxxx"}),
        ("haproxy-backend", {"proxy": "my-ai_big_http"}),
        ("haproxy-backend", {"proxy": "ai_big-admin_http"}),
        ("envoy-cluster", {"envoy_cluster_name": "outbound|80||my-big.ai.svc.cluster.local"}),
        ("haproxy-backend", {"proxy": "stats"}),
        ("istio-requests", {"destination_service_namespace": "ai",
                            "destination_service_name": "other"}),
    ],
)  # fmt: skip
def test_what_is_anothers_is_not_taken(name: str, series: dict[str, str]) -> None:
    told = draft(facts(served(), c.seen(name, series)))

    assert only(told)["serving"][0]["demand"] == []


def test_between_dashes_names_may_be_part_of_anothers_and_the_draft_says_so() -> None:
    told = draft(facts(served(), c.seen("traefik-router", {"router": "web-ai-big-admin-x@k"})))

    assert "names between dashes in it, which may be part of another's" in told.text


def test_where_a_half_is_missing_the_comment_says_what_is_there_and_at_which_line_check_stops() -> (
    None
):
    other = c.seen("traefik-router", {"router": "web-lab-x@kubernetes"})

    told = draft(facts(served(), other, MODEL))

    (stop,) = told.stops
    assert told.text.splitlines()[stop.line - 1] == "      demand:"
    assert f"#   line {stop.line}: spec.serving[0].demand: nothing of it shows while" in told.text
    assert "traefik-router is alive, and has {router: web-lab-x@kubernetes}." in told.text


def test_series_without_the_label_that_is_matched_by_are_told_with_the_remedy() -> None:
    bare = c.seen("vllm-requests", {"model_name": "org/Big-1"})

    told = " ".join(draft(facts(served(), DOOR, bare)).text.replace("# ", "").split())

    assert "vllm-requests is alive, and has {model_name: org/Big-1}." in told
    assert "No series of it has the label namespace: scrape vLLM's /metrics with" in told


def test_a_source_that_is_down_is_told() -> None:
    down = replace(DOOR, alive=False, trouble="the last scrape failed")

    assert "source traefik-router: the last scrape failed" in draft(facts(served(), down)).left


def test_one_that_shows_nothing_now_is_written_with_the_reason() -> None:
    gone = replace(MODEL, doubts={("ai", "org/Big-1"): "no series now"})

    told = draft(facts(served(), DOOR, gone))

    assert len(only(told)["serving"][0]["demand"]) == 2
    assert "# TODO unknown now: no series now." in told.text


def test_without_a_prometheus_the_rule_has_all_but_demand_and_says_so() -> None:
    told = draft(replace(facts(served()), sources=(), no_prometheus="it is silent"))

    assert only(told)["cards"]["count"] == 1
    assert only(told)["serving"][0]["demand"] == []
    assert "(it is silent)." in told.text
    assert "demand and activity: it is silent" in told.left
    assert len(told.stops) == 1


# -- activity


def test_activity_is_written_where_it_shows_these_cards_and_no_others() -> None:
    cards = ({"instance": "10.0.0.1:9835", "uuid": "a"}, {"instance": "10.0.0.2:9835", "uuid": "b"})
    node = c.node("gpu-1", {GPU: 1})
    node["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.1"}]

    told = draft(facts(served(NODES=[node]), DOOR, MODEL, c.seen("nvidia-smi", *cards)))

    assert only(told)["cards"]["activity"] == {
        "source": "nvidia-smi",
        "match": {"uuid": "a"},
    }


def test_activity_of_several_cards_is_by_what_they_have_alike() -> None:
    cards = [
        {"instance": f"gpu-{n}:9835", "uuid": f"{n}{letter}"} for n in (1, 2) for letter in "ab"
    ]
    lists = served(NODES=[c.node("gpu-1", {GPU: 2})])

    told = draft(facts(lists, DOOR, MODEL, c.seen("nvidia-smi", *cards)))

    assert only(told)["cards"]["activity"]["match"] == {"instance": "gpu-1:9835"}


def test_activity_of_another_vendors_cards_in_the_box_is_not_taken() -> None:
    other = c.seen("intel-xpumd", {"node": "gpu-1", "pci_bdf": "0000:03:00.0"})

    assert "activity" not in only(draft(facts(served(), DOOR, MODEL, other)))["cards"]


def test_activity_whose_nodes_do_not_show_is_told() -> None:
    other = c.seen("nvidia-dcgm", {"Hostname": "dcgm-exporter-x1", "UUID": "GPU-1"})

    told = draft(facts(served(), DOOR, MODEL, other))

    assert "# nvidia-dcgm is alive, and none of its series names these nodes." in told.text


def test_activity_that_is_not_believed_is_a_comment() -> None:
    key = {"hostname": "gpu-1", "UUID": "x"}
    mig = c.seen("nvidia-dcgm", key, doubts={("gpu-1", "x"): "a card in MIG mode"})

    told = draft(facts(served(), DOOR, MODEL, mig))

    assert "activity" not in only(told)["cards"]
    assert "nvidia-dcgm is there, and not believed: a card in MIG mode." in told.text


def test_who_mounts_all_of_dev_is_told_where_device_nodes_are_named() -> None:
    everything = {**DRI, "volumes": [{"name": "device", "hostPath": {"path": "/dev"}}]}
    lists = served(NODES=[c.node("gpu-1", {"amd.com/gpu": 1})])
    lists[c.DEPLOYMENTS] = [c.deployment("media/films", DRI)]
    lists[c.PODS] = [
        c.pod("media/films-1-aaaaa", "ReplicaSet f", "gpu-1", DRI, app="films"),
        c.pod("longhorn/manager", "", "gpu-1", everything),
    ]

    told = draft(facts(lists))

    assert only(told)["cards"]["deviceNodes"] == ["/dev/dri"]
    assert "    # exemptNamespaces: [longhorn]\n" in told.text


def test_one_that_is_on_cards_of_two_kinds_is_a_target_of_one_rule() -> None:
    nodes = [c.node("box", {"gpu.intel.com/xe": 1, "gpu.intel.com/i915": 1})]
    pods = [c.pod("media/films-1-aaaaa", "ReplicaSet f", "box", DRI, app="films")]

    told = draft(
        facts(served(NODES=nodes, PODS=pods, DEPLOYMENTS=[c.deployment("media/films", DRI)]))
    )

    assert told.rules == ("box-i915",)
    assert any("gpu.intel.com/xe on box: no rule" in left for left in told.left) is False
    assert told.stops[0].field == "spec.serving[0].demand"


def test_time_slicing_is_told() -> None:
    node = c.node("gpu-1", {GPU: 4}, {"nvidia.com/gpu.replicas": "4"})

    assert "TODO gpu-1 offers each card 4 times over" in draft(facts(served(NODES=[node]))).text
