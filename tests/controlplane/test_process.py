"""The controller as a process: it lends and gives back, tells the truth, and stops when told to."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from idlewin.cli.app import main
from tests.controlplane.deployed import Controller, Thing, deploy
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
RULE = "/apis/idlewin.dev/v1alpha1/idlerules/night"
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/night"
LOCAL_QUEUE = "/apis/kueue.x-k8s.io/v1beta2/namespaces/default/localqueues/night"
TARGET = "/apis/apps/v1/namespaces/serving/deployments/night"
JOB = "/apis/batch/v1/namespaces/default/jobs/night"
CARDS = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
NODE = {"kubernetes.io/hostname": "node-1"}


def thing(version: str, kind: str, spec: Any, **metadata: Any) -> Thing:
    meta = {"name": "night", **metadata}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def pod_template(**spec: Any) -> Thing:
    container = {"name": "main", "image": "example/none", "resources": CARDS}
    return {"metadata": {"labels": {"app": "night"}}, "spec": {"containers": [container], **spec}}


def objects() -> Iterator[Thing]:
    kueue = "kueue.x-k8s.io/v1beta2"
    quota = {"name": GPU, "nominalQuota": "1"}
    group = {"coveredResources": [GPU], "flavors": [{"name": "night", "resources": [quota]}]}
    flavor = thing(kueue, "ResourceFlavor", {})
    yield flavor
    yield thing(
        kueue,
        "ClusterQueue",
        {"namespaceSelector": {}, "stopPolicy": "Hold", "resourceGroups": [group]},
        annotations={"idlewin.dev/rule": "night", "idlewin.dev/max-runtime-enforced": "true"},
    )
    yield thing(kueue, "LocalQueue", {"clusterQueue": "night"}, namespace="default")
    selector = {"matchLabels": {"app": "night"}}
    serving = {"replicas": 1, "selector": selector, "template": pod_template(nodeSelector=NODE)}
    yield thing("apps/v1", "Deployment", serving, namespace="serving")


def the_rule() -> Thing:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "serving"}
    spec = {
        "mode": "Act",
        "cards": {"resource": GPU, "count": 1, "nodeSelector": NODE},
        "serving": [{**target, "name": "night", "demand": "CalendarOnly", "leadTime": "1s"}],
        "batch": {
            "queues": [
                {
                    "clusterQueue": "night",
                    "contract": "Checkpoint",
                    "grace": "1s",
                    "minSlice": "1s",
                }
            ],
            "drainTimeout": "30s",
        },
        "window": {"idleFor": "1s", "min": "10s", "max": "10m", "minServing": "1s"},
    }
    return thing("idlewin.dev/v1alpha1", "IdleRule", spec)


class Night:
    """The plane with one pool of one card, and a job that waits for it."""

    def __init__(self, plane: ControlPlane, things: list[Thing], url: str, folder: Path) -> None:
        self.api, self.plane, self.things = plane.api, plane, things
        self.url, self.folder = url, folder

    def controller(self, **options: str | None) -> Controller:
        named = {f"--{name.replace('_', '-')}": value for name, value in options.items()}
        wanted = {"--prometheus": self.url, "--tick": "1s", **named}
        return Controller(self.plane, self.things, self.folder / "run", options=wanted)

    def add_job(self) -> None:
        template = pod_template(restartPolicy="Never", terminationGracePeriodSeconds=1)
        template["metadata"]["annotations"] = {"idlewin.dev/contract": "Checkpoint"}
        labels = {"kueue.x-k8s.io/queue-name": "night"}
        job = thing("batch/v1", "Job", {"template": template}, labels=labels)
        self.api.post(JOB.rpartition("/")[0], job)

    def status(self) -> Any:
        return self.api.get(RULE).get("status") or {}

    def until_phase(self, phase: str, epoch: int = 0) -> None:
        def there() -> bool:
            now = self.status()
            return now.get("phase") == phase and now.get("epoch", 0) > epoch

        try:
            wait_for(phase, there, timeout=60)
        except TimeoutError as error:
            log = (self.folder / "run" / "idlewin.log").read_text()[-8000:]
            raise AssertionError(f"{error}: {json.dumps(self.status(), indent=1)}\n{log}") from None

    def running(self) -> int:
        return int(self.api.get(JOB)["status"].get("active", 0))

    def replicas(self) -> int:
        return int(self.api.get(TARGET)["spec"]["replicas"])


@pytest.fixture(scope="module")
def things(plane: ControlPlane) -> list[Thing]:
    return deploy(plane)


@pytest.fixture
def night(
    plane: ControlPlane, things: list[Thing], prometheus: Prometheus, tmp_path: Path
) -> Iterator[Night]:
    prometheus.start()
    for one in objects():
        plane.api.apply(one)
    target = wait_for("serving", lambda: plane.api.get(TARGET)["status"].get("readyReplicas"))
    assert target == 1
    plane.api.apply(the_rule())
    night = Night(plane, things, prometheus.url, tmp_path)
    yield night
    made = (JOB, RULE, LOCAL_QUEUE, QUEUE, TARGET)
    for path in made:
        if plane.api.find(path):
            plane.api.patch(path, {"metadata": {"finalizers": None}})
            plane.api.delete(path)
    wait_for("end", lambda: not any(plane.api.find(path) for path in made))


def ask(controller: Controller, path: str, body: bytes | None = None) -> tuple[int, str]:
    url = f"http://127.0.0.1:{controller.port}{path}"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def cli(night: Night, *arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--kubeconfig", str(night.plane.kubeconfig)])
    return int(end.value.code or 0)


def test_cards_are_lent_and_a_wake_call_has_them_back(night: Night, tmp_path: Path) -> None:
    night.add_job()
    journal = tmp_path / "journal.jsonl"

    with night.controller(journal=str(journal)) as controller:
        controller.wait_ready()
        night.until_phase("Harvesting")
        wait_for("batch", night.running)
        assert night.replicas() == 0
        code, _ = ask(controller, "/wake/night?for=10m", b"")
        on_record = night.api.get(RULE)["metadata"]["annotations"]["idlewin.dev/wake-until"]
        night.until_phase("Serving", epoch=3)
        _, metrics = ask(controller, "/metrics")
        health, ended = ask(controller, "/healthz"), controller.kill(signal.SIGTERM)

    assert (code, night.replicas(), night.running()) == (200, 1, 0)
    assert datetime.fromisoformat(on_record) > datetime.now(UTC)
    assert (health, ended) == ((200, "ok\n"), 0)
    assert 'idlewin_windows_total{rule="night"} 1.0' in metrics
    assert "idlewin_lease_held 1.0" in metrics
    reasons = [json.loads(line).get("reason") for line in journal.read_text().splitlines()]
    moves = ("WindowOpen", "ServingGone", "WakeClaimed", "BatchGone", "HandoverComplete")
    assert tuple(r for r in reasons if r in moves)[:5] == moves


def test_give_back_needs_no_controller_and_no_readable_rule(night: Night, capsys: Any) -> None:
    night.add_job()
    with night.controller() as controller:
        night.until_phase("Harvesting")
        wait_for("batch", night.running)
        controller.kill(signal.SIGKILL)
    night.api.patch(RULE, {"spec": {"window": {"idelFor": "a typing error"}}})

    code = cli(night, "give-back", "night", "--timeout", "2m")

    out = capsys.readouterr().out
    assert code == 0, out
    assert (night.replicas(), night.running()) == (1, 0)
    assert night.status()["phase"] == "Serving"
    assert night.api.get(RULE)["spec"]["paused"] is True
    assert night.api.get(QUEUE)["spec"]["stopPolicy"] != "None"
    assert "scale Deployment serving/night back to 1" in out


def test_a_dry_run_and_explain_write_nothing(night: Night, capsys: Any) -> None:
    night.add_job()
    begin = datetime.now(UTC)

    with night.controller(dry_run=None) as controller:
        controller.wait_ready()
        wait_for(
            "first step",
            lambda: 'from="Serving",reason="WindowOpen"' in ask(controller, "/metrics")[1],
        )
        refused, told = ask(controller, "/wake/night", b"")
        assert controller.kill(signal.SIGTERM) == 0
    drawn = night.folder / "night.png"
    code = cli(night, "explain", "night", "--prometheus", night.url, "--picture", str(drawn))
    out = capsys.readouterr().out

    assert drawn.read_bytes().startswith(b"\x89PNG")
    assert (refused, "runs dry" in told) == (403, True)
    assert night.plane.audit.writes(user=controller.user, since=begin) == []
    assert night.replicas() == 1
    assert night.status() == {}
    assert code == 0
    assert "night: Serving to Yielding (WindowOpen)" in out
    assert "-> scale Deployment serving/night from 1 to 0" in out
    assert "calendar: UTC" in out
    assert "forecast: calendar, resting on" in out
