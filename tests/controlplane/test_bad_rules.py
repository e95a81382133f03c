"""Each way in which a rule and its cluster disagree has a condition of its own, with the way out.

Every fault is a pool of its own; one pool has none, and its window opens beside all of them. What
``idlewin check --cluster`` says of a rule is what stands on the rule.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.errors import Exit
from tests.controlplane.deployed import deploy
from tests.controlplane.running import Running
from tests.controlplane.scene import Scene
from tests.controlplane.setting import KUEUE, RULES, SHORT
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
#: The fault of each pool, and a word of its remedy.
FAULTS = {
    "unknown-key": ("SpecInvalid", "idleFor"),
    "unknown-zone": ("SpecInvalid", "Europe/Vienna"),
    "never-open": ("SpecInvalid", "deny"),
    "no-bound": ("SpecInvalid", "maxRuntime"),
    "no-source": ("NotSupported", "traefik-router"),
    "unseen-at-zero": ("NotSupported", "visibleAtZero"),
    "cut-off": ("NotSupported", "vllm-requests"),
    "no-queue": ("QueueMissing", "create it"),
    "not-adopted": ("NotAdopted", "idlewin adopt"),
    "leaking": ("QuotaLeaks", "lendingLimit"),
    "unbounded": ("BoundNotEnforced", "max-exec-time-seconds"),
    "wrong-count": ("CardsMismatch", "count"),
    "no-target": ("TargetMissing", "create it"),
    "too-large": ("ServingTooLarge", "co-tenancy"),
    "hpa-at-zero": ("ServingNotOurs", "minReplicas"),
    "same-queue": ("RuleConflict", "older"),
    "far-claim": ("WakeUnreadable", "write one"),
}
PLANE = {"nodes": {name: {GPU: "1"} for name in (*FAULTS, "good", "inside")}}
#: In UTC that is the year 10000.
FAR_CLAIM = {"idlewin.dev/wake-until": "9999-12-31T23:59:59-05:00"}
UNSEEN = [{"query": "max(demand)", "up": 'max(up{job="live"})'}]
#: Counted when a request ends, so a long answer would look idle.
ENDED = [{"query": "sum(increase(ended[1m]))", "up": 'max(up{job="live"})', "visibleAtZero": True}]
Json = dict[str, Any]


def spec_of(name: str) -> Json:
    """What is wrong with a pool's rule itself, as a merge patch of a good one."""
    queues = [{"clusterQueue": name}]
    return {
        "unknown-key": {"window": {"idlefor": "1s"}},
        "unknown-zone": {"window": {"calendar": {"timeZone": "Europe/Wien"}}},
        "never-open": {"window": {"calendar": {"allow": ["Mon 10:00-12:00"], "deny": ["Mon"]}}},
        "no-bound": {"batch": {"queues": queues}},
        "no-queue": {"batch": {"queues": [{"clusterQueue": "nowhere", "maxRuntime": "1m"}]}},
        "same-queue": {"batch": {"queues": [{"clusterQueue": "good", "maxRuntime": "5s"}]}},
        "wrong-count": {"cards": {"count": 3}},
    }.get(name, {})


def a_scene(plane: ControlPlane, name: str) -> Scene:
    demand: Any = "CalendarOnly"
    if name == "no-source":
        demand = [{"source": "traefik-ruter", "match": {"router": "a@kubernetes"}}]
    if name == "unseen-at-zero":
        demand = UNSEEN
    if name == "cut-off":
        demand = ENDED
    return Scene(
        plane=plane,
        name=name,
        node=name,
        queues={name: SHORT},
        targets={name: 2 if name == "too-large" else 1},
        demand=demand,
        namespace="default" if name == "inside" else "serving",
    )


def furnish(scene: Scene) -> None:
    """The pool's objects, with what is wrong about them, and then its rule."""
    scene.make_queues()
    path = f"{KUEUE}/clusterqueues/{scene.name}"
    if scene.name != "no-target":
        scene.make_target(scene.name)
    match scene.name:
        case "not-adopted":
            scene.api.patch(path, {"metadata": {"annotations": {"idlewin.dev/rule": None}}})
        case "leaking":
            scene.api.patch(path, {"spec": {"cohortName": "shared"}})
            other = scene.api.get(path)["spec"] | {"stopPolicy": "None"}
            body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
            scene.api.post(
                f"{KUEUE}/clusterqueues", {**body, "metadata": {"name": "borrower"}, "spec": other}
            )
        case "unbounded":
            scene.queues[scene.name] = {}
            scene.make_job("unbounded-work", contract=False)
            scene.queues[scene.name] = SHORT
        case "hpa-at-zero":
            scene.api.post("/apis/autoscaling/v2/namespaces/serving/horizontalpodautoscalers", HPA)
    scene.make_rule(**spec_of(scene.name))
    if scene.name == "far-claim":
        scene.api.patch(f"{RULES}/{scene.name}", {"metadata": {"annotations": FAR_CLAIM}})


def furnish_oddly(plane: ControlPlane) -> None:
    """What the API server takes of any tenant, with as little in it as it takes."""
    for kind, plural in (("LocalQueue", "localqueues"), ("Workload", "workloads")):
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "odd"}}
        plane.api.post(f"{KUEUE}/namespaces/serving/{plural}", body)


HPA = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "hpa-at-zero"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "hpa-at-zero"},
        "minReplicas": 0,
        "maxReplicas": 2,
        "metrics": [
            {
                "type": "External",
                "external": {
                    "metric": {"name": "queue"},
                    "target": {"type": "Value", "value": "1"},
                },
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Rules:
    plane: ControlPlane
    scenes: dict[str, Scene]

    def condition(self, name: str, kind: str = "Ready") -> Json | None:
        found = self.scenes[name].status().get("conditions") or ()
        return next((one for one in found if one["type"] == kind), None)


@pytest.fixture(scope="module")
def rules(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rules]:
    """All pools, with the controller at work."""
    things = deploy(plane)
    scenes = {name: a_scene(plane, name) for name in ("good", "inside", *FAULTS)}
    for scene in scenes.values():
        furnish(scene)
    furnish_oddly(plane)
    for name in ("good", "inside"):
        scenes[name].make_job(f"{name}-work", contract=False)
    folder = tmp_path_factory.mktemp("rules")
    # Nobody asks for demand here: a Prometheus that is not there does for CalendarOnly.
    with Running(plane, things, folder, "http://127.0.0.1:9", no_lease=None):
        yield Rules(plane, scenes)


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_told_on_the_rule_with_the_way_out(rules: Rules, name: str) -> None:
    fault, remedy = FAULTS[name]

    found = wait_for("condition", lambda: rules.condition(name))

    assert (found["status"], found["reason"]) == ("False", fault)
    assert remedy in found["message"]
    assert rules.scenes[name].phase() == "Serving"


def test_a_wrong_unit_is_refused_at_the_door(rules: Rules) -> None:
    with pytest.raises(ApiError, match=r"spec.window.idleFor.*10 minutes"):
        rules.scenes["good"].make_rule(window={"idleFor": "10 minutes"})


def test_a_rule_beside_them_lends_its_card(rules: Rules) -> None:
    rules.scenes["good"].wait_phase("Yielding", "Harvesting")

    assert rules.condition("good")["status"] == "True"


def test_serving_inside_kueues_webhooks_is_told_and_lends_all_the_same(rules: Rules) -> None:
    rules.scenes["inside"].wait_phase("Yielding", "Harvesting")

    found = rules.condition("inside", "ServingInsideKueue")

    assert found["status"] == "True"
    assert "managedJobsNamespaceSelector" in found["message"]


def test_check_says_of_a_file_what_stands_on_the_rule(rules: Rules, tmp_path: Path) -> None:
    kind = {"apiVersion": "idlewin.dev/v1alpha1", "kind": "IdleRule"}
    for name, scene in rules.scenes.items():
        meta = {"name": name, "annotations": FAR_CLAIM if name == "far-claim" else {}}
        body = {**kind, "metadata": meta, "spec": scene.spec(**spec_of(name))}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    command = [sys.executable, "-m", "idlewin.cli.app", "check", str(tmp_path), "--kubeconfig"]

    done = subprocess.run(
        [*command, str(rules.plane.kubeconfig)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 1, done.stderr
    told = done.stdout
    for name, (fault, remedy) in FAULTS.items():
        lines = [line for line in told.splitlines() if f"{name}.yaml" in line]
        assert any(remedy in line for line in lines), (name, fault, lines)
    assert "good.yaml:1: good: ok" in told


def test_sources_are_probed_for_the_clusters_rules(rules: Rules, prometheus: Prometheus) -> None:
    prometheus.start()
    wait_for("a scrape", lambda: prometheus.value('up{job="live"}') == 1)
    command = [sys.executable, "-m", "idlewin.cli.app", "sources", "probe", "--prometheus"]

    done = subprocess.run(
        [*command, prometheus.url, "--kubeconfig", str(rules.plane.kubeconfig)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == Exit.FAILED
    told = {part.splitlines()[0]: part for part in done.stdout.split("\nrule ")[1:]}
    assert "it goes by the calendar" in told["good:"]
    assert "no such source; there are: traefik-router" in told["no-source:"]
    assert "  there   spec.serving[0].demand[0] max(demand): 0" in told["unseen-at-zero:"]
    assert [head for head in told if head.startswith("unknown-zone: spec.window.calendar")]
