"""StatefulSets of apps/v1 as serving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from idlewin.adapters.fields import controller_of
from idlewin.adapters.serving.replicated import Replicated

Json = dict[str, Any]


def _owned(trimmed: Json, pod: Json) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner["uid"] == trimmed["metadata"]["uid"]


def _dangers(trimmed: Json) -> Iterator[str]:
    policy = trimmed["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if policy.get("whenScaled") == "Delete":
        meta = trimmed["metadata"]
        yield (
            f"StatefulSet {meta['namespace']}/{meta['name']} deletes its volumes when it is "
            "lowered; set persistentVolumeClaimRetentionPolicy.whenScaled to Retain"
        )


STATEFUL_SET = Replicated(
    api_version="apps/v1",
    kind="StatefulSet",
    plural="statefulsets",
    pod_owner="StatefulSet",
    owned=_owned,
    dangers=_dangers,
)
