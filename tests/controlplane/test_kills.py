"""The controller is killed at each of its writes, before and after it happened: same end.

One pool a write and a moment: all are caught there at the same time by a proxy, then the controller
is killed by SIGKILL and started anew, with nothing but what the cluster remembers. It runs without
a Lease here: the new one would only wait for the old one's to run out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
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
#: More than a pool has writes on either way, Events left out: the last are never caught.
SPOTS = {f"{moment.name.lower()}-{n}": (n, moment) for moment in Moment for n in range(1, 10)}
PLANE = {"nodes": {pool: {GPU: "1"} for pool in SPOTS}}
#: So many writes have giving away (the rule's first ones with it) and giving back at least.
LEAST_AWAY, LEAST_BACK = 7, 6


@dataclass(kw_only=True)
class Shooting:
    """The pools, and their controller behind the proxy."""

    scenes: dict[str, Scene]
    proxy: Proxy
    running: Running
    exporter: Exporter
    recorder: Recorder

    def demand(self, value: float) -> None:
        for pool in self.scenes:
            self.exporter.set("demand", value, pool=pool)

    def killed(
        self, begin: Callable[[], None], arrived: Callable[[Scene], object]
    ) -> Counter[Moment]:
        """Kill it once each pool is caught or has arrived; how many were caught of each moment."""
        held = Held(self.proxy, SPOTS)
        begin()
        for pool, scene in self.scenes.items():
            wait_for(
                f"{pool} caught, or there",
                lambda p=pool, s=scene: p in held.caught or arrived(s),
                120,
            )
        self.running.process.kill()
        held.release(drop=True)
        self.running.process.start()
        self.running.process.wait_ready()
        for scene in self.scenes.values():
            wait_for(f"the end of {scene.name}", lambda s=scene: arrived(s), 120)
        return Counter(SPOTS[pool][1] for pool in held.caught)


def lent(scene: Scene) -> bool:
    return scene.phase() == "Harvesting" and scene.job_runs(scene.name)


@pytest.fixture(scope="module")
def shooting(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shooting]:
    folder, things = tmp_path_factory.mktemp("kills"), deploy(plane)
    scenes = {pool: Scene(plane=plane, name=pool, node=pool) for pool in SPOTS}
    account = plane.service_account_kubeconfig("idlewin-system", "idlewin")
    with ExitStack() as stack:
        exporter, prometheus = stack.enter_context(
            scraped(promlab_programs, folder, history_of(SPOTS), dict.fromkeys(SPOTS, 0))
        )
        for scene in scenes.values():
            scene.set_up(rule=False)
            scene.make_job(scene.name)
        proxy = stack.enter_context(Proxy(plane))
        options = {
            "kubeconfig": proxy.kubeconfig(account),
            "no_lease": None,
            "workers": str(len(SPOTS) + 4),
        }
        recorder = stack.enter_context(Recorder(plane.api))
        running = Running(plane, things, folder / "controller", prometheus.url, **options)
        yield Shooting(
            scenes=scenes,
            proxy=proxy,
            running=stack.enter_context(running),
            exporter=exporter,
            recorder=recorder,
        )


def test_a_kill_at_any_write_changes_nothing_of_the_end(shooting: Shooting) -> None:
    scenes, begin = list(shooting.scenes.values()), shooting.recorder.version()

    def rules() -> None:
        for scene in scenes:
            # Time for the new one: else serving is put in line behind batch, which is allowed.
            scene.make_rule(window={"yieldTimeout": "5m"}, batch={"drainTimeout": "5m"})

    away = shooting.killed(rules, lent)
    back = shooting.killed(lambda: shooting.demand(1), Scene.served)

    print(f"killed giving away: {dict(away)}, giving back: {dict(back)}")
    for moment, most in Counter(moment for _, moment in SPOTS.values()).items():
        assert LEAST_AWAY <= away[moment] < most, "each write is to be met"
        assert LEAST_BACK <= back[moment] < most
    for scene in scenes:
        counters = scene.status()["counters"]
        assert (counters["windows"], counters["returns"]) == (1, 1), scene.name
        nothing_lost(scene)
    shooting.recorder.caught_up()
    for scene in scenes:
        assert scene.one_user_of_the_cards(shooting.recorder, begin) > 50
    # Each rule goes by itself, for it owes nothing.
    for scene in scenes:
        scene.api.delete(scene.rule_path)
    for scene in scenes:
        wait_for("the rule's end", lambda s=scene: s.api.find(s.rule_path) is None)


def nothing_lost(scene: Scene) -> None:
    """Its Job waits, whole, and may be admitted again."""
    job = scene.api.get(f"{JOBS}/{scene.name}")
    assert job["spec"]["suspend"] is True
    assert not job["status"].get("failed")
    (work,) = [
        work
        for work in scene.api.list("/apis/kueue.x-k8s.io/v1beta2/namespaces/default/workloads")
        if work["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    ]
    assert work["spec"].get("active", True) is True
