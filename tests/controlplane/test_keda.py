"""The real KEDA through whole windows: its ScaledObject paused at 0, lent, and as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.setting import Setting
from tests.controlplane.switched import PAUSED_AT, Life, Scaled, living
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.servinglab.serving import Keda, conditions

pytestmark = pytest.mark.controlplane
PLANE = {"nodes": {"node-1": {GPU: "2"}}}


@pytest.fixture(scope="module")
def life(
    plane: ControlPlane,
    keda_programs: Path,
    promlab_programs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Life]:
    part = Keda(plane, keda_programs)
    part.start()
    folder = tmp_path_factory.mktemp("keda")
    with living(part, Scaled(plane=plane, cards=2), promlab_programs, folder) as life:
        yield life


def unpaused(life: Life) -> bool:
    return conditions(life.scene.target()).get("Paused") == "False"


def test_a_window_with_both_controllers_killed_in_it_leaves_nothing_behind(life: Life) -> None:
    scene, begin = life.scene, life.recorder.version()
    before, marks = scene.templates(), scene.marks()
    life.lend()
    assert int(scene.marks()[PAUSED_AT]) == 0
    assert scene.recorded()

    life.running.process.kill()
    life.restart_part()
    life.running.process.start()
    life.give_back()

    assert scene.marks() == marks
    assert scene.templates() == before
    wait_for("KEDA scales it again", lambda: unpaused(life))
    assert scene.target_ready(), "at its two replicas, not at the one of its minimum"
    counters = scene.status()["counters"]
    assert (counters["windows"], counters["returns"]) == (1, 1)
    life.recorder.caught_up()
    assert scene.one_user_of_the_cards(life.recorder, begin) > 20


def test_what_its_owner_had_set_is_given_back_from_the_status_alone(life: Life) -> None:
    scene = life.scene
    scene.annotate(paused_replicas="2")
    wait_for("its owner's pause", lambda: not unpaused(life))
    life.lend()

    scene.annotate(record=None)
    life.give_back()

    assert scene.marks()[PAUSED_AT] == "2"


def test_what_its_owner_had_set_is_given_back_from_the_record_alone(life: Life) -> None:
    scene = life.scene
    life.lend()

    life.running.process.kill()
    scene.forget_status()
    life.running.process.start()
    life.give_back()

    assert scene.marks()[PAUSED_AT] == "2"
    scene.annotate(paused_replicas=None)
    wait_for("KEDA scales it again", lambda: unpaused(life))


def test_who_scales_it_in_the_window_wins(life: Life) -> None:
    scene = life.scene
    life.lend()

    scene.api.patch(
        f"{scene.workload_path(next(iter(scene.targets)))}/scale", {"spec": {"replicas": 2}}
    )
    scene.wait_phase("Reclaiming", "Restoring", "Serving")
    life.give_back()

    assert PAUSED_AT not in scene.marks()
    moves = life.running.moves(scene.name)
    assert ("Harvesting", "Reclaiming", "ServingRaised") in moves


def test_a_return_with_keda_down_is_taken_and_acted_on_once_keda_is_back(life: Life) -> None:
    scene = life.scene
    life.lend()
    life.kill_part()

    life.users_come()
    wait_for("its count on the pause", lambda: int(scene.marks().get(PAUSED_AT, "0")) == 2)
    assert scene.recorded(), "held by us until its pods are ready"
    # Killed between the two steps of a return, and what was written is all that is known.
    life.running.process.kill()
    life.running.process.start()
    scene.plane.run("keda")
    wait_for("serving as it was", scene.served)

    assert PAUSED_AT not in scene.marks()


def test_a_zero_of_keda_itself_after_a_return_is_no_failed_return(life: Life) -> None:
    scene, returns = life.scene, life.scene.status()["counters"]["returns"]
    life.lend()
    idle = {"serverAddress": life.scene.prometheus, "query": "vector(0)", "threshold": "10"}
    spec = {
        "minReplicaCount": 0,
        "cooldownPeriod": 1,
        "triggers": [{"type": "prometheus", "metadata": idle}],
    }
    scene.api.patch(scene.target_path(next(iter(scene.targets))), {"spec": spec})

    life.users_come()
    wait_for("the return", lambda: scene.status()["counters"]["returns"] > returns)
    scene.wait_phase("Serving")

    def at_zero() -> bool:
        workload = scene.workload()
        return workload is not None and workload["spec"]["replicas"] == 0

    wait_for("KEDA's own zero", at_zero)
    status = scene.status()
    assert "failure" not in status
    assert PAUSED_AT not in scene.marks()
    down = [c for c in status["conditions"] if c["type"] == "ServingDown" and c["status"] == "True"]
    assert down == []


def begun(life: Life) -> str:
    """A window on serving at its two replicas, whatever a test before has left; its target."""
    scene = life.scene
    (target,) = scene.targets
    life.users_come()
    scene.wait_phase("Serving")
    if scene.api.find(scene.target_path(target)) is None:
        scene.make_scaler(target, target)
    # No zero of its own.
    scene.api.patch(scene.target_path(target), {"spec": {"minReplicaCount": 2}})
    scene.wait_ready()
    life.lend()
    return target


def given_back_as_another(life: Life) -> None:
    """Wait until the window has ended, for the one reason."""
    scene = life.scene
    scene.wait_phase("Reclaiming", "Restoring", "Serving")
    scene.wait_phase("Serving")
    moves = life.running.moves(scene.name)
    assert [m for m in moves if m[:2] == ("Harvesting", "Reclaiming")][-1][2] == "TargetChanged"


def test_what_a_scaled_object_scales_no_more_comes_back_though_it_scales_nothing_that_is_there(
    life: Life,
) -> None:
    scene, target = life.scene, begun(life)

    scene.api.patch(scene.target_path(target), {"spec": {"scaleTargetRef": {"name": "nowhere"}}})
    given_back_as_another(life)

    assert scene.target_ready(), "at its two replicas, by nobody but us"
    assert PAUSED_AT not in scene.marks()
    assert not scene.recorded()
    scene.api.patch(scene.target_path(target), {"spec": {"scaleTargetRef": {"name": target}}})


def test_what_is_scaled_no_more_by_a_retargeted_scaled_object_comes_back(life: Life) -> None:
    scene, target = life.scene, begun(life)
    beside = Setting(plane=scene.plane, targets={"other": 1}, claims=False)
    beside.make_target("other")

    scene.api.patch(scene.target_path(target), {"spec": {"scaleTargetRef": {"name": "other"}}})
    given_back_as_another(life)

    assert scene.target_ready(), "at its two replicas, by nobody but us"
    assert PAUSED_AT not in scene.marks()
    assert not scene.recorded()
    assert scene.api.get(beside.workload_path("other"))["spec"]["replicas"] > 0
    scene.api.patch(scene.target_path(target), {"spec": {"scaleTargetRef": {"name": target}}})
    scene.api.delete(beside.workload_path("other"))


def test_a_frozen_scaled_object_that_is_made_in_the_window_leaves_nothing_at_zero(
    life: Life,
) -> None:
    scene, target = life.scene, begun(life)

    scene.make_scaler("frozen", target, paused="true")
    scene.api.delete(scene.target_path(target))
    given_back_as_another(life)

    assert scene.target_ready(), "at its two replicas, by nobody but us"
    scene.api.delete(scene.target_path("frozen"))


def test_a_persons_pause_at_zero_outlives_the_scaled_object(life: Life) -> None:
    scene, target = life.scene, begun(life)

    scene.annotate(paused_replicas="0")
    wait_for(
        "what it scales is no longer ours to raise",
        lambda: "scaled" not in scene.status()["window"]["targets"][0],
    )
    scene.api.delete(scene.target_path(target))
    given_back_as_another(life)

    workload = scene.workload()
    assert workload is not None
    assert workload["spec"]["replicas"] == 0


def test_a_scaled_object_that_is_deleted_in_the_window_leaves_nothing_at_zero(life: Life) -> None:
    """KEDA leaves what it scaled at the 0 of the pause."""
    scene, target = life.scene, begun(life)

    scene.api.delete(scene.target_path(target))
    given_back_as_another(life)

    assert scene.target_ready(), "at its two replicas, by nobody but us"
