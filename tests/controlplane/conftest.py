"""The real control plane and Prometheus for the tests of this folder; a file's tests share them.

A file may set, at its top: ``PLANE``, further arguments of ControlPlane.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

#: Outside Kueue's webhooks for Jobs, Deployments and pods, as serving namespaces should be.
SERVING_NAMESPACE = "serving"


@pytest.fixture(scope="module")
def plane(
    request: pytest.FixtureRequest,
    kubelab_programs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ControlPlane]:
    """A control plane with node-1 (one GPU) and the namespace ``serving``; about 9 s to start."""
    options = {
        "kueue_excluded_namespaces": [SERVING_NAMESPACE, "idlewin-system"],
        **getattr(request.module, "PLANE", {}),
    }
    folder = tmp_path_factory.mktemp("kubelab")
    with ControlPlane(kubelab_programs, folder, **options) as plane:
        plane.add_namespace(SERVING_NAMESPACE)
        yield plane


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    """The gauges that ``prometheus`` scrapes as job ``live``."""
    with Exporter() as exporter:
        yield exporter


@pytest.fixture
def prometheus(promlab_programs: Path, exporter: Exporter, tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus that is not started yet, so that a test may backfill it; scrapes each second."""
    server = Prometheus(promlab_programs, tmp_path / "prometheus", {"live": exporter.port})
    yield server
    server.stop()
