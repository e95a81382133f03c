"""How each part of the control plane is called, and the files that it reads; nothing is run."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from tests.labs.kubelab.api import HOST

PORTS = ("etcd", "etcd_peer", "api", "kcm", "scheduler", "kwok", "kueue_webhook", "kueue_health")
#: Where a part says that it is ready: port, path, TLS.
HEALTH = {
    "etcd": ("etcd", "/health", False),
    "kube-apiserver": ("api", "/readyz", True),
    "kube-controller-manager": ("kcm", "/healthz", True),
    "kube-scheduler": ("scheduler", "/readyz", True),
    "kwok": ("kwok", "/healthz", True),
    "kueue": ("kueue_health", "/readyz", False),
}
#: Every request once, when it is over; a watch when it ends.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted", "Panic"],
    "rules": [{"level": "Metadata"}],
}
#: Controllers of things that no test here has; each would watch them all the same.
_UNUSED_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "resourceclaim-controller",
    "service-cidr-controller",
    "storage-version-migrator-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
)


#: Else an HPA looks every 15 s, and a controller waits for its turn.
_QUICK = (
    "--kube-api-qps=100",
    "--kube-api-burst=200",
    "--horizontal-pod-autoscaler-sync-period=1s",
)


def kubeconfig(server: str, ca_pem: bytes, token: str) -> str:
    """A kubeconfig for one server and one token."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "kubelab",
            "clusters": [
                {
                    "name": "kubelab",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": base64.b64encode(ca_pem).decode(),
                    },
                }
            ],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "kubelab", "context": {"cluster": "kubelab", "user": "user"}}],
        }
    )


def kwok_config(pod_log: Path) -> str:
    """The fake kubelet's stages, and what `kubectl logs` says of each of its pods."""
    logs = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterLogs",
        "metadata": {"name": "all"},
        "spec": {"logs": [{"logsFile": str(pod_log), "follow": False}]},
    }
    stages = Path(__file__).with_name("kwok.yaml").read_text()
    return f"{stages}---\n{yaml.safe_dump(logs)}"


def commands(programs: Path, data: Path, port: dict[str, int]) -> dict[str, list[str]]:
    """The command line of each part."""
    program, pki = str(programs / "kubelab"), data / "pki"
    serve = [
        f"--bind-address={HOST}",
        f"--tls-cert-file={pki}/server.crt",
        f"--tls-private-key-file={pki}/server.key",
    ]
    as_admin = f"--kubeconfig={data}/kubeconfig"
    client = [
        *serve,
        as_admin,
        "--leader-elect=false",
        "--authentication-skip-lookup=true",
        "--profiling=false",
    ]
    unused = ",".join(f"-{name}" for name in _UNUSED_CONTROLLERS)
    return {
        "etcd": _etcd(program, data, port),
        "kube-apiserver": _api_server(program, data, port, serve),
        "kube-controller-manager": [
            *(program, "kube-controller-manager", *client),
            f"--secure-port={port['kcm']}",
            f"--controllers=*,{unused}",
            f"--service-account-private-key-file={pki}/service-accounts.key",
            f"--root-ca-file={pki}/ca.crt",
            *_QUICK,
        ],
        "kube-scheduler": [
            *(program, "kube-scheduler", *client),
            f"--secure-port={port['scheduler']}",
        ],
        "kwok": [
            *(program, "kwok", as_admin),
            f"--config={data}/kwok.yaml",
            "--manage-all-nodes=true",
            f"--node-ip={HOST}",
            f"--node-port={port['kwok']}",
            f"--server-address={HOST}:{port['kwok']}",
            f"--tls-cert-file={pki}/server.crt",
            f"--tls-private-key-file={pki}/server.key",
            "--node-lease-duration-seconds=40",
        ],
        "kueue": [
            *(str(programs / "kueue"), as_admin),
            f"--config={data}/kueue.yaml",
            "--zap-log-level=2",
        ],
    }


def _etcd(program: str, data: Path, port: dict[str, int]) -> list[str]:
    client, peer = (f"http://{HOST}:{port[name]}" for name in ("etcd", "etcd_peer"))
    return [
        *(program, "etcd", "--name=kubelab", f"--data-dir={data}/etcd"),
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=kubelab={peer}",
        # A part that is killed loses nothing by this; only a machine that crashes would.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server(program: str, data: Path, port: dict[str, int], serve: list[str]) -> list[str]:
    pki = data / "pki"
    return [
        *(program, "kube-apiserver", *serve, f"--secure-port={port['api']}"),
        f"--etcd-servers=http://{HOST}:{port['etcd']}",
        # KEP-2021: an HPA with minReplicas 0 is what a rule has to refuse.
        "--feature-gates=HPAScaleToZero=true",
        f"--advertise-address={HOST}",
        # A loopback address cannot be an endpoint of a Service.
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=Node,RBAC",
        f"--token-auth-file={pki}/tokens.csv",
        f"--client-ca-file={pki}/ca.crt",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki}/service-accounts.key",
        f"--service-account-signing-key-file={pki}/service-accounts.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--audit-policy-file={data}/audit-policy.yaml",
        f"--audit-log-path={data}/audit.log",
        # Written before the request is over: a test that has its answer finds it in the log.
        "--audit-log-mode=blocking-strict",
        "--allow-privileged=true",
        "--profiling=false",
    ]


def kueue_config(
    port: dict[str, int], cert_dir: Path, options: dict[str, Any], gates: dict[str, bool]
) -> str:
    """Kueue's own configuration; options are further top-level fields of it."""
    return yaml.safe_dump(
        {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"{HOST}:{port['kueue_health']}"},
            "metrics": {"bindAddress": "0"},
            "webhook": {"host": HOST, "port": port["kueue_webhook"], "certDir": str(cert_dir)},
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"qps": 100, "burst": 200},
            "featureGates": {"VisibilityOnDemand": False, **gates},
            **options,
        }
    )
