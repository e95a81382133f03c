"""A target whose arbiter owns its cards, in whole windows: in flight first, unload, to zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from idlewin.cli.app import main
from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.controlplane.setting import demand_of
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.llama_swap import LlamaSwap
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
ASK, UNLOAD = "/running", "POST /api/models/unload"
Json = dict[str, Any]


@dataclass(kw_only=True)
class Pool:
    """Serving that is a llama-swap; the stand-in stays where its pod goes."""

    scene: Scene
    running: Running
    swap: LlamaSwap
    exporter: Exporter
    recorder: Recorder
    prometheus: str

    def comes_up(self) -> None:
        """Back, and a user has loaded a model; nothing is asked of it before the next window."""
        wait_for("serving as before", self.scene.served)
        self.swap.models, self.swap.first = {"qwen": "ready"}, {}
        self.swap.asked.clear()

    def idle(self) -> None:
        self.exporter.set("demand", 0, pool=self.scene.name)

    def busy(self) -> None:
        self.exporter.set("demand", 1, pool=self.scene.name)

    def lowerings(self) -> list[Json]:
        """What became of each write to zero, so far."""
        return [
            outcome
            for line in self.running.journal(self.scene.name)
            for outcome in line["outcomes"]
            if outcome["action"]["kind"] == "ScaleToZero"
        ]

    def asked(self) -> list[str]:
        """What it was asked, but for its stream, which demand follows too."""
        return [one for one in self.swap.asked if one != "/api/events"]


@pytest.fixture(scope="module")
def pool(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("mediated")
    scene, things = Scene(plane=plane), deploy(plane)
    history = history_of([scene.name])
    with (
        LlamaSwap() as swap,
        scraped(promlab_programs, folder, history, {scene.name: 1}) as (exporter, prometheus),
        Recorder(plane.api) as recorder,
    ):
        scene.demand = [demand_of(scene.name), {"llamaSwap": {"url": swap.url}}]
        scene.set_up(rule=False)
        serving = scene.spec()["serving"][0] | {"arbiter": "LlamaSwap"}
        scene.make_rule(serving=[serving])
        scene.make_job("train")
        options = {"no_lease": None}
        with Running(plane, things, folder / "c", prometheus.url, **options) as running:
            yield Pool(
                scene=scene,
                running=running,
                swap=swap,
                exporter=exporter,
                recorder=recorder,
                prometheus=prometheus.url,
            )
        scene.clear()


def test_a_window_unloads_before_it_lowers_and_a_return_asks_nothing(pool: Pool) -> None:
    scene, began = pool.scene, pool.recorder.version()
    pool.comes_up()
    seen: list[int] = []
    pool.swap.first["/api/models/unload"] = lambda: seen.append(scene.target()["spec"]["replicas"])

    pool.idle()
    scene.wait_phase("Harvesting")
    wait_for("batch", lambda: scene.job_runs("train"))
    asked = pool.asked()
    pool.busy()
    pool.comes_up()

    # The rehearsal asks, then the write.
    assert asked == [ASK, ASK, UNLOAD, ASK]
    assert seen == [1]
    (lowered,) = pool.lowerings()
    assert (lowered["verdict"], lowered["message"]) == ("Done", "its arbiter unloaded qwen before")
    assert pool.asked() == []
    assert scene.status()["counters"]["returns"] == 1
    pool.recorder.caught_up()
    assert scene.one_user_of_the_cards(pool.recorder, began) > 10


def explained(pool: Pool, capsys: Any) -> str:
    """What ``idlewin explain`` says."""
    options = ["--prometheus", pool.prometheus, "--kubeconfig", str(pool.scene.plane.kubeconfig)]
    with pytest.raises(SystemExit):
        main(["explain", pool.scene.name, *options])
    return str(capsys.readouterr().out)


def test_a_request_that_begins_between_look_and_write_is_answered_and_nothing_is_lowered(
    pool: Pool, capsys: Any
) -> None:
    scene, before = pool.scene, len(pool.lowerings())
    pool.comes_up()

    def begins_at_the_write() -> None:
        if scene.phase() == "Yielding" and not pool.swap._requests:
            pool.swap.begin(1)

    pool.swap.first[ASK] = begins_at_the_write
    pool.idle()
    wait_for("a conflict", lambda: len(pool.lowerings()) > before)
    scene.wait_phase("Serving")

    told = pool.lowerings()[before:]
    assert {one["verdict"] for one in told} == {"Conflict"}
    assert told[0]["message"] == f"llama-swap {pool.swap.url} has requests in flight: 1 for qwen"
    assert UNLOAD not in pool.swap.asked
    assert (pool.swap.cut_off, pool.swap.models) == ([], {"qwen": "ready"})
    assert scene.target()["spec"]["replicas"] == 1
    assert "DemandReturned" in [reason for _, _, reason in pool.running.moves(scene.name)][-3:]
    assert "has requests in flight: 1 for qwen" in pool.running.process.log()
    assert f"  arbiter of Deployment serving/{scene.name}: {told[0]['message']}" in explained(
        pool, capsys
    )
    assert UNLOAD not in pool.swap.asked
    pool.busy()
    pool.swap.end(1)


def test_a_kill_between_unload_and_zero_loses_nothing_and_the_next_one_goes_on(pool: Pool) -> None:
    scene, before = pool.scene, len(pool.lowerings())
    pool.busy()
    pool.comes_up()
    windows = scene.status()["counters"]["windows"]
    seen: list[Json] = []

    def killed() -> None:
        pool.swap.first = {}
        pool.running.process.kill()
        seen.append(scene.target())

    pool.swap.first["/api/models/unload"] = killed
    pool.idle()
    wait_for("a kill", lambda: seen, 120)
    assert (seen[0]["spec"]["replicas"], scene.recorded()) == (1, False)
    (remembered,) = scene.status()["window"]["targets"]
    assert (scene.phase(), remembered["replicas"]) == ("Yielding", 1)

    pool.running.process.start()
    pool.running.process.wait_ready()
    scene.wait_phase("Harvesting")
    assert scene.recorded()
    assert [one["verdict"] for one in pool.lowerings()[before:]] == ["Done"]
    assert pool.asked().count(UNLOAD) == 1

    pool.busy()
    wait_for("serving as before", scene.served)
    counters = scene.status()["counters"]
    assert counters["windows"] == windows + 1
