"""A pod that opens the card's device node without a claim is on the card.

Kueue and the scheduler know nothing of it, as of a transcoder that mounts /dev/dri.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.controlplane.deployed import deploy
from tests.controlplane.pools import NO_PROMETHEUS
from tests.controlplane.running import Running
from tests.controlplane.scene import PODS, Scene
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
EXEMPT = "storage"
DRI = {"cards": {"deviceNodes": ["/dev/dri"], "exemptNamespaces": [EXEMPT]}}
DISKS = f"/api/v1/namespaces/{EXEMPT}/pods"


def start(scene: Scene, name: str, path: str, pods: str = PODS) -> None:
    """A pod on the card's node that has a part of the host's /dev, and claims nothing."""
    main = {
        "name": "main",
        "image": "example/none",
        "volumeMounts": [{"name": "host", "mountPath": "/dev/dri"}],
    }
    spec: dict[str, Any] = {
        "nodeName": scene.node,
        "terminationGracePeriodSeconds": 1,
        "containers": [main],
        "volumes": [{"name": "host", "hostPath": {"path": path}}],
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    scene.api.post(pods, body)


def others(running: Running, scene: Scene) -> str:
    """Who is on the cards beside serving, by the newest decision."""
    lines = running.journal(scene.name)
    checks = lines[-1]["checks"] if lines else ()
    return next((str(c["observed"]) for c in checks if c["name"] == "others on the cards"), "")


@pytest.fixture(scope="module")
def pool(
    plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Scene, Running]]:
    """A rule by the calendar only, of a card whose device node others have open."""
    things, folder = deploy(plane), tmp_path_factory.mktemp("devices")
    scene = Scene(plane=plane, demand="CalendarOnly")
    scene.set_up(rule=False)
    start(scene, "transcoder", "/dev/dri/renderD128")
    start(scene, "shared-memory", "/dev/shm")
    # Of a node that runs Windows, and of somebody who forgot the slash: the API server takes both.
    start(scene, "windows", "c:\\logs")
    start(scene, "relative", "var/log")
    meta = {"name": EXEMPT}
    scene.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    start(scene, "disks", "/dev", DISKS)
    scene.make_rule(**DRI)
    scene.make_job("train")
    with Running(plane, things, folder, NO_PROMETHEUS) as running:
        yield scene, running
    scene.clear()
    for name in ("shared-memory", "windows", "relative", "late"):
        with contextlib.suppress(ApiError):
            scene.api.delete(f"{PODS}/{name}")
    scene.api.delete(f"{DISKS}/disks")


def test_a_pod_that_opens_the_device_node_keeps_the_window_shut_until_it_is_gone(pool) -> None:
    scene, running = pool
    wait_for("the reason", lambda: scene.reason() == "CardsHeld")
    wait_for("its name", lambda: others(running, scene) == "default/transcoder")
    assert scene.target_ready()

    scene.api.delete(f"{PODS}/transcoder")
    scene.wait_phase("Harvesting")
    wait_for("batch", lambda: scene.job_runs("train"))
    assert scene.status()["window"]["deviceNodes"] == ["/dev/dri"]


def test_one_that_comes_in_a_window_does_not_end_it_and_keeps_the_next_one_shut(pool) -> None:
    scene, running = pool
    start(scene, "late", "/dev")
    soon = datetime.now(UTC) + timedelta(seconds=10)
    claim = {"idlewin.dev/wake-until": soon.strftime("%Y-%m-%dT%H:%M:%SZ")}
    scene.api.patch(scene.rule_path, {"metadata": {"annotations": claim}})
    scene.wait_phase("Serving")
    moves = [move for move in running.moves(scene.name) if move[0] == "Harvesting"]
    assert moves == [("Harvesting", "Reclaiming", "WakeClaimed")]

    wait_for("the reason", lambda: scene.reason() == "CardsHeld")
    wait_for("its name", lambda: others(running, scene) == "default/late")
