"""KEDA's ScaledObjects as serving: paused at 0, then at the old count, then let go.

The pause is the annotation ``paused-replicas``; ``paused`` is its owner's and never written. KEDA
sets the count once for each change of it and does not hold it: who scales meanwhile wins. While we
hold one it is at a count above 0 with our record on it, until its pods are ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from idlewin.adapters.fields import (
    annotation,
    claims,
    controller_of,
    labels_of,
    last_writer,
    picked,
    trimmed,
)
from idlewin.adapters.serving.deployment import DEPLOYMENT
from idlewin.adapters.serving.named import Named
from idlewin.adapters.serving.replicated import (
    KEDA,
    MOST,
    PAUSED_AT,
    Around,
    Replicated,
    known_owner,
    orphaned,
    paused_at,
    unreadable,
)
from idlewin.adapters.serving.statefulset import STATEFUL_SET
from idlewin.codec import read_record, write_record
from idlewin.core.pool import MANAGER, RECORD, Record, Target
from idlewin.core.target import Ref, Scaled

Json = dict[str, Any]

#: As whom KEDA writes, where no object tells.
_KEDA = "keda"
#: The generation of what it scales: another one is a write of it.
_GENERATION = "generation"


class ScaledObjects(Named):
    """The kind; it keeps nothing."""

    api_version, kind, plural = "keda.sh/v1alpha1", "ScaledObject", "scaledobjects"
    pod_owner = DEPLOYMENT.pod_owner
    optional = True
    watch_path = f"/apis/{api_version}/{plural}"

    def trim(self, raw: Json) -> Json:
        """What is kept of an object."""
        return trimmed(
            raw,
            spec=picked(raw.get("spec"), "scaleTargetRef", "minReplicaCount", "idleReplicaCount"),
            status=picked(raw.get("status"), "pausedReplicaCount"),
            writer=self._pauser(raw),
            # KEDA notes there what it scales, by the name under which it writes that too.
            scaler=last_writer(raw, "status", "scaleTargetKind")[0],
        )

    def read(self, trimmed: Json, around: Around) -> Target:
        """A trimmed object in the core's words."""
        meta, below = trimmed["metadata"], self._below(trimmed)
        record, replicas = self.record(trimmed), self.replicas(trimmed)
        template: Json = below["spec"]["template"] if below else {"spec": {}, "digest": ""}
        return Target(
            ref=self.ref(trimmed),
            uid=meta["uid"],
            resource_version=meta["resourceVersion"],
            replicas=replicas,
            generation=meta.get("generation", 0),
            ready=below["status"].get("readyReplicas", 0) if below else 0,
            claims=claims(template["spec"], around.resource),
            record=None if orphaned(record, meta, replicas) else record,
            replicas_writer=self.writer(trimmed),
            template=template["digest"],
            trouble=tuple(self._trouble(trimmed, around)),
            inside_kueue=around.inside_kueue,
            settings=self.settings(trimmed),
            settling=record is not None and bool(paused_at(trimmed)) and self._ours(trimmed),
            resting=replicas == 0 and paused_at(trimmed) is None,
            scaled=Scaled(
                ref=self.scaled(trimmed),
                uid=below["metadata"]["uid"] if below else "",
                by=trimmed["scaler"] or _KEDA,
            ),
            lever=f"the annotation {PAUSED_AT}; is KEDA running?",
        )

    def writer(self, raw: Json) -> str:
        """Who wrote its size last: by the pause, or, where that does not hold, below it."""
        at, below = paused_at(raw), self._below(raw)
        if below is None or (at is not None and self.replicas(raw) == at):
            return self._pauser(raw)
        return str(below["writer"]) if "writer" in below else DEPLOYMENT.writer(below)

    def replicas(self, trimmed: Json) -> int:
        """What is wanted of it now: the count of its pause until KEDA has acted on that."""
        at, below = paused_at(trimmed), self._below(trimmed)
        if below is None:
            return 0
        count = DEPLOYMENT.replicas(below)
        if at is None:
            return count
        acted = (trimmed.get("status") or {}).get("pausedReplicaCount") == at
        if at > 0:
            return count if acted and count else at
        record = self.record(trimmed)
        if record and _GENERATION in record.settings:
            # Written since our record: by KEDA, to 0, or by somebody who wants it up.
            acted = record.settings[_GENERATION] != _generation(below)
        return count if acted else 0

    def record(self, trimmed: Json) -> Record | None:
        """Our record on it; one that cannot be read is trouble."""
        text = annotation(trimmed, RECORD)
        return read_record(text)[0] if text else None

    def void(self, _trimmed: Json) -> bool:
        """A record on it always counts."""
        return False

    def settings(self, trimmed: Json) -> dict[str, str]:
        """Its pause as its owner left it, and how often what it scales was written."""
        found = picked(trimmed["metadata"].get("annotations"), PAUSED_AT)
        below = self._below(trimmed)
        return found | ({_GENERATION: _generation(below)} if below else {})

    def changed(self, trimmed: Json, settings: dict[str, str]) -> bool:
        """Whether its pause, or what it scales, was written since it was remembered."""
        return self.settings(trimmed) != settings

    def scaled(self, trimmed: Json) -> Ref:
        """What it scales."""
        meta, aim = trimmed["metadata"], trimmed["spec"].get("scaleTargetRef") or {}
        return Ref(
            api_version=aim.get("apiVersion") or DEPLOYMENT.api_version,
            kind=aim.get("kind") or DEPLOYMENT.kind,
            namespace=meta["namespace"],
            name=str(aim.get("name", "")),
        )

    def owns(self, trimmed: Json, pod: Json) -> bool:
        """Whether a pod of the same namespace is its."""
        kind, below = self._kind(trimmed), self._below(trimmed)
        return kind is not None and below is not None and kind.owns(below, pod)

    def pod_labels(self, trimmed: Json) -> dict[str, str]:
        """The labels that its pods will have."""
        below = self._below(trimmed)
        return DEPLOYMENT.pod_labels(below) if below else {}

    def pod_selector(self, trimmed: Json) -> str:
        """A label selector that its pods match, as a query parameter; none has the empty one."""
        below = self._below(trimmed)
        return DEPLOYMENT.pod_selector(below) if below else f"{KEDA}="

    def to_zero(self, record: Record) -> Json:
        """The patch that pauses it at 0 and puts our record on it."""
        return _annotated({RECORD: write_record(record), PAUSED_AT: _pause(0)})

    def back(self, raw: Json, record: Record) -> Json:
        """The patch that holds it at its count; the record stays, for the pause is owed yet."""
        kept = self.record(raw) or record
        return _annotated({RECORD: write_record(kept), PAUSED_AT: _pause(record.replicas)})

    def forget(self, raw: Json, settings: dict[str, str]) -> Json | None:
        """The patch that takes our record off, and gives the pause back if it is still ours."""
        ours = PAUSED_AT in (raw["metadata"].get("annotations") or {}) and self._ours(raw)
        return _annotated({RECORD: None, **({PAUSED_AT: settings.get(PAUSED_AT)} if ours else {})})

    # -- what it reads

    def _pauser(self, raw: Json) -> str:
        if "writer" in raw:
            return str(raw["writer"])
        return last_writer(raw, "metadata", "annotations", PAUSED_AT)[0]

    def _ours(self, raw: Json) -> bool:
        return self._pauser(raw) in ("", MANAGER)

    def _kind(self, trimmed: Json) -> Replicated | None:
        aim = self.scaled(trimmed)
        found = (DEPLOYMENT, STATEFUL_SET)
        return next(
            (k for k in found if (k.api_version, k.kind) == (aim.api_version, aim.kind)), None
        )

    def _below(self, trimmed: Json) -> Json | None:
        """What it scales, where that has pods as a Deployment has; another kind is trouble."""
        below: Json | None = trimmed.get("scaled") if self._kind(trimmed) else None
        return below

    def _trouble(self, trimmed: Json, around: Around) -> Iterator[str]:
        what, meta = str(self.ref(trimmed)), trimmed["metadata"]
        aim, kind, below = self.scaled(trimmed), self._kind(trimmed), self._below(trimmed)
        if owner := controller_of(trimmed):
            yield (
                f"{what} is controlled by {owner['kind']} {owner['name']}, which would write it "
                f"anew; {known_owner(owner)}"
            )
        if "deletionTimestamp" in meta:
            yield f"{what} is being deleted; take it out of serving"
        yield from unreadable(what, trimmed, f"set {PAUSED_AT} by hand")
        if orphaned(self.record(trimmed), meta, self.replicas(trimmed)):
            yield (
                f"{what} is at 0 and carries the record of another object of its name, as a backup "
                f"brings it back; remove {PAUSED_AT} by hand, for it is not raised from that"
            )
        found = (meta.get("annotations") or {}).get(PAUSED_AT)
        if found is not None and paused_at(trimmed) is None:
            yield (
                f"{what} has {PAUSED_AT} {str(found)[:40]!r}, which is no count, so KEDA does not "
                f"scale it; write one from 0 to {MOST}, or take it off"
            )
        if kind is None:
            yield f"{what} scales {aim} ({aim.api_version}), whose pods idlewin does not know"
        elif below is None:
            yield f"{what} scales {aim}, which does not exist; correct its scaleTargetRef"
        else:
            yield from kind.trouble(below, self._others(meta["name"], around))

    def _others(self, name: str, around: Around) -> Around:
        """What else stands around what it scales."""
        return Around(
            resource=around.resource,
            autoscalers=tuple(a for a in around.autoscalers if labels_of(a).get(KEDA) != name),
            scaled_objects=_but(around.scaled_objects, name),
        )


def _but(found: Iterable[Json], name: str) -> tuple[Json, ...]:
    return tuple(one for one in found if one["metadata"]["name"] != name)


def _generation(below: Json) -> str:
    return str(below["metadata"].get("generation", 0))


def _pause(count: int) -> str:
    """A count as no person writes it: to write what stands there already would not be seen."""
    return f"0{count}"


def _annotated(annotations: dict[str, str | None]) -> Json:
    return {"metadata": {"annotations": annotations}}


SCALED_OBJECT = ScaledObjects()
