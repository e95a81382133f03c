"""Kueue in the lab: its certificate, its objects in the API server, and the end of its start-up."""

from __future__ import annotations

import base64
import concurrent.futures
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.labs.kubelab import pki
from tests.labs.kubelab.api import HOST, Api, wait_for
from tests.labs.kubelab.kueue_manifests import KUEUE_GROUP, NAMESPACE, SERVICE

SECRET = "kueue-webhook-server-cert"
FLAVORS = f"/apis/{KUEUE_GROUP}/v1beta2/resourceflavors"
#: Kueue would otherwise want a certificate for its metrics in /etc/kueue.
CERTIFICATES = {
    "namespace": NAMESPACE,
    "internalCertManagement": {
        "enable": True,
        "webhookServiceName": SERVICE,
        "webhookSecretName": SECRET,
    },
}


class Certificates:
    """Kueue's own CA, and the certificate of its webhooks."""

    def __init__(self) -> None:
        self.ca = pki.make_ca("kueue-ca")
        self.webhook = pki.issue(
            self.ca, SERVICE, dns=[f"{SERVICE}.{NAMESPACE}.svc", "localhost"], ips=[HOST]
        )


def objects(manifests: Path, port: int, ca: pki.Pair, excluded: Iterable[str]) -> list[Any]:
    """Kueue's CRDs and webhooks, pointed at its port.

    Excluded are further namespaces whose Jobs, Deployments and pods its webhooks do not see.
    """

    def point_at_kueue(client_config: dict[str, Any]) -> None:
        client_config["service"]["port"] = port
        client_config["caBundle"] = base64.b64encode(ca.cert_pem).decode()

    things = json.loads(manifests.read_text())
    for thing in things:
        if conversion := thing.get("spec", {}).get("conversion"):
            point_at_kueue(conversion["webhook"]["clientConfig"])
        for hook in thing.get("webhooks", ()):
            point_at_kueue(hook["clientConfig"])
            if selector := hook.get("namespaceSelector"):
                selector["matchExpressions"][0]["values"] += list(excluded)
    return things


def install(api: Api, things: list[Any], certificates: Certificates) -> None:
    """Bring Kueue's objects into the API server, and wait until its kinds can be used.

    The webhooks keep their Service; that Service is only a name for loopback, which the API server
    follows without any proxy or DNS.
    """
    core = f"/api/v1/namespaces/{NAMESPACE}"
    api.post("/api/v1/namespaces", _named("v1", "Namespace", NAMESPACE))
    api.post(
        f"{core}/services",
        {
            **_named("v1", "Service", SERVICE),
            "spec": {"type": "ExternalName", "externalName": HOST},
        },
    )
    secret = {
        "ca.crt": certificates.ca.cert_pem,
        "ca.key": certificates.ca.key_pem,
        "tls.crt": certificates.webhook.cert_pem,
        "tls.key": certificates.webhook.key_pem,
    }
    data = {name: base64.b64encode(pem).decode() for name, pem in secret.items()}
    api.post(f"{core}/secrets", {**_named("v1", "Secret", SECRET), "data": data})

    def create(thing: Any) -> str:
        path = f"/apis/{thing['apiVersion']}/{thing['kind'].lower()}s"
        api.post(path, thing)
        return f"{path}/{thing['metadata']['name']}"

    def established(path: str) -> bool:
        conditions = api.get(path).get("status", {}).get("conditions") or ()
        return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

    crds = [thing for thing in things if thing["kind"] == "CustomResourceDefinition"]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(create, crds))
        list(pool.map(create, [thing for thing in things if thing not in crds]))
    for path in paths:
        wait_for(f"established {path}", lambda path=path: established(path), every=0.05)


def controllers_work(api: Api) -> None:
    """Returns when Kueue's controllers run: a second or two after it says that it is ready.

    One of them puts a finalizer on each new flavor. Raises TimeoutError.
    """
    name = "kubelab-probe"
    probe = f"{FLAVORS}/{name}"
    api.post(FLAVORS, _named(f"{KUEUE_GROUP}/v1beta2", "ResourceFlavor", name))
    wait_for("finalizer by Kueue", lambda: api.get(probe)["metadata"].get("finalizers"), every=0.05)
    api.delete(probe)
    wait_for("end of Kueue's probe", lambda: api.find(probe) is None, every=0.05)


def _named(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
