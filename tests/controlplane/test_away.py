"""etcd and the API server are away for a minute while cards change hands.

When it begins each pool is held at another write, on its way to batch or back; the writes are then
sent into the outage. First etcd is killed and comes back, then the API server is silent (stopped,
as behind a half-open connection), then it is killed.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.holding import Held
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.controlplane.setting import JOBS
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.kubelab.proxy import Moment, Proxy
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
#: Pools that are lent to begin with, at writes of the return.
CLOSES = {
    "remembers": (1, Moment.AFTER),
    "seals": (2, Moment.BEFORE),
    "sealed": (2, Moment.AFTER),
    "raises": (4, Moment.BEFORE),
    "raised": (4, Moment.AFTER),
}
#: Pools that serve to begin with, at writes of a handover.
OPENS = {
    "opens": (1, Moment.BEFORE),
    "lowers": (2, Moment.BEFORE),
    "lowered": (2, Moment.AFTER),
    "lends": (5, Moment.BEFORE),
    "lent": (5, Moment.AFTER),
}
PLANE = {"nodes": {pool: {GPU: "1"} for pool in (*CLOSES, *OPENS)}}
OTHERS = ("kwok", "kube-controller-manager", "kube-scheduler", "kueue")
#: Of the minute: etcd is away, then the API server says nothing, then it is not there.
ETCD_S, SILENT_S, DEAD_S = 20, 20, 20


@dataclass(kw_only=True)
class World:
    """The pools, who is on them, and the controller behind its proxy."""

    plane: ControlPlane
    exporter: Exporter
    recorder: Recorder
    running: Running
    proxy: Proxy
    scenes: dict[str, Scene] = field(default_factory=dict)

    def lend(self, *pools: str) -> None:
        for pool in pools:
            self.exporter.set("demand", 0, pool=pool)

    def use(self, *pools: str) -> None:
        for pool in pools:
            self.exporter.set("demand", 1, pool=pool)

    def at_work(self, *pools: str) -> None:
        for pool in pools:
            self.scenes[pool].wait_phase("Harvesting", timeout=120)
            wait_for(f"a Job of {pool}", lambda p=pool: self.scenes[p].job_runs(p), 120)

    def served(self, *pools: str) -> None:
        for pool in pools:
            self.scenes[pool].wait_phase("Serving", timeout=120)
            wait_for(f"{pool} as it was", self.scenes[pool].served, 120)

    def minute_away(self) -> None:
        """The outage, from etcd's end to an API server that is ready again."""
        plane = self.plane
        plane.run("etcd")
        plane.wait_ready("etcd")
        os.kill(plane.pids()["kube-apiserver"], signal.SIGSTOP)
        time.sleep(SILENT_S)
        for part in ("kube-apiserver", *OTHERS):
            plane.kill(part, signal.SIGKILL)
        time.sleep(DEAD_S)
        # What others do after an outage is theirs; they are started anew, lest the test wait for
        # it: they would take all nodes for dead, and Kueue would be long in coming back.
        there = threading.Event()
        self.proxy.hook = lambda asked, _: asked.method != "PATCH" or there.wait(60)
        for part in ("kube-apiserver", *OTHERS):
            plane.run(part)
            plane.wait_ready(part)
        # A dry run that Kueue's webhook does not answer would be asked again in five minutes.
        there.set()


@pytest.fixture(scope="module")
def world(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder, things = tmp_path_factory.mktemp("away"), deploy(plane)
    pools = (*CLOSES, *OPENS)
    account = plane.service_account_kubeconfig("idlewin-system", "idlewin")
    with ExitStack() as stack:
        exporter, prometheus = stack.enter_context(
            scraped(promlab_programs, folder, history_of(pools), dict.fromkeys(pools, 1))
        )
        scenes = {pool: Scene(plane=plane, name=pool, node=pool) for pool in pools}
        for scene in scenes.values():
            # A minute is taken away from whoever waits.
            scene.set_up(window={"yieldTimeout": "5m"}, batch={"drainTimeout": "5m"})
            # Where Kueue is slow to see a stop its pod is evicted, which a Job counts as a failure.
            scene.make_job(scene.name, retries=6)
        proxy = stack.enter_context(Proxy(plane))
        options = {"workers": "16", "kubeconfig": proxy.kubeconfig(account)}
        running = Running(plane, things, folder / "idlewin", prometheus.url, **options)
        yield World(
            plane=plane,
            exporter=exporter,
            recorder=stack.enter_context(Recorder(plane.api)),
            running=stack.enter_context(running),
            proxy=proxy,
            scenes=scenes,
        )


def test_a_minute_without_etcd_and_api_server_loses_nothing_on_any_edge(world: World) -> None:
    pools = (*CLOSES, *OPENS)
    begin = world.recorder.version()
    world.lend(*CLOSES)
    world.at_work(*CLOSES)
    world.served(*OPENS)
    held = Held(world.proxy, {**CLOSES, **OPENS})
    world.use(*CLOSES)
    world.lend(*OPENS)
    held.wait()

    world.plane.kill("etcd", signal.SIGKILL)
    held.let_go(drop=False)
    time.sleep(ETCD_S)
    world.minute_away()

    world.served(*CLOSES)
    world.at_work(*OPENS)
    assert world.running.process.running(), "an outage is no reason to end"
    world.use(*OPENS)
    world.served(*pools)
    world.recorder.caught_up()
    for pool, scene in world.scenes.items():
        assert scene.one_user_of_the_cards(world.recorder, begin) > 0
        counters = scene.status()["counters"]
        assert (counters["windows"], counters["returns"]) == (1, 1), pool
        status = world.plane.api.get(f"{JOBS}/{pool}")["status"]
        assert not any(c["type"] == "Failed" for c in status.get("conditions") or ()), pool
