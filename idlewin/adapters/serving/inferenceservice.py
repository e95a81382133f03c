"""KServe's InferenceServices as serving: stopped and started by its annotation ``stop``.

KServe copies every annotation into the pod template, so each change of one rolls the pods. Our
record therefore comes and goes with ``stop``, in one patch, and is left where it is on one that its
owner has started: it says nothing there, and the next stop writes over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from idlewin.adapters.fields import (
    annotation,
    claims,
    condition,
    controller_of,
    digest,
    labels_of,
    last_writer,
    picked,
    trim_pod_spec,
    trimmed,
)
from idlewin.adapters.serving.deployment import DEPLOYMENT
from idlewin.adapters.serving.named import Named
from idlewin.adapters.serving.replicated import QUEUED, Around, orphaned, unreadable
from idlewin.codec import read_record, write_record
from idlewin.core.pool import RECORD, Record, Target
from idlewin.core.target import Ref

Json = dict[str, Any]

STOP = "serving.kserve.io/stop"
_CLASS = "serving.kserve.io/autoscalerClass"
_MODE = "serving.kserve.io/deploymentMode"
_FROZEN = "serving.kserve.io/disable-auto-update"
_POD = "serving.kserve.io/inferenceservice"
#: One mode, by its present and its former name: a Deployment, and no Knative.
_PLAIN = ("", "Standard", "RawDeployment")
#: What a replica claims, where no Deployment shows it any more.
_CLAIMS = "claims"


class InferenceServices(Named):
    """The kind; it keeps nothing."""

    api_version, kind, plural = "serving.kserve.io/v1beta1", "InferenceService", "inferenceservices"
    pod_owner = DEPLOYMENT.pod_owner
    optional = True
    watch_path = f"/apis/{api_version}/{plural}"

    def trim(self, raw: Json) -> Json:
        """What is kept of an object."""
        spec = raw.get("spec") or {}
        predictor = spec.get("predictor") or {}
        kept = {**picked(predictor, "minReplicas"), **trim_pod_spec(predictor)}
        if predictor.get("model"):
            kept["model"] = picked(predictor["model"], "resources")
        if "workerSpec" in predictor:
            kept["workerSpec"] = {}
        found = [condition(raw, name) for name in ("Ready", "Stopped")]
        return trimmed(
            raw,
            spec={"predictor": kept, "digest": digest(spec)},
            status={
                **picked(raw.get("status"), "deploymentMode"),
                "conditions": [picked(one, "type", "status") for one in found if one],
            },
            writer=self._stopper(raw),
        )

    def read(self, trimmed: Json, around: Around) -> Target:
        """A trimmed object in the core's words."""
        meta, below = trimmed["metadata"], self._below(trimmed)
        record, replicas = self.record(trimmed), self.replicas(trimmed)
        claimed = self._claims(trimmed, around.resource)
        return Target(
            ref=self.ref(trimmed),
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            replicas=replicas,
            generation=meta.get("generation", 0),
            # Its condition Ready is True at 0 replicas too.
            ready=below["status"].get("readyReplicas", 0) if below else 0,
            claims=claimed,
            record=None if orphaned(record, meta, replicas) else record,
            replicas_writer=self.writer(trimmed),
            template=trimmed["spec"]["digest"],
            trouble=tuple(self._trouble(trimmed)),
            inside_kueue=around.inside_kueue,
            settings=self.settings(trimmed) | ({_CLAIMS: str(claimed)} if claimed else {}),
            resting=replicas == 0 and not _stopped(trimmed),
            lever=f"the annotation {STOP}, which KServe before 0.16 does not know; is KServe "
            "running, and new enough?",
        )

    def writer(self, raw: Json) -> str:
        """Who wrote its stop last; of one that is at 0 without it, who scaled its Deployment."""
        if STOP in (raw["metadata"].get("annotations") or {}):
            return str(raw["writer"]) if "writer" in raw else self._stopper(raw)
        below = self._below(raw)
        if below is None:
            return ""
        return str(below["writer"]) if "writer" in below else DEPLOYMENT.writer(below)

    def replicas(self, trimmed: Json) -> int:
        """What is wanted of it now: of its Deployment's count, and its minimum, the larger one."""
        if _stopped(trimmed):
            return 0
        least, below = self._least(trimmed), self._below(trimmed)
        if below is None:
            return max(1, least)
        count = DEPLOYMENT.replicas(below)
        return max(count, least) if count else 0

    def record(self, trimmed: Json) -> Record | None:
        """Our record on it; it says nothing on one that runs."""
        text = annotation(trimmed, RECORD)
        return read_record(text)[0] if text and _stopped(trimmed) else None

    def void(self, trimmed: Json) -> bool:
        """Whether a record on it says nothing."""
        return not _stopped(trimmed)

    def settings(self, trimmed: Json) -> dict[str, str]:
        """Its stop annotation as its owner left it; absent stays absent."""
        return picked(trimmed["metadata"].get("annotations"), STOP)

    def changed(self, trimmed: Json, settings: dict[str, str]) -> bool:
        """Whether its stop annotation is another than remembered."""
        return self.settings(trimmed) != {n: t for n, t in settings.items() if n == STOP}

    def scaled(self, trimmed: Json) -> Ref:
        """The Deployment that KServe makes for it."""
        meta = trimmed["metadata"]
        return Ref(
            api_version=DEPLOYMENT.api_version,
            kind=DEPLOYMENT.kind,
            namespace=meta["namespace"],
            name=f"{meta['name']}-predictor",
        )

    def owns(self, trimmed: Json, pod: Json) -> bool:
        """Whether a pod of the same namespace is its, of any of its components."""
        return labels_of(pod).get(_POD, "") == str(trimmed["metadata"]["name"])

    def pod_labels(self, trimmed: Json) -> dict[str, str]:
        """The labels that its pods will have."""
        return {**labels_of(trimmed), _POD: trimmed["metadata"]["name"]}

    def pod_selector(self, trimmed: Json) -> str:
        """A label selector that its pods match, as a query parameter."""
        return f"{_POD}={trimmed['metadata']['name']}"

    def to_zero(self, record: Record) -> Json:
        """The patch that stops it and puts our record on it."""
        return {"metadata": {"annotations": {RECORD: write_record(record), STOP: "true"}}}

    def back(self, _raw: Json, record: Record) -> Json:
        """The patch that gives it its own stop annotation back, and takes our record off."""
        annotations = {RECORD: None, STOP: record.settings.get(STOP)}
        return {"metadata": {"annotations": annotations}}

    def forget(self, raw: Json, _settings: dict[str, str]) -> Json | None:
        """The patch that takes our record off; None on one that runs: it would roll its pods."""
        return {"metadata": {"annotations": {RECORD: None}}} if _stopped(raw) else None

    # -- what it reads

    def _stopper(self, raw: Json) -> str:
        return last_writer(raw, "metadata", "annotations", STOP)[0]

    def _below(self, trimmed: Json) -> Json | None:
        below: Json | None = trimmed.get("scaled")
        owner = controller_of(below) if below else None
        return below if owner and owner["uid"] == trimmed["metadata"]["uid"] else None

    def _least(self, trimmed: Json) -> int:
        """The count that its scaler will bring it to at least; each class has its own."""
        wanted = trimmed["spec"]["predictor"].get("minReplicas")
        match annotation(trimmed, _CLASS):
            case "external":
                return 0
            case "none" | "keda":
                return 1 if wanted is None else int(wanted)
            case _:
                return max(1, int(wanted or 0))

    def _claims(self, trimmed: Json, resource: str) -> int:
        if below := self._below(trimmed):
            return claims(below["spec"]["template"]["spec"], resource)
        record, predictor = self.record(trimmed), trimmed["spec"]["predictor"]
        if record and _CLAIMS in record.settings:
            return int(record.settings[_CLAIMS])
        model = [predictor["model"]] if "model" in predictor else []
        return claims(
            {**predictor, "containers": [*predictor.get("containers", ()), *model]}, resource
        )

    def _trouble(self, trimmed: Json) -> Iterator[str]:
        what, meta = str(self.ref(trimmed)), trimmed["metadata"]
        if owner := controller_of(trimmed):
            yield f"{what} is controlled by {owner['kind']} {owner['name']}, which may start it"
        if "deletionTimestamp" in meta:
            yield f"{what} is being deleted; take it out of serving"
        if queue := labels_of(trimmed).get(QUEUED):
            yield (
                f"{what} is itself queued in LocalQueue {queue}, so Kueue could keep it from "
                f"coming back; take the label {QUEUED} off it"
            )
        yield from unreadable(what, trimmed, f"set {STOP} by hand")
        if orphaned(self.record(trimmed), meta, self.replicas(trimmed)):
            yield (
                f"{what} is stopped and carries the record of another object of its name, as a "
                f"backup brings it back; remove {STOP} by hand, for it is not started from that"
            )
        yield from self._unstoppable(what, trimmed)

    def _unstoppable(self, what: str, trimmed: Json) -> Iterable[str]:
        mode = annotation(trimmed, _MODE) or trimmed["status"].get("deploymentMode", "")
        if mode not in _PLAIN:
            yield (
                f"{what} runs in mode {mode}, whose pods come and go by Knative; idlewin stops "
                "those of mode Standard (RawDeployment) only"
            )
        if "workerSpec" in trimmed["spec"]["predictor"]:
            yield f"{what} has a workerSpec: a replica is several pods, which idlewin does not stop"
        if annotation(trimmed, _FROZEN) == "true":
            yield (
                f"{what} has the annotation {_FROZEN}, with which KServe does not act on a stop; "
                "take it off (its pods are rolled once)"
            )
        if condition(trimmed, "Ready") and not condition(trimmed, "Stopped"):
            yield (
                f"{what} shows no condition Stopped, so its KServe does not know {STOP}; it needs "
                "KServe 0.16 or newer"
            )
        count = self.replicas(trimmed)
        if annotation(trimmed, _CLASS) == "external" and count > 1:
            yield (
                f"{what} has {count} replicas by a scaler that KServe does not know "
                f"({_CLASS} external), and starts with 1; let KServe know the count: {_CLASS} none "
                f"and minReplicas {count}"
            )


def _stopped(raw: Json) -> bool:
    # As KServe compares it: whatever else it says rolls the pods and stops nothing.
    return annotation(raw, STOP).lower() == "true"


INFERENCE_SERVICE = InferenceServices()
