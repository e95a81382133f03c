"""``idlewin sources probe`` against a real Prometheus: what is there, what is not, what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from idlewin.adapters.prometheus import PrometheusMetrics
from idlewin.adapters.survey import seen
from idlewin.catalogue import Catalogue
from idlewin.cli import app
from idlewin.core.target import Demand
from idlewin.errors import Exit
from idlewin.sourcefile import read_sources
from tests.contract.demand_rules import HandClock, rule
from tests.contract.prometheus_lab import MODEL, ROUTER, reader
from tests.labs.kubelab.api import wait_for
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus
from tests.unit.test_sourcefile import GOOD, written

RULE = """\
apiVersion: idlewin.dev/v1alpha1
kind: IdleRule
metadata: {name: b580}
spec:
  cards: {resource: gpu.intel.com/xe, count: 1, nodeSelector: {a: b}}
  serving:
    - apiVersion: apps/v1
      kind: Deployment
      namespace: ai
      name: qwen3-8b
      demand: [DEMAND]
  batch: {queues: [{clusterQueue: short, maxRuntime: 30m}]}
"""
DOOR = "{source: traefik-router, match: {router: qwen3-8b@kubernetes}}"
VLLM = "{source: vllm-requests, match: {namespace: ai, model_name: qwen3-8b}}"
BAD = GOOD.replace("my_gateway_in_flight)", "my_gateway_in_flight")


@pytest.fixture
def served(prometheus: Prometheus, live: Exporter) -> Prometheus:
    """A router, a model that answers three requests, and a gateway whose number cannot be."""
    live.set("traefik_router_requests_total", 5, **ROUTER)
    live.set("traefik_config_last_reload_success", 1)
    live.set("vllm:num_requests_running", 3, **MODEL)
    live.set("my_gateway_in_flight", 4294967295, namespace="ai", service="qwen")
    live.set("my_gateway_info", 1)
    wait_for("the model", lambda: prometheus.value("vllm:num_requests_running") == 3)
    return prometheus


def probed(
    served: Prometheus, tmp_path: Path, demand: str, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, str]:
    path = tmp_path / "rule.yaml"
    path.write_text(RULE.replace("DEMAND", demand))
    code = 0
    try:
        app.main(["sources", "probe", str(path), "--prometheus", served.url, *more])
    except SystemExit as end:
        code = int(end.code or 0)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_what_is_alive_is_told_with_its_keys(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = probed(served, tmp_path, f"{DOOR}, {VLLM}", capsys)

    assert code == Exit.OK
    assert "traefik-router (front-door): alive, 1 key, oldest sample " in said
    assert "  router=qwen3-8b@kubernetes: " in said
    assert "  namespace=ai, model_name=qwen3-8b: 3" in said
    assert "llamacpp-requests" in said.partition("not seen: ")[2]
    assert "  there   spec.serving[0].demand[1] vllm-requests{" in said


def test_a_llama_swap_is_none_of_prometheus(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swap = '{llamaSwap: {url: "http://swap:8080"}}'

    code, said = probed(served, tmp_path, f"{swap}, {DOOR}, {VLLM}", capsys)

    assert code == Exit.OK
    assert "  there   spec.serving[0].demand[2] vllm-requests{" in said
    assert "llamaSwap" not in said


def test_a_rule_that_lacks_a_series_is_told_with_the_nearest_and_the_remedy(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = VLLM.replace("qwen3-8b}", "qwen3}")

    code, said = probed(served, tmp_path, f"{DOOR}, {typed}", capsys)

    assert code == Exit.FAILED
    assert "  there   spec.serving[0].demand[0]" in said
    (line,) = [line for line in said.splitlines() if line.startswith("  missing ")]
    assert "there is no series with namespace=ai, model_name=qwen3; there are: ai/qwen3-8b;" in line
    assert "scrape vLLM's /metrics" in line


def test_a_server_that_went_to_zero_lacks_nothing(
    served: Prometheus, live: Exporter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live.drop("vllm:num_requests_running", **MODEL)
    wait_for("no series", lambda: served.query("vllm:num_requests_running") == [])

    code, said = probed(served, tmp_path, f"{DOOR}, {VLLM}", capsys)

    assert code == Exit.OK
    assert "  away    spec.serving[0].demand[1] vllm-requests" in said
    assert "no series now, though there was one within 30 days" in said


def test_a_server_whose_scrape_fails_is_not_at_zero(
    served: Prometheus, live: Exporter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live.silence()
    wait_for("a failed scrape", lambda: served.value('up{job="live"}') == 0)

    code, said = probed(served, tmp_path, f"{DOOR}, {VLLM}", capsys)

    assert code == Exit.FAILED
    assert "vllm-requests (running): down, 1 key" in said
    assert "can mean that it is busy" in said


def test_what_cannot_be_is_told(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = written(tmp_path, GOOD, "own.yaml")
    demand = "{source: my-gateway, match: {service: qwen}}"

    code, said = probed(served, tmp_path, demand, capsys, "--sources", str(sources))

    assert code == Exit.FAILED
    assert "my-gateway (in-path): alive, 1 key, oldest sample " in said
    assert ", 1 out of range" in said
    assert "namespace=ai, service=qwen: the value is 4294967295, which cannot be" in said


def test_a_query_that_does_not_parse_is_told_and_never_idle(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = written(tmp_path, BAD, "own.yaml")
    demand = "{source: my-gateway, match: {service: qwen}}"

    code, said = probed(served, tmp_path, demand, capsys, "--sources", str(sources))

    assert code == Exit.FAILED
    assert "my-gateway (in-path): unreadable" in said
    assert "bad_data" in said
    own = Catalogue(own=read_sources(sources).sources)
    watched = rule(Demand(source="my-gateway", match={"service": "qwen"}))
    (reading,) = PrometheusMetrics(served.url, HandClock(), catalogue=own).read(watched)
    assert reading.value is None
    assert "parse error" in reading.why


def test_a_query_that_loses_its_keys_is_told_and_never_idle(
    served: Prometheus, live: Exporter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    live.set("my_gateway_in_flight", 3, namespace="ai", service="qwen")
    wait_for("its requests", lambda: served.value("my_gateway_in_flight") == 3)
    lost = GOOD.replace("sum by (namespace, service) (", "sum(")
    sources = written(tmp_path, lost, "own.yaml")
    demand = "{source: my-gateway, match: {service: qwen}}"

    code, said = probed(served, tmp_path, demand, capsys, "--sources", str(sources))

    assert code == Exit.FAILED
    assert "ai/qwen has a series, and the query of my-gateway no value for it" in said
    assert "sum by (namespace, service) (...)" in said


def test_a_label_that_no_series_has_is_told(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = written(tmp_path, GOOD.replace("namespace, service", "tenant, service"), "own.yaml")
    demand = "{source: my-gateway, match: {tenant: ai, service: qwen}}"

    code, said = probed(served, tmp_path, demand, capsys, "--sources", str(sources))

    assert code == Exit.FAILED
    assert "  no series has the label tenant, so no match by it finds one; scrape the" in said
    assert 'there are: ""/qwen, without the label tenant; scrape the gateway' in said


def test_a_source_without_any_key_says_what_is_looked_for(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources = written(tmp_path, GOOD.replace("my_gateway_in_flight", "my_gw"), "own.yaml")

    _, said = probed(served, tmp_path, f"{DOOR}, {VLLM}", capsys, "--sources", str(sources))

    assert "my-gateway (in-path): alive, 0 keys\n  no series of my_gw: nobody asked" in said


def test_who_drafts_a_rule_gets_the_labels_of_series_also_of_those_that_are_gone(
    served: Prometheus, live: Exporter
) -> None:
    gone = {**MODEL, "pod": "qwen3-8b-1-aaaaa"}
    live.set("vllm:num_requests_running", 0, **gone)
    wait_for("another pod", lambda: len(served.query("vllm:num_requests_running")) == 2)
    live.drop("vllm:num_requests_running", **MODEL)
    live.drop("vllm:num_requests_running", **gone)
    wait_for("no series", lambda: served.query("vllm:num_requests_running") == [])

    found = {one.source.name: one for one in seen(reader(served), Catalogue())}

    vllm, router = found["vllm-requests"], found["traefik-router"]
    assert {labels.get("pod", "") for labels in vllm.series} == {"", "qwen3-8b-1-aaaaa"}
    assert vllm.doubts == {("ai", "qwen3-8b"): "no series now, though there was one within 30 days"}
    assert (router.alive, router.trouble, router.doubts) == (True, "", {})
    assert {labels["router"] for labels in router.series} == {"qwen3-8b@kubernetes"}
    assert not found["llamacpp-requests"].alive


def test_as_data_it_has_sources_and_rules(
    served: Prometheus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said = probed(served, tmp_path, f"{DOOR}, {VLLM}", capsys, "-o", "json")

    told = json.loads(said)
    (vllm,) = [one for one in told["sources"] if one["name"] == "vllm-requests"]
    assert (vllm["state"], vllm["count"], vllm["keys"][0]["value"]) == ("alive", 1, 3)
    (b580,) = told["rules"]
    assert [use["found"] for use in b580["looksAt"]] == ["there", "there"]


def test_a_prometheus_that_is_not_there_is_no_answer(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        app.main(["sources", "probe", "--prometheus", "http://127.0.0.1:9"])

    assert end.value.code == Exit.UNREACHABLE
    assert "Prometheus at http://127.0.0.1:9 is not reached" in capsys.readouterr().err
