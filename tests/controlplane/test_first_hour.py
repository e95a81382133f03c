"""docs/first-hour.md, as it stands: each command is run, in the sandbox that the page speaks of."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.labs.kubelab.api import HOST
from tests.labs.kubelab.processes import free_ports
from tests.labs.sandbox.homelab import Homelab

pytestmark = pytest.mark.controlplane
ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "first-hour.md").read_text()
KUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"
SERVING = "/apis/apps/v1/namespaces/ai/deployments/qwen3-8b"
#: What stands beside a command that goes on while the page does.
BESIDE = "# in a terminal of its own"
Json = dict[str, Any]


class Reader:
    """Somebody at a shell in the project's folder, who does what the page says, step by step."""

    def __init__(self, homelab: Homelab, folder: Path) -> None:
        self.api = homelab.plane.api
        self.folder = folder
        self._homelab = homelab
        self._beside: list[subprocess.Popen[bytes]] = []
        for name in ("deploy", "tests"):
            (folder / name).symlink_to(ROOT / name)

    def does(self, step: int) -> str:
        """Run the commands of a step; what they said. Fails where one ends with another than 0."""
        said = ""
        for block in self.blocks(step):
            if BESIDE in block:
                self._begin(block.partition("#")[0].strip())
                continue
            done = subprocess.run(
                ["sh", "-eu", "-c", f"{self._env}\n{block}"],
                cwd=self.folder,
                env=self._environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert all(process.poll() is None for process in self._beside), self.log()
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}\n{self.log()}"
            said += done.stdout
        return said

    def blocks(self, step: int) -> list[str]:
        """The commands of a step of the page, but for the one that starts the homelab."""
        (section,) = re.findall(
            rf"^## {step}\. .*?(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE
        )
        found = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
        return [b.replace(". out/sandbox/env\n", "") for b in found if "make sandbox" not in b]

    def ends(self) -> None:
        """Ctrl-C in the other terminal."""
        for process in self._beside:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(60)
        self._beside.clear()

    def log(self) -> str:
        path = self.folder / "run.log"
        return path.read_text()[-2000:] if path.exists() else ""

    def _begin(self, command: str) -> None:
        # A run in the background would leave it without Ctrl-C; others may have the usual port.
        heeds = "exec env --default-signal=INT"
        command += f" --listen {HOST}:{free_ports(1)[0]}"
        with (self.folder / "run.log").open("wb") as log:
            self._beside.append(
                subprocess.Popen(
                    ["sh", "-c", f"{self._env}\n{heeds} {command}"],
                    cwd=self.folder,
                    env=self._environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    @property
    def _env(self) -> str:
        return f". {shlex.quote(str(self._homelab.env.resolve()))}"

    @property
    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder)}


@pytest.fixture(scope="module")
def reader(
    kubelab_programs: Path,  # noqa: ARG001 - these three are built
    promlab_programs: Path,  # noqa: ARG001
    kubectl: Path,  # noqa: ARG001
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Reader]:
    folder = tmp_path_factory.mktemp("first-hour")
    with Homelab(folder / "sandbox", days=28) as homelab:
        reader = Reader(homelab, folder)
        try:
            yield reader
        finally:
            reader.ends()


def test_the_first_hour_is_as_the_page_has_it(reader: Reader) -> None:
    before = reader.api.get(SERVING)
    assert "node-b580" in reader.does(1)
    reader.does(2)

    reader.does(3)
    rule = (reader.folder / "my.yaml").read_text()
    assert "mode: Observe" in rule
    assert "contract: Checkpoint" in rule
    assert "idleFor: 1m" in rule

    assert "that would have been lost, and was late" in " ".join(reader.does(4).split())
    assert "ObserveOnly" in reader.does(5)
    assert reader.api.get(SERVING)["metadata"]["generation"] == before["metadata"]["generation"]

    reader.does(6)
    assert reader.api.get(SERVING)["spec"]["replicas"] == 0
    assert reader.api.get(f"{KUEUE}/b580-resumable")["spec"]["stopPolicy"] == "None"

    told = reader.does(7)
    assert "DemandReturned" in told
    assert reader.api.get(SERVING)["status"]["readyReplicas"] == 1

    reader.ends()
    reader.does(8)
    after = reader.api.get(SERVING)
    assert after["spec"] == before["spec"]
    assert not _ours(after)
    for queue in reader.api.list(KUEUE):
        assert queue["spec"]["stopPolicy"] == "Hold"
        assert not _ours(queue)
    assert reader.api.find("/apis/idlewin.dev/v1alpha1/idlerules") is None
    assert reader.api.find("/api/v1/namespaces/idlewin-system") is None or _going(reader)


def _ours(thing: Json) -> list[str]:
    """Annotations and finalizers of idlewin."""
    meta = thing["metadata"]
    marks = [*(meta.get("annotations") or {}), *(meta.get("finalizers") or [])]
    return [mark for mark in marks if mark.startswith("idlewin.dev/")]


def _going(reader: Reader) -> bool:
    namespace = reader.api.find("/api/v1/namespaces/idlewin-system")
    return namespace is None or "deletionTimestamp" in namespace["metadata"]
