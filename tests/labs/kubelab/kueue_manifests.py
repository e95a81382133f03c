"""Renders Kueue's own CRDs and webhook configurations, as its Go module ships them.

It does what Kueue's kustomize overlay does with them: real names and namespace, conversion
webhooks on the CRDs that have two versions, and no webhook calls for the system namespaces.
Ports and the CA are filled in at start-up, by kueue.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

NAMESPACE = "kueue-system"
SERVICE = "kueue-webhook-service"
SYSTEM_NAMESPACES = {
    "matchExpressions": [
        {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system", NAMESPACE],
        }
    ]
}
# Kueue's own kinds are checked in every namespace.
KUEUE_GROUP = "kueue.x-k8s.io"


def render(module_dir: Path) -> list[dict]:
    """All objects, as the API server takes them but for port and CA."""
    components = module_dir / "config" / "components"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def load(path: Path) -> list[dict]:
        return [d for d in yaml.load_all(path.read_text(), Loader=loader) if d]

    converted = _converted(components / "crd", load)
    objects = []
    for path in sorted((components / "crd" / "bases").glob("*.yaml")):
        for crd in load(path):
            # The webhooks patch aims at names that the base may not have.
            if crd["metadata"]["name"] in converted:
                crd["spec"]["conversion"] = {
                    "strategy": "Webhook",
                    "webhook": {
                        "clientConfig": {
                            "service": {
                                "name": SERVICE,
                                "namespace": NAMESPACE,
                                "path": "/convert",
                            }
                        },
                        "conversionReviewVersions": ["v1"],
                    },
                }
            objects.append(crd)

    for config in load(components / "webhook" / "manifests.yaml"):
        config["metadata"]["name"] = "kueue-" + config["metadata"]["name"]
        for webhook in config["webhooks"]:
            webhook["clientConfig"]["service"].update(name=SERVICE, namespace=NAMESPACE)
            groups = {g for rule in webhook["rules"] for g in rule["apiGroups"]}
            if KUEUE_GROUP not in groups:
                webhook["namespaceSelector"] = SYSTEM_NAMESPACES
        objects.append(config)
    return objects


def _converted(crds: Path, load: Callable[[Path], list[dict]]) -> set[str]:
    """The CRDs with two versions, by name."""
    patches = load(crds / "kustomization.yaml")[0].get("patches", [])
    return {
        doc["metadata"]["name"]
        for patch in patches
        for doc in load(crds / patch["path"])
        if doc["spec"].get("conversion", {}).get("strategy") == "Webhook"
    }
