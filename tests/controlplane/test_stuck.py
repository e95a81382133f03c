"""What keeps serving out though everybody has done their part: told, sealed, and back in the end.

One pool a trouble, all of them in one window; and while all of them wait, the timers stand still
for half a minute: what was due meanwhile is done late, not never. The controller runs in this
process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from idlewin.options import Options
from idlewin.service import Service
from idlewin.wiring import live
from tests.controlplane.deployed import deploy
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import history_of, scraped
from tests.controlplane.scene import PODS, Scene
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.kubelab.processes import free_ports
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
#: What is the matter with each pool; whether serving claims its card from the scheduler.
POOLS = {
    "finalizer": True,  # a batch pod has ended, but somebody's finalizer keeps its object
    "claimed": True,  # a batch pod stays Running and Terminating
    "bare": False,  # the same, and only idlewin keeps serving off its card
    "dead": False,  # the same, on a node that has been dead for long
    "cordoned": True,  # serving's node takes no new pods
}
PLANE = {"nodes": {pool: {GPU: "1"} for pool in POOLS}}
#: How long the timers stand still.
HELD_S = 30
Json = dict[str, Any]


@dataclass(kw_only=True)
class World:
    """The pools, and the controller's timers."""

    plane: ControlPlane
    exporter: Exporter
    recorder: Recorder
    service: Service
    scenes: dict[str, Scene] = field(default_factory=dict)

    def users(self, *, there: bool) -> None:
        for pool in POOLS:
            self.exporter.set("demand", int(there), pool=pool)

    def pod(self, pool: str) -> str:
        (found,) = self.scenes[pool].job_pods(pool)
        return f"{PODS}/{found['metadata']['name']}"

    def edit(self, path: str, **metadata: Any) -> None:
        self.plane.api.patch(path, {"metadata": metadata})

    def node_dies(self, node: str) -> None:
        """It has not been heard of for longer than pods are left on such a node."""
        path = f"/api/v1/nodes/{node}"
        self.edit(path, annotations={"kubelab/dead": "true"})
        raw = self.plane.api.get(path)
        (ready,) = (c for c in raw["status"]["conditions"] if c["type"] == "Ready")
        since = (datetime.now(UTC) - timedelta(minutes=6)).isoformat(timespec="seconds")
        gone = {**ready, "status": "Unknown", "lastTransitionTime": since}
        rest = [c for c in raw["status"]["conditions"] if c["type"] != "Ready"]
        self.plane.api.patch(f"{path}/status", {"status": {"conditions": [*rest, gone]}})

    def alarm(self, pool: str) -> str:
        """Why a return is overdue; empty: it is not."""
        conditions = self.scenes[pool].status().get("conditions") or ()
        found = (c for c in conditions if c["type"] == "ReturnOverdue" and c["status"] == "True")
        return next((f"{c['reason']}: {c['message']}" for c in found), "")

    @contextmanager
    def timers_held(self) -> Iterator[threading.Event]:
        """Whoever waits for a timer is kept till the event that is given, or for a while."""
        queue = self.service._parts.wakeups.queue
        stands, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            with queue._changed:
                stands.set()
                go_on.wait(HELD_S)

        holding = threading.Thread(target=hold)
        holding.start()
        assert stands.wait(60)
        try:
            yield go_on
        finally:
            go_on.set()
            holding.join()


def the_rule(scene: Scene) -> None:
    """A rule that is out of patience soon."""
    serving = [{**one, "readyTimeout": "10s"} for one in scene.spec()["serving"]]
    scene.make_rule(serving=serving)


@pytest.fixture(scope="module")
def world(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("stuck")
    deploy(plane)
    account = plane.service_account_kubeconfig("idlewin-system", "idlewin")
    with ExitStack() as stack:
        exporter, prometheus = stack.enter_context(
            scraped(promlab_programs, folder, history_of(POOLS), dict.fromkeys(POOLS, 0))
        )
        options = Options(
            kubeconfig=account,
            prometheus=prometheus.url,
            listen=(HOST, free_ports(1)[0]),
            # The back-stop would find what the timers have lost.
            tick=timedelta(hours=1),
            workers=8,
        )
        world = World(
            plane=plane,
            exporter=exporter,
            recorder=stack.enter_context(Recorder(plane.api)),
            service=live(options),
        )
        for pool, claims in POOLS.items():
            scene = world.scenes[pool] = Scene(plane=plane, name=pool, node=pool, claims=claims)
            scene.set_up(rule=False)
            scene.make_job(pool, **({} if pool == "cordoned" else {"terminate_after": "1h"}))
        for scene in world.scenes.values():
            the_rule(scene)
        running = threading.Thread(target=world.service.run)
        running.start()
        yield world
        world.service.stop()
        running.join(30)


def test_serving_that_is_kept_out_is_told_with_the_queues_sealed_and_comes_back(
    world: World,
) -> None:
    scenes, begin = world.scenes, world.recorder.version()
    for pool, scene in scenes.items():
        wait_for(f"a Job of {pool}", lambda p=pool, s=scene: s.job_runs(p))
    world.edit(world.pod("finalizer"), finalizers=["kubelab/stuck"])
    world.edit(world.pod("finalizer"), annotations={"kubelab/terminate-after": None})
    world.plane.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": True}})
    batch = {pool: world.pod(pool) for pool in POOLS}
    world.users(there=True)
    for scene in scenes.values():
        scene.wait_phase("Reclaiming", "Restoring", "Serving")
    world.node_dies("dead")

    with world.timers_held() as go_on:
        go_on.wait(HELD_S)
    told = {
        pool: wait_for(f"an alarm of {pool}", lambda p=pool: world.alarm(p))
        for pool in POOLS
        if pool != "finalizer"
    }

    assert {pool: alarm.partition(":")[0] for pool, alarm in told.items()} == {
        "claimed": "NotReady",
        "bare": "BatchStays",
        "dead": "NotReady",
        "cordoned": "NotReady",
    }
    scenes["finalizer"].wait_phase("Serving")
    assert world.plane.api.find(batch["finalizer"]), "the pod's object is still there"
    assert all(scene.policy() != "None" for scene in scenes.values())
    assert scenes["bare"].target()["spec"]["replicas"] == 0

    end_of_trouble(world, batch)
    for pool, scene in scenes.items():
        scene.wait_phase("Serving")
        wait_for(f"{pool} as it was", scene.served)
    world.recorder.caught_up()
    for scene in scenes.values():
        one_user(scene, world.recorder, begin)
        assert not scene.job(scene.name)["status"].get("failed")


def one_user(scene: Scene, recorder: Recorder, after: int) -> None:
    """At each write no serving pod was on the node beside batch, or beside an open queue."""
    for seen, objects in recorder.worlds(after):
        serving, batch = scene.on_cards(objects)
        pods = {name: objects["Pod", scene.namespace, name] for name in serving}
        placed = [name for name, pod in pods.items() if pod["spec"].get("nodeName")]
        queue = objects.get(("ClusterQueue", "", scene.name))
        opened = bool(queue) and queue["spec"].get("stopPolicy", "None") == "None"
        assert not (placed and (batch or opened)), f"{placed} beside {batch}, by {seen.key}"


def end_of_trouble(world: World, batch: dict[str, str]) -> None:
    """Kubelets end their pods, a person takes away what they cannot, nodes are back."""
    for pool in ("claimed", "bare"):
        world.edit(batch[pool], annotations={"kubelab/terminate-after": "0s"})
    world.edit(batch["finalizer"], finalizers=None)
    world.plane.api.request("DELETE", batch["dead"], {"gracePeriodSeconds": 0})
    wait_for("the end of a forgotten pod", lambda: not world.plane.api.find(batch["dead"]))
    world.edit("/api/v1/nodes/dead", annotations={"kubelab/dead": None})
    world.plane.api.patch("/api/v1/nodes/cordoned", {"spec": {"unschedulable": None}})
