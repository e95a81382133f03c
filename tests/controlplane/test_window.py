"""A whole idle window on the real parts, twice: given away, used, and given back to its users.

Demand's past is two weeks of recorded traffic of a real card, its present the test's exporter.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from idlewin.traces import load, sample
from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, openmetrics, scraped
from tests.controlplane.scene import RECORD, Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
CARDS = 2
PLANE = {"nodes": {"node-1": {GPU: str(CARDS)}}}
#: A card of the sample with clear nights.
CARD = "language/m-large#69"
DAY_MINUTES = 24 * 60
CYCLE = [
    ("Serving", "Yielding", "WindowOpen"),
    ("Yielding", "Harvesting", "ServingGone"),
    ("Harvesting", "Reclaiming", "DemandReturned"),
    ("Reclaiming", "Restoring", "BatchGone"),
    ("Restoring", "Serving", "HandoverComplete"),
]


def recorded_traffic(pool: str) -> str:
    """Two weeks of the card's traffic, turned so that now is an hour into its last night.

    Users that leave for less than three hours are taken to stay: here demand ends some seconds ago,
    where a card with many short gaps is rightly not lent.
    """
    runs, length = load(sample())[CARD], 14 * DAY_MINUTES
    nights = [a.end for a, b in itertools.pairwise(runs) if b.start - a.end > 600]
    present = nights[-1] + 60
    busy = {minute for run in runs for minute in range(run.start, run.end)}
    for a, b in itertools.pairwise(runs):
        busy |= set(range(a.end, b.start)) if b.start - a.end < 180 else set()
    end = int(time.time()) // 60 - 1
    past = range(present - length, present)
    return openmetrics({pool: [(end - present + at, int(at % length in busy)) for at in past]})


@dataclass(kw_only=True)
class Lived:
    """Two cycles that were lived through, and all that was written down of them."""

    scene: Scene
    recorder: Recorder
    running: Running
    ends: list[int]
    """The newest version at the beginning, and after each cycle."""
    pods: list[str]
    """The UID of the Job's pod in each window."""
    events: list[dict[str, Any]]


@pytest.fixture(scope="module")
def lived(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("window")
    scene = Scene(plane=plane, cards=CARDS, targets={"qwen": CARDS}, ready_after="1s")
    things = deploy(plane)
    with (
        scraped(promlab_programs, folder, recorded_traffic(scene.name), {scene.name: 1}) as (
            exporter,
            prometheus,
        ),
        Recorder(plane.api) as recorder,
    ):
        scene.set_up(
            window={"maxPerDay": 8},
            forecast={"method": "hazard", "budget": {"perWeek": 20, "share": None}},
        )
        scene.make_job("train")
        with Running(plane, things, folder / "controller", prometheus.url) as running:
            scene.wait_phase("Serving")
            lived = Lived(
                scene=scene,
                recorder=recorder,
                running=running,
                ends=[recorder.version()],
                pods=[],
                events=[],
            )
            for _ in range(2):
                _live(lived, exporter)
            lived.events = scene.events()
            yield lived
        scene.clear()


def _live(lived: Lived, exporter: Exporter) -> None:
    """One cycle: demand stops, the Job runs, demand returns, serving is back."""
    scene = lived.scene
    exporter.set("demand", 0, pool=scene.name)
    scene.wait_phase("Harvesting")
    wait_for("a running Job", lambda: scene.job_runs("train"))
    lived.pods += [pod["metadata"]["uid"] for pod in scene.job_pods("train")]
    exporter.set("demand", 1, pool=scene.name)
    scene.wait_phase("Reclaiming")
    scene.wait_phase("Serving")
    lived.recorder.caught_up()
    lived.ends.append(lived.recorder.version())


def test_serving_is_back_at_its_count_and_nothing_of_ours_is_left(lived: Lived) -> None:
    scene = lived.scene

    assert scene.served()
    status = scene.status()
    assert (status["counters"]["windows"], status["counters"]["returns"]) == (2, 2)
    assert not {"window", "owed"} & set(status)
    assert scene.policy() == "HoldAndDrain"


def test_each_step_comes_after_what_it_rests_on(lived: Lived) -> None:
    for begin in lived.ends[:-1]:
        _steps(lived, begin)


def _steps(lived: Lived, begin: int) -> None:
    """The writes of a cycle, in the API server's order."""
    first = lived.recorder.first

    def phase(name: str, after: int) -> int:
        return first(
            f"phase {name}",
            lambda s: s.kind == "IdleRule" and s.raw.get("status", {}).get("phase") == name,
            after,
        ).version

    def target(replicas: int, *, record: bool, after: int) -> int:
        return first(
            f"qwen at {replicas}, record {record}",
            lambda s: (
                s.key[::2] == ("Deployment", "qwen")
                and s.raw["spec"]["replicas"] == replicas
                and (RECORD in s.raw["metadata"].get("annotations", {})) is record
            ),
            after,
        ).version

    def queue(policy: str, after: int) -> int:
        return first(
            f"queue at {policy}",
            lambda s: s.kind == "ClusterQueue" and s.raw["spec"]["stopPolicy"] == policy,
            after,
        ).version

    def pods(of: str, *, there: bool, after: int) -> int:
        place = ("serving", "batch").index(of)
        return next(
            seen.version
            for seen, world in lived.recorder.worlds(after)
            if bool(lived.scene.on_cards(world)[place]) is there
        )

    remembered = phase("Yielding", begin)
    lowered = target(0, record=True, after=remembered)
    gone = pods("serving", there=False, after=lowered)
    opened = queue("None", phase("Harvesting", gone))
    runs = pods("batch", there=True, after=opened)
    sealed = queue("HoldAndDrain", phase("Reclaiming", runs))
    left = pods("batch", there=False, after=sealed)
    raised = target(CARDS, record=False, after=phase("Restoring", left))
    assert phase("Serving", raised)


def test_at_no_time_is_a_queue_open_beside_serving_or_batch_beside_a_return(lived: Lived) -> None:
    assert lived.scene.one_user_of_the_cards(lived.recorder) > 50


def test_what_serving_was_is_on_record_in_two_places(lived: Lived) -> None:
    lowered = lived.recorder.first(
        "zero",
        lambda s: s.key[::2] == ("Deployment", "qwen") and s.raw["spec"]["replicas"] == 0,
    )
    before = [
        seen.raw["status"]["window"]["targets"][0]
        for seen in lived.recorder.history()
        if seen.kind == "IdleRule"
        and seen.version < lowered.version
        and "window" in seen.raw.get("status", {})
    ]

    assert before[0]["replicas"] == CARDS
    assert before[0]["uid"] == lowered.raw["metadata"]["uid"]
    assert f'"replicas":{CARDS}' in lowered.raw["metadata"]["annotations"][RECORD]


def test_the_job_lost_nothing_but_its_pod_and_ran_again(lived: Lived) -> None:
    job = lived.scene.job("train")

    assert len(set(lived.pods)) == 2
    assert job["spec"]["suspend"] is True
    assert not job["status"].get("failed")
    suspended = [c for c in job["status"]["conditions"] if c["type"] == "Suspended"]
    assert suspended[0]["status"] == "True"


def test_status_events_and_journal_tell_the_same_steps_with_their_reasons(lived: Lived) -> None:
    phases = [
        (status["phase"], status["reason"])
        for seen in lived.recorder.history()
        if seen.kind == "IdleRule" and (status := seen.raw.get("status"))
    ]
    changes = [b for a, b in itertools.pairwise(phases) if a[0] != b[0]]
    told = [(event["action"], event["reason"]) for event in lived.events]

    wanted = [(after, reason) for _, after, reason in CYCLE * 2]
    assert changes == wanted
    assert told == wanted
    assert lived.running.moves(lived.scene.name) == CYCLE * 2


def test_the_journal_says_on_what_each_decision_rests(lived: Lived) -> None:
    journal = lived.running.journal(lived.scene.name)
    opened = next(line for line in journal if line["reason"] == "WindowOpen")
    waited = {line["reason"] for line in journal if line["after"] == line["before"] == "Serving"}

    checks = {check["name"]: check for check in opened["checks"]}
    assert checks["likely idle for"]["passed"]
    assert "a late return costs" in checks["worth lending"]["observed"]
    assert "past gaps of this card lasted" in checks["forecast"]["observed"]
    assert {"LoadBusy", "IdleTooShort"} <= waited
    returned = next(line for line in journal if line["reason"] == "DemandReturned")
    assert 'demand{pool="' in returned["checks"][-1]["observed"]
