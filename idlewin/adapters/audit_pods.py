"""Who asks for cards, or gets at them, in raw objects: from pod templates, and from pods.

Pure functions. A pod counts for the topmost object that is known; where none is, for what
controls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from idlewin.adapters.fields import (
    claims,
    controller_of,
    devices_of,
    labels_of,
    maybe_instant,
    selects,
)
from idlewin.audit.facts import Holder, Priority, Role, Thing
from idlewin.core.pool import CONTRACT
from idlewin.core.rule import Contract

Json = dict[str, Any]
#: Kind, namespace and name.
Key = tuple[str, str, str]
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_ROLES = {
    "Deployment": Role.SERVING,
    "StatefulSet": Role.SERVING,
    "InferenceService": Role.SERVING,
    "DaemonSet": Role.NODE,
    "Node": Role.NODE,
    "Job": Role.BATCH,
    "CronJob": Role.BATCH,
    "JobSet": Role.BATCH,
    "Workflow": Role.BATCH,
}
#: The kinds whose pod template is read.
TEMPLATES = ("Deployment", "StatefulSet", "InferenceService", "DaemonSet", "Job", "CronJob")
#: Volumes that go with a pod, and those that stay.
_GOES, _STAYS = ("emptyDir", "ephemeral"), ("persistentVolumeClaim", "hostPath", "nfs", "csi")
_OWN_JOBS = frozenset({"", "kubernetes.io/job-controller", "kueue.x-k8s.io/multikueue"})


@dataclass(frozen=True, slots=True)
class Object:
    """A raw object, and where it is written down."""

    raw: Json
    file: str = ""
    line: int = 0

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.raw["kind"])

    @property
    def key(self) -> Key:
        """Kind, namespace and name."""
        meta = self.raw["metadata"]
        return self.kind, meta.get("namespace", ""), meta["name"]

    @property
    def thing(self) -> Thing:
        """It in the audit's words."""
        kind, namespace, name = self.key
        return Thing(kind=kind, namespace=namespace, name=name, file=self.file, line=self.line)


@dataclass(slots=True, kw_only=True)
class Around:
    """What the spec of a pod refers to."""

    priorities: Mapping[str, Json] = field(default_factory=dict)
    """PriorityClasses by name."""
    claims: Mapping[Key, Json] = field(default_factory=dict)
    """ResourceClaims and their templates by key."""
    queues: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The ClusterQueue of each LocalQueue."""


def holder(one: Object, around: Around) -> Holder:
    """Whoever a template says that will ask for cards."""
    raw = one.raw
    spec = raw.get("spec") or {}
    if one.kind == "CronJob":
        raw = {**(spec.get("jobTemplate") or {})}
        spec = raw.get("spec") or {}
    job = one.kind in ("Job", "CronJob")
    template = _template(spec)
    marks = [*(_marks(o) for o in (one.raw, raw, template))]
    queue = next((found for m in marks if (found := m.get(QUEUE_NAME))), "")
    status = one.raw.get("status") or {}
    asked = _of_spec(one.thing, template.get("spec") or {}, around)
    managed_by = str(spec.get("managedBy") or "") if job else ""
    volumes = _volumes(template.get("spec") or {})
    return replace(
        asked,
        replicas=_replicas(one.kind, spec),
        local_queue=queue,
        cluster_queue=around.queues.get((one.thing.namespace, queue), ""),
        contract=any(m.get(CONTRACT) == Contract.CHECKPOINT.value for m in marks),
        loses=() if volumes & set(_STAYS) else tuple(sorted(volumes & set(_GOES))),
        part=controller_of(one.raw) is not None,
        managed_by="" if managed_by in _OWN_JOBS else managed_by,
        created_at=maybe_instant(one.raw["metadata"].get("creationTimestamp")),
        taken_up=bool(status) or bool(spec.get("suspend")),
    )


def over(one: Object) -> bool:
    """Whether an object has ended, and holds nothing any more."""
    found = (one.raw.get("status") or {}).get("conditions") or ()
    return one.kind == "Job" and any(
        c["type"] in ("Complete", "Failed") and c["status"] == "True" for c in found
    )


def _marks(raw: Json) -> dict[str, str]:
    meta = raw.get("metadata") or {}
    return {**(meta.get("annotations") or {}), **(meta.get("labels") or {})}


def _template(spec: Json) -> Json:
    if "predictor" in spec:
        predictor = spec["predictor"] or {}
        model = [predictor["model"]] if predictor.get("model") else []
        return {"spec": {**predictor, "containers": [*predictor.get("containers", ()), *model]}}
    template: Json = spec.get("template") or {}
    return template


def _replicas(kind: str, spec: Json) -> int:
    if kind == "InferenceService":
        return int((spec.get("predictor") or {}).get("minReplicas", 1))
    if kind in ("Job", "CronJob"):
        # Suspended it asks for them all the same, later.
        return int(spec.get("parallelism", 1))
    count = spec.get("replicas")
    return 1 if count is None else int(count)


def _volumes(spec: Json) -> set[str]:
    return {kind for one in spec.get("volumes") or () for kind in one if kind != "name"}


def _of_spec(thing: Thing, spec: Json, around: Around) -> Holder:
    """What a pod of this spec gets."""
    return Holder(
        thing=thing,
        role=_ROLES.get(thing.kind, Role.OTHER),
        claims={name: claims(spec, name) for name in sorted(_resources(spec))},
        selects=texts(spec.get("nodeSelector")),
        devices=tuple(devices_of(spec)),
        opens_all=_opens_all(spec),
        device_classes=tuple(sorted(set(_classes(thing, spec, around)))),
        priority=_priority(spec, around),
    )


def texts(labels: Json | None) -> dict[str, str]:
    """Labels, or a selector of them."""
    return {str(name): str(value) for name, value in (labels or {}).items()}


def _resources(spec: Json) -> set[str]:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return {
        name
        for one in containers
        for kind in ("limits", "requests")
        for name in (one.get("resources") or {}).get(kind) or ()
        if "/" in name
    }


def _opens_all(spec: Json) -> str:
    for one in spec.get("containers") or ():
        if (one.get("securityContext") or {}).get("privileged"):
            return "privileged"
        for env in one.get("env") or ():
            if env.get("name") == _VISIBLE and env.get("value") == "all":
                return f"{_VISIBLE}=all"
    return ""


def _classes(thing: Thing, spec: Json, around: Around) -> Iterator[str]:
    for one in spec.get("resourceClaims") or ():
        for kind in ("ResourceClaim", "ResourceClaimTemplate"):
            name = one.get(f"{kind[0].lower()}{kind[1:]}Name", "")
            raw = around.claims.get((kind, thing.namespace, name), {})
            inner = raw.get("spec") or {}
            inner = inner.get("spec") or inner
            for request in (inner.get("devices") or {}).get("requests") or ():
                exact = request.get("exactly") or request
                yield str(exact.get("deviceClassName", ""))


def _priority(spec: Json, around: Around) -> Priority:
    usual = next((n for n, one in around.priorities.items() if one.get("globalDefault")), "")
    given = around.priorities.get(spec.get("priorityClassName") or usual, {})
    policy = spec.get("preemptionPolicy") or given.get("preemptionPolicy")
    value = spec.get("priority")
    return Priority(
        value=int(given.get("value") or 0 if value is None else value), preempts=policy != "Never"
    )


def at_cards(spec: Json) -> bool:
    """Whether a pod of this spec asks for cards, or gets at some."""
    return bool(
        _resources(spec) or devices_of(spec) or _opens_all(spec) or spec.get("resourceClaims")
    )


# -- pods


@dataclass(slots=True)
class _There:
    nodes: dict[str, int] = field(default_factory=dict)
    since: datetime | None = None


def ended(raw: Json) -> bool:
    """Whether a pod holds nothing any more."""
    return (raw.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def with_pods(
    tops: Mapping[Key, Object], pods: Iterable[Object], around: Around
) -> Iterator[Holder]:
    """Every holder, with the pods of it that are on nodes."""
    found = {key: holder(one, around) for key, one in tops.items() if not over(one)}
    there: dict[Key, _There] = {}
    deployments: dict[str, list[Object]] = {}
    for one in tops.values():
        if one.kind == "Deployment":
            deployments.setdefault(one.thing.namespace, []).append(one)
    for pod in pods:
        if ended(pod.raw):
            continue
        key, queue = _top(pod, tops, deployments), labels_of(pod.raw).get(QUEUE_NAME, "")
        if key not in found:
            kind, namespace, name = key
            thing = replace(pod.thing, kind=kind, namespace=namespace, name=name)
            found[key] = replace(
                _of_spec(thing, pod.raw["spec"], around),
                local_queue=queue,
                cluster_queue=around.queues.get((namespace, queue), ""),
            )
        elif not (found[key].claims or found[key].devices):
            # What its template leaves open is filled in when pods are made: KServe's runtimes.
            real = _of_spec(found[key].thing, pod.raw["spec"], around)
            found[key] = replace(found[key], claims=real.claims, devices=real.devices)
        seen = there.setdefault(key, _There())
        if node := pod.raw["spec"].get("nodeName"):
            seen.nodes[node] = seen.nodes.get(node, 0) + 1
            began = maybe_instant((pod.raw.get("status") or {}).get("startTime"))
            seen.since = min(filter(None, (seen.since, began)), default=None)
    for key, its in found.items():
        seen = there.get(key, _There())
        yield replace(its, held=seen.nodes, since=seen.since)


def _top(
    pod: Object,
    tops: Mapping[Key, Object],
    deployments: Mapping[str, list[Object]],
) -> Key:
    """The key of what a pod is of."""
    namespace, owner = pod.thing.namespace, controller_of(pod.raw)
    if owner is None:
        return pod.key
    if owner["kind"] == "ReplicaSet":
        for one in deployments.get(namespace, ()):
            if selects(one.raw["spec"].get("selector"), labels_of(pod.raw)):
                return above(one, tops)
    key = owner["kind"], namespace, pod.thing.name if owner["kind"] == "Node" else owner["name"]
    return above(tops[key], tops) if key in tops else key


def above(one: Object, tops: Mapping[Key, Object]) -> Key:
    """The topmost object that controls one, itself where none is known."""
    owner = controller_of(one.raw)
    key = (owner["kind"], one.thing.namespace, owner["name"]) if owner else one.key
    return above(tops[key], tops) if owner and key in tops else one.key
