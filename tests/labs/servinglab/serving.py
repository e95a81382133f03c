"""KServe's and KEDA's controllers as further parts of a running control plane.

    Keda(plane, programs).start()      # before KServe, which looks for its CRDs once, at its start
    KServe(plane, programs).start()

From then on ``plane.kill("kserve")``, ``plane.run("kserve")`` and ``plane.log("kserve")`` work.
"""

from __future__ import annotations

import base64
import concurrent.futures
import contextlib
import http.client
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.labs.kubelab import pki
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.kubelab.processes import free_ports
from tests.labs.servinglab.kserve.kserve_manifests import (
    NAMESPACE as KSERVE_NAMESPACE,
    SERVICE as KSERVE_SERVICE,
)

ISVC = "serving.kserve.io/v1beta1"
SCALED_OBJECT = "keda.sh/v1alpha1"
_PROBE = "servinglab-probe"
Json = dict[str, Any]


class Part:
    """One more process beside the control plane's own, and what it needs there."""

    name: str
    namespace: str

    def __init__(self, plane: ControlPlane, programs: Path) -> None:
        self.plane, self.api, self.programs = plane, plane.api, programs.resolve()
        self._health_port = 0

    def start(self) -> None:
        """Install what it needs, run it, and wait until its controllers work."""
        self._prepare()
        self.plane.run(self.name)
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until it answers, and then until it has acted: that is a while later."""
        self.plane.wait(self.name, self._answers)
        body, collection = self._probe()
        # Refused for as long as its webhooks do not answer.
        self.plane.wait(self.name, lambda: self.api.apply(body))
        path = f"{collection}/{_PROBE}"
        self.plane.wait(self.name, lambda: conditions(self.api.get(path)))
        self.api.delete(path)
        self.plane.wait(self.name, lambda: self.api.find(path) is None)

    def _prepare(self) -> None:
        raise NotImplementedError

    def _probe(self) -> tuple[Json, str]:
        raise NotImplementedError

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self._health_port, timeout=5)
        with contextlib.closing(connection):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == http.HTTPStatus.OK

    def _install(self, things: list[Json]) -> None:
        """The namespace, then the things, CRDs first and usable on return."""
        meta = {"name": self.namespace}
        self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        crds = [thing for thing in things if thing["kind"] == "CustomResourceDefinition"]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(self.api.apply, crds))
        for crd in crds:
            path = f"/apis/{crd['apiVersion']}/customresourcedefinitions/{crd['metadata']['name']}"
            wait_for(
                f"established {path}",
                lambda path=path: conditions(self.api.get(path)).get("Established") == "True",
                every=0.05,
            )
        for thing in things:
            if thing not in crds:
                self.api.apply(thing)

    def _certificate(self, *dns: str) -> tuple[Path, pki.Pair]:
        """A folder with tls.crt, tls.key and ca.crt, and the CA."""
        ca = pki.make_ca(f"{self.name}-ca")
        pair = pki.issue(ca, self.name, dns=["localhost", *dns], ips=[HOST])
        files = {"ca.crt": ca.cert_pem, "tls.crt": pair.cert_pem, "tls.key": pair.key_pem}
        for file, content in files.items():
            self.plane.write(f"pki/{self.name}/{file}", content)
        return self.plane.folder / "pki" / self.name, ca

    def _define(self, arguments: list[str], environment: Mapping[str, str]) -> None:
        program = str(self.programs / self.name)
        command = [program, f"--kubeconfig={self.plane.kubeconfig}", *arguments]
        self.plane.add_part(self.name, command, environment)


class KServe(Part):
    """The InferenceService controller, its webhooks and its CRDs."""

    name, namespace = "kserve", KSERVE_NAMESPACE

    def _prepare(self) -> None:
        webhook_port, self._health_port = free_ports(2)
        certificates, ca = self._certificate(f"{KSERVE_SERVICE}.{KSERVE_NAMESPACE}.svc")
        things = json.loads((self.programs / "kserve.json").read_text())
        for thing in things:
            for hook in thing.get("webhooks", ()):
                hook["clientConfig"]["service"]["port"] = webhook_port
                hook["clientConfig"]["caBundle"] = base64.b64encode(ca.cert_pem).decode()
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": KSERVE_SERVICE, "namespace": KSERVE_NAMESPACE},
            # The API server follows this name to loopback without proxy or DNS.
            "spec": {"type": "ExternalName", "externalName": HOST},
        }
        self._install([*things, service])
        self._define(
            [
                f"--host={HOST}",
                f"--webhook-port={webhook_port}",
                f"--cert-dir={certificates}",
                f"--health-probe-addr={HOST}:{self._health_port}",
            ],
            {"POD_NAMESPACE": KSERVE_NAMESPACE},
        )

    def _probe(self) -> tuple[Json, str]:
        # Stopped from the start, it gets a status but no Deployment.
        meta = {"name": _PROBE, "annotations": {"serving.kserve.io/stop": "true"}}
        containers = [{"name": "kserve-container", "image": "x"}]
        body = {"apiVersion": ISVC, "kind": "InferenceService", "metadata": meta}
        body["spec"] = {"predictor": {"containers": containers}}
        return body, f"/apis/{ISVC}/namespaces/default/inferenceservices"


class Keda(Part):
    """The KEDA operator and its CRDs, without the metrics adapter and webhooks."""

    name, namespace = "keda", "keda"

    def _prepare(self) -> None:
        grpc_port, self._health_port = free_ports(2)
        certificates, _ = self._certificate()
        self._install(json.loads((self.programs / "keda.json").read_text()))
        self._define(
            [
                "--leader-elect=false",
                "--enable-prometheus-metrics=false",
                f"--health-probe-bind-address={HOST}:{self._health_port}",
                f"--metrics-service-bind-address={HOST}:{grpc_port}",
                f"--cert-dir={certificates}",
                f"--ca-dir={certificates}",
                "--kube-api-qps=100",
                "--kube-api-burst=200",
            ],
            {
                "WATCH_NAMESPACE": "",
                "POD_NAMESPACE": self.namespace,
                "KEDA_CLUSTER_OBJECT_NAMESPACE": self.namespace,
            },
        )

    def _probe(self) -> tuple[Json, str]:
        # It aims at nothing; KEDA says so in its conditions.
        never = {"timezone": "Etc/UTC", "start": "0 0 1 1 *", "end": "1 0 1 1 *"}
        trigger = {"type": "cron", "metadata": {**never, "desiredReplicas": "1"}}
        meta = {"name": _PROBE, "namespace": "default"}
        body: Json = {"apiVersion": SCALED_OBJECT, "kind": "ScaledObject", "metadata": meta}
        body["spec"] = {"scaleTargetRef": {"name": _PROBE}, "triggers": [trigger]}
        return body, f"/apis/{SCALED_OBJECT}/namespaces/default/scaledobjects"


def conditions(thing: Json) -> dict[str, str]:
    """Type to status of an object's conditions."""
    return {c["type"]: c["status"] for c in thing.get("status", {}).get("conditions") or ()}
