"""Which requests the proxy counts as writes."""

from __future__ import annotations

import pytest

from tests.labs.kubelab.proxy import Counting

QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/idlewin-system/leases/idlewin"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@pytest.mark.parametrize(
    ("method", "uri", "agent", "counts"),
    [
        ("PATCH", QUEUE, "idlewin", True),
        ("PATCH", f"{QUEUE}?fieldManager=idlewin", "idlewin", True),
        ("DELETE", "/api/v1/namespaces/ai/pods/p", "idlewin", True),
        ("PATCH", f"{QUEUE}?fieldManager=idlewin&dryRun=All", "idlewin", False),
        ("GET", QUEUE, "idlewin", False),
        ("PUT", LEASE, "idlewin", False),
        ("POST", REVIEW, "idlewin", False),
        ("PATCH", QUEUE, "kubectl", False),
    ],
)
def test_writes_of_the_client_count_but_not_dry_runs_and_leases(
    method: str, uri: str, agent: str, counts: bool
) -> None:
    counting = Counting(agent="idlewin")

    assert (counting.take(method, uri, agent).number == 1) is counts
    assert len(counting.writes) == counts
