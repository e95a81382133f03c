"""Whatever people do to a rule, its queues or its serving in a window: all of it comes back.

Every case is a pool of its own on one plane; all windows are open, with work on the cards, when
all edits are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.pools import NO_PROMETHEUS, STAYS, Pools
from tests.controlplane.recorder import Recorder, World
from tests.controlplane.running import Running
from tests.controlplane.scene import RECORD, Scene
from tests.controlplane.setting import KUEUE, RESUMABLE, SHORT
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

pytestmark = pytest.mark.controlplane
CASES = (
    "deleted",
    "invalid",
    "observe",
    "target-removed",
    "target-added",
    "queue-removed",
    "queue-added",
    "queue-deleted",
    "recreated",
)
PLANE = {"nodes": {case: {GPU: "2"} for case in CASES}}
Json = dict[str, Any]


def scene_of(plane: ControlPlane, case: str) -> Scene:
    """A pool of two cards, with two replicas or two targets, and with one queue or two."""
    two_targets = {f"{case}-a": 1, f"{case}-b": 1}
    two_queues = {f"{case}-long": RESUMABLE, f"{case}-short": SHORT}
    return Scene(
        plane=plane,
        name=case,
        node=case,
        cards=2,
        targets=two_targets if case.startswith("target-") else {case: 2},
        queues=two_queues if case in ("queue-removed", "queue-deleted") else {},
        demand="CalendarOnly",
    )


def furnish(scene: Scene) -> None:
    """Its objects, and work that would run for ever."""
    if scene.name == "target-added":
        # There, at zero, and not the rule's yet.
        scene.targets["target-added-new"] = 0
        scene.set_up(rule=False)
        del scene.targets["target-added-new"]
        scene.make_rule(**STAYS)
    else:
        scene.set_up(**STAYS)
    if scene.name == "queue-added":
        # There, adopted, and not the rule's yet.
        scene.make_queue("queue-added-new")
    scene.make_job(f"{scene.name}-work")


def edit(scene: Scene) -> None:
    """What people do to it in its window."""
    api, spec = scene.api, scene.spec()
    match scene.name:
        case "deleted":
            api.delete(scene.rule_path)
        case "invalid":
            api.patch(scene.rule_path, {"spec": {"window": {"idlefor": "10m"}}})
        case "observe":
            api.patch(scene.rule_path, {"spec": {"mode": "Observe"}})
        case "target-removed":
            api.patch(scene.rule_path, {"spec": {"serving": spec["serving"][:1]}})
        case "target-added":
            new = {**spec["serving"][0], "name": "target-added-new"}
            api.patch(scene.rule_path, {"spec": {"serving": [*spec["serving"], new]}})
        case "queue-removed":
            left = {"queues": spec["batch"]["queues"][1:]}
            api.patch(scene.rule_path, {"spec": {"batch": left}})
        case "queue-added":
            scene.queues["queue-added-new"] = SHORT
            api.patch(scene.rule_path, {"spec": {"batch": scene.spec()["batch"]}})
        case "queue-deleted":
            api.delete(f"{KUEUE}/clusterqueues/queue-deleted-long")
        case "recreated":
            api.delete(scene.target_path("recreated"))
            scene.targets["recreated"] = 1
            wait_for("no target", lambda: api.find(scene.target_path("recreated")) is None)
            scene.make_target("recreated")


@pytest.fixture(scope="module")
def pools(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pools]:
    """All pools, each edited in its open window."""
    things, folder = deploy(plane), tmp_path_factory.mktemp("idlewin")
    with (
        Recorder(plane.api) as recorder,
        Running(plane, things, folder, NO_PROMETHEUS) as running,
    ):
        pools = Pools(recorder, running)
        for case in CASES:
            pools.scenes[case] = scene_of(plane, case)
            furnish(pools.scenes[case])
        for case, scene in pools.scenes.items():
            wait_for(f"work of {case}", lambda s=scene: s.job_runs(f"{s.name}-work"))
        for scene in pools.scenes.values():
            edit(scene)
        yield pools


def test_a_rule_that_is_deleted_goes_once_all_is_back(pools: Pools) -> None:
    scene = pools.scenes["deleted"]
    wait_for("end of the rule", lambda: scene.api.find(scene.rule_path) is None)
    pools.recorder.caught_up()
    key = ("IdleRule", "", "deleted")
    worlds = [(seen, dict(world)) for seen, world in pools.recorder.worlds() if seen.key == key]

    asked = next(world for seen, world in worlds if "deletionTimestamp" in seen.raw["metadata"])
    gone = next(world for seen, world in worlds if seen.deleted)

    assert world_of(asked, "Deployment", "deleted")["spec"]["replicas"] == 0
    back = world_of(gone, "Deployment", "deleted")
    assert back["spec"]["replicas"] == 2
    assert RECORD not in back["metadata"].get("annotations", {})
    assert world_of(gone, "ClusterQueue", "deleted")["spec"]["stopPolicy"] == "HoldAndDrain"
    scene.wait_ready()
    assert scene.policy() == "HoldAndDrain"
    assert pools.reason("deleted") == "RuleChanged"


def world_of(world: World, kind: str, name: str) -> Mapping[str, Any]:
    """The one object of a kind and name."""
    (found,) = (raw for (of, _, called), raw in world.items() if (of, called) == (kind, name))
    return found


def test_a_rule_that_is_made_invalid_gives_back_and_says_what_is_wrong(pools: Pools) -> None:
    scene = pools.back("invalid")

    assert pools.reason("invalid") == "RuleChanged"
    ready = next(c for c in scene.status()["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "SpecInvalid"
    assert "idlefor" in ready["message"]


def test_a_rule_that_is_put_to_observe_gives_back_and_writes_no_more(pools: Pools) -> None:
    scene = pools.back("observe")

    assert pools.reason("observe") == "RuleChanged"
    assert not scene.job_pods("observe-work")


def test_a_target_that_is_taken_out_of_the_rule_comes_back_too(pools: Pools) -> None:
    pools.back("target-removed")

    assert pools.reason("target-removed") == "RuleChanged"


def test_a_target_that_is_added_is_left_as_it_is(pools: Pools) -> None:
    scene = pools.back("target-added")

    assert pools.reason("target-added") == "RuleChanged"
    added = scene.target("target-added-new")
    assert added["spec"]["replicas"] == 0
    assert "idlewin" not in writers(added)


def writers(raw: Json) -> set[str]:
    """Who has written an object."""
    return {entry["manager"] for entry in raw["metadata"]["managedFields"]}


def test_a_queue_that_is_taken_out_of_the_rule_is_sealed_with_its_work(pools: Pools) -> None:
    scene = pools.back("queue-removed")

    assert pools.reason("queue-removed") == "RuleChanged"
    assert not scene.job_pods("queue-removed-work")
    assert scene.policy("queue-removed-long") == "HoldAndDrain"


def test_a_queue_that_is_added_opens_in_no_window_that_it_was_not_part_of(pools: Pools) -> None:
    pools.back("queue-added")
    pools.recorder.caught_up()

    assert pools.reason("queue-added") == "RuleChanged"
    policies = {
        seen.raw["spec"]["stopPolicy"]
        for seen in pools.recorder.history()
        if seen.key == ("ClusterQueue", "", "queue-added-new")
    }
    assert policies == {"Hold"}


def test_a_queue_that_is_deleted_is_drained_and_lets_serving_back(pools: Pools) -> None:
    scene = pools.scenes["queue-deleted"]
    scene.wait_phase("Serving")
    scene.wait_ready()

    assert pools.reason("queue-deleted") == "RuleChanged"
    assert not scene.recorded()
    assert not scene.job_pods("queue-deleted-work")
    assert scene.policy("queue-deleted-short") != "None"
    ready = next(c for c in scene.status()["conditions"] if c["type"] == "Ready")
    assert ready["reason"] == "QueueMissing"


def test_a_target_that_is_made_anew_is_untouched_by_what_the_old_one_was(pools: Pools) -> None:
    scene = pools.back("recreated")
    pools.recorder.caught_up()

    assert pools.reason("recreated") == "TargetChanged"
    uid = scene.target()["metadata"]["uid"]
    assert "idlewin" not in writers(scene.target())
    counts = {
        seen.raw["spec"]["replicas"]
        for seen in pools.recorder.history()
        if seen.kind == "Deployment" and seen.raw["metadata"]["uid"] == uid
    }
    assert counts == {1}


def test_no_queue_was_open_beside_serving(pools: Pools) -> None:
    for case in ("observe", "target-removed", "queue-removed", "queue-added"):
        pools.back(case)
    pools.recorder.caught_up()

    beside = [
        (seen.version, case)
        for seen, world in pools.recorder.worlds()
        for case in CASES
        # The pods of the Deployment that was made anew are its owner's doing.
        if case != "recreated" and is_open(world, case) and is_served(world, case)
    ]

    assert not beside


def is_open(world: World, case: str) -> bool:
    """Whether a queue of a case may admit work."""
    return any(
        kind == "ClusterQueue" and name.startswith(case) and raw["spec"]["stopPolicy"] == "None"
        for (kind, _, name), raw in world.items()
    )


def is_served(world: World, case: str) -> bool:
    """Whether a pod of its serving is on its node."""
    return any(
        kind == "Pod"
        and raw["spec"].get("nodeName") == case
        and raw["metadata"]["namespace"] == "serving"
        for (kind, _, _), raw in world.items()
    )
