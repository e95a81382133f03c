"""Demand by a stream: a request at a llama-swap ends a window at once, a broken stream in time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.controlplane.setting import demand_of
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.llama_swap import LlamaSwap

pytestmark = pytest.mark.controlplane
#: From a request's first byte to the give-back; a tick of the back-stop would take 15 s.
AT_ONCE_S = 5


@dataclass(kw_only=True)
class Pool:
    scene: Scene
    running: Running
    swap: LlamaSwap


@pytest.fixture(scope="module")
def pool(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    """A rule whose router shows nothing, and whose llama-swap stays up beside it."""
    folder = tmp_path_factory.mktemp("streams")
    scene, things = Scene(plane=plane), deploy(plane)
    history = history_of([scene.name])
    with (
        LlamaSwap() as swap,
        scraped(promlab_programs, folder, history, {scene.name: 0}) as (
            _,
            prometheus,
        ),
    ):
        stream = {"llamaSwap": {"url": swap.url, "model": "qwen"}, "visibleAtZero": True}
        scene.demand = [demand_of(scene.name), stream]
        scene.set_up()
        scene.make_job("train")
        with Running(plane, things, folder / "controller", prometheus.url) as running:
            yield Pool(scene=scene, running=running, swap=swap)
        scene.clear()


def given_back(scene: Scene, since: float) -> tuple[str, float]:
    """Why, and how long after an instant."""
    status = scene.wait_phase("Reclaiming", "Restoring", "Serving", timeout=30)
    return str((status.get("window") or {}).get("giveBack")), time.monotonic() - since


def test_a_request_in_flight_ends_a_window_at_once_and_keeps_it_shut(pool: Pool) -> None:
    scene = pool.scene
    scene.wait_phase("Harvesting")
    wait_for("batch", lambda: scene.job_runs("train"))
    pool.swap.begin(1, model="another")

    since = time.monotonic()
    pool.swap.begin(2)
    why, took = given_back(scene, since)

    print(f"given back {took:.2f} s after the request began")
    assert (why, took < AT_ONCE_S) == ("DemandReturned", True)
    (moved,) = (
        one
        for one in pool.running.journal(scene.name)
        if one["after"] == "Reclaiming" != one["before"]
    )
    assert f"llamaSwap {pool.swap.url}" in moved["checks"][0]["observed"]
    scene.wait_phase("Serving")
    wait_for("the reason", lambda: scene.reason() == "LoadBusy", 60)


def test_a_stream_that_breaks_gives_the_window_back_after_stale_after(pool: Pool) -> None:
    scene = pool.scene
    pool.swap.end(2)
    scene.wait_phase("Harvesting", timeout=120)
    wait_for("batch", lambda: scene.job_runs("train"))

    since = time.monotonic()
    pool.swap.status = 502
    pool.swap.cut()
    why, took = given_back(scene, since)

    print(f"given back {took:.2f} s after the stream broke; staleAfter is 4 s")
    assert (why, took >= 3) == ("LoadUnknown", True)
    assert set(pool.swap.asked) == {"/api/events"}
    scene.wait_phase("Serving")
