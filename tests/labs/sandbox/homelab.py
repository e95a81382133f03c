"""The sandbox: a control plane with two cards, serving, queues, and a Prometheus with a past."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any, Self

import yaml

from tests.labs.build import built
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.promlab.prometheus import Prometheus
from tests.labs.sandbox.users import JOBS, Users, past

#: Outside Kueue's webhooks, as serving should be: with Kueue dead it still comes back.
SERVING = ("ai", "idlewin-system")
SERVED = "/apis/apps/v1/namespaces/ai/deployments/qwen3-8b"
QUEUES = tuple(
    f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/b580-{kind}" for kind in ("short", "resumable")
)
ENV = """\
export KUBECONFIG={kubeconfig}
export IDLEWIN_PROMETHEUS={prometheus}
export USERS={users}
export PATH={path}:$PATH
"""


class Homelab:
    """What runs; ``env`` is a file that a shell reads to use it.

    Raises NotBuiltError where the labs' programs are not built, StartError where one does not come.
    """

    def __init__(self, folder: Path, *, days: int) -> None:
        self._folder = folder.resolve()
        self._days = days
        self._stack = contextlib.ExitStack()
        self.env = folder / "env"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: contextlib.ExitStack) -> None:
        programs = {name: built(name) for name in ("kubelab", "promlab", "kubectl")}
        self.plane = stack.enter_context(
            ControlPlane(
                programs["kubelab"],
                self._folder / "cluster",
                nodes={"node-b580": {GPU: "1"}, "node-b60": {GPU: "1"}},
                kueue_excluded_namespaces=SERVING,
            )
        )
        for thing in yaml.safe_load_all((Path(__file__).parent / "homelab.yaml").read_text()):
            self.plane.api.apply(thing)
        for queue in QUEUES:
            # By hand, as the page on Kueue has it: nothing is let in beside serving.
            self.plane.api.patch(queue, {"spec": {"stopPolicy": "Hold"}})
        wait_for("serving", self._serving)
        history, routed = past(int(time.time()), self._days)
        self.users = stack.enter_context(Users(self._serving, self._batch, routed))
        self.prometheus = Prometheus(
            programs["promlab"],
            self._folder / "prometheus",
            {job: self._scraped(job) for job in JOBS},
            scrape_interval="2s",
        )
        self.prometheus.backfill(history)
        stack.enter_context(self.prometheus)
        self.env.write_text(
            ENV.format(
                kubeconfig=self.plane.kubeconfig,
                prometheus=self.prometheus.url,
                users=f"{self.users.url}/users",
                path=f"{Path(sys.executable).parent}:{programs['kubectl']}",
            )
        )

    def _scraped(self, job: str) -> dict[str, Any]:
        """How Prometheus scrapes a job: with the labels that its past has."""
        said = (label.split("=") for label in JOBS[job].split(",") if label)
        labels = {"instance": job, **{key: value.strip('"') for key, value in said}}
        return {
            "metrics_path": f"/{job}",
            "static_configs": [{"targets": [f"{HOST}:{self.users.port}"], "labels": labels}],
        }

    def _serving(self) -> bool:
        return bool(self.plane.api.get(SERVED)["status"].get("readyReplicas"))

    def _batch(self) -> bool:
        pods = self.plane.api.list("/api/v1/namespaces/batch/pods")
        return any(pod["status"].get("phase") == "Running" for pod in pods)
