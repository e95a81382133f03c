"""``idlewin init`` beside the real KServe and KEDA: it names their objects, no Deployment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from idlewin.cli.app import main
from tests.controlplane.deployed import deploy
from tests.controlplane.switched import Inference, Scaled, Switched
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.servinglab.serving import Keda, KServe

pytestmark = pytest.mark.controlplane
PLANE = {"nodes": {"node-1": {GPU: "2"}}}


@pytest.fixture(scope="module")
def scenes(
    plane: ControlPlane, keda_programs: Path, kserve_programs: Path
) -> Iterator[tuple[Switched, ...]]:
    deploy(plane)
    Keda(plane, keda_programs).start()
    KServe(plane, kserve_programs).start()
    made = (Inference(plane=plane, name="model"), Scaled(plane=plane, name="speech"))
    for scene in made:
        for target in scene.targets:
            scene.make_target(target)
            scene.wait_ready(target)
    yield made
    for scene in made:
        scene.clear()


def test_the_objects_that_own_the_pods_are_named(
    scenes: tuple[Switched, ...],
    plane: ControlPlane,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rules = tmp_path / "my.yaml"
    where = ["--kubeconfig", str(plane.kubeconfig)]

    with pytest.raises(SystemExit):
        main(["init", "--out", str(rules), *where])

    (rule,) = yaml.safe_load_all(rules.read_text())
    told = [(one["apiVersion"], one["kind"], one["name"]) for one in rule["spec"]["serving"]]
    assert told == [(scene.api_version, scene.kind, scene.name) for scene in scenes]
    assert "svc/health" in rules.read_text(), "KServe's Service leads there"

    # But for queues and demand the cluster has nothing against it.
    rules.write_text(rules.read_text().replace("demand: []", "demand: CalendarOnly"))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["check", str(rules), *where])
    errors = [line for line in capsys.readouterr().out.splitlines() if " error: " in line]
    assert [line.rpartition("(")[2] for line in errors] == ["QueueMissing)"]


def test_one_that_keda_has_at_zero_is_named_all_the_same(
    scenes: tuple[Switched, ...], plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    speech = scenes[1]
    speech.annotate(paused_replicas="0")
    wait_for("speech at zero", lambda: not speech.serving_pods())

    with pytest.raises(SystemExit):
        main(["init", "--kubeconfig", str(plane.kubeconfig)])

    (rule,) = yaml.safe_load_all(capsys.readouterr().out)
    assert [one["name"] for one in rule["spec"]["serving"]] == ["model", "speech"]
