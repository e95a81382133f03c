"""Uninstalling: the one script, with Kubernetes' own kubectl, stops nothing before all is back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.controlplane.deployed import BASE, Thing, deploy, render
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
SCRIPT = BASE.parent / "uninstall.sh"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/idlerules.idlewin.dev"
IN_NAMESPACE = "/apis/{}/namespaces/idlewin-system/{}"
DEPLOYMENT = IN_NAMESPACE.format("apps/v1", "deployments/idlewin")
CRON_JOB = IN_NAMESPACE.format("batch/v1", "cronjobs/idlewin-watchdog")


@dataclass(kw_only=True)
class Installed:
    """A cluster in which idlewin has lent a card, and then died for good."""

    plane: ControlPlane
    kubectl: Path
    scene: Scene

    def uninstall(self, *options: str) -> tuple[int, str]:
        return self._run(str(SCRIPT), *options)

    def idlewin(self, *words: str) -> tuple[int, str]:
        return self._run("idlewin", *words)

    def _run(self, *command: str) -> tuple[int, str]:
        done = subprocess.run(
            command,
            env={
                "PATH": f"{self.kubectl.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(self.plane.folder),
                "KUBECONFIG": str(self.plane.kubeconfig),
            },
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(
    plane: ControlPlane,
    kubectl: Path,
    promlab_programs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("uninstall")
    things: list[Thing] = deploy(plane)
    scene = Scene(plane=plane)
    scene.set_up(rule=False)
    history = history_of([scene.name])
    with scraped(promlab_programs, folder, history, {scene.name: 0}) as (_, prom):
        with Running(plane, things, folder / "run", prom.url):
            scene.make_rule()
            # Told to leave, what runs takes its time.
            scene.make_job("long", terminate_after="25s")
            wait_for("a running Job", lambda: scene.job_runs("long"))
            scene.wait_phase("Harvesting")
        yield Installed(plane=plane, kubectl=kubectl, scene=scene)
        scene.clear()


def test_what_the_tests_deploy_is_what_kustomize_makes_of_the_base(kubectl: Path) -> None:
    said = subprocess.run([kubectl, "kustomize", BASE], capture_output=True, text=True, check=True)

    assert by_name(yaml.safe_load_all(said.stdout)) == by_name(render())


def by_name(things: Iterable[Thing]) -> dict[tuple[str, str], Thing]:
    return {(thing["kind"], thing["metadata"]["name"]): thing for thing in things}


def test_nothing_is_stopped_before_serving_is_back_and_then_all_goes(installed: Installed) -> None:
    api, scene = installed.plane.api, installed.scene

    code, said = installed.uninstall("--timeout", "3s")
    print(said)
    assert (code, "nothing was stopped" in said, f"{scene.name}: waits for" in said) == (
        1, True, True,
    ), said  # fmt: skip
    assert all(api.find(path) for path in (CRD, DEPLOYMENT, CRON_JOB, scene.rule_path))

    code, said = installed.uninstall("--force")
    print(said)
    assert code == 0, said
    assert not any(api.find(path) for path in (CRD, DEPLOYMENT, CRON_JOB))
    assert api.find("/api/v1/namespaces/idlewin-system") is None
    wait_for("serving", scene.target_ready)
    assert (scene.policy() != "None", scene.recorded()) == (True, False)
    assert f"idlewin adopt {scene.name} --undo --restore" in said

    # The scene's was adopted by hand: no stop policy from before is on record to restore.
    code, said = installed.idlewin("adopt", scene.name, "--undo")
    assert (code, "in no rule's hands" in said) == (0, True), said

    code, said = installed.uninstall()
    assert (code, "idlewin is gone" in said) == (0, True), said
