"""The overlays and the chart on the real API server, by the real kubectl and the real Helm.

First Helm installs, changes and leaves; then a controller lives with the permissions of observe, of
act, of observe again while cards are lent, and of act again.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane import writers
from tests.controlplane.deployed import Thing, render
from tests.controlplane.pools import NO_PROMETHEUS, STAYS
from tests.controlplane.running import Running
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.audit import WRITES
from tests.labs.kubelab.controlplane import ControlPlane
from tests.manifests import CHART, DEPLOY

pytestmark = pytest.mark.controlplane
OVERLAYS = DEPLOY / "overlays"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/idlewin-act"
#: What act has and observe has not.
(ACT,) = [t["rules"] for t in render() if t["metadata"]["name"] == "idlewin-act" and "rules" in t]
OWN = {"idlerules", "events", "leases"}


@dataclass(kw_only=True)
class Tools:
    """kubectl and Helm as the plane's admin."""

    plane: ControlPlane
    kubectl: Path
    helm: Path

    def _run(self, *command: str | Path, said: str = "") -> str:
        done = subprocess.run(
            command,
            input=said,
            env={
                **os.environ,
                "KUBECONFIG": str(self.plane.kubeconfig),
                "HOME": str(self.plane.folder),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def kube(self, *words: str | Path) -> str:
        return self._run(self.kubectl, *words)

    def release(self, verb: str, **values: Any) -> str:
        """``helm install`` and the like, into idlewin-system."""
        said = yaml.safe_dump({"image": {"repository": "idlewin"}, **values})
        more = () if verb == "uninstall" else (CHART, "-f", "-")
        return self._run(self.helm, verb, "idlewin", *more, "-n", "idlewin-system", said=said)

    def apply(self, overlay: str, *options: str) -> list[Thing]:
        """Apply an overlay; its objects."""
        made = self.kube("kustomize", OVERLAYS / overlay)
        self._run(self.kubectl, "apply", "--server-side", *options, "-f", "-", said=made)
        return list(yaml.safe_load_all(made))


@pytest.fixture(scope="module")
def tools(plane: ControlPlane, kubectl: Path, helm: Path, monitoring: Path) -> Tools:
    for crd in json.loads(monitoring.read_text()):
        plane.api.apply(crd)
    for kind in ("servicemonitors", "prometheusrules"):
        path = f"/apis/monitoring.coreos.com/v1/{kind}"
        wait_for(kind, lambda path=path: plane.api.get(path))
    return Tools(plane=plane, kubectl=kubectl, helm=helm)


def rules(tools: Tools) -> list[Thing]:
    return tools.plane.api.get(ROLE)["rules"] or []


def test_helm_installs_lets_act_and_leaves_the_definition(tools: Tools) -> None:
    api = tools.plane.api
    tools.kube("apply", "-f", DEPLOY / "base" / "namespace.yaml")

    told = tools.release("install")
    assert "in mode observe" in told
    assert rules(tools) == []

    tools.release("upgrade", mode="act", ha=True, monitoring={"enabled": True})
    assert rules(tools) == ACT
    path = "/apis/apps/v1/namespaces/idlewin-system/deployments/idlewin"
    assert api.get(path)["spec"]["replicas"] == 2
    groups = tools.kube("get", "prometheusrules,servicemonitors,pdb,netpol", "-A", "-o", "name")
    assert len(groups.splitlines()) == 5

    tools.release("upgrade", mode="observe")
    assert rules(tools) == []
    assert not api.find("/apis/policy/v1/namespaces/idlewin-system/poddisruptionbudgets/idlewin")

    tools.release("uninstall")
    assert api.find(path) is None
    assert api.find(ROLE) is None
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api.find(f"{crds}/idlerules.idlewin.dev"), "rules outlive the release"


def test_helm_takes_no_permissions_away_while_cards_are_lent(tools: Tools) -> None:
    tools.kube(
        "apply", "-f", DEPLOY / "base" / "namespace.yaml", "-f", DEPLOY / "base" / "crd.yaml"
    )
    scene = Scene(plane=tools.plane, demand="CalendarOnly")
    scene.set_up(mode="Observe", **STAYS)
    tools.release("install", mode="act")

    tools.plane.api.patch(f"{scene.rule_path}/status", {"status": {"phase": "Harvesting"}})
    # As any upgrade does that names a value and not the mode.
    with pytest.raises(AssertionError, match="in phase Harvesting, and what it lends could not"):
        tools.release("upgrade", ha=True)
    assert rules(tools) == ACT

    tools.plane.api.patch(f"{scene.rule_path}/status", {"status": {"phase": "Serving"}})
    tools.release("upgrade", ha=True)
    assert rules(tools) == []
    tools.release("uninstall")
    scene.clear()


@dataclass(kw_only=True)
class Life:
    """The account of what is applied, a rule in mode Act, and work that waits."""

    tools: Tools
    things: list[Thing]
    scene: Scene
    folder: Path

    def running(self, name: str) -> Running:
        return Running(self.tools.plane, self.things, self.folder / name, NO_PROMETHEUS)

    def apply(self, overlay: str) -> None:
        self.things = self.tools.apply(overlay)
        wait_for("the roles", lambda: bool(rules(self.tools)) is (overlay != "observe"))


@pytest.fixture(scope="module")
def life(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    things = tools.apply("observe")
    scene = Scene(plane=tools.plane, demand="CalendarOnly")
    scene.set_up(mode="Act", **STAYS)
    scene.make_job("train")
    yield Life(tools=tools, things=things, scene=scene, folder=tmp_path_factory.mktemp("overlays"))
    scene.clear()


@pytest.mark.parametrize("overlay", sorted(path.name for path in OVERLAYS.iterdir()))
def test_the_api_server_takes_each_overlay(life: Life, overlay: str) -> None:
    life.tools.apply(overlay, "--dry-run=server", "--force-conflicts")


def test_under_observe_a_rule_in_act_is_refused_and_says_by_whom(life: Life) -> None:
    scene, since = life.scene, datetime.now(UTC)

    with life.running("observe") as running:
        wait_for("a refusal", lambda: scene.reason() == "RehearsalRefused")
        told = scene.status()["message"]
        user = running.process.user

    assert f'User "{user}" cannot patch resource "clusterqueues"' in told
    asked = life.tools.plane.audit.entries(user=user, since=since)
    written = {e.resource for e in asked if e.verb in WRITES and not e.dry_run}
    assert "idlerules" in written
    assert written <= OWN
    assert {e.code for e in asked if e.verb in WRITES and e.dry_run} == {403}
    assert scene.served()


def test_under_act_the_same_rule_lends_and_gives_back(life: Life) -> None:
    life.apply("act")
    scene = life.scene

    with life.running("act"):
        wait_for("work", lambda: scene.job_runs("train"))
        scene.wait_phase("Harvesting")

        # In the wrong order: what is lent cannot be given back, and nobody is told but by that.
        life.apply("observe")
        writers.wake(scene, seconds=120)
        scene.wait_phase("Reclaiming")
        assert scene.target()["spec"]["replicas"] == 0

        life.apply("act")
        wait_for("all as it was", scene.served)
