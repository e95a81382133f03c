"""Who else writes serving, queues and records: kept, named, never fought over.

Every case is a pool of its own on one plane. Some cases are written to in an open window, some
while idlewin is down; some never open one, for their serving is somebody else's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.controlplane import writers
from tests.controlplane.deployed import deploy
from tests.controlplane.pools import NO_PROMETHEUS, STAYS, Pools
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running
from tests.controlplane.scene import Scene
from tests.controlplane.setting import KUEUE
from tests.controlplane.writers import HPAS, GitOps, managers
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

pytestmark = pytest.mark.controlplane
#: Refused, or stopped before any window.
NEVER = ("hpa-at-zero", "owned", "keda", "stopped")
#: Written to in Yielding, in Harvesting, in Reclaiming.
EARLY, LATE = ("scaled-early",), ("scaled-late",)
OPEN = ("hpa", "pruned", "status-lost", "scaled", "deploy", "zero", *LATE)
#: Written to in an open window while idlewin is down.
DOWN = (
    "down-scaled",
    "down-zeroed",
    "down-deleted",
    "down-restored",
    "down-queue",
    "down-stopped",
    "down-lost",
)
CASES = (*NEVER, *EARLY, *OPEN, *DOWN, "healed")
PLANE = {"nodes": {case: {GPU: "2"} for case in CASES}}
Json = dict[str, Any]


@dataclass(slots=True)
class Written(Pools):
    """The pools, and the tool that heals one of them."""

    git: GitOps = field(kw_only=True)

    def counts(self, case: str) -> list[int]:
        """The replicas that its target had, one after another."""
        self.recorder.caught_up()
        seen = [
            s.raw["spec"]["replicas"]
            for s in self.recorder.history()
            if s.key == ("Deployment", "serving", case) and not s.deleted
        ]
        return [n for at, n in enumerate(seen) if at == 0 or n != seen[at - 1]]

    def condition(self, case: str, kind: str, status: str = "True") -> Json:
        """A condition, once it is there."""

        def there() -> Json | None:
            found = self.scenes[case].status().get("conditions") or ()
            return next((c for c in found if (c["type"], c["status"]) == (kind, status)), None)

        return wait_for(f"{kind} of {case}", there)

    def notes(self, case: str) -> str:
        return "\n".join(event["note"] for event in self.scenes[case].events())


def scene_of(plane: ControlPlane, case: str) -> Scene:
    targets = {"zero": 1, "zero-before": 0} if case == "zero" else {case: 1}
    return Scene(plane=plane, name=case, node=case, cards=2, targets=targets, demand="CalendarOnly")


def furnish(scene: Scene) -> None:
    """Whoever else owns its objects, its rule, and work that would run for ever."""
    for target in scene.targets:
        scene.wait_ready(target)
    match scene.name:
        case "hpa":
            writers.make_hpa(scene, 1)
        case "hpa-at-zero":
            writers.make_hpa(scene, 0)
            zeroed = {"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero"}
            zeroed["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            path = f"{HPAS}/{scene.name}/status"
            scene.api.patch(path, {"status": {"conditions": [zeroed]}})
            writers.scale(scene, 0, who="kube-controller-manager")
        case "owned":
            path = writers.make_kind(scene.api, "example.org", "ModelServer")
            owner = writers.make_owner(scene, path, "example.org", "ModelServer")
            patch = {"metadata": {"ownerReferences": [owner]}}
            writers.edit(scene, scene.target_path("owned"), patch, "model-operator")
        case "keda":
            path = writers.make_kind(scene.api, "keda.sh", "ScaledObject")
            owner = writers.make_owner(scene, path, "keda.sh", "ScaledObject")
            labels = {"scaledobject.keda.sh/name": "keda"}
            writers.make_hpa(scene, 1, labels=labels, ownerReferences=[owner])
        case "stopped":
            # As idlewin adopt does it; then a person stops it.
            before = {"idlewin.dev/stop-policy-before": "Hold"}
            path = f"{KUEUE}/clusterqueues/stopped"
            writers.edit(scene, path, {"metadata": {"annotations": before}}, "idlewin")
            writers.stop(scene)
        case "scaled-early":
            writers.hold_pods(scene, scene.serving_pods())
    scene.make_rule(**({} if scene.name in ("healed", *NEVER) else STAYS))
    scene.make_job(f"{scene.name}-work")


def written_to(scene: Scene) -> None:
    """What others do to it in its window."""
    match scene.name:
        case "hpa":
            hpa = f"{HPAS}/hpa"
            wait_for("an HPA that switched itself off", lambda: off(scene.api.get(hpa)))
            scene.api.patch(hpa, {"spec": {"minReplicas": 2}})
            scene.targets["hpa"] = 2
            writers.wake(scene)
        case "pruned":
            writers.prune_record(scene)
            writers.wake(scene)
        case "status-lost":
            writers.lose_status(scene)
        case "scaled":
            writers.scale(scene, 2)
        case "deploy":
            writers.deploy_anew(scene)
        case "zero":
            writers.wake(scene)
        case "scaled-late":
            writers.hold_pods(scene, scene.job_pods("scaled-late-work"))
            writers.wake(scene)
            scene.wait_phase("Reclaiming")
            writers.scale(scene, 2)
            writers.hold_pods(scene, scene.job_pods("scaled-late-work"), held=False)


def off(hpa: Json) -> bool:
    """Whether it says that it does nothing for a target at 0."""
    found = {c["type"]: c for c in hpa["status"].get("conditions") or ()}
    active = found.get("ScalingActive", {})
    return (active.get("status"), active.get("reason")) == ("False", "ScalingDisabled")


def written_to_while_down(scene: Scene) -> None:
    match scene.name:
        case "down-scaled":
            writers.scale(scene, 2)
        case "down-zeroed":
            writers.scale(scene, 2)
            writers.scale(scene, 0)
        case "down-deleted":
            writers.delete_target(scene)
        case "down-restored":
            writers.restore_backup(scene)
        case "down-queue":
            scene.api.delete(f"{KUEUE}/clusterqueues/down-queue")
            scene.api.delete("/apis/batch/v1/namespaces/default/jobs/down-queue-work")
            path = f"{KUEUE}/clusterqueues/down-queue"
            wait_for("end of the queue", lambda: scene.api.find(path) is None)
            scene.api.delete(f"{KUEUE}/namespaces/default/localqueues/down-queue")
            scene.make_queue("down-queue")
        case "down-stopped":
            writers.stop(scene)
        case "down-lost":
            writers.prune_record(scene)
            writers.lose_status(scene)


@pytest.fixture(scope="module")
def pools(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    """All pools, after all writers."""
    things, folder = deploy(plane), tmp_path_factory.mktemp("idlewin")
    scenes = {case: scene_of(plane, case) for case in CASES}
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(plane.api))
        for scene in scenes.values():
            scene.make_queues()
            for target in scene.targets:
                scene.make_target(target)
        for scene in scenes.values():
            furnish(scene)
        git = stack.enter_context(GitOps(plane.api, scenes["healed"]))
        running = stack.enter_context(Running(plane, things, folder, NO_PROMETHEUS))
        pools = Written(recorder, running, scenes, git=git)
        wait_for("zero", lambda: not scenes["scaled-early"].target()["spec"]["replicas"])
        writers.scale(scenes["scaled-early"], 2)
        scenes["scaled-early"].wait_phase("Reclaiming", "Restoring", "Serving")
        writers.hold_pods(scenes["scaled-early"], scenes["scaled-early"].serving_pods(), held=False)
        for case in (*OPEN, *DOWN):
            wait_for(f"work of {case}", lambda c=case: scenes[c].job_runs(f"{c}-work"))
        for case in OPEN:
            written_to(scenes[case])
        running.process.kill()
        for case in DOWN:
            written_to_while_down(scenes[case])
        running.process.start()
        running.process.wait_ready()
        yield pools


# -- somebody else's


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("hpa-at-zero", "HPA hpa-at-zero itself (minReplicas 0)"),
        ("owned", "controlled by ModelServer owned"),
        ("keda", "scaled by ScaledObject keda"),
    ],
)
def test_serving_of_somebody_else_is_refused_with_its_name(
    pools: Written, case: str, words: str
) -> None:
    ready = pools.condition(case, "Ready", "False")

    assert ready["reason"] == "ServingNotOurs"
    assert words in ready["message"]
    target = pools.scenes[case].target()
    assert "idlewin" not in managers(target)
    assert target["spec"]["replicas"] == (0 if case == "hpa-at-zero" else 1)


def test_an_hpa_is_quiet_at_our_zero_and_its_count_wins_after_the_return(pools: Written) -> None:
    scene = pools.back("hpa")

    assert pools.reason("hpa") == "WakeClaimed"
    assert pools.counts("hpa") == [1, 0, 1, 2]
    assert "kube-controller-manager" in managers(scene.target())


def test_a_gitops_tool_that_heals_is_contested_by_name_and_left_alone(pools: Written) -> None:
    contested = pools.condition("healed", "Contested")
    scene = pools.back("healed")
    version = scene.target()["metadata"]["resourceVersion"]

    assert "argocd-controller" in contested["message"]
    assert scene.status()["contestedBy"] == "argocd-controller"
    assert "argocd-controller keeps changing" in pools.notes("healed")
    moves = [why for _, after, why in pools.running.moves("healed") if after == "Reclaiming"]
    assert moves == ["ServingRaised"] * 3
    assert scene.policy() != "None"
    assert pools.git.writes == 3

    pools.git.ignore()
    writers.resume(scene)
    scene.wait_phase("Harvesting")
    lowered = pools.recorder.first(
        "zero after resume",
        lambda s: s.key == ("Deployment", "serving", "healed") and not s.raw["spec"]["replicas"],
        int(version),
    )
    assert lowered


# -- people


def test_a_stop_before_a_window_keeps_it_shut_until_resume(pools: Written) -> None:
    scene = pools.scenes["stopped"]
    told = pools.condition("stopped", "QueueClosedByOther")

    assert "stopped at HoldAndDrain by kubectl-edit" in told["message"]
    assert (scene.phase(), scene.reason()) == ("Serving", "QueueClosedByOther")
    assert scene.policy() == "HoldAndDrain"

    writers.resume(scene)
    wait_for("work that was let go on", lambda: scene.job_runs("stopped-work"))


@pytest.mark.parametrize("case", ["scaled-early", "scaled", "scaled-late", "down-scaled"])
def test_a_scale_in_a_window_is_kept_and_named(pools: Written, case: str) -> None:
    pools.back(case)

    assert pools.counts(case) == [1, 0, 2]
    if case == "scaled-late":
        checks = [c for line in pools.running.journal(case) for c in line["checks"]]
        assert any("at 2 by kubectl-scale" in check["observed"] for check in checks)
    else:
        assert pools.reason(case) == "ServingRaised"
        assert "by kubectl-scale" in pools.notes(case)


def test_a_zero_that_was_there_before_us_is_nobodys_but_its_owners(pools: Written) -> None:
    scene = pools.back("zero")

    assert pools.counts("zero") == [1, 0, 1]
    assert "idlewin" not in managers(scene.target("zero-before"))


def test_a_zero_that_a_person_chose_meanwhile_stays(pools: Written) -> None:
    # Nothing is brought back, so nothing is raised: the window goes on till somebody ends it.
    writers.wake(pools.scenes["down-zeroed"])
    pools.back("down-zeroed")

    assert pools.counts("down-zeroed") == [1, 0, 2, 0]


def test_a_deploy_in_a_window_brings_serving_back_as_it_is_now(pools: Written) -> None:
    scene = pools.back("deploy")

    assert pools.reason("deploy") == "TargetChanged"
    assert "another pod template" in pools.notes("deploy")
    assert scene.target()["spec"]["template"]["spec"]["containers"][0]["image"] == "example/newer"


def test_serving_is_told_by_events_where_it_went_and_that_it_is_back(pools: Written) -> None:
    pools.back("deploy")
    found = pools.scenes["deploy"].api.list("/apis/events.k8s.io/v1/namespaces/serving/events")
    told = sorted(
        (event["eventTime"], event["note"])
        for event in found
        if event["regarding"]["name"] == "deploy" and "rule deploy" in event["note"]
    )

    assert ["scales it from 1 to 0" in told[0][1], "gives it back" in told[1][1]] == [True, True]


def test_a_stop_while_idlewin_is_down_is_left_and_told(pools: Written) -> None:
    scene = pools.scenes["down-stopped"]

    told = pools.condition("down-stopped", "QueueClosedByOther")
    assert "kubectl-edit" in told["message"]
    writers.wake(scene)
    pools.back("down-stopped")
    assert scene.policy() == "HoldAndDrain"


# -- memory


def test_a_pruned_annotation_is_made_good_by_the_status(pools: Written) -> None:
    pools.back("pruned")

    assert pools.counts("pruned") == [1, 0, 1]


def test_a_lost_status_is_made_good_by_the_annotation(pools: Written) -> None:
    pools.back("status-lost")

    assert pools.reason("status-lost") == "RecordFound"
    assert pools.counts("status-lost") == [1, 0, 1]


def test_with_both_copies_gone_nothing_is_raised_and_a_person_is_called(pools: Written) -> None:
    told = pools.condition("down-lost", "RecordLost")
    scene = pools.scenes["down-lost"]
    scene.wait_phase("Serving")
    wait_for("the reason", lambda: scene.reason() == "RecordLost")

    assert "Deployment serving/down-lost" in told["message"]
    assert pools.counts("down-lost") == [1, 0]
    assert scene.policy() != "None"
    assert "scale it by hand" in pools.notes("down-lost")

    writers.scale(scene, 1)
    wait_for("an end of it", lambda: scene.reason() != "RecordLost")


# -- objects that are others now


def test_a_target_that_is_gone_keeps_nothing_up(pools: Written) -> None:
    scene = pools.scenes["down-deleted"]
    scene.wait_phase("Serving")

    assert pools.reason("down-deleted") == "TargetChanged"
    assert pools.condition("down-deleted", "Ready", "False")["reason"] == "TargetMissing"
    scene.api.delete(scene.rule_path)
    wait_for("end of the rule", lambda: scene.api.find(scene.rule_path) is None)


def test_a_target_from_a_backup_is_not_raised_by_the_record_of_the_old_one(pools: Written) -> None:
    scene = pools.scenes["down-restored"]
    ready = pools.condition("down-restored", "Ready", "False")
    scene.wait_phase("Serving")

    assert "record of another object" in ready["message"]
    assert "idlewin" not in managers(scene.target())
    assert scene.target()["spec"]["replicas"] == 0


def test_a_queue_that_is_made_anew_is_not_opened_by_the_old_window(pools: Written) -> None:
    scene = pools.back("down-queue")
    uid = scene.queue()["metadata"]["uid"]
    pools.recorder.caught_up()

    assert pools.reason("down-queue") == "RuleChanged"
    policies = {
        seen.raw["spec"]["stopPolicy"]
        for seen in pools.recorder.history()
        if seen.kind == "ClusterQueue" and seen.raw["metadata"]["uid"] == uid
    }
    assert "None" not in policies
