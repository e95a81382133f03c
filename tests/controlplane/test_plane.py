"""A rendered plane on the real API server and real Kueue: it applies, and its gates hold."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.adapters.quota import reach
from idlewin.cli.app import main
from idlewin.plane.read import read_plane
from idlewin.plane.render import objects, to_close
from tests.controlplane.deployed import deploy
from tests.controlplane.pools import NO_PROMETHEUS
from tests.controlplane.running import Running
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
ROOT = Path(__file__).parents[2]
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
RULE = "/apis/idlewin.dev/v1alpha1/idlerules/arc"
TARGET = "/apis/apps/v1/namespaces/serving/deployments/llm"
Json = dict[str, Any]

PLANE_FILE = """\
name: lab
deviceClasses: [{name: device, kind: Exclusive, deviceNodes: [/dev/dri]}]
cards:
  - name: arc
    resource: gpu.intel.com/xe
    nodes: [node-1]
    model: a card of the lab
    memory: 12Gi
    deviceClass: device
    topology: lab
    host: {cpu: 8, memory: 32Gi}
    serving:
      - apiVersion: apps/v1
        kind: Deployment
        namespace: serving
        name: llm
        demand: CalendarOnly
        leadTime: 1s
    window: {calendar: {allow: ["Mon-Sun 22:00-07:00"]}}
queueClasses:
  - {name: short, maxRuntime: 30m}
  - {name: long, contract: Checkpoint, grace: 10s}
priorities: [{name: soon, value: 1000}, {name: whenever, value: 100}]
tenants:
  - name: one
    namespaces: [one]
    weight: 2
    quota: {arc: 1}
    priorities: [soon, whenever]
    queues: [{cards: arc, queueClass: short}, {cards: arc, queueClass: long}]
  - name: two
    namespaces: [two]
    priorities: [whenever]
    queues: [{cards: arc, queueClass: long}]
topologies: [{name: lab, levels: [kubernetes.io/hostname]}]
"""
#: As much of JobSet's definition as a policy sees.
JOBSETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "jobsets.jobset.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    },
    "spec": {
        "group": "jobset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "JobSet", "plural": "jobsets"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                },
            }
        ],
    },
}
SHORT = {
    "kueue.x-k8s.io/queue-name": "arc-short",
    "kueue.x-k8s.io/priority-class": "whenever",
    "kueue.x-k8s.io/max-exec-time-seconds": "1800",
}
LONG = {"kueue.x-k8s.io/queue-name": "arc-long", "kueue.x-k8s.io/priority-class": "whenever"}
CONTRACT = {"idlewin.dev/contract": "Checkpoint"}


def job(name: str, labels: Json, marks: Json | None = None, grace: int = 10, **spec: Any) -> Json:
    container = {
        "name": "main",
        "image": "example/none",
        "resources": {"requests": {"cpu": "1"}, "limits": {"gpu.intel.com/xe": "1"}},
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace,
        "containers": [container],
    }
    template = {"metadata": {"annotations": marks or {}}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"suspend": True, "template": template, **spec},
    }


def jobset(labels: Json, *marks: Json) -> Json:
    jobs = [
        {"name": f"j{number}", "template": {"spec": job("x", {}, mark)["spec"]}}
        for number, mark in enumerate(marks)
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "labels": labels},
        "spec": {"replicatedJobs": jobs},
    }


def serve(plane: ControlPlane, replicas: int) -> None:
    pod = job("x", {})["spec"]["template"]["spec"] | {"restartPolicy": "Always"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "llm"}},
        "template": {"metadata": {"labels": {"app": "llm"}}, "spec": pod},
    }
    meta = {"name": "llm", "namespace": "serving"}
    plane.api.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec})


def told(plane: ControlPlane, thing: Json, namespace: str = "one") -> str:
    """What the API server says to a new object; by dry run, so that nothing is left of it."""
    group = thing["apiVersion"]
    path = f"/apis/{group}/namespaces/{namespace}/{thing['kind'].lower()}s"
    try:
        plane.api.post(f"{path}?dryRun=All", thing)
    except ApiError as error:
        return str(error)
    return "accepted"


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the manifests of the plane."""
    folder = tmp_path_factory.mktemp("plane")
    (folder / "plane.yaml").write_text(PLANE_FILE)
    with pytest.raises(SystemExit) as end:
        main(["plane", "render", str(folder / "plane.yaml"), "--out", str(folder / "out")])
    assert end.value.code in (0, None)
    return folder / "out"


@pytest.fixture(scope="module")
def queues(plane: ControlPlane, kubectl: Path, rendered: Path) -> Iterator[list[str]]:
    """The rendered plane, applied by kubectl, beside a Job that was there before; its queues."""
    for namespace in ("one", "two"):
        plane.add_namespace(namespace)
    plane.api.post("/apis/batch/v1/namespaces/one/jobs", job("before", {}))
    for definition in (yaml.safe_load((ROOT / "deploy/base/crd.yaml").read_text()), JOBSETS):
        plane.api.apply(definition)
    for kind in ("idlewin.dev/v1alpha1/idlerules", "jobset.x-k8s.io/v1alpha2/jobsets"):
        wait_for(kind, lambda kind=kind: plane.api.find(f"/apis/{kind}"))
    file = read_plane(rendered.parent / "plane.yaml").plane
    assert file is not None
    apply = [str(kubectl), "--kubeconfig", str(plane.kubeconfig), "apply", "-k", str(rendered)]
    for how in (["--dry-run=server"], []):
        done = subprocess.run([*apply, *how], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(" created") == len(objects(file)), done.stdout
    names = to_close(file)
    wait_for("the policies", lambda: told(plane, job("x", {})) != "accepted")
    yield names
    stop(plane, names, "Hold")


def stop(plane: ControlPlane, names: list[str], policy: str) -> None:
    for name in names:
        plane.api.patch(f"{KUEUE}/clusterqueues/{name}", {"spec": {"stopPolicy": policy}})


def active(plane: ControlPlane, name: str) -> tuple[str, str]:
    status = plane.api.get(f"{KUEUE}/clusterqueues/{name}").get("status", {})
    found = [c for c in status.get("conditions", ()) if c["type"] == "Active"]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def work(plane: ControlPlane, namespace: str, name: str) -> Json:
    """The Workload of a Job; empty: there is none yet."""
    for one in plane.api.list(f"{KUEUE}/namespaces/{namespace}/workloads"):
        if one["metadata"]["ownerReferences"][0]["name"] == name:
            return one
    return {}


def reserved(plane: ControlPlane, namespace: str, name: str) -> Json:
    conditions = work(plane, namespace, name).get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == "QuotaReserved"), {})


def test_what_is_applied_is_ready_and_reads_back_as_the_cards_there_are(
    plane: ControlPlane, queues: list[str]
) -> None:
    assert queues == ["arc-short-one", "arc-long-one", "arc-long-two"]
    for name in queues:
        wait_for(f"{name} is ready", lambda name=name: active(plane, name) == ("True", "Ready"))
    kinds = {kind: plane.api.list(f"{KUEUE}/{kind}") for kind in ("clusterqueues", "cohorts")}

    every = kinds["clusterqueues"]
    assert reach(every, every, kinds["cohorts"], "gpu.intel.com/xe") == 1


@pytest.mark.usefixtures("queues")
def test_check_has_nothing_against_the_rendered_rule_in_its_cluster(
    plane: ControlPlane, rendered: Path, capsys: Any
) -> None:
    serve(plane, replicas=0)
    with pytest.raises(SystemExit) as end:
        main(["check", str(rendered / "idlerules.yaml"), "--kubeconfig", str(plane.kubeconfig)])

    told = capsys.readouterr().out
    assert (end.value.code, "arc: ok" in told) == (0, True), told


@pytest.mark.parametrize(
    ("thing", "says"),
    [
        (job("x", {}), "label kueue.x-k8s.io/queue-name, one of arc-short, arc-long"),
        (job("x", {**SHORT, "kueue.x-k8s.io/queue-name": "theirs"}), "one of arc-short, arc-long"),
        (
            job("x", {k: v for k, v in SHORT.items() if "priority" not in k}),
            "label kueue.x-k8s.io/priority-class, one of soon, whenever",
        ),
        (
            job("x", {k: v for k, v in SHORT.items() if "max-exec" not in k}),
            "label kueue.x-k8s.io/max-exec-time-seconds, a whole number up to 1800",
        ),
        (job("x", {**SHORT, "kueue.x-k8s.io/max-exec-time-seconds": "1801"}), "up to 1800"),
        (job("x", {**SHORT, "kueue.x-k8s.io/max-exec-time-seconds": "0"}), "up to 1800"),
        (job("x", {**SHORT, "kueue.x-k8s.io/max-exec-time-seconds": "soon"}), "up to 1800"),
        (job("x", SHORT), "accepted"),
        (job("x", SHORT, grace=1, backoffLimit=0), "accepted"),
        (job("x", LONG), "every pod template has the annotation idlewin.dev/contract: Checkpoint"),
        (job("x", LONG, CONTRACT, grace=9), "terminationGracePeriodSeconds of at least 10"),
        (job("x", LONG, CONTRACT, backoffLimit=0), "backoffLimit above 0"),
        (job("x", LONG, CONTRACT), "accepted"),
        (jobset({}, CONTRACT), "names its queue"),
        (jobset(LONG, CONTRACT, {}), "every pod template has the annotation"),
        (jobset(LONG, CONTRACT, CONTRACT), "accepted"),
    ],
)
@pytest.mark.usefixtures("queues")
def test_work_is_let_in_with_what_its_queue_asks_for(
    plane: ControlPlane, thing: Json, says: str
) -> None:
    assert says in told(plane, thing)


@pytest.mark.usefixtures("queues")
def test_a_job_that_a_jobset_makes_is_not_looked_at(plane: ControlPlane) -> None:
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/one/jobsets"
    owner = plane.api.post(path, jobset(LONG, CONTRACT))
    named = {key: owner[key] for key in ("apiVersion", "kind")}
    meta = {key: owner["metadata"][key] for key in ("name", "uid")}
    thing = job("x", {})
    thing["metadata"]["ownerReferences"] = [{**named, **meta, "controller": True}]

    assert told(plane, thing) == "accepted"
    plane.api.delete(f"{path}/set")


@pytest.mark.usefixtures("queues")
def test_a_tenant_has_its_own_queues_and_priorities(plane: ControlPlane) -> None:
    soon = {**LONG, "kueue.x-k8s.io/priority-class": "soon"}

    assert "one of arc-long" in told(plane, job("x", SHORT), "two")
    assert "one of whenever" in told(plane, job("x", soon, CONTRACT), "two")
    assert told(plane, job("x", soon, CONTRACT), "one") == "accepted"
    assert told(plane, job("x", {}), "default") == "accepted"


@pytest.mark.usefixtures("queues")
def test_a_job_that_was_there_before_can_be_started_and_stopped(plane: ControlPlane) -> None:
    path = "/apis/batch/v1/namespaces/one/jobs/before"
    for suspended in (False, True):
        plane.api.patch(path, {"spec": {"suspend": suspended}})
    with pytest.raises(ApiError, match="names its queue"):
        plane.api.patch(path, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "theirs"}}})
    plane.api.delete(path)


def test_an_open_queue_admits_for_one_card_and_closed_ones_admit_nothing(
    plane: ControlPlane, queues: list[str]
) -> None:
    jobs = {"one": job("first", SHORT), "two": job("second", LONG, CONTRACT)}
    plane.api.post("/apis/batch/v1/namespaces/one/jobs", jobs["one"])
    wait_for("the first", lambda: reserved(plane, "one", "first").get("status") == "True")
    # All queues are open, and both tenants want the one card.
    plane.api.post("/apis/batch/v1/namespaces/two/jobs", jobs["two"])
    wait_for("no", lambda: "insufficient" in reserved(plane, "two", "second").get("message", ""))

    stop(plane, queues, "Hold")
    for name in queues:
        wait_for(f"{name} is seen stopped", lambda name=name: active(plane, name)[1] == "Stopped")
    plane.api.delete("/apis/batch/v1/namespaces/one/jobs/first")
    wait_for("the card is free", lambda: not work(plane, "one", "first"))
    for name, labels, marks in (("third", SHORT, None), ("fourth", LONG, CONTRACT)):
        plane.api.post("/apis/batch/v1/namespaces/one/jobs", job(name, labels, marks))
    for name in ("third", "fourth"):
        wait_for(
            f"{name} is kept out",
            lambda name=name: reserved(plane, "one", name).get("reason") == "Inadmissible",
        )
    # Kueue has looked at work that came later, with the card free.
    assert reserved(plane, "two", "second")["status"] == "False"

    stop(plane, ["arc-long-two"], "None")
    wait_for("the second", lambda: reserved(plane, "two", "second").get("status") == "True")
    assert {reserved(plane, "one", name)["status"] for name in ("third", "fourth")} == {"False"}
    plane.api.delete("/apis/batch/v1/namespaces/two/jobs/second")
    for name in ("third", "fourth"):
        plane.api.delete(f"/apis/batch/v1/namespaces/one/jobs/{name}")


def test_the_rendered_rule_opens_its_queues_in_a_window_and_closes_them_after_it(
    plane: ControlPlane, queues: list[str], tmp_path: Path
) -> None:
    def policies() -> set[str]:
        told = (plane.api.get(f"{KUEUE}/clusterqueues/{name}") for name in queues)
        return {one["spec"].get("stopPolicy", "None") for one in told}

    def phase() -> str:
        return str(plane.api.get(RULE).get("status", {}).get("phase"))

    stop(plane, queues, "Hold")
    serve(plane, replicas=1)
    wait_for("serving", lambda: plane.api.get(TARGET)["status"].get("readyReplicas") == 1)
    plane.api.post("/apis/batch/v1/namespaces/one/jobs", job("night", LONG, CONTRACT))
    hours = {"idleFor": "1s", "minServing": "1s", "calendar": None}
    with Running(plane, deploy(plane), tmp_path, NO_PROMETHEUS):
        plane.api.patch(RULE, {"spec": {"mode": "Act", "window": hours}})
        wait_for("a window", lambda: phase() == "Harvesting")
        wait_for("all queues are open", lambda: policies() == {"None"})
        wait_for("the work", lambda: reserved(plane, "one", "night").get("status") == "True")
        assert plane.api.get(TARGET)["spec"]["replicas"] == 0

        plane.api.patch(RULE, {"spec": {"paused": True}})
        wait_for("serving is back", lambda: phase() == "Serving", timeout=120)
        assert plane.api.get(TARGET)["spec"]["replicas"] == 1
        assert "None" not in policies()
        assert reserved(plane, "one", "night")["status"] == "False"
