"""What kinds with ``spec.replicas`` share: their objects, and the patches to zero and back.

Kinds that are stopped in another way (by an annotation, by a pause) do not belong here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from idlewin.adapters.fields import (
    annotation,
    claims,
    controller_of,
    digest,
    holds,
    labels_of,
    last_writer,
    picked,
    selector_text,
    trim_pod_spec,
    trimmed,
)
from idlewin.codec import read_record, write_record
from idlewin.core.pool import MANAGER, RECORD, Record, Target
from idlewin.core.target import Ref

Json = dict[str, Any]

#: Who has written a zero since our record, where Kubernetes does not say.
BY_SCALE = "somebody, through /scale"
KEDA = "scaledobject.keda.sh/name"
QUEUED = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What stands around a target and changes what may be done with it."""

    resource: str
    autoscalers: tuple[Json, ...] = ()
    """The trimmed HPAs of its namespace."""
    inside_kueue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicated:
    """A kind with ``spec.replicas`` and a pod template."""

    api_version: str
    kind: str
    plural: str
    pod_owner: str
    owned: Callable[[Json, Json], bool]
    """Whether a pod of its namespace, that a ``pod_owner`` controls, is its."""
    dangers: Callable[[Json], Iterator[str]]
    """Why this kind must not be lowered, beyond what all kinds share."""

    @property
    def watch_path(self) -> str:
        """Where all of the kind are listed."""
        return f"/apis/{self.api_version}/{self.plural}"

    def path(self, namespace: str, name: str) -> str:
        """Where one of the kind is."""
        return f"/apis/{self.api_version}/namespaces/{namespace}/{self.plural}/{name}"

    def trim(self, raw: Json) -> Json:
        """What is kept of an object."""
        spec = raw["spec"]
        template = spec.get("template") or {}
        return trimmed(
            raw,
            spec={
                **picked(spec, "replicas", "selector", "persistentVolumeClaimRetentionPolicy"),
                "template": {
                    "labels": (template.get("metadata") or {}).get("labels") or {},
                    "spec": trim_pod_spec(template.get("spec") or {}),
                    "digest": digest(template),
                },
            },
            status=picked(raw.get("status"), "readyReplicas"),
            writer=self.writer(raw),
        )

    def read(self, trimmed: Json, around: Around) -> Target:
        """A trimmed object in the core's words."""
        meta = trimmed["metadata"]
        return Target(
            ref=self._ref(trimmed),
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            replicas=self.replicas(trimmed),
            generation=meta.get("generation", 0),
            ready=trimmed["status"].get("readyReplicas", 0),
            claims=claims(trimmed["spec"]["template"]["spec"], around.resource),
            record=None if _orphaned(self.record(trimmed), trimmed) else self.record(trimmed),
            replicas_writer=trimmed["writer"],
            template=trimmed["spec"]["template"]["digest"],
            trouble=tuple(self._trouble(trimmed, around.autoscalers)),
            inside_kueue=around.inside_kueue,
        )

    def writer(self, raw: Json) -> str:
        """Who wrote its replicas last."""
        writer = last_writer(raw, "spec", "replicas")[0]
        recorded_by = last_writer(raw, "metadata", "annotations", RECORD)[0]
        # A zero that was written through /scale has no owner: the API leaves a 0 out there.
        return writer or (BY_SCALE if recorded_by == MANAGER else "")

    def replicas(self, trimmed: Json) -> int:
        """What is wanted of it now; absent is 1."""
        wanted = trimmed["spec"].get("replicas")
        return 1 if wanted is None else int(wanted)

    def record(self, trimmed: Json) -> Record | None:
        """Our record on it; one that cannot be read is trouble."""
        text = annotation(trimmed, RECORD)
        return read_record(text)[0] if text else None

    def owns(self, trimmed: Json, pod: Json) -> bool:
        """Whether a pod of the same namespace is its."""
        owner = controller_of(pod)
        return owner is not None and owner["kind"] == self.pod_owner and self.owned(trimmed, pod)

    def pod_labels(self, trimmed: Json) -> dict[str, str]:
        """The labels that its pods will have."""
        labels: dict[str, str] = trimmed["spec"]["template"]["labels"]
        return labels

    def pod_selector(self, trimmed: Json) -> str:
        """A label selector that its pods match, as a query parameter."""
        return selector_text(trimmed["spec"]["selector"])

    def to_zero(self, record: Record) -> Json:
        """The patch that lowers it and puts our record on it: one write, so neither is alone."""
        return {
            "metadata": {"annotations": {RECORD: write_record(record)}},
            "spec": {"replicas": 0},
        }

    def back(self, replicas: int) -> Json:
        """The patch that brings it back and takes our record off."""
        return {"metadata": {"annotations": {RECORD: None}}, "spec": {"replicas": replicas}}

    def forget(self) -> Json:
        """The patch that takes our record off and nothing else."""
        return {"metadata": {"annotations": {RECORD: None}}}

    def _ref(self, trimmed: Json) -> Ref:
        meta = trimmed["metadata"]
        return Ref(
            api_version=self.api_version,
            kind=self.kind,
            namespace=meta["namespace"],
            name=meta["name"],
        )

    def _trouble(self, trimmed: Json, autoscalers: tuple[Json, ...]) -> Iterator[str]:
        what = str(self._ref(trimmed))
        if owner := controller_of(trimmed):
            yield (
                f"{what} is controlled by {owner['kind']} {owner['name']}, which would undo what "
                "idlewin writes; name that object as the target, if idlewin knows its kind"
            )
        if "deletionTimestamp" in trimmed["metadata"]:
            yield f"{what} is being deleted; take it out of serving"
        if queue := labels_of(trimmed).get(QUEUED) or self.pod_labels(trimmed).get(QUEUED):
            yield (
                f"{what} is itself queued in LocalQueue {queue}, so Kueue could keep it from "
                f"coming back; take the label {QUEUED} off it and its pod template"
            )
        text = annotation(trimmed, RECORD)
        if text and (why := read_record(text)[1]):
            yield (
                f"{what} has a record that cannot be read ({why}); set its replicas by hand, then "
                f"remove the annotation {RECORD}"
            )
        if _orphaned(self.record(trimmed), trimmed):
            yield (
                f"{what} is at 0 and carries the record of another object of its name, as a backup "
                "brings it back; scale it by hand, for it is not raised from that"
            )
        for scaler in autoscalers:
            if self._scales(scaler, trimmed):
                yield from _scaler_trouble(what, scaler)
        yield from self.dangers(trimmed)

    def _scales(self, scaler: Json, trimmed: Json) -> bool:
        aim = scaler["spec"]["scaleTargetRef"]
        group = self.api_version.partition("/")[0]
        return (
            aim["kind"] == self.kind
            and aim["name"] == trimmed["metadata"]["name"]
            and str(aim.get("apiVersion", group)).partition("/")[0] == group
        )


def _orphaned(record: Record | None, trimmed: Json) -> bool:
    """Whether a zero carries what another object was: old memory, which says nothing of this."""
    meta, wanted = trimmed["metadata"], trimmed["spec"].get("replicas")
    return record is not None and record.uid != meta["uid"] and wanted == 0


def trim_autoscaler(raw: Json) -> Json:
    """A HorizontalPodAutoscaler without the metrics that it writes down all the time."""
    kept = [{"type": "ScaledToZero", "status": "True"}] if holds(raw, "ScaledToZero") else []
    return trimmed(
        raw,
        spec=picked(raw["spec"], "scaleTargetRef", "minReplicas"),
        status={"conditions": kept},
    )


def _scaler_trouble(what: str, scaler: Json) -> Iterator[str]:
    name = scaler["metadata"]["name"]
    owner = controller_of(scaler) or {}
    if scaled := labels_of(scaler).get(KEDA) or (
        owner.get("kind") == "ScaledObject" and owner["name"]
    ):
        yield (
            f"{what} is scaled by ScaledObject {scaled}, which raises it again; pause that or "
            "delete it: KEDA's pause as a kind of serving comes with a later version"
        )
    elif scaler["spec"].get("minReplicas") == 0 or holds(scaler, "ScaledToZero"):
        yield (
            f"{what} is scaled to zero and back by HPA {name} itself (minReplicas 0); set its "
            "minReplicas to 1, so that it leaves a target at 0 alone"
        )
