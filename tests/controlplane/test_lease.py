"""Who may act, by a real Lease: handed over at once, and never believed by two."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.adapters.api import Api, connect
from idlewin.adapters.clock import SystemClock
from idlewin.adapters.lease import KubernetesLease, Terms
from tests.controlplane.deployed import deploy
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
PLANE = {"with_kueue": False}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/idlewin-system/leases"
SHORT = Terms(
    duration=timedelta(seconds=2), renew=timedelta(milliseconds=300), margin=timedelta(seconds=0.5)
)


@pytest.fixture(scope="module")
def api(plane: ControlPlane) -> Iterator[Api]:
    deploy(plane)
    api = connect(plane.service_account_kubeconfig("idlewin-system", "idlewin"))
    yield api
    api.close()


def test_one_holds_the_lease_and_the_other_takes_it_when_it_is_given_up(
    plane: ControlPlane, api: Api
) -> None:
    place = ("idlewin-system", "handover")
    first = KubernetesLease(api, SystemClock(), place, "first")
    second = KubernetesLease(api, SystemClock(), place, "second", SHORT)
    first.start()
    wait_for("first", first.held)
    second.start()

    assert not second.held()
    first.stop()
    assert not first.held()
    wait_for("second", second.held, timeout=5)
    second.stop()
    assert plane.api.get(f"{LEASES}/handover")["spec"]["leaseTransitions"] == 1


def test_a_holder_that_cannot_renew_stops_believing_before_another_may_take_it(
    api: Api,
) -> None:
    place = ("idlewin-system", "lost")
    first = KubernetesLease(api, SystemClock(), place, "first", SHORT)
    second = KubernetesLease(api, SystemClock(), place, "second", SHORT)
    first.renew()
    second.renew()
    assert (first.held(), second.held()) == (True, False)

    lost_at = None
    deadline = time.monotonic() + 10
    while not second.held() and time.monotonic() < deadline:
        second.renew()
        if lost_at is None and not first.held():
            lost_at = time.monotonic()
        assert not (first.held() and second.held())
        time.sleep(0.05)
    assert second.held()
    assert lost_at is not None


def test_a_lease_that_runs_out_is_taken_when_it_does_and_who_takes_it_is_told(api: Api) -> None:
    place, told = ("idlewin-system", "dead"), threading.Event()
    # It asks once an hour only: it is the end of the term that it wakes for.
    patient = replace(SHORT, ask=timedelta(hours=1))
    KubernetesLease(api, SystemClock(), place, "first", SHORT).renew()
    second = KubernetesLease(api, SystemClock(), place, "second", patient)
    second.subscribe(told.set)

    second.start()

    assert told.wait(30)
    assert second.held()
    second.stop()
