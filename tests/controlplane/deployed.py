"""deploy/base as a cluster would have it, and its controller as a child process.

No kubelet runs anything in the lab. So command, arguments, environment and service account are
taken from the rendered Deployment, and run here with a token of that account, never as admin.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import yaml

from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.audit import account
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.kubelab.processes import Processes, free_ports

BASE = Path(__file__).resolve().parents[2] / "deploy" / "base"
PART = "idlewin"
CLUSTER_WIDE = frozenset(
    {
        "Namespace",
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
#: What of kustomize is understood here; the rest is an error, lest a test sees another cluster.
UNDERSTOOD = frozenset({"apiVersion", "kind", "namespace", "resources"})
Thing = dict[str, Any]


def render(folder: Path = BASE) -> list[Thing]:
    """The objects of a kustomize base, in its order. Raises ValueError on what it cannot render."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := set(kustomization) - UNDERSTOOD:
        raise ValueError(f"{folder}: {sorted(unknown)} cannot be rendered here; extend render()")
    things = []
    for name in kustomization["resources"]:
        for thing in yaml.safe_load_all((folder / name).read_text()):
            if thing["kind"] not in CLUSTER_WIDE:
                thing["metadata"]["namespace"] = kustomization["namespace"]
            things.append(thing)
    return things


def deploy(plane: ControlPlane) -> list[Thing]:
    """Apply the base to a control plane; what was applied. IdleRules can be made then."""
    things = render()
    for thing in things:
        plane.api.apply(thing)
    wait_for("IdleRule's API", lambda: plane.api.get("/apis/idlewin.dev/v1alpha1/idlerules"))
    deployment = the(things, "Deployment")
    namespace = deployment["metadata"]["namespace"]
    name = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    wait_for(
        "account", lambda: plane.api.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
    )
    return things


def the(things: Iterable[Thing], kind: str) -> Thing:
    """The one object of a kind."""
    (found,) = (thing for thing in things if thing["kind"] == kind)
    return found


def environment_of(container: Thing, fields: Mapping[str, str]) -> dict[str, str]:
    """A container's environment, and where this Python's programs are; nothing else."""
    said = {
        entry["name"]: entry["value"]
        if "value" in entry
        else fields[entry["valueFrom"]["fieldRef"]["fieldPath"]]
        for entry in container.get("env", ())
    }
    return {**said, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


class Controller:
    """The Deployment's container as a child process, on a port of its own.

    ``options`` replace or follow the manifest's arguments (``{"--prometheus": url}``); a value
    None is a flag. ``kubeconfig`` (a way through the proxy, say) must be of the same account.
    """

    def __init__(
        self,
        plane: ControlPlane,
        things: Iterable[Thing],
        folder: Path,
        *,
        options: Mapping[str, str | None] | None = None,
        kubeconfig: Path | None = None,
    ) -> None:
        deployment = the(things, "Deployment")
        pod = deployment["spec"]["template"]["spec"]
        self.namespace = deployment["metadata"]["namespace"]
        self.user = account(self.namespace, pod["serviceAccountName"])
        self.kubeconfig = kubeconfig or plane.service_account_kubeconfig(
            self.namespace, pod["serviceAccountName"]
        )
        (self._container,) = pod["containers"]
        self._name = f"{deployment['metadata']['name']}-{os.getpid()}"
        self.port = free_ports(1)[0]
        # What an optional ConfigMap is mounted as where there is none: an empty folder.
        sources = folder / "sources"
        sources.mkdir(parents=True, exist_ok=True)
        self._options = {
            "--kubeconfig": str(self.kubeconfig),
            "--sources": str(sources),
            "--listen": f"{HOST}:{self.port}",
            **(options or {}),
        }
        folder.mkdir(parents=True, exist_ok=True)
        self._processes = Processes(folder)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.end()

    @property
    def command(self) -> list[str]:
        """What is run: the manifest's command and arguments, with the options put in."""
        said = [*self._container["command"], *self._container["args"]]
        for option, value in self._options.items():
            if option in said and value is not None:
                said[said.index(option) + 1] = value
            else:
                said += [option] if value is None else [option, value]
        return said

    @property
    def environment(self) -> dict[str, str]:
        """The manifest's environment, and where this Python's programs are; nothing else."""
        fields = {"metadata.name": self._name, "metadata.namespace": self.namespace}
        return environment_of(self._container, fields)

    def start(self) -> None:
        """Start it, or start it again after a kill. Returns at once."""
        self._processes.run(PART, self.command, self.environment)

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> int | None:
        """End it and wait for its end; its exit code."""
        return self._processes.kill(PART, sig)

    @property
    def pid(self) -> int:
        return self._processes.pids()[PART]

    def running(self) -> bool:
        return self._processes.running(PART)

    def log(self) -> str:
        return self._processes.log(PART)

    def answers(self, probe: str) -> bool:
        """Whether a probe of the manifest (``readinessProbe``, ``livenessProbe``) passes."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", self._container[probe]["httpGet"]["path"])
            return connection.getresponse().status == http.HTTPStatus.OK

    def wait_ready(self, timeout: float = 30) -> None:
        """Wait until it says that it is ready. Raises StartError, with its log's end."""
        self._processes.wait(PART, lambda: self.answers("readinessProbe"), timeout)
