"""What the controller asks of the API server, verb by verb, and which of it an account may not do.

deploy/base/rbac.yaml grants exactly this, and nothing more; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from idlewin.adapters.api import Api

_REVIEWS = "/apis/authorization.k8s.io/v1"
_SEEN = ("list", "watch")
_READ = ("get", *_SEEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """Verbs on one kind."""

    group: str
    resource: str
    """With its subresource, if it is one: pods/eviction."""
    verbs: tuple[str, ...]
    use: str
    """What cannot be done without them."""
    optional: bool = False
    """Only where the cluster has the kind."""
    leased: bool = False
    """Only in the controller's own namespace."""

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


def _needed(
    group: str, resource: str, use: str, *verbs: str, optional: bool = False, leased: bool = False
) -> Permission:
    return Permission(
        group=group, resource=resource, verbs=verbs, use=use, optional=optional, leased=leased
    )


NEEDED = (
    _needed("idlewin.dev", "idlerules", "rules are read, and held while cards are lent", *_READ,
            "patch"),
    _needed("idlewin.dev", "idlerules/status", "what serving was is remembered", "patch"),
    _needed("kueue.x-k8s.io", "clusterqueues", "queues are opened and closed", *_READ, "patch"),
    _needed("kueue.x-k8s.io", "localqueues", "queues are closed while Kueue is down", *_READ,
            "patch"),
    _needed("kueue.x-k8s.io", "workloads", "work under contract is stopped", *_READ, "patch"),
    _needed("kueue.x-k8s.io", "cohorts", "quota that leaks is seen", *_SEEN),
    _needed("apps", "deployments", "serving is lowered and brought back", *_READ, "patch"),
    _needed("apps", "statefulsets", "serving is lowered and brought back", *_READ, "patch"),
    _needed("serving.kserve.io", "inferenceservices", "serving is stopped and brought back", *_READ,
            "patch", optional=True),
    _needed("keda.sh", "scaledobjects", "serving is paused and brought back", *_READ, "patch",
            optional=True),
    _needed("", "pods", "who is on the cards is seen, and batch that agreed is ended", *_SEEN,
            "delete"),
    _needed("", "pods/eviction", "batch that agreed is ended", "create"),
    _needed("", "nodes", "cards are counted", *_READ),
    _needed("autoscaling", "horizontalpodautoscalers", "autoscalers that would fight are seen",
            *_SEEN),
    _needed("", "namespaces", "Kueue's webhooks over serving are seen", *_SEEN),
    _needed("admissionregistration.k8s.io", "mutatingwebhookconfigurations",
            "Kueue's webhooks over serving are seen", *_SEEN),
    _needed("admissionregistration.k8s.io", "validatingwebhookconfigurations",
            "Kueue's webhooks over serving are seen", *_SEEN),
    _needed("events.k8s.io", "events", "each change of phase is told", "create"),
    _needed("coordination.k8s.io", "leases", "one of several controllers leads", "get", "create",
            "update", leased=True),
)  # fmt: skip


def denied(api: Api, account: str, namespace: str) -> Iterator[tuple[Permission, tuple[str, ...]]]:
    """What an account may not do, with the verbs. Raises ApiError.

    ``account``: a user's name such as ``system:serviceaccount:idlewin-system:idlewin``; empty: who
    asks. ``namespace``: where the controller's Lease is.
    """
    for needed in NEEDED:
        verbs = tuple(
            verb for verb in needed.verbs if not _may(api, account, needed, verb, namespace)
        )
        if verbs:
            yield needed, verbs


def _may(api: Api, account: str, needed: Permission, verb: str, namespace: str) -> bool:
    resource, _, part = needed.resource.partition("/")
    asked = {"group": needed.group, "resource": resource, "subresource": part, "verb": verb}
    if needed.leased:
        asked["namespace"] = namespace
    spec: dict[str, object] = {"resourceAttributes": asked}
    kind = "SelfSubjectAccessReview"
    if account:
        kind, spec["user"] = "SubjectAccessReview", account
        # As the API server counts a service account in.
        if account.startswith("system:serviceaccount:"):
            within = f"system:serviceaccounts:{account.split(':')[2]}"
            spec["groups"] = ["system:serviceaccounts", within, "system:authenticated"]
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
    answer = api.post(f"{_REVIEWS}/{kind.lower()}s", body)
    return bool(answer["status"]["allowed"])
