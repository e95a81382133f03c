"""The watchdog's container as a child process: what the real CronJob controller makes of it.

No kubelet runs it in the lab. Command, arguments, environment and account are taken from the pod
of a Job that the CronJob controller made, and run here with a token of that account.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.controlplane.deployed import environment_of
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.audit import account
from tests.labs.kubelab.controlplane import ControlPlane

NAMESPACE = "idlewin-system"
CRON_JOB = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/idlewin-watchdog"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/idlewin"
Json = dict[str, Any]


def each_minute(plane: ControlPlane) -> None:
    """Have the CronJob make its first Job soon."""
    plane.api.patch(CRON_JOB, {"spec": {"schedule": "* * * * *"}})


def its_pod(plane: ControlPlane) -> Json:
    """The pod of the first Job that the CronJob controller made, and that the API server let in."""

    def pod() -> Json | None:
        found = plane.api.list(
            f"/api/v1/namespaces/{NAMESPACE}/pods",
            labelSelector="app.kubernetes.io/name=idlewin-watchdog",
        )
        return found[0] if found else None

    made = wait_for("the watchdog's pod", pod, timeout=120)
    assert made is not None
    return made


@dataclass(kw_only=True)
class Watchdog:
    """What its pod would run."""

    plane: ControlPlane
    pod: Json

    @property
    def user(self) -> str:
        return account(NAMESPACE, self.pod["spec"]["serviceAccountName"])

    @property
    def kubeconfig(self) -> Path:
        """A fresh token of its account."""
        name = self.pod["spec"]["serviceAccountName"]
        return self.plane.service_account_kubeconfig(NAMESPACE, name)

    def run(self, **replaced: str) -> tuple[int, str]:
        """Its exit code, and all that it said. ``replaced``: options of another value."""
        (container,) = self.pod["spec"]["containers"]
        command = [*container["command"], *container["args"]]
        for option, value in replaced.items():
            command[command.index(f"--{option}") + 1] = value
        fields = {"metadata.name": self.pod["metadata"]["name"], "metadata.namespace": NAMESPACE}
        environment = environment_of(container, fields)
        done = subprocess.run(
            command,
            env={**environment, "IDLEWIN_KUBECONFIG": str(self.kubeconfig)},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


def age_lease(plane: ControlPlane, by: timedelta) -> None:
    """Have the Lease's last renewal look older, on the API server's own record of it."""
    lease = plane.api.get(LEASE)
    for entry in lease["metadata"]["managedFields"]:
        then = datetime.fromisoformat(entry["time"]) - by
        entry["time"] = then.strftime("%Y-%m-%dT%H:%M:%SZ")
    # A change of nothing but these times would be none to the API server.
    lease["metadata"]["annotations"] = {"kubelab/aged": str(by)}
    plane.api.request("PUT", LEASE, lease)
