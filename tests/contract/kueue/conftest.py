"""Runs each fact over the simulated cluster, and over the real one, which all files share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from idlewin.adapters.kubernetes import KubernetesCluster
from tests.contract.kueue.cluster import Cluster
from tests.contract.kueue.real import FIRST, NODES, Real
from tests.contract.kueue.simulated import Simulated
from tests.controlplane.conftest import SERVING_NAMESPACE
from tests.controlplane.deployed import deploy
from tests.controlplane.place import a_cluster
from tests.labs.kubelab.controlplane import GPU, ControlPlane

REAL = pytest.param("real", marks=pytest.mark.controlplane)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" in metafunc.fixturenames:
        facts = getattr(metafunc.function, "facts", ())
        only_real = any(one.not_simulated for one in facts)
        metafunc.parametrize("cluster", [REAL] if only_real else ["simulated", REAL], indirect=True)


@pytest.fixture(scope="package")
def lab(
    kubelab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ControlPlane, KubernetesCluster]]:
    """The real one, with a node of one card for each test, and idlewin's adapter beside it."""
    nodes = {name: {GPU: "1"} for name in NODES}
    outside = [SERVING_NAMESPACE, "idlewin-system"]
    folder = tmp_path_factory.mktemp("kubelab")
    with ControlPlane(
        kubelab_programs, folder, nodes=nodes, kueue_excluded_namespaces=outside
    ) as plane:
        plane.add_namespace(SERVING_NAMESPACE)
        deploy(plane)
        first = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
        plane.api.apply({**first, "metadata": {"name": FIRST}})
        cluster = a_cluster(plane.service_account_kubeconfig("idlewin-system", "idlewin"))
        yield plane, cluster
        cluster.stop()


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster under test; a file may set ``PODS_READY``, else Kueue waits for no pods."""
    ready = getattr(request.module, "PODS_READY", None)
    if request.param == "simulated":
        simulated = Simulated()
        simulated.wait_for_pods(ready)
        yield simulated
        return
    real = Real(*request.getfixturevalue("lab"))
    try:
        real.wait_for_pods(ready)
        yield real
    finally:
        real.clear()
