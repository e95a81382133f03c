"""After a return: serving that does not answer, and serving that falls, are seen and told."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from idlewin.cli.app import main
from tests.controlplane.deployed import deploy
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
Json = dict[str, Any]


class Server(ThreadingHTTPServer):
    """What a probe asks: it answers with a status that the test sets."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Answer)
        self.status = 503
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/health"


class _Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass(kw_only=True)
class Pool:
    """A rule whose serving has a probe, and its controller with the account of the deployment."""

    scene: Scene
    running: Running
    exporter: Exporter
    server: Server

    def users(self, demand: int) -> None:
        self.exporter.set("demand", demand, pool=self.scene.name)

    def alarm(self, kind: str) -> str:
        """The message of a condition that is True, or nothing."""
        found = self.scene.status().get("conditions") or ()
        return next(
            (c["message"] for c in found if c["type"] == kind and c["status"] == "True"), ""
        )

    def resume(self) -> None:
        """What a person types."""
        with pytest.raises(SystemExit) as end:
            main(["resume", self.scene.name, "--kubeconfig", str(self.scene.plane.kubeconfig)])
        assert not end.value.code

    def staying(self, reason: str) -> None:
        """The rule stays where it is, and says why."""
        wait_for(f"reason {reason}", lambda: self.scene.reason() == reason, 60)


@pytest.fixture(scope="module")
def pool(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("after-return")
    scene, server = Scene(plane=plane), Server()
    things = deploy(plane)
    serving = {
        **scene.spec()["serving"][0],
        "readyTimeout": "5s",
        "onOverdue": "Restart",
        "probe": {"http": {"url": server.url}},
    }
    with scraped(promlab_programs, folder, history_of([scene.name]), {scene.name: 0}) as (
        exporter,
        prometheus,
    ):
        scene.set_up(serving=[serving])
        scene.make_job("train")
        with Running(
            plane, things, folder / "controller", prometheus.url, no_lease=None
        ) as running:
            yield Pool(scene=scene, running=running, exporter=exporter, server=server)
        scene.clear()
        server.shutdown()
        server.server_close()


def test_serving_that_is_ready_and_does_not_answer_is_told_and_its_pods_are_made_anew(
    pool: Pool,
) -> None:
    scene = pool.scene
    scene.wait_phase("Harvesting")

    pool.users(1)
    scene.wait_phase("Restoring")
    first = wait_for("a pod of serving", lambda: scene.serving_pods() or None)
    assert first is not None
    wait_for("the alarm", lambda: "no good answer" in pool.alarm("ReturnOverdue"))
    assert scene.policy() != "None"

    before = {pod["metadata"]["uid"] for pod in first}
    wait_for(
        "other pods",
        lambda: (
            (pods := scene.serving_pods())
            and all(
                pod["metadata"]["uid"] not in before and "deletionTimestamp" not in pod["metadata"]
                for pod in pods
            )
        ),
        60,
    )
    assert scene.phase() == "Restoring"
    pool.server.status = 200
    scene.wait_phase("Serving")
    assert "came back later than readyTimeout" in pool.alarm("HandoverFailed")


def test_a_pool_whose_return_failed_waits_and_a_person_ends_the_wait(pool: Pool) -> None:
    windows = pool.scene.status()["counters"]["windows"]

    pool.users(0)
    pool.staying("BackingOff")
    pool.resume()

    pool.scene.wait_phase("Yielding", "Harvesting")
    assert pool.scene.status()["counters"]["windows"] == windows + 1
    assert not pool.alarm("HandoverFailed")


def test_serving_that_is_put_to_zero_outside_a_window_is_told_and_keeps_the_cards(
    pool: Pool,
) -> None:
    scene = pool.scene
    pool.users(1)
    scene.wait_phase("Serving")
    wait_for("serving as it was", scene.served)

    scale = {"spec": {"replicas": 0}}
    scene.api.patch(f"{scene.target_path(scene.name)}?fieldManager=somebodys-script", scale)
    wait_for("the alarm", lambda: "somebodys-script" in pool.alarm("ServingDown"))
    pool.users(0)
    pool.staying("ServingNotReady")
    assert scene.target()["spec"]["replicas"] == 0

    pool.resume()
    scene.wait_phase("Harvesting")
    assert not pool.alarm("ServingDown")
    assert scene.target()["spec"]["replicas"] == 0
