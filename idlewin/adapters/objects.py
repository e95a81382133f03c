"""What raw objects say, trimmed and then told in the core's words: rules, nodes and pods.

Pure functions. The words of Kueue's objects are in queues.py, those of serving in serving/.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from idlewin.adapters.fields import (
    annotation,
    asks_for_cards,
    condition,
    controller_of,
    holds,
    instant,
    labels_of,
    maybe_instant,
    picked,
    trim_pod_spec,
    trimmed,
    within,
)
from idlewin.codec import read_rule, read_status
from idlewin.core.pool import FINALIZER, RESUME, WAKE_UNTIL, Pod, Role, RuleObject, Scope
from idlewin.errors import RuleError

Json = dict[str, Any]

#: A node that has not been ready for so long runs nothing any more: the pods on it are evicted.
NODE_DEAD_AFTER = timedelta(minutes=5)
#: Kueue's marks on the pods of what it admitted.
KUEUE_WORKLOAD = "kueue.x-k8s.io/workload"
KUEUE_MARKS = frozenset({"kueue.x-k8s.io/podset", "kueue.x-k8s.io/managed"})


#: Who controls pods that are part of a node: "Node" is that of a static pod.
_INFRASTRUCTURE = frozenset({"DaemonSet", "Node"})


# -- nodes


def trim_node(raw: Json) -> Json:
    """A node without its heartbeats and images."""
    status = raw.get("status") or {}
    extended = {n: v for n, v in (status.get("allocatable") or {}).items() if "/" in n}
    ready = condition(raw, "Ready")
    kept = [picked(ready, "type", "status", "lastTransitionTime")] if ready else []
    taints = [one["key"] for one in (raw.get("spec") or {}).get("taints") or ()]
    return trimmed(raw, status={"allocatable": extended, "conditions": kept}, taints=taints)


def node_dead(node: Json | None, now: datetime) -> bool:
    """Whether a node is gone, given up by a person, or has not been ready for long."""
    if node is None or "node.kubernetes.io/out-of-service" in node["taints"]:
        return True
    ready = condition(node, "Ready")
    since = maybe_instant((ready or {}).get("lastTransitionTime"))
    return not holds(node, "Ready") and since is not None and now - since >= NODE_DEAD_AFTER


# -- pods


def trim_pod(raw: Json, owners: Iterable[str]) -> Json | None:
    """A pod that claims an extended resource, mounts a device, or that such a kind controls."""
    spec, owner = trim_pod_spec(raw["spec"]), controller_of(raw)
    kind = owner["kind"] if owner else ""
    if kind in _INFRASTRUCTURE:
        # A device plugin, an exporter, a network: it sees to the cards, and does not use them.
        spec.pop("devices", None)
    if not (asks_for_cards(spec) or spec.get("devices") or kind in owners):
        return None
    status = raw.get("status") or {}
    return trimmed(
        raw,
        spec=spec,
        status={
            "phase": status.get("phase", "Pending"),
            "ready": holds(raw, "Ready"),
            "running": any(
                "running" in (one.get("state") or {})
                for one in status.get("containerStatuses") or ()
            ),
        },
    )


def ended(pod: Json) -> bool:
    """Whether a pod holds nothing any more; one whose containers still run does."""
    status = pod["status"]
    return status["phase"] in ("Succeeded", "Failed") and not status["running"]


def batch_owner(pod: Json) -> str | None:
    """The Kueue workload of a pod as namespace/name; None: Kueue did not admit it."""
    namespace = pod["metadata"]["namespace"]
    if workload := annotation(pod, KUEUE_WORKLOAD):
        return f"{namespace}/{workload}"
    return f"{namespace}/" if KUEUE_MARKS & labels_of(pod).keys() else None


def opens(pod: Json, scope: Scope) -> bool:
    """Whether a pod mounts a device node of these cards: it, a part, or a directory above.

    That gives the node too, but where it is meant for something else.
    """
    if pod["metadata"]["namespace"] in scope.exempt_namespaces:
        return False
    mounted, nodes = pod["spec"].get("devices", ()), scope.device_nodes
    return any(within(path, node) or within(node, path) for path in mounted for node in nodes)


def pod_of(pod: Json, role: Role, owner: str, *, claimed: int, place: tuple[bool, bool]) -> Pod:
    """A pod in the core's words; ``place``: whether it holds a card, whether its node is dead."""
    meta, (on_cards, dead) = pod["metadata"], place
    grace = pod["spec"].get("terminationGracePeriodSeconds", 30)
    return Pod(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        role=role,
        owner=owner,
        claims=claimed,
        on_cards=on_cards,
        running=pod["status"]["phase"] == "Running" or pod["status"]["running"],
        ready=pod["status"]["ready"],
        created_at=maybe_instant(meta.get("creationTimestamp")),
        terminating="deletionTimestamp" in meta,
        node_dead=dead,
        grace=timedelta(seconds=grace),
    )


def other_owner(pod: Json) -> str:
    """Whatever made a pod that is neither serving's nor Kueue's."""
    meta, owner = pod["metadata"], controller_of(pod)
    if owner is None:
        return f"Pod {meta['namespace']}/{meta['name']}"
    return f"{owner['kind']} {meta['namespace']}/{owner['name']}"


# -- rules


def trim_rule(raw: Json) -> Json:
    """A rule with all of its spec and status."""
    return trimmed(raw, spec=raw.get("spec"), status=raw.get("status") or {})


def rule_of(raw: Json) -> RuleObject:
    """A rule in the core's words; what cannot be read is told, not raised."""
    meta = raw["metadata"]
    rule, error = None, ""
    try:
        rule = read_rule(raw.get("spec"))
    except RuleError as fault:
        error = str(fault)
    status, status_error = read_status(raw.get("status"))
    wake_until, wake_error = _claim_of(annotation(raw, WAKE_UNTIL))
    return RuleObject(
        name=meta["name"],
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        resource_version=meta["resourceVersion"],
        rule=rule,
        error=error,
        status=status,
        status_error=status_error,
        deleting="deletionTimestamp" in meta,
        finalizer=FINALIZER in (meta.get("finalizers") or ()),
        wake_until=wake_until,
        wake_error=wake_error,
        resume_at=_resumed(annotation(raw, RESUME)),
        created_at=maybe_instant(meta.get("creationTimestamp")),
    )


def _claim_of(text: str) -> tuple[datetime | None, str]:
    try:
        return (instant(text) if text else None), ""
    except ValueError:
        return None, (
            f"annotation {WAKE_UNTIL} is {text!r}, which is no instant; write one with its zone, "
            "such as 2026-03-01T18:00:00Z, or run 'idlewin wake RULE --for 30m'"
        )


def _resumed(text: str) -> datetime | None:
    try:
        return instant(text) if text else None
    except ValueError:
        return None
