"""Nobody home: what a dead controller left is given back by the watchdog, or by a person's hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from pathlib import Path

import pytest

from idlewin.cli.app import main
from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.controlplane.setting import JOBS
from tests.controlplane.test_deployed import may
from tests.controlplane.watchdog import LEASE, Watchdog, age_lease, each_minute, its_pod
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.kubelab.proxy import Drop, Exchange, Moment, Proxy
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
PLANE = {"nodes": {f"node-{number}": {GPU: "1"} for number in (1, 2, 3)}}
LONG = timedelta(minutes=16)


@dataclass(kw_only=True)
class House:
    """Pools, the controller that lends them behind a proxy, and who would come if it died."""

    plane: ControlPlane
    proxy: Proxy
    running: Running
    exporter: Exporter
    recorder: Recorder
    lent: Scene
    """Is lent, with batch on its card."""
    leaving: Scene
    """Is about to be lent."""
    bare: Scene
    """Serving there opens the device node."""

    @cached_property
    def watchdog(self) -> Watchdog:
        return Watchdog(plane=self.plane, pod=its_pod(self.plane))

    def demand(self, scene: Scene, value: float) -> None:
        self.exporter.set("demand", value, pool=scene.name)

    def lend(self, scene: Scene, **marks: str) -> None:
        """A window with a Job of the scene's name on the card; once made, it goes on each time."""
        if self.plane.api.find(f"{JOBS}/{scene.name}") is None:
            scene.make_job(scene.name, **marks)
        self.demand(scene, 0)
        wait_for("a running Job", lambda: scene.job_runs(scene.name))
        scene.wait_phase("Harvesting")

    def resume(self, scene: Scene) -> None:
        """What a person types, and what it ends: a pause, and a wait after a failed handover."""
        with pytest.raises(SystemExit) as end:
            main(["resume", scene.name, "--kubeconfig", str(self.plane.kubeconfig)])
        assert not end.value.code

    def served(self, scene: Scene) -> None:
        wait_for(f"serving of {scene.name}", scene.served)

    def give_back(self, *arguments: str, kubeconfig: Path) -> tuple[int, str]:
        """What a person types: the exit code, and all that was said."""
        done = subprocess.run(
            [sys.executable, "-m", "idlewin.cli.app", "give-back", *arguments],
            env={"PATH": os.environ["PATH"], "IDLEWIN_KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def house(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("home")
    things = deploy(plane)
    each_minute(plane)
    lent, leaving = Scene(plane=plane), Scene(plane=plane, node="node-2")
    bare = Scene(plane=plane, node="node-3", claims=False)
    scenes = (lent, leaving, bare)
    for scene in scenes:
        scene.set_up(rule=False)
    demand = {scene.name: 1.0 for scene in scenes}
    with (
        scraped(promlab_programs, folder, history_of(demand), demand) as (exporter, prometheus),
        Proxy(plane) as proxy,
        Recorder(plane.api) as recorder,
    ):
        account = plane.service_account_kubeconfig("idlewin-system", "idlewin")
        kubeconfig = proxy.kubeconfig(account)
        options = {"kubeconfig": kubeconfig}
        with Running(plane, things, folder / "run", prometheus.url, **options) as running:
            for scene in scenes:
                scene.make_rule()
            yield House(
                plane=plane,
                proxy=proxy,
                running=running,
                exporter=exporter,
                recorder=recorder,
                lent=lent,
                leaving=leaving,
                bare=bare,
            )
        for scene in scenes:
            scene.clear()


def test_by_hand_it_is_given_back_beside_a_leader_and_through_a_bad_line(house: House) -> None:
    lent, begin = house.lent, house.recorder.version()
    house.lend(lent)

    def drop(exchange: Exchange, moment: Moment) -> None:
        # Of eight writes one is lost on its way, and of another the answer.
        if {1: Moment.BEFORE, 5: Moment.AFTER}.get(exchange.number % 8) is moment:
            raise Drop

    with Proxy(house.plane) as bad:
        bad.hook = drop
        code, said = house.give_back("--all", kubeconfig=bad.kubeconfig(house.plane.kubeconfig))

    print(said)
    assert code == 0, said
    house.served(lent)
    assert lent.rule()["spec"]["paused"] is True
    house.demand(lent, 1)
    for scene in (lent, house.leaving, house.bare):
        # A drain that took long, as over such a line it may, holds the next window up.
        house.resume(scene)
    house.recorder.caught_up()
    assert lent.one_user_of_the_cards(house.recorder, begin) > 10


def test_the_watchdogs_account_may_give_back_and_no_more(house: House) -> None:
    user = house.watchdog.user
    leases = {"group": "coordination.k8s.io", "resource": "leases", "namespace": "idlewin-system"}

    assert user.endswith(":idlewin-watchdog")
    assert may(house.plane, user, **leases, name="idlewin", verb="update")
    assert not may(house.plane, user, **leases, name="another", verb="update")
    for group, resource in [
        ("", "pods"), ("", "secrets"), ("batch", "jobs"), ("apps", "deployments"),
        ("idlewin.dev", "idlerules"), ("coordination.k8s.io", "leases"),
    ]:  # fmt: skip
        asked = {"group": group, "resource": resource, "namespace": "idlewin-system"}
        assert not may(house.plane, user, **asked, verb="create"), resource


def test_what_a_leader_left_is_given_back_and_it_wakes_up_harmless(house: House) -> None:
    lent, leaving, begin = house.lent, house.leaving, house.recorder.version()
    house.lend(lent)

    # A living leader, by the exact command, and by one that would call any silence death.
    for options in ({}, {"stale": "1s"}):
        assert house.watchdog.run(**options)[0] == 0
        assert lent.phase() == "Harvesting"

    # It is frozen right after Remember; its scale-down is on its way, and comes much later.
    frozen, late = threading.Event(), threading.Event()

    def freeze(exchange: Exchange, moment: Moment) -> None:
        lowers = exchange.path == leaving.target_path(leaving.name) and exchange.number
        if lowers and moment is Moment.BEFORE and not frozen.is_set():
            os.kill(house.running.process.pid, signal.SIGSTOP)
            frozen.set()
            late.wait(120)

    house.proxy.hook = freeze
    leaving.make_job(leaving.name)
    house.demand(leaving, 0)
    assert frozen.wait(60)
    assert (lent.phase(), leaving.phase()) == ("Harvesting", "Yielding")

    code, said = house.watchdog.run()
    assert (code, "has led within 15m" in said, lent.phase()) == (0, True, "Harvesting"), said

    age_lease(house.plane, LONG)
    code, said = house.watchdog.run()
    print(said)
    assert code == 0, said
    for scene in (lent, leaving):
        house.served(scene)
        assert not scene.rule()["spec"].get("paused")
        assert f"{scene.name}: serving is back" in said
    assert house.plane.api.get(LEASE)["spec"].get("holderIdentity") is None

    house.demand(lent, 1)
    house.demand(leaving, 1)
    late.set()
    wait_for("the late write", lambda: leaving.target()["spec"]["replicas"] == 0)
    os.kill(house.running.process.pid, signal.SIGCONT)
    wait_for("the end of it", leaving.served)
    house.recorder.caught_up()
    for scene in (lent, leaving):
        assert scene.one_user_of_the_cards(house.recorder, begin) > 20


def test_what_a_rule_that_is_gone_left_is_given_back_though_a_leader_lives(house: House) -> None:
    bare, begin = house.bare, house.recorder.version()
    # What its work agreed to is gone with the rule, unless the leader was quick: it ends by itself.
    house.lend(bare, finish="succeeded", finish_after="20s", terminate_after="6s")
    house.plane.api.delete(bare.rule_path)
    house.plane.api.patch(bare.rule_path, {"metadata": {"finalizers": None}})
    wait_for("no rule", lambda: house.plane.api.find(bare.rule_path) is None)

    code, said = house.watchdog.run()

    print(said)
    assert code == 0, said
    wait_for("serving", bare.target_ready)
    assert not bare.recorded()
    assert bare.policy() != "None"
    house.recorder.caught_up()
    assert bare.one_user_of_the_cards(house.recorder, begin) > 10
