"""The real KServe through whole windows: its InferenceService stopped, lent, and as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.switched import STOP, Inference, Life, living
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.servinglab.serving import KServe

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def life(
    plane: ControlPlane,
    kserve_programs: Path,
    promlab_programs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Life]:
    part = KServe(plane, kserve_programs)
    part.start()
    folder = tmp_path_factory.mktemp("kserve")
    with living(part, Inference(plane=plane), promlab_programs, folder) as life:
        yield life


def test_a_window_with_both_controllers_killed_in_it_leaves_nothing_behind(life: Life) -> None:
    scene, begin = life.scene, life.recorder.version()
    before, marks, generation = scene.templates(), scene.marks(), scene.target()["metadata"]
    life.lend()
    assert scene.marks()[STOP] == "true"
    assert scene.recorded()
    assert scene.workload() is None

    life.running.process.kill()
    life.restart_part()
    life.running.process.start()
    life.give_back()

    assert scene.marks() == marks
    assert scene.templates() == before
    assert scene.target()["metadata"]["generation"] == generation["generation"]
    workload = scene.workload()
    assert workload is not None
    assert workload["metadata"]["generation"] == 1, "no rollout of ours"
    counters = scene.status()["counters"]
    assert (counters["windows"], counters["returns"]) == (1, 1)
    life.recorder.caught_up()
    assert scene.one_user_of_the_cards(life.recorder, begin) > 20


def test_what_its_owner_had_set_is_given_back_from_the_status_alone(life: Life) -> None:
    scene = life.scene
    scene.annotate(stop="true")
    wait_for("its owner's stop", lambda: not scene.serving_pods())
    scene.annotate(stop="false")
    wait_for("its owner's start", scene.target_ready)
    life.lend()

    scene.annotate(record=None)
    life.give_back()

    assert scene.marks()[STOP] == "false"


def test_what_its_owner_had_set_is_given_back_from_the_record_alone(life: Life) -> None:
    scene = life.scene
    life.lend()

    life.running.process.kill()
    scene.forget_status()
    life.running.process.start()
    life.give_back()

    assert scene.marks()[STOP] == "false"
    assert len(scene.templates()) == 1


def test_who_starts_it_in_the_window_wins_and_its_pods_are_not_rolled(life: Life) -> None:
    scene = life.scene
    life.lend()

    scene.annotate(stop=None)
    scene.wait_phase("Reclaiming", "Restoring")
    life.users_come()
    scene.wait_phase("Serving")
    wait_for("ready", scene.target_ready)

    assert STOP not in scene.marks()
    assert scene.recorded(), "taking it off would roll the pods"
    workload = scene.workload()
    assert workload is not None
    assert workload["metadata"]["generation"] == 1, "KServe's copy of it is left alone"


def test_a_return_waits_for_a_kserve_that_is_down_and_says_so(life: Life) -> None:
    scene = life.scene
    # The record of the window before is still on it: written over, and taken off in the end.
    life.lend()
    life.kill_part()

    life.users_come()
    scene.wait_phase("Restoring")
    told = wait_for(
        "the refusal in the journal",
        lambda: [
            outcome["message"]
            for line in life.running.journal(scene.name)
            for outcome in line["outcomes"]
            if outcome["action"]["kind"] == "ScaleBack" and outcome["verdict"] == "Refused"
        ],
    )
    assert "failed calling webhook" in told[0]
    assert "kserve" in told[0]
    assert scene.recorded()

    scene.plane.run("kserve")
    wait_for("serving as it was", scene.served)


def test_no_window_is_opened_that_kserve_would_refuse(life: Life) -> None:
    scene = life.scene
    life.running.process.kill()
    life.kill_part()
    # A new process has asked nothing yet.
    life.running.process.start()
    life.exporter.set("demand", 0, pool=scene.name)

    # The status, where nothing moves, tells it half a minute later.
    told = wait_for(
        "the dry run's answer",
        lambda: [
            check["observed"]
            for check in life.running.journal(scene.name)[-1]["checks"]
            if check["name"] == "dry run accepted" and " 500 " in check["observed"]
        ],
    )
    assert "failed calling webhook" in told[0]
    assert "kserve" in told[0]
    assert scene.phase() == "Serving"
    assert STOP not in scene.marks()
