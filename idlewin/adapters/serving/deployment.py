"""Deployments of apps/v1 as serving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from idlewin.adapters.fields import labels_of, selects
from idlewin.adapters.serving.replicated import Replicated

Json = dict[str, Any]


def _owned(trimmed: Json, pod: Json) -> bool:
    # A ReplicaSet stands between them. By the selector no watch of all ReplicaSets is needed, and
    # Kubernetes forbids that two controllers select one pod: whom it matches, adopts it.
    return selects(trimmed["spec"]["selector"], labels_of(pod))


def _dangers(_trimmed: Json) -> Iterator[str]:
    yield from ()


DEPLOYMENT = Replicated(
    api_version="apps/v1",
    kind="Deployment",
    plural="deployments",
    pod_owner="ReplicaSet",
    owned=_owned,
    dangers=_dangers,
)
