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
from idlewin.adapters.serving.named import Named
from idlewin.codec import read_record, write_record
from idlewin.core.pool import MANAGER, RECORD, Record, Target
from idlewin.core.target import Ref

Json = dict[str, Any]

#: Who has written a zero since our record, where Kubernetes does not say.
BY_SCALE = "somebody, through /scale"
KEDA = "scaledobject.keda.sh/name"
_PAUSED = "autoscaling.keda.sh/paused"
PAUSED_AT = f"{_PAUSED}-replicas"
#: The largest count that there is.
MOST = 2**31 - 1
QUEUED = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What stands around a target and changes what may be done with it."""

    resource: str
    autoscalers: tuple[Json, ...] = ()
    """The trimmed HPAs of its namespace."""
    scaled_objects: tuple[Json, ...] = ()
    """The trimmed ScaledObjects of its namespace."""
    inside_kueue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicated(Named):
    """A kind with ``spec.replicas`` and a pod template."""

    api_version: str
    kind: str
    plural: str
    pod_owner: str
    owned: Callable[[Json, Json], bool]
    """Whether a pod of its namespace, that a ``pod_owner`` controls, is its."""
    dangers: Callable[[Json], Iterator[str]]
    """Why this kind must not be lowered, beyond what all kinds share."""
    optional: bool = False

    @property
    def watch_path(self) -> str:
        """Where all of the kind are listed."""
        return f"/apis/{self.api_version}/{self.plural}"

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
            ref=self.ref(trimmed),
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            replicas=self.replicas(trimmed),
            generation=meta.get("generation", 0),
            ready=trimmed["status"].get("readyReplicas", 0),
            claims=claims(trimmed["spec"]["template"]["spec"], around.resource),
            record=None if self._orphaned(trimmed) else self.record(trimmed),
            replicas_writer=trimmed["writer"],
            template=trimmed["spec"]["template"]["digest"],
            trouble=tuple(self.trouble(trimmed, around)),
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
        found = read_record(text)[0] if text else None
        owner = controller_of(trimmed)
        # KServe copies the annotations of its own object: that one's record is not this one's.
        return None if found and owner and owner["uid"] == found.uid else found

    def void(self, trimmed: Json) -> bool:
        """Whether a record on it is the copy of another object's."""
        return controller_of(trimmed) is not None and self.record(trimmed) is None

    def settings(self, _trimmed: Json) -> dict[str, str]:
        """Its size is its replicas."""
        return {}

    def changed(self, _trimmed: Json, _settings: dict[str, str]) -> bool:
        """There are no settings that could be."""
        return False

    def scaled(self, _trimmed: Json) -> Ref | None:
        """Its pods are its own."""
        return None

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

    def back(self, _raw: Json, record: Record) -> Json:
        """The patch that brings it back and takes our record off."""
        return {"metadata": {"annotations": {RECORD: None}}, "spec": {"replicas": record.replicas}}

    def forget(self, _raw: Json, _settings: dict[str, str]) -> Json | None:
        """The patch that takes our record off and nothing else."""
        return {"metadata": {"annotations": {RECORD: None}}}

    def trouble(self, trimmed: Json, around: Around) -> Iterator[str]:
        """Why it must not be lowered, each in a sentence with the remedy."""
        what = str(self.ref(trimmed))
        if owner := controller_of(trimmed):
            yield (
                f"{what} is controlled by {owner['kind']} {owner['name']}, which would undo what "
                f"idlewin writes; {known_owner(owner)}"
            )
        if "deletionTimestamp" in trimmed["metadata"]:
            yield f"{what} is being deleted; take it out of serving"
        if queue := labels_of(trimmed).get(QUEUED) or self.pod_labels(trimmed).get(QUEUED):
            yield (
                f"{what} is itself queued in LocalQueue {queue}, so Kueue could keep it from "
                f"coming back; take the label {QUEUED} off it and its pod template"
            )
        yield from unreadable(what, trimmed, "set its replicas by hand")
        if self._orphaned(trimmed):
            yield (
                f"{what} is at 0 and carries the record of another object of its name, as a backup "
                "brings it back; scale it by hand, for it is not raised from that"
            )
        scalers = [a for a in around.autoscalers if self._scales(a, trimmed)]
        paused = [o for o in around.scaled_objects if self._scales(o, trimmed)]
        yield from _scaler_trouble(what, scalers, paused)
        yield from self.dangers(trimmed)

    def _orphaned(self, trimmed: Json) -> bool:
        return orphaned(self.record(trimmed), trimmed["metadata"], self.replicas(trimmed))

    def _scales(self, scaler: Json, trimmed: Json) -> bool:
        aim = scaler["spec"].get("scaleTargetRef") or {}
        group = self.api_version.partition("/")[0]
        return (
            aim.get("kind", "Deployment") == self.kind
            and aim.get("name") == trimmed["metadata"]["name"]
            and str(aim.get("apiVersion", group)).partition("/")[0] == group
        )


def orphaned(record: Record | None, meta: Json, replicas: int) -> bool:
    """Whether a zero carries what another object was: old memory, which says nothing of this."""
    return record is not None and record.uid != meta["uid"] and replicas == 0


def unreadable(what: str, trimmed: Json, remedy: str) -> Iterator[str]:
    """What is to be told of a record that cannot be read."""
    text = annotation(trimmed, RECORD)
    if text and (why := read_record(text)[1]):
        yield (
            f"{what} has a record that cannot be read ({why}); {remedy}, then remove the "
            f"annotation {RECORD}"
        )


def known_owner(owner: Json) -> str:
    """What to name instead of what this owner would write anew."""
    group, kind = owner.get("apiVersion", "").partition("/")[0], owner["kind"]
    if (group, kind) in (("serving.kserve.io", "InferenceService"), ("keda.sh", "ScaledObject")):
        return f"name {kind} {owner['name']} ({owner['apiVersion']}) as the target instead"
    return "name that object as the target, if idlewin knows its kind"


def trim_autoscaler(raw: Json) -> Json:
    """A HorizontalPodAutoscaler without the metrics that it writes down all the time."""
    kept = [{"type": "ScaledToZero", "status": "True"}] if holds(raw, "ScaledToZero") else []
    return trimmed(
        raw,
        spec=picked(raw["spec"], "scaleTargetRef", "minReplicas"),
        status={"conditions": kept},
    )


def _scaler_trouble(what: str, scalers: list[Json], scaled_objects: list[Json]) -> Iterator[str]:
    # One that its owner has frozen leaves the count alone.
    live = [one for one in scaled_objects if not _frozen(one)]
    named = dict.fromkeys(one["metadata"]["name"] for one in live)
    for scaler in scalers:
        name, owner = scaler["metadata"]["name"], controller_of(scaler) or {}
        if scaled := labels_of(scaler).get(KEDA) or (
            owner.get("kind") == "ScaledObject" and owner["name"]
        ):
            named[str(scaled)] = None
        elif scaler["spec"].get("minReplicas") == 0 or holds(scaler, "ScaledToZero"):
            yield (
                f"{what} is scaled to zero and back by HPA {name} itself (minReplicas 0); set its "
                "minReplicas to 1, so that it leaves a target at 0 alone"
            )
    for scaled in named:
        yield (
            f"{what} is scaled by ScaledObject {scaled}, which raises it again; name ScaledObject "
            f"{scaled} (keda.sh/v1alpha1) as the target instead, so that idlewin pauses it"
        )


def _frozen(scaled_object: Json) -> bool:
    # A count is set anew at each of KEDA's starts.
    marks = scaled_object["metadata"]["annotations"]
    return _said(scaled_object, _PAUSED) and PAUSED_AT not in marks


def raises(scaled_object: Json) -> bool:
    """Whether KEDA brings what a ScaledObject scales to a count: its owner has not frozen it."""
    if PAUSED_AT in scaled_object["metadata"]["annotations"]:
        return paused_at(scaled_object) is not None
    return not any(_said(scaled_object, name) for name in (_PAUSED, f"{_PAUSED}-scale-out"))


def paused_at(scaled_object: Json) -> int | None:
    """The count of its pause; None: it has none that KEDA can read."""
    text = annotation(scaled_object, PAUSED_AT)
    if not (text.isascii() and text.isdigit()):
        return None
    # Python reads no number of very many digits.
    digits = text.lstrip("0") or "0"
    count = int(digits) if len(digits) <= len(str(MOST)) else MOST + 1
    return count if count <= MOST else None


def _said(scaled_object: Json, name: str) -> bool:
    """Whether an annotation says so, as KEDA reads it: what it cannot read is true."""
    text = str(scaled_object["metadata"]["annotations"].get(name, "false"))
    return text not in ("0", "f", "F", "false", "False", "FALSE")
