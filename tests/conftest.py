"""Fixtures and options that two folders or more use; nothing else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.labs.build import NotBuiltError, built


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write what is found into tests/golden"
    )


def _programs(lab: str) -> Path:
    if os.environ.get("IDLEWIN_SKIP_LABS") == "1":
        pytest.skip(f"IDLEWIN_SKIP_LABS=1 leaves out what needs {lab}")
    try:
        return built(lab)
    except NotBuiltError as error:
        reason = str(error)
    pytest.fail(reason, pytrace=False)


@pytest.fixture(scope="session")
def kubelab_programs() -> Path:
    """Where the control plane's programs are; fails where they are not built."""
    return _programs("kubelab")


@pytest.fixture(scope="session")
def promlab_programs() -> Path:
    """Where Prometheus and promtool are; fails where they are not built."""
    return _programs("promlab")


@pytest.fixture(scope="session")
def exporters_programs() -> Path:
    """Where exporters that people run are; fails where they are not built."""
    return _programs("exporters")


@pytest.fixture(scope="session")
def haproxy() -> str:
    """HAProxy of this machine. Without one its tests are left out, but by the gate."""
    if os.environ.get("IDLEWIN_SKIP_LABS") == "1":
        pytest.skip("IDLEWIN_SKIP_LABS=1 leaves out what needs haproxy")
    # Debian keeps it where not everybody's PATH goes.
    found = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if found is None:
        no = "haproxy is not there; on Debian and Ubuntu: apt-get install haproxy"
        (pytest.fail if os.environ.get("IDLEWIN_NEEDS_ALL") == "1" else pytest.skip)(no)
    return found


@pytest.fixture(scope="session")
def kserve_programs() -> Path:
    """Where KServe's controller is; fails where it is not built."""
    return _programs("kserve")


@pytest.fixture(scope="session")
def keda_programs() -> Path:
    """Where KEDA's operator is; fails where it is not built."""
    return _programs("keda")


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """Kubernetes' kubectl; fails where it is not built."""
    return _programs("kubectl") / "kubectl"


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm; fails where it is not built."""
    return _programs("helm") / "helm"


@pytest.fixture(scope="session")
def monitoring() -> Path:
    """The Prometheus operator's CRDs, as JSON; fails where they are not there."""
    return _programs("monitoring") / "monitoring.json"
