"""Renders KEDA's CRDs, as its Go module ships them, with the patches of its kustomization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]


def render(module: Path) -> list[Json]:
    """All CRDs, as the API server takes them."""
    folder = module / "config" / "crd"
    (kustomization,) = _load(folder / "kustomization.yaml")
    found = [crd for entry in kustomization["resources"] for crd in _load(folder / entry)]
    crds = {crd["metadata"]["name"]: crd for crd in found}
    for patch in kustomization.get("patches", []):
        for operation in _load(folder / patch["path"])[0]:
            _json_patch(crds[patch["target"]["name"]], **operation)
    return list(crds.values())


def _load(path: Path) -> list[Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [doc for doc in yaml.load_all(path.read_text(), Loader=loader) if doc]


def _json_patch(target: Any, op: str, path: str, value: object = None) -> None:
    """The two operations that KEDA's patches use."""
    *parents, last = (p.replace("~1", "/").replace("~0", "~") for p in path.split("/")[1:])
    for key in parents:
        target = target[int(key)] if isinstance(target, list) else target[key]
    if op == "remove":
        del target[last]
    elif op == "add" and isinstance(target, list):
        target.insert(len(target) if last == "-" else int(last), value)
    elif op == "add":
        target[last] = value
    else:
        raise ValueError(f"unknown operation {op}")
