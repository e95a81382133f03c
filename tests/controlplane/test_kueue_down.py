"""Kueue is killed in open windows: serving is back without it, and what waits is not drained.

Pools on one plane, each in a window with a Job on its card and another one waiting:
``contract``'s Job may be evicted; ``done``'s ends by itself while Kueue is dead; ``wait``'s runs
until Kueue is back; ``inside`` serves from a namespace that Kueue's webhooks cover. Three more are
caught in another phase than Harvesting when Kueue dies.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder, Seen
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import PODS, Scene
from tests.controlplane.setting import RESUMABLE
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
CASES = {
    "contract": RESUMABLE,
    "done": {"maxRuntime": "30s", "grace": "1s"},
    "wait": {"maxRuntime": "300s", "grace": "1s"},
    "inside": RESUMABLE,
}
#: What holds each of them there: a serving pod, a batch pod that stays, a node without room.
PHASES = {"yielding": "Yielding", "reclaiming": "Reclaiming", "restoring": "Restoring"}
POOLS = (*CASES, *PHASES)
PLANE = {"nodes": {case: {GPU: "1"} for case in POOLS}}
#: Back without Kueue: the others wait for work that only Kueue ends, or for its webhooks.
RETURNS = ("contract", "done", *PHASES)
Json = dict[str, Any]


@dataclass(kw_only=True)
class Story:
    """What was seen of the pools while Kueue was dead and after."""

    plane: ControlPlane
    exporter: Exporter
    running: Running
    recorder: Recorder
    scenes: dict[str, Scene] = field(default_factory=dict)
    killed_at: int = 0
    """The newest version when Kueue was killed."""
    pod: str = ""
    """The UID of the pod of ``wait``'s Job when Kueue was killed."""
    ready_without_kueue: dict[str, bool] = field(default_factory=dict)
    ran_on: bool = False
    """Whether that pod ran on when Kueue had been back for a while."""

    caught: dict[str, str] = field(default_factory=dict)
    """The phases of some pools when Kueue was killed."""

    def users(self, *cases: str, there: bool) -> None:
        for case in cases or self.scenes:
            self.exporter.set("demand", int(there), pool=case)

    def ends(self, pod: Json, after: str) -> None:
        """How long a pod goes on once it is deleted."""
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self.plane.api.patch(
            path, {"metadata": {"annotations": {"kubelab/terminate-after": after}}}
        )

    def room(self, node: str, *, there: bool) -> None:
        self.plane.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": not there}})

    def finish(self, case: str, after: str = "0s") -> None:
        """Let the first Job's pod of a case end well, so long from now."""
        (pod,) = self.scenes[case].job_pods(f"{case}-1")
        notes = {"kubelab/finish": "succeeded", "kubelab/finish-after": after}
        self.plane.api.patch(
            f"{PODS}/{pod['metadata']['name']}", {"metadata": {"annotations": notes}}
        )

    def local_policies(self, case: str) -> list[str]:
        """The stop policies of a case's LocalQueue since Kueue was killed, in order."""
        seen = [
            s.raw["spec"].get("stopPolicy", "None")
            for s in self.recorder.history()
            if s.kind == "LocalQueue" and s.key[2] == case and s.version > self.killed_at
        ]
        return list(dict.fromkeys(seen))

    def alarms(self, case: str) -> set[str]:
        """What called for a person so far."""
        return {alarm for line in self.running.journal(case) for alarm in line.get("alarms", ())}

    def works(self, case: str) -> list[Seen]:
        """All that was seen of the Workloads of a case."""
        return [
            s
            for s in self.recorder.history()
            if s.kind == "Workload" and s.raw["spec"]["queueName"] == case
        ]


def the_story(story: Story) -> None:
    """Kueue is killed, users come back, Kueue comes back, users go."""
    plane, scenes = story.plane, story.scenes
    for case, kind in CASES.items():
        wait_for(f"Job of {case}", lambda c=case: scenes[c].job_runs(f"{c}-1"))
        scenes[case].make_job(f"{case}-2", contract=kind is RESUMABLE)
    for case in ("reclaiming", "restoring"):
        wait_for(f"Job of {case}", lambda c=case: scenes[c].job_runs(f"{c}-1"))
    story.room("restoring", there=False)
    story.users("restoring", there=True)
    scenes["restoring"].wait_phase("Restoring")
    story.users("reclaiming", there=True)
    for case, phase in PHASES.items():
        scenes[case].wait_phase(phase)
    (pod,) = scenes["wait"].job_pods("wait-1")
    story.pod = pod["metadata"]["uid"]
    story.finish("done", "3s")
    story.caught = {case: scenes[case].phase() for case in PHASES}
    plane.kill("kueue", signal.SIGKILL)
    story.recorder.caught_up()
    story.killed_at = story.recorder.version()

    story.users(there=True)
    scenes["yielding"].wait_phase("Reclaiming", "Restoring")
    story.ends(scenes["yielding"].serving_pods()[0], "0s")
    story.room("restoring", there=True)
    for case in RETURNS:
        wait_for(f"serving of {case}", scenes[case].target_ready, timeout=120)
        story.ready_without_kueue[case] = not plane.running("kueue")
    wait_for("an alarm about inside", lambda: story.alarms("inside"), timeout=120)

    plane.run("kueue")
    plane.wait_ready("kueue")
    scenes["contract"].wait_phase("Serving")
    wait_for("contract as it was", scenes["contract"].served)
    story.ran_on = scenes["wait"].job_runs("wait-1")
    story.finish("wait")
    for case, scene in scenes.items():
        scene.wait_phase("Serving")
        wait_for(f"{case} as it was", scene.served)


@pytest.fixture(scope="module")
def story(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    folder, things = tmp_path_factory.mktemp("kueue"), deploy(plane)
    with (
        scraped(promlab_programs, folder, history_of(POOLS), dict.fromkeys(POOLS, 0)) as (
            exporter,
            prometheus,
        ),
        Recorder(plane.api) as recorder,
        Running(plane, things, folder / "idlewin", prometheus.url) as running,
    ):
        story = Story(plane=plane, exporter=exporter, running=running, recorder=recorder)
        for case, kind in {**CASES, **dict.fromkeys(PHASES, RESUMABLE)}.items():
            namespace = {"namespace": "default"} if case == "inside" else {}
            scene = Scene(plane=plane, name=case, node=case, queues={case: kind}, **namespace)
            story.scenes[case] = scene
            scene.set_up(rule=False)
            stays = {"terminate_after": "20s"} if case == "reclaiming" else {}
            # Held, and not drained yet when Kueue dies, its pod is evicted.
            retries = int(case == "reclaiming")
            scene.make_job(f"{case}-1", contract=kind is RESUMABLE, retries=retries, **stays)
        story.ends(story.scenes["yielding"].serving_pods()[0], "1h")
        story.users(there=False)
        for scene in story.scenes.values():
            scene.make_rule(batch={"drainTimeout": "30s" if scene.name in PHASES else "10s"})
        the_story(story)
        yield story


def test_serving_is_ready_again_while_kueue_is_dead_in_whatever_phase_it_died(
    story: Story,
) -> None:
    assert story.caught == PHASES
    assert story.ready_without_kueue == dict.fromkeys(RETURNS, True)
    for case in RETURNS:
        begin = "Yielding" if case == "yielding" else "Harvesting"
        assert (begin, "Reclaiming", "DemandReturned") in story.running.moves(case)


def test_the_ladder_is_climbed_where_the_cluster_queue_cannot_be_written(story: Story) -> None:
    outcomes = [
        (outcome["action"]["kind"], outcome["verdict"])
        for line in story.running.journal("contract")
        for outcome in line["outcomes"]
    ]

    assert ("SetStopPolicy", "Refused") in outcomes
    assert ("StopLocalQueue", "Done") in outcomes
    assert ("EvictPod", "Done") in outcomes
    assert story.local_policies("contract")[:2] == ["Hold", "HoldAndDrain"]


def test_work_that_waits_is_held_and_not_drained_when_kueue_is_back(story: Story) -> None:
    assert story.ran_on
    assert "HoldAndDrain" not in story.local_policies("wait")
    assert "HoldAndDrain" not in story.local_policies("done")
    for case in ("wait", "done"):
        evicted = [
            condition
            for seen in story.works(case)
            for condition in seen.raw.get("status", {}).get("conditions") or ()
            if condition["type"] == "Evicted" and seen.raw["metadata"]["name"].startswith(case)
        ]
        assert evicted == []
        assert story.scenes[case].job(f"{case}-1")["status"]["succeeded"] == 1
    pods = [s for s in story.recorder.history() if s.raw["metadata"].get("uid") == story.pod]
    assert pods[-1].raw["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize("case", [*CASES, "yielding"])
def test_nothing_is_admitted_beside_serving(story: Story, case: str) -> None:
    """From the kill on: whoever is admitted was so before, or is so in the next window."""
    story.recorder.caught_up()
    waits = f"job-{case}-{1 if case in PHASES else 2}"
    phases = [
        world["IdleRule", "", case]["status"]["phase"]
        for seen, world in story.recorder.worlds(story.killed_at)
        if seen.kind == "Workload"
        and seen.raw["metadata"]["name"].startswith(waits)
        and any(
            condition["type"] == "Admitted" and condition["status"] == "True"
            for condition in seen.raw.get("status", {}).get("conditions") or ()
        )
    ]

    assert set(phases) <= {"Harvesting"}


def test_a_namespace_inside_kueues_webhooks_is_told_and_returns_with_kueue(story: Story) -> None:
    conditions = {
        case: {c["type"] for c in scene.status()["conditions"]}
        for case, scene in story.scenes.items()
    }

    assert "ServingInsideKueue" in conditions["inside"]
    assert all(
        "ServingInsideKueue" not in told for case, told in conditions.items() if case != "inside"
    )
    assert any("until Kueue is back" in alarm for alarm in story.alarms("inside"))
    assert story.scenes["inside"].target_ready()


def test_the_next_window_opens_again(story: Story) -> None:
    for case in CASES:
        assert story.local_policies(case)[-1] == "None"
    story.users(there=False)

    for case, scene in story.scenes.items():
        scene.wait_phase("Harvesting")
        wait_for(
            f"a Job of {case}", lambda c=case, s=scene: s.job_runs(f"{c}-1") or s.job_runs(f"{c}-2")
        )
        assert scene.status()["counters"]["windows"] == 2
