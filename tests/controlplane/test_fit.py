"""Work that nobody may evict is not started where it could not end before serving is wanted back.

Two pools with more work waiting than their windows hold: one ends by window.max, one by calendar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

pytestmark = pytest.mark.controlplane
PLANE = {"nodes": {"by-max": {GPU: "1"}, "by-calendar": {GPU: "1"}}}
ENDS = ("by-max", "by-calendar")
#: Jobs take less than their bound; what counts is the bound.
BOUND, TAKES = timedelta(seconds=8), "3s"
#: More than can end in the window, however fast the machine.
JOBS = {"by-max": 12, "by-calendar": 40}
Json = dict[str, Any]


def the_end(case: str) -> Json:
    """What ends the window of a case, one to two minutes from now."""
    window: Json = {"minServing": "30m"}
    if case == "by-max":
        return {**window, "max": "45s"}
    now = datetime.now(UTC)
    # A calendar knows whole minutes; the window is to hold some Jobs.
    start, end = now - timedelta(minutes=5), now + timedelta(minutes=2)
    span = f"{start:%Y-%m-%dT%H:%M}/{end:%Y-%m-%dT%H:%M}"
    return {**window, "calendar": {"allow": [span]}}


@dataclass(kw_only=True)
class Ended:
    """Both windows once they are over."""

    scenes: dict[str, Scene]
    running: Running
    recorder: Recorder

    def closed(self, case: str) -> datetime:
        """When the queue of a case was first closed in its window."""
        return next(
            datetime.fromisoformat(line["at"])
            for line in self.running.journal(case)
            for outcome in line["outcomes"]
            if line["before"] == "Harvesting"
            and outcome["action"]["kind"] == "SetStopPolicy"
            and outcome["action"]["policy"] == "Hold"
        )

    def wanted_back(self, case: str) -> datetime:
        """When serving is wanted ready, by window.max or by the calendar."""
        window = self.scenes[case].rule()["spec"]["window"]
        if case == "by-max":
            return datetime.fromisoformat(self.move(case, "Yielding")["at"]) + timedelta(seconds=45)
        return datetime.fromisoformat(f"{window['calendar']['allow'][0].partition('/')[2]}:00Z")

    def move(self, case: str, after: str) -> Json:
        """The decision by which a case came into a phase."""
        return next(
            line for line in self.running.journal(case) if line["after"] == after != line["before"]
        )

    def jobs(self, case: str) -> list[Json]:
        return [self.scenes[case].job(f"{case}-{number}") for number in range(JOBS[case])]


@pytest.fixture(scope="module")
def ended(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    things, folder = deploy(plane), tmp_path_factory.mktemp("fit")
    kind = {"maxRuntime": f"{BOUND.seconds}s", "grace": "1s"}
    scenes = {
        case: Scene(plane=plane, name=case, node=case, queues={case: kind}, demand="CalendarOnly")
        for case in ENDS
    }
    with (
        Recorder(plane.api) as recorder,
        Running(plane, things, folder, "http://127.0.0.1:1") as running,
    ):
        for case, scene in scenes.items():
            scene.set_up(rule=False)
            for number in range(JOBS[case]):
                scene.make_job(
                    f"{case}-{number}", contract=False, finish="succeeded", finish_after=TAKES
                )
        for case, scene in scenes.items():
            scene.make_rule(window=the_end(case))
        for scene in scenes.values():
            scene.wait_phase("Harvesting")
        for scene in scenes.values():
            scene.wait_phase("Serving", timeout=200)
            wait_for("serving as it was", scene.served)
        recorder.caught_up()
        yield Ended(scenes=scenes, running=running, recorder=recorder)


@pytest.mark.parametrize("case", ENDS)
def test_a_queue_is_closed_so_early_that_what_it_admitted_ends_in_time(
    ended: Ended, case: str
) -> None:
    closed = ended.closed(case)
    back = ended.move(case, "Reclaiming")

    assert closed + BOUND <= ended.wanted_back(case)
    # What nothing can be started in any more is given back at once.
    assert datetime.fromisoformat(back["at"]) >= closed
    assert back["reason"] == {"by-max": "WindowMax", "by-calendar": "ReclaimReached"}[case]


@pytest.mark.parametrize("case", ENDS)
def test_all_work_that_began_has_ended_by_itself_before_serving_is_wanted(
    ended: Ended, case: str
) -> None:
    done = [job["status"]["completionTime"] for job in ended.jobs(case) if succeeded(job)]

    assert len(done) >= 2
    # Kueue may let one more in just after it was closed: giving back waits for that one.
    assert max(map(datetime.fromisoformat, done)) <= ended.wanted_back(case)
    begun = [job for job in ended.jobs(case) if not job["spec"].get("suspend")]
    assert [job["metadata"]["name"] for job in begun if not succeeded(job)] == []
    assert len(begun) < JOBS[case], "the window was too long to say anything"


def succeeded(job: Json) -> bool:
    """Whether a Job is complete."""
    return any(
        c["type"] == "Complete" and c["status"] == "True"
        for c in job["status"].get("conditions") or ()
    )


@pytest.mark.parametrize("case", ENDS)
def test_nothing_is_evicted(ended: Ended, case: str) -> None:
    seen = ended.recorder.history()
    works = [s.raw for s in seen if s.kind == "Workload" and s.raw["spec"]["queueName"] == case]
    evicted = [
        work["metadata"]["name"]
        for work in works
        for condition in work.get("status", {}).get("conditions") or ()
        if condition["type"] == "Evicted"
    ]
    taken = [
        s.raw["metadata"]["name"]
        for s in seen
        if s.kind == "Pod"
        and s.raw["metadata"]["name"].startswith(f"{case}-")
        and s.raw["metadata"]["namespace"] == "default"
        and "deletionTimestamp" in s.raw["metadata"]
    ]

    assert works
    assert evicted == []
    assert taken == []
