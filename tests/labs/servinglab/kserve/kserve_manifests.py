"""Renders KServe's CRDs, webhooks and settings, as its Go module ships them, without kustomize.

Ports and the CA of the webhooks are filled in at start-up, by serving.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

NAMESPACE = "kserve"
SERVICE = "kserve-webhook-server-service"
#: The webhooks of these kinds are not run: see cmd/kserve/main.go.
_LEFT_OUT = ("trainedmodel.", "inferencegraph.")
#: No Knative, no Istio, no Ingress: a Deployment and a Service, nothing else.
_SETTINGS = {
    "deploy": {"defaultDeploymentMode": "Standard"},
    "ingress": {"disableIstioVirtualHost": True, "disableIngressCreation": True},
}
Json = dict[str, Any]


def render(module: Path) -> list[Json]:
    """All objects, as the API server takes them but for port and CA."""
    config = module / "config"
    objects = _resources(config / "crd" / "full")
    for crd in objects:
        crd["metadata"].pop("creationTimestamp", None)
    (settings,) = _load(config / "configmap" / "inferenceservice.yaml")
    settings["metadata"]["namespace"] = NAMESPACE
    settings["data"].pop("_example", None)
    for name, changes in _SETTINGS.items():
        settings["data"][name] = json.dumps({**json.loads(settings["data"][name]), **changes})
    objects.append(settings)
    for hooks in _load(config / "webhook" / "manifests.yaml"):
        if hooks["metadata"]["name"].startswith(_LEFT_OUT):
            continue
        hooks["metadata"] = {"name": hooks["metadata"]["name"]}
        for hook in hooks["webhooks"]:
            hook["clientConfig"]["service"].update(name=SERVICE, namespace=NAMESPACE)
        objects.append(hooks)
    return objects


def _load(path: Path) -> list[Json]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [doc for doc in yaml.load_all(path.read_text(), Loader=loader) if doc]


def _resources(folder: Path) -> list[Json]:
    """Everything that a kustomization lists as its resources."""
    objects: list[Json] = []
    for entry in _load(folder / "kustomization.yaml")[0]["resources"]:
        path = folder / entry
        objects += _resources(path) if path.is_dir() else _load(path)
    return objects
