"""The controller is killed at each of its writes, before and after it happened: same end.

A proxy kills it by SIGKILL and starts it anew at once, with nothing but what the cluster remembers.
It runs without a Lease here: the new one would only wait for the old one's to run out.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.kubelab.proxy import Moment, Proxy
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
LEAST = 8


@dataclass(kw_only=True)
class Shooting:
    """One pool, its controller behind the proxy, and who is on the cards."""

    scene: Scene
    proxy: Proxy
    running: Running
    exporter: Exporter
    recorder: Recorder
    kubelet: ThreadPoolExecutor
    """Starts the controller anew."""

    def demand(self, value: float) -> None:
        self.exporter.set("demand", value, pool=self.scene.name)

    def kill_at(self, number: int, moment: Moment) -> Event:
        """Kill it at its n-th write from now on, and start it anew."""

        def shoot() -> None:
            self.running.process.kill()
            # In a thread that lives on: a child ends with the thread that started it.
            self.kubelet.submit(self.running.process.start)

        return self.proxy.at(number, moment, shoot)

    def wait_ready(self) -> None:
        """Wait until there is a controller again, and it is ready."""
        process = self.running.process
        wait_for("a ready controller", lambda: process.answers("readinessProbe"))


@pytest.fixture(scope="module")
def shooting(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shooting]:
    folder = tmp_path_factory.mktemp("kills")
    scene = Scene(plane=plane)
    things = deploy(plane)
    scene.set_up(rule=False)
    with (
        scraped(promlab_programs, folder, history_of([scene.name]), {}) as (
            exporter,
            prometheus,
        ),
        Proxy(plane) as proxy,
        Recorder(plane.api) as recorder,
        ThreadPoolExecutor(1) as kubelet,
    ):
        account = plane.service_account_kubeconfig("idlewin-system", "idlewin")
        with Running(
            plane,
            things,
            folder / "controller",
            prometheus.url,
            kubeconfig=proxy.kubeconfig(account),
            no_lease=None,
        ) as running:
            yield Shooting(
                scene=scene,
                proxy=proxy,
                running=running,
                exporter=exporter,
                recorder=recorder,
                kubelet=kubelet,
            )
        scene.clear()


@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
def test_a_kill_at_any_write_changes_nothing_of_the_end(shooting: Shooting, moment: Moment) -> None:
    killed = {"giving away": 0, "giving back": 0}
    begin = shooting.recorder.version()

    for number in count(1):
        shots = _cycle(shooting, number, moment)
        for direction, shot in zip(killed, shots, strict=True):
            assert not shot or killed[direction] == number - 1, "the numbers have a gap"
            killed[direction] += shot
        if not any(shots):
            break

    print(f"killed {moment.value}: {killed}")
    assert min(killed.values()) >= LEAST, killed
    shooting.recorder.caught_up()
    assert shooting.scene.one_user_of_the_cards(shooting.recorder, begin) > 500


def _cycle(shooting: Shooting, number: int, moment: Moment) -> tuple[bool, bool]:
    """A window with a kill on each way; whether there was such a write."""
    scene, job = shooting.scene, f"train-{moment.name.lower()}-{number}"
    shooting.demand(0)
    scene.make_job(job)
    away = shooting.kill_at(number, moment)
    scene.make_rule()
    wait_for("a running Job", lambda: scene.job_runs(job))
    shooting.wait_ready()
    scene.wait_phase("Harvesting")

    back = shooting.kill_at(number, moment)
    shooting.demand(1)
    scene.wait_phase("Reclaiming", "Restoring", "Serving")
    scene.wait_phase("Serving")
    shooting.wait_ready()
    wait_for("serving as it was", scene.served)
    counters = scene.status()["counters"]
    assert (counters["windows"], counters["returns"]) == (1, 1), counters
    _nothing_lost(scene, job)
    _clear(scene, job)
    return away.is_set(), back.is_set()


def _nothing_lost(scene: Scene, name: str) -> None:
    """The Job waits, whole, and may be admitted again."""
    job = scene.job(name)
    assert job["spec"]["suspend"] is True
    assert not job["status"].get("failed")
    (work,) = [
        work
        for work in scene.api.list("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads")
        if work["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    ]
    assert work["spec"].get("active", True) is True


def _clear(scene: Scene, job: str) -> None:
    """The rule goes by itself, for it owes nothing; then the Job."""
    scene.api.delete(f"/apis/batch/v1/namespaces/default/jobs/{job}")
    scene.api.delete(scene.rule_path)
    wait_for("the rule's end", lambda: scene.api.find(scene.rule_path) is None)
