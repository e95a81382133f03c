"""A real Kubernetes control plane with Kueue on loopback, without containers.

    with ControlPlane(programs, folder) as plane:
        subprocess.run(["kubectl", "--kubeconfig", plane.kubeconfig, "get", "nodes"])

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, KWOK (the kubelet of the fake nodes)
and Kueue run as processes of their own. What a part's command line says is in parts.py, what
Kueue needs in kueue.py, how fake pods behave in kwok.yaml.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import signal
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from tests.labs.kubelab import kueue, parts, pki
from tests.labs.kubelab.api import HOST, Api, T
from tests.labs.kubelab.audit import AuditLog
from tests.labs.kubelab.processes import Processes, free_ports

GPU = "gpu.intel.com/xe"
DEFAULT_NODES: Mapping[str, Mapping[str, str]] = {"node-1": {GPU: "1"}}
START_TIMEOUT_S = 120


class ControlPlane:
    """The control plane's processes, its folder and its API client.

    ``kueue_options`` are further top-level fields of Kueue's configuration.
    """

    def __init__(
        self,
        programs: Path,
        folder: Path,
        *,
        nodes: Mapping[str, Mapping[str, str]] = DEFAULT_NODES,
        with_kueue: bool = True,
        kueue_excluded_namespaces: Iterable[str] = (),
        kueue_options: Mapping[str, Any] | None = None,
        kueue_feature_gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.programs = programs.resolve()
        self.folder = folder.resolve()
        self.kubeconfig = self.folder / "kubeconfig"
        self.timings: dict[str, float] = {}
        self._nodes = nodes
        self._with_kueue = with_kueue
        self._excluded = tuple(kueue_excluded_namespaces)
        self.kueue_options = dict(kueue_options or {})
        """Further top-level fields of Kueue's configuration."""
        self._gates = dict(kueue_feature_gates or {})
        self._logs = self.folder / "logs"

    # life cycle

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start every part. Raises StartError; nothing is left running then."""
        for folder in (self.folder, self._logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._processes = Processes(self._logs)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        begin = time.monotonic()

        def mark(name: str) -> None:
            self.timings[name] = round(time.monotonic() - begin, 2)

        self.ports = dict(zip(parts.PORTS, free_ports(len(parts.PORTS)), strict=True))
        self._write_files()
        self._commands = parts.commands(self.programs, self.folder, self.ports)
        self._environments: dict[str, dict[str, str]] = {}
        self.api = Api(self.ports["api"], self.folder / "pki/ca.crt", self.token)
        self.audit = AuditLog(self.folder / "audit.log")
        mark("files")
        for part in ("etcd", "kube-apiserver"):
            self.run(part)
            self.wait_ready(part)
            mark(part)

        for part in ("kube-controller-manager", "kube-scheduler", "kwok"):
            self.run(part)
        for name, capacity in self._nodes.items():
            self.add_node(name, capacity)
        if self._with_kueue:
            things = kueue.objects(
                self.programs / "kueue.json",
                self.ports["kueue_webhook"],
                self._certificates.ca,
                self._excluded,
            )
            kueue.install(self.api, things, self._certificates)
            mark("kueue's objects")
            self.run("kueue")

        for part in ("kube-scheduler", "kube-controller-manager", "kwok"):
            self.wait_ready(part)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self.wait("kube-controller-manager", lambda: self.api.find(account))
        for name in self._nodes:
            self.wait("kwok", lambda name=name: self.node_ready(name))
        mark("nodes")
        if self._with_kueue:
            self.wait_ready("kueue")
            mark("kueue")

    def stop(self) -> None:
        """End every part at once, without its leave: nothing of the folder is used again."""
        self._processes.end(signal.SIGKILL)

    # parts

    def run(self, part: str) -> None:
        """Start a part that is not running. Its output goes to logs/PART.log."""
        self._processes.run(part, self._commands[part], self._environments.get(part))

    def kill(self, part: str, sig: signal.Signals = signal.SIGTERM) -> None:
        """End one part and wait for its end."""
        self._processes.kill(part, sig)

    def configure_kueue(self, options: Mapping[str, Any]) -> None:
        """Start Kueue again, with these further top-level fields of its configuration."""
        self.kueue_options = dict(options)
        self.kill("kueue")
        self._write_kueue()
        self.run("kueue")
        self.wait_ready("kueue")

    def running(self, part: str) -> bool:
        return self._processes.running(part)

    def pids(self) -> dict[str, int]:
        return self._processes.pids()

    def log(self, part: str) -> str:
        return self._processes.log(part)

    def wait_ready(self, part: str) -> None:
        """Wait until a part that was started answers that it is ready. Raises StartError."""
        port, path, secure = parts.HEALTH[part]
        tls = ssl.create_default_context(cafile=str(self.folder / "pki/ca.crt"))

        def answers() -> bool:
            connection = (
                http.client.HTTPSConnection(HOST, self.ports[port], context=tls, timeout=5)
                if secure
                else http.client.HTTPConnection(HOST, self.ports[port], timeout=5)
            )
            with contextlib.closing(connection):
                connection.request("GET", path)
                return connection.getresponse().status == http.HTTPStatus.OK

        self.wait(part, answers)
        if part == "kueue":
            kueue.controllers_work(self.api)

    def wait(self, part: str, check: Callable[[], T]) -> T:
        """What check returns once it is true. Raises StartError, also where the part has ended."""
        return self._processes.wait(part, check, START_TIMEOUT_S)

    def add_part(
        self, part: str, command: Iterable[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Make a further process known: ``run``, ``kill`` and ``log`` then know it by its name."""
        self._commands[part] = list(command)
        self._environments[part] = dict(environment or {})

    # what a test sets up

    def add_node(
        self,
        name: str,
        capacity: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """A fake node; capacity is added to a plain CPU machine's."""
        resources = {"cpu": "16", "memory": "64Gi", "pods": "110", **(capacity or {})}
        standard = {"hostname": name, "os": "linux", "arch": "amd64"}
        named = {f"kubernetes.io/{key}": value for key, value in standard.items()}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**named, **(labels or {})}},
            "status": {"capacity": resources, "allocatable": resources},
        }
        self.api.post("/api/v1/nodes", node)

    def node_ready(self, name: str) -> bool:
        """Whether pods can be put on a node."""
        node = self.api.get(f"/api/v1/nodes/{name}")
        conditions = node["status"].get("conditions") or ()
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        return ready and not node["spec"].get("taints")

    def add_namespace(self, name: str) -> None:
        """A namespace in which pods can be made: its default service account is there."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self.api.post("/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
        self.wait("kube-controller-manager", lambda: self.api.find(account))

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a fresh token of an existing service account, good for a day."""
        token = self.api.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": 86400},
            },
        )["status"]["token"]
        server = f"https://{HOST}:{self.ports['api']}"
        text = parts.kubeconfig(server, self.ca.cert_pem, token)
        return self.write(f"kubeconfig-{namespace}-{name}", text)

    # files

    def _write_files(self) -> None:
        self.token = secrets.token_hex(16)
        self.ca = pki.make_ca("kubelab-ca")
        names = ["localhost", "kubernetes.default.svc"]
        server = pki.issue(self.ca, "kubelab", dns=names, ips=[HOST])
        self.write("pki/ca.crt", self.ca.cert_pem)
        self.write("pki/server.crt", server.cert_pem)
        self.write("pki/server.key", server.key_pem)
        self.write("pki/service-accounts.key", pki.key_pem(pki.new_key()))
        self.write("pki/tokens.csv", f'{self.token},kubelab-admin,1,"system:masters"\n')
        url = f"https://{HOST}:{self.ports['api']}"
        self.write("kubeconfig", parts.kubeconfig(url, self.ca.cert_pem, self.token))
        self.write("audit-policy.yaml", json.dumps(parts.AUDIT_POLICY))
        # The container runtimes' own format, which KWOK takes apart.
        said = "2026-01-01T00:00:00.000000000Z stdout F this pod is simulated\n"
        self.write("kwok.yaml", parts.kwok_config(self.write("pod.log", said)))
        if not self._with_kueue:
            return
        self._certificates = kueue.Certificates()
        self.write("pki/kueue/tls.crt", self._certificates.webhook.cert_pem)
        self.write("pki/kueue/tls.key", self._certificates.webhook.key_pem)
        self._write_kueue()

    def _write_kueue(self) -> None:
        options = {
            **kueue.CERTIFICATES,
            "integrations": {"frameworks": ["batch/job"]},
            **self.kueue_options,
        }
        text = parts.kueue_config(self.ports, self.folder / "pki/kueue", options, self._gates)
        self.write("kueue.yaml", text)

    def write(self, name: str, content: str | bytes) -> Path:
        """A file in the plane's folder, for its user alone."""
        path = self.folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path
