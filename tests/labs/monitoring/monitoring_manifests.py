"""The kinds of the Prometheus operator that deploy/ uses, as its Go module ships them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

KINDS = ("servicemonitors", "prometheusrules")


def render(module: Path) -> list[dict[str, Any]]:
    """Their CRDs."""
    folder = module / "example" / "prometheus-operator-crd"
    return [
        yaml.safe_load((folder / f"monitoring.coreos.com_{kind}.yaml").read_text())
        for kind in KINDS
    ]
