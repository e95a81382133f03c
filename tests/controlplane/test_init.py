"""``idlewin init`` on a real cluster and Prometheus: what it writes is checked, applied and run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.cli.app import main
from tests.controlplane.deployed import Thing, deploy
from tests.controlplane.running import Running
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RULES = "/apis/idlewin.dev/v1alpha1/idlerules"
ROUTER = "websecure-serving-qwen-qwen-example-com@kubernetes"
Json = dict[str, Any]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def installed(plane: ControlPlane) -> list[Thing]:
    return deploy(plane)


@pytest.fixture
def scene(installed: list[Thing], plane: ControlPlane) -> Iterator[Scene]:
    """Serving on the one card, behind a Service and an Ingress, and nothing of idlewin's."""
    del installed
    scene = Scene(plane=plane, name="qwen")
    scene.make_target("qwen")
    scene.wait_ready()
    named = {"name": "qwen", "namespace": scene.namespace}
    ports = [{"name": "http", "port": 80, "targetPort": 8000}]
    spec: Json = {"selector": {"app": "qwen"}, "ports": ports}
    plane.api.apply({"apiVersion": "v1", "kind": "Service", "metadata": named, "spec": spec})
    backend = {"service": {"name": "qwen", "port": {"number": 80}}}
    paths = [{"path": "/", "pathType": "Prefix", "backend": backend}]
    spec = {"rules": [{"host": "qwen.example.com", "http": {"paths": paths}}]}
    group = "networking.k8s.io/v1"
    plane.api.apply({"apiVersion": group, "kind": "Ingress", "metadata": named, "spec": spec})
    yield scene
    with contextlib.suppress(ApiError):
        plane.api.delete(f"{RULES}/node-1")
    scene.clear()


@pytest.fixture
def scraped(prometheus: Prometheus, exporter: Exporter, scene: Scene) -> Prometheus:
    """Weeks of a router that is there no more, and what is scraped now: router, model and card."""
    (pod,) = scene.serving_pods()
    model = {"namespace": scene.namespace, "model_name": "Qwen/Qwen3", "pod": _name(pod)}
    exporter.set("traefik_router_requests_total", 5, router=ROUTER, code="200")
    exporter.set("traefik_config_last_reload_success", 1)
    exporter.set("vllm:num_requests_running", 0, **model)
    exporter.set("vllm:num_requests_waiting", 0, **model)
    card = {"node": "node-1", "pci_bdf": "0000:03:00.0"}
    exporter.set("hw_gpu_info", 1, **card)
    exporter.set("hw_gpu_utilization_ratio", 0.01, **card)
    now = int(wait_for("a pod's time", lambda: _since(pod)))
    minutes = range(now - 600 * 60, now - 60, 60)
    lines = [
        f'traefik_router_requests_total{{router="{ROUTER}",code="200"}} 5 {at}' for at in minutes
    ]
    prometheus.backfill("\n".join(["# TYPE traefik_router_requests counter", *lines, "# EOF\n"]))
    prometheus.start()
    # What the source asks: samples at whole five seconds.
    used = "max_over_time(hw_gpu_utilization_ratio[2m:5s])"
    wait_for("a use of the card", lambda: prometheus.value(used) is not None)
    return prometheus


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])


def _since(pod: Json) -> float:
    from datetime import datetime

    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


@pytest.fixture
def idlewin(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = 0
        try:
            main([*map(str, arguments), "--kubeconfig", str(plane.kubeconfig)])
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_what_it_writes_is_right_but_for_consent_and_the_controller_takes_it(
    scene: Scene,
    scraped: Prometheus,
    installed: list[Thing],
    idlewin: Call,
    tmp_path: Path,
) -> None:
    rules, queues = tmp_path / "my.yaml", tmp_path / "queues.yaml"

    code, out, err = idlewin(
        "init", "--out", rules, "--queues", queues, "--prometheus", scraped.url
    )

    assert (code, out) == (0, ""), err
    (rule,) = yaml.safe_load_all(rules.read_text())
    assert rule["metadata"]["name"] == "node-1"
    assert rule["spec"]["cards"]["activity"] == {
        "source": "intel-xpumd",
        "match": {"node": "node-1"},
    }
    (serving,) = rule["spec"]["serving"]
    assert serving["demand"] == [
        {"source": "traefik-router", "match": {"router": ROUTER}},
        {
            "source": "vllm-requests",
            "match": {"namespace": scene.namespace, "model_name": "Qwen/Qwen3"},
        },
    ]
    # As the next steps say: the queue, the rule, consent.
    api = scene.api
    scene.plane.add_namespace("batch")
    assert "  kubectl create namespace batch" in err.splitlines()
    for thing in yaml.safe_load_all(queues.read_text()):
        api.apply(thing)
    assert "  idlewin adopt node-1-batch --rule node-1" in err.splitlines()
    assert errors(idlewin, rules) == ["NotAdopted"]
    api.post(RULES, rule)
    assert idlewin("adopt", "node-1-batch", "--rule", "node-1")[0] == 0
    assert errors(idlewin, rules) == []

    with Running(scene.plane, installed, tmp_path / "run", scraped.url) as running:
        path = f"{RULES}/node-1"
        status = wait_for("a status", lambda: (api.get(path).get("status") or {}).get("phase"))
        told = wait_for("decisions", lambda: running.journal("node-1"))
    assert status == "Serving"
    assert told[-1]["reason"] not in ("RuleInvalid", "NotSupported", "DemandUnknown")
    # With a rule that has the cards there is nothing more to draft.
    code, out, err = idlewin("init", "--prometheus", scraped.url)
    assert (code, out) == (1, "")
    assert "(rule node-1 has them)" in err


def errors(idlewin: Call, rules: Path) -> list[str]:
    """The faults that ``check`` finds, with the cluster's."""
    _, out, _ = idlewin("check", rules, "-o", "json")
    (told,) = json.loads(out)["rules"]
    wrong = [one["message"] for one in told["findings"] if not one["warning"]]
    return [message.rpartition("(")[2].rstrip(")") for message in wrong]


def test_without_prometheus_it_writes_what_it_knows_and_says_so(
    scene: Scene, idlewin: Call
) -> None:
    code, out, err = idlewin("init", "--namespace", scene.namespace)

    assert code == 1
    (rule,) = yaml.safe_load_all(out)
    assert rule["spec"]["serving"][0]["name"] == "qwen"
    assert "not known: demand and activity: no Prometheus was named" in err
    assert f"check stops at: my.yaml:{out.splitlines().index('      demand: []') + 1}: " in err


def test_who_may_list_no_nodes_is_told_the_verb_and_the_kind(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody = scene.plane.service_account_kubeconfig("default", "default")
    out = tmp_path / "my.yaml"

    with pytest.raises(SystemExit) as end:
        main(["init", "--out", str(out), "--kubeconfig", str(nobody)])

    assert end.value.code == 4
    assert 'cannot list resource "nodes"' in capsys.readouterr().err
    assert not out.exists()
