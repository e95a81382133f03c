"""What Kueue's objects say (v1beta2), trimmed and then told in the core's words.

Pure functions over ClusterQueues, Cohorts, LocalQueues and Workloads. Which of them count for a
rule is look.py's; facts behind the odd lines were measured on Kueue 0.18.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from idlewin.adapters.fields import (
    annotation,
    claims,
    condition,
    holds,
    labels_of,
    last_writer,
    maybe_instant,
    picked,
    trim_pod_spec,
    trimmed,
)
from idlewin.core.pool import (
    ADOPTED_BY,
    BEFORE_US,
    CONTRACT,
    EPOCH,
    LEFT,
    MAX_RUNTIME_ENFORCED,
    LocalQueue,
    Queue,
    StopPolicy,
    Workload,
)
from idlewin.core.rule import Contract

Json = dict[str, Any]

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
CHECKPOINT = Contract.CHECKPOINT.value
#: What a Workload's pods get where their template names no grace.
_GRACE = 30
#: What the status can hold; tenants, who may write below a ClusterQueue, drive ours not so far.
EPOCH_DIGITS, TENANTS_DIGITS = 18, 15
#: Conditions whose reason is read; those of others change often, and say nothing.
_REASONED = {"Evicted": ("reason",)}
#: Why waitForPodsReady takes work back: at first for a while, past its limit for good.
_NOT_READY = ("PodsReadyTimeout", "DeactivatedDueToRequeuingLimitExceeded")


# -- trimming: Kueue requires no spec of anything, and one odd object must not hide all others


def trim_queue(raw: Json) -> Json:
    """A ClusterQueue with its quota, its stop and who wrote that."""
    spec = picked(raw.get("spec"), "stopPolicy", "cohortName", "resourceGroups")
    active = condition(raw, "Active")
    return trimmed(
        raw,
        spec=spec,
        status={"conditions": [active] if active else []},
        writer=last_writer(raw, "spec", "stopPolicy"),
    )


def trim_cohort(raw: Json) -> Json:
    """A Cohort with its quota and its parent."""
    return trimmed(raw, spec=picked(raw.get("spec"), "parentName", "resourceGroups"))


def trim_local_queue(raw: Json) -> Json:
    """A LocalQueue with its stop; its counts change all the time and are not read."""
    return trimmed(
        raw,
        spec=picked(raw.get("spec"), "clusterQueue", "stopPolicy"),
        writer=last_writer(raw, "spec", "stopPolicy"),
    )


def trim_workload(raw: Json) -> Json | None:
    """A Workload that is not finished; a finished one still says Admitted."""
    if holds(raw, "Finished"):
        return None
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    wanted = ("Admitted", "Evicted", "QuotaReserved")
    return trimmed(
        raw,
        spec={
            **picked(spec, "active", "queueName", "maximumExecutionTimeSeconds"),
            "podSets": [_trim_pod_set(one) for one in spec.get("podSets") or ()],
        },
        status={
            **picked(status, "accumulatedPastExecutionTimeSeconds"),
            "requeueState": picked(status.get("requeueState"), "requeueAt"),
            "admission": picked(status.get("admission"), "clusterQueue"),
            "conditions": [
                picked(one, "type", "status", "lastTransitionTime", *_REASONED.get(one["type"], ()))
                for one in status.get("conditions") or ()
                if one["type"] in wanted
            ],
        },
        writer=last_writer(raw, "spec", "active"),
    )


def _trim_pod_set(one: Json) -> Json:
    template = one.get("template") or {}
    meta = template.get("metadata") or {}
    return {
        "count": one.get("count", 1),
        "contract": CHECKPOINT in (_mark(meta, "annotations"), _mark(meta, "labels")),
        "spec": trim_pod_spec(template.get("spec") or {}),
    }


def _mark(meta: Json, kind: str) -> str:
    return str((meta.get(kind) or {}).get(CONTRACT, ""))


# -- queues


def policy_of(raw: Json) -> StopPolicy:
    """The stop policy of a ClusterQueue or LocalQueue; absent is None, one of later days a stop."""
    text = (raw.get("spec") or {}).get("stopPolicy") or "None"
    return StopPolicy(text) if text in list(StopPolicy) else StopPolicy.HOLD


def epoch_of(raw: Json) -> int | None:
    """Our epoch on a queue or on work; a text that is none of ours is as good as none.

    Tenants may write there: a number that the status could not hold must not become ours, nor
    one beyond which we do not read our own fence.
    """
    text, most = annotation(raw, EPOCH), EPOCH_DIGITS
    if raw["metadata"].get("namespace"):
        most = TENANTS_DIGITS
    return int(text) if text.isdecimal() and len(text) <= most else None


def stopped_since(raw: Json) -> datetime | None:
    """Since when Kueue shows a ClusterQueue stopped, at its present generation."""
    active = condition(raw, "Active")
    if active is None or active["status"] != "False" or active.get("reason") != "Stopped":
        return None
    seen = active.get("observedGeneration", 0) >= raw["metadata"].get("generation", 0)
    return maybe_instant(active.get("lastTransitionTime")) if seen else None


def left_of(raw: Json, mark: str = LEFT) -> StopPolicy | None:
    """The stop policy that we wrote last; a text that is none is as good as no text."""
    text = annotation(raw, mark)
    return StopPolicy(text) if text in list(StopPolicy) else None


def queue_of(
    raw: Json,
    local_queues: Iterable[Json],
    workloads: Iterable[Workload],
    leaks: Iterable[str],
) -> Queue:
    """A ClusterQueue in the core's words."""
    meta = raw["metadata"]
    writer, written = raw["writer"]
    return Queue(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta["resourceVersion"],
        stop_policy=policy_of(raw),
        stop_writer=writer,
        stop_written_at=maybe_instant(written),
        stopped_since=stopped_since(raw),
        terminating="deletionTimestamp" in meta,
        adopted_by=annotation(raw, ADOPTED_BY),
        epoch=epoch_of(raw),
        left=left_of(raw),
        adopted_at=left_of(raw, BEFORE_US),
        local_queues=tuple(local_queue_of(one) for one in local_queues),
        workloads=tuple(workloads),
        leaks=tuple(leaks),
        bound_enforced=annotation(raw, MAX_RUNTIME_ENFORCED) == "true",
    )


def local_queue_of(raw: Json) -> LocalQueue:
    """A LocalQueue in the core's words."""
    meta = raw["metadata"]
    return LocalQueue(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        stop_policy=policy_of(raw),
        stop_writer=raw["writer"][0],
        stop_written_at=maybe_instant(raw["writer"][1]),
        epoch=epoch_of(raw),
    )


# -- workloads


def workload_of(raw: Json, cluster_queue: str, resource: str) -> Workload:
    """A Workload in the core's words; its ClusterQueue is its LocalQueue's until it is admitted."""
    meta, spec, status = raw["metadata"], raw["spec"], raw["status"]
    pod_sets = spec["podSets"]
    admitted = holds(raw, "Admitted")
    own = CHECKPOINT in (annotation(raw, CONTRACT), labels_of(raw).get(CONTRACT, ""))
    graces = [one["spec"].get("terminationGracePeriodSeconds", _GRACE) for one in pod_sets]
    since = (condition(raw, "Admitted") or {}).get("lastTransitionTime") if admitted else None
    return Workload(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        cluster_queue=status["admission"].get("clusterQueue", cluster_queue),
        local_queue=spec.get("queueName", ""),
        admitted=admitted,
        active=spec.get("active", True),
        evicted=holds(raw, "Evicted"),
        contract=own or (bool(pod_sets) and all(one["contract"] for one in pod_sets)),
        grace=timedelta(seconds=min(graces, default=_GRACE)),
        max_runtime=_left(spec, status),
        admitted_at=maybe_instant(since),
        kept_out_until=maybe_instant(status["requeueState"].get("requeueAt")),
        epoch=epoch_of(raw),
        generation=meta.get("generation", 0),
        active_writer=raw["writer"][0],
        timed_out=holds(raw, "Evicted")
        and (condition(raw, "Evicted") or {}).get("reason") in _NOT_READY,
        claims=sum(one["count"] * claims(one["spec"], resource) for one in pod_sets),
    )


def _left(spec: Json, status: Json) -> timedelta | None:
    limit = spec.get("maximumExecutionTimeSeconds")
    if limit is None:
        return None
    spent = status.get("accumulatedPastExecutionTimeSeconds") or 0
    return timedelta(seconds=max(0, limit - spent))
