"""Prometheus goes blind in a window: unknown is not idle, so serving is back after staleAfter."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.exporters import Exporter, FakePrometheus, failure, vector
from tests.labs.promlab.prometheus import Prometheus

pytestmark = pytest.mark.controlplane
STALE = timedelta(seconds=4)
Answer = tuple[int, str, str]
JSON = "application/json"


class Front(FakePrometheus):
    """In front of a real Prometheus: passes everything on, or lets ``lie`` change the answer."""

    def __init__(self, real: str) -> None:
        self._real = real
        self.lie: Callable[[str], Answer] | None = None
        super().__init__()

    def respond(self, path: str, body: str) -> Answer:
        request = urllib.request.Request(f"{self._real}{path}", data=body.encode() or None)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                real = response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, JSON, error.read().decode()
        asked = parse_qs(urlsplit(path).query) | parse_qs(body)
        if self.lie is not None and any("demand" in query for query in asked.get("query", [])):
            return self.lie(real)
        return 200, JSON, real


def nan(_real: str) -> Answer:
    return 200, JSON, vector("NaN")


def error(_real: str) -> Answer:
    return 422, JSON, failure("execution", "query processing would load too many samples")


def unavailable(_real: str) -> Answer:
    return 503, JSON, failure("timeout", "query timed out in expression evaluation")


def warned(real: str) -> Answer:
    """The whole and right answer, with the word that a part of it may be missing."""
    return 200, JSON, json.dumps({**json.loads(real), "warnings": ["a store is unavailable"]})


@dataclass(kw_only=True)
class Watched:
    """A pool, and the eyes of its controller."""

    scene: Scene
    running: Running
    exporter: Exporter
    prometheus: Prometheus
    front: Front
    recorder: Recorder

    def harvest(self) -> None:
        """Into a window, with the Job on the card."""
        wait_for("a running Job", lambda: self.scene.job_runs("train"))
        self.scene.wait_phase("Harvesting")

    def given_back(self) -> dict[str, Any]:
        """Serving is back; the decision of the journal that began it, with its outcome's time."""
        self.scene.wait_phase("Reclaiming", "Restoring")
        self.scene.wait_phase("Serving")
        wait_for("serving as it was", self.scene.served)
        began = [
            line
            for line in self.running.journal(self.scene.name)
            if line["before"] == "Harvesting" and line["after"] == "Reclaiming"
        ]
        return began[-1]


@pytest.fixture(scope="module")
def watched(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("blind")
    scene = Scene(plane=plane)
    things = deploy(plane)
    with (
        scraped(promlab_programs, folder, history_of([scene.name]), {scene.name: 0}) as (
            exporter,
            prometheus,
        ),
        Front(prometheus.url) as front,
        Recorder(plane.api) as recorder,
    ):
        scene.set_up()
        scene.make_job("train")
        with Running(plane, things, folder / "controller", front.url) as running:
            yield Watched(
                scene=scene,
                running=running,
                exporter=exporter,
                prometheus=prometheus,
                front=front,
                recorder=recorder,
            )
        scene.clear()


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (nan, "the value is nan"),
        (error, "too many samples"),
        (unavailable, "timed out"),
        (warned, "a store is unavailable"),
    ],
    ids=["nan", "error", "unavailable", "warning"],
)
def test_an_answer_that_is_none_gives_back_and_a_good_one_opens_again(
    watched: Watched, lie: Callable[[str], Answer], told: str
) -> None:
    watched.harvest()

    watched.front.lie = lie
    began = watched.given_back()

    _unknown(watched, began, told)
    _stays(watched)
    watched.front.lie = None
    watched.harvest()


def test_a_killed_prometheus_gives_back_and_a_new_one_opens_again(watched: Watched) -> None:
    watched.harvest()

    watched.prometheus.kill()
    watched.front.silence()
    began = watched.given_back()

    _unknown(watched, began, "refused")
    _stays(watched)
    # Outside a change of phase the status is written at most each 30 s.
    wait_for("the reason", lambda: watched.scene.reason() == "LoadUnknown")
    watched.prometheus.start()
    watched.front.speak()
    watched.harvest()


def test_a_silent_exporter_is_no_idle_one(watched: Watched) -> None:
    watched.harvest()

    watched.exporter.silence()
    began = watched.given_back()

    _unknown(watched, began, "not known to be alive")
    watched.exporter.speak()
    watched.harvest()


def test_no_time_was_one_of_two_users(watched: Watched) -> None:
    watched.recorder.caught_up()

    assert watched.scene.one_user_of_the_cards(watched.recorder) > 50


def _unknown(watched: Watched, began: dict[str, Any], told: str) -> None:
    """It was given back because load was unknown for staleAfter, and says what it was told."""
    assert began["reason"] == "LoadUnknown"
    check = began["checks"][-1]
    assert told in check["observed"]
    since = datetime.fromisoformat(began["load"]["since"])
    waited = datetime.fromisoformat(began["at"]) - since
    assert STALE <= waited < 3 * STALE, waited
    events = watched.scene.events()
    assert "LoadUnknown" in [event["reason"] for event in events if event["action"] == "Reclaiming"]


def _stays(watched: Watched) -> None:
    """Work waits, and still no window opens, for demand is unknown."""

    def says() -> bool:
        last = watched.running.journal(watched.scene.name)[-1]
        return (last["after"], last["reason"]) == ("Serving", "LoadUnknown")

    wait_for("the reason", says)
    assert watched.scene.served()
