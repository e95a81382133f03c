"""Claims: demand that is pushed gives back, though none is seen; it can never give away."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from idlewin.cli.app import main
from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
WAKE_UNTIL = "idlewin.dev/wake-until"
CLAIM_S = 12


@dataclass(kw_only=True)
class Called:
    """A pool without any demand, whose controller people and machines call."""

    scene: Scene
    running: Running
    recorder: Recorder

    def harvest(self) -> None:
        """Into a window, with the Job on the card."""
        wait_for("a running Job", lambda: self.scene.job_runs("train"))
        self.scene.wait_phase("Harvesting")

    def wake(self, seconds: int = CLAIM_S) -> None:
        """What a person types."""
        arguments = ["wake", self.scene.name, "--for", f"{seconds}s"]
        with pytest.raises(SystemExit) as end:
            main([*arguments, "--kubeconfig", str(self.scene.plane.kubeconfig)])
        assert not end.value.code

    def post(self, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """A call of the controller's endpoint: status and answer."""
        request = urllib.request.Request(
            f"http://{HOST}:{self.running.process.port}{path}",
            data=b"" if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def alert(self, status: str) -> tuple[int, dict[str, Any]]:
        """What Alertmanager sends."""
        labels = {
            "alertname": "Queueing",
            "idlewin_rule": self.scene.name,
            "idlewin_for": f"{CLAIM_S}s",
        }
        alert = {"status": status, "labels": labels, "annotations": {}}
        message = {"version": "4", "status": status, "alerts": [alert], "receiver": "idlewin"}
        return self.post("/alertmanager", message)

    def claim(self) -> datetime:
        """The end of the claim on the rule."""
        return datetime.fromisoformat(self.scene.rule()["metadata"]["annotations"][WAKE_UNTIL])

    def windows(self) -> int:
        return int(self.scene.status()["counters"]["windows"])

    def given_back(self) -> None:
        """Serving is back, because of the claim alone, and stays until the claim ends."""
        end, windows = self.claim(), self.windows()
        self.scene.wait_phase("Reclaiming", "Restoring", "Serving")
        self.scene.wait_phase("Serving")
        wait_for("serving as it was", self.scene.served)
        moves = [move for move in self.running.moves(self.scene.name) if move[1] == "Reclaiming"]
        assert moves[-1] == ("Harvesting", "Reclaiming", "WakeClaimed")
        events = [e["reason"] for e in self.scene.events() if e["action"] == "Reclaiming"]
        assert events[-1] == "WakeClaimed"
        loads = {line["load"]["level"] for line in self.running.journal(self.scene.name)}
        assert "Busy" not in loads

        self.scene.wait_phase("Yielding", "Harvesting")
        assert self.windows() == windows + 1
        opened = self.scene.status()["window"]["openedAt"]
        assert datetime.fromisoformat(opened) >= end


@pytest.fixture(scope="module")
def called(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Called]:
    folder = tmp_path_factory.mktemp("claims")
    scene = Scene(plane=plane)
    things = deploy(plane)
    with (
        scraped(promlab_programs, folder, history_of([scene.name]), {scene.name: 0}) as (
            _,
            prometheus,
        ),
        Recorder(plane.api) as recorder,
    ):
        scene.set_up()
        scene.make_job("train")
        with Running(
            plane, things, folder / "controller", prometheus.url, no_lease=None
        ) as running:
            yield Called(scene=scene, running=running, recorder=recorder)
        scene.clear()


def test_a_person_wakes_a_rule(called: Called) -> None:
    called.harvest()

    called.wake()

    called.given_back()


def test_a_call_wakes_a_rule_and_is_answered_once_the_claim_is_on_record(called: Called) -> None:
    called.harvest()

    status, answer = called.post(f"/wake/{called.scene.name}", {"for": f"{CLAIM_S}s"})
    claim = called.claim()

    assert status == 200
    assert answer["claims"][0]["answer"] == "Claimed"
    assert datetime.fromisoformat(answer["claims"][0]["until"]) == claim
    assert claim - datetime.now(UTC) > timedelta(seconds=CLAIM_S - 3)
    called.given_back()


def test_a_firing_alert_wakes_a_rule(called: Called) -> None:
    called.harvest()

    status, answer = called.alert("firing")

    assert (status, answer["claims"][0]["answer"]) == (200, "Claimed")
    called.given_back()


def test_a_resolved_alert_neither_ends_a_claim_nor_opens_a_window(called: Called) -> None:
    called.harvest()
    called.alert("firing")
    claim = called.claim()

    status, answer = called.alert("resolved")

    assert (status, answer["claims"]) == (200, [])
    assert "resolved: nothing to claim" in answer["passed"][0]
    assert called.claim() == claim
    called.given_back()


def test_a_claim_outlives_the_controller(called: Called) -> None:
    called.harvest()
    called.running.process.kill()

    called.wake(2 * CLAIM_S)
    assert called.scene.phase() == "Harvesting"
    called.running.process.start()

    called.scene.wait_phase("Reclaiming")
    wait_for("the Event", lambda: called.scene.events()[-1]["reason"] == "WakeClaimed")
    called.running.process.kill()
    called.running.process.start()
    called.given_back()


def test_a_call_for_no_rule_is_answered_so(called: Called) -> None:
    status, answer = called.post("/wake/no-such-rule")

    assert status == 404
    assert "kubectl get idlerules" in answer["claims"][0]["message"]


def test_no_time_was_one_of_two_users(called: Called) -> None:
    called.recorder.caught_up()

    assert called.scene.one_user_of_the_cards(called.recorder) > 50
