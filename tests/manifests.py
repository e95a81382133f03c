"""Writes what of deploy/ is made from the rest of it: ``python -m tests.manifests``.

The Helm chart renders the very files of deploy/base, deploy/policy and deploy/components: Helm
reads nothing outside of a chart's folder, so it holds copies. Alerts are a rule file of Prometheus;
as a PrometheusRule they are the same, two spaces further in.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
CHART = DEPLOY / "chart"
COMMAND = "python -m tests.manifests"
RULE = DEPLOY / "components" / "monitoring" / "prometheusrule.yaml"
#: Where the chart's parts come from, by the chart's own name for them.
PARTS = {
    "base": DEPLOY / "base",
    "policy": DEPLOY / "policy",
    **{path.parent.name: path.parent for path in DEPLOY.glob("components/*/kustomization.yaml")},
}
HEAD = f"""\
# Made of deploy/alerts.yaml by: {COMMAND}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: idlewin
  namespace: idlewin-system
spec:
"""


def prometheus_rule() -> str:
    return HEAD + textwrap.indent((DEPLOY / "alerts.yaml").read_text(), "  ")


def made() -> Iterator[tuple[Path, str]]:
    """Each file that is made, with what is in it."""
    yield RULE, prometheus_rule()
    for name, folder in PARTS.items():
        kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
        for file in kustomization.get("resources", ()):
            # Helm installs what is in crds/ before the rest, and never changes it.
            into = "crds/idlerules.yaml" if file == "crd.yaml" else f"files/{name}/{file}"
            text = prometheus_rule() if folder / file == RULE else (folder / file).read_text()
            yield CHART / into, text
        for patch in kustomization.get("patches", ()):
            file = patch["path"]
            yield CHART / f"files/{name}/patches/{file}", (folder / file).read_text()


def stale() -> list[str]:
    """The files that are not as they would be made, and those that would not be."""
    files = dict(made())
    wrong = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
    left = [path for folder in ("files", "crds") for path in (CHART / folder).rglob("*.yaml")]
    return sorted(str(p.relative_to(DEPLOY)) for p in [*wrong, *(set(left) - set(files))])


if __name__ == "__main__":
    files = dict(made())
    for folder in ("files", "crds"):
        shutil.rmtree(CHART / folder, ignore_errors=True)
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
