"""Whose pods are on the cards: each up to the object that a rule would name.

Pure functions over raw objects. What a kind means is serving/'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from idlewin.adapters.doors import leads, names_in, service_of, words
from idlewin.adapters.fields import claims, controller_of, labels_of
from idlewin.adapters.objects import batch_owner, ended
from idlewin.adapters.serving import KINDS, SCALED_OBJECT, Around, Kind, kind_of
from idlewin.adapters.serving.replicated import trim_autoscaler
from idlewin.core.target import Ref
from idlewin.draft.facts import Role, Tenant

Json = dict[str, Any]

#: Whose pods are batch, Kueue or no Kueue.
_BATCH = frozenset({"Job", "Workflow"})
_NODES_OWN = frozenset({"DaemonSet", "Node"})


@dataclass(slots=True, kw_only=True)
class Objects:
    """The raw objects around pods."""

    serving: dict[str, list[Json]]
    """By kind."""
    autoscalers: list[Json] = field(default_factory=list)
    services: list[Json] = field(default_factory=list)
    routes: list[Json] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Target:
    kind: Kind
    raw: Json
    """Trimmed, with what it scales."""

    @property
    def ref(self) -> Ref:
        meta = self.raw["metadata"]
        return Ref(
            api_version=self.kind.api_version,
            kind=self.kind.kind,
            namespace=meta["namespace"],
            name=meta["name"],
        )


def tenants(objects: Objects, pods: Iterable[Json], resources: Sequence[str]) -> Iterator[Tenant]:
    """Whoever is on cards or asks for some, by name."""
    house = _House(objects, resources)
    found: dict[Ref, list[Json]] = {}
    tops: dict[Ref, _Target | None] = {}
    for pod in pods:
        if not ended(pod):
            top = house.top_of(pod)
            ref = top.ref if top else _owner(pod)
            tops[ref] = top
            found.setdefault(ref, []).append(pod)
    for target in house.idle(set(tops)):
        tops[target.ref], found[target.ref] = target, []
    for ref in sorted(found, key=lambda ref: (ref.namespace, ref.name, ref.kind)):
        top = tops[ref]
        yield house.tenant(top, found[ref]) if top else _stranger(ref, found[ref], resources)


class _House:
    """The objects of a cluster, trimmed as the watches do."""

    def __init__(self, objects: Objects, resources: Sequence[str]) -> None:
        self._resources = resources
        self._by: dict[str, dict[tuple[str, str], Json]] = {
            kind.kind: {
                (raw["metadata"]["namespace"], raw["metadata"]["name"]): kind.trim(raw)
                for raw in objects.serving.get(kind.kind, ())
            }
            for kind in KINDS
        }
        self._templates = {
            (kind, raw["metadata"]["namespace"], raw["metadata"]["name"]): _template(raw)
            for kind, found in objects.serving.items()
            for raw in found
        }
        self._autoscalers = [trim_autoscaler(raw) for raw in objects.autoscalers]
        self._targets: dict[str, list[_Target]] = {}
        for kind in KINDS:
            for (namespace, _), raw in sorted(self._by[kind.kind].items()):
                self._targets.setdefault(namespace, []).append(self._target(kind, raw))
        self._services = _by_namespace(objects.services)
        self._routes = _by_namespace(objects.routes)
        self._scaling: dict[Ref, list[Json]] = {}
        for raw in self._by[SCALED_OBJECT.kind].values():
            self._scaling.setdefault(SCALED_OBJECT.scaled(raw), []).append(raw)

    # -- who

    def _target(self, kind: Kind, raw: Json) -> _Target:
        ref = kind.scaled(raw)
        below = self._named(ref) if ref else None
        return _Target(kind, {**raw, "scaled": below[1] if below else None} if ref else raw)

    def _named(self, ref: Ref) -> tuple[Kind, Json] | None:
        kind = kind_of(ref)
        raw = self._by[kind.kind].get((ref.namespace, ref.name)) if kind else None
        return (kind, raw) if kind and raw else None

    def top_of(self, pod: Json) -> _Target | None:
        """The target that a pod is of; None: none that idlewin knows."""
        near = self._targets.get(pod["metadata"]["namespace"], ())
        first = next((one for one in near if one.kind.owns(one.raw, pod)), None)
        return self._top(first) if first else None

    def _top(self, target: _Target) -> _Target:
        """The object to name instead of one that it controls or scales."""
        owner, namespace = controller_of(target.raw), target.raw["metadata"]["namespace"]
        if owner:
            above = self._named(
                Ref(
                    api_version=owner.get("apiVersion", ""),
                    kind=owner["kind"],
                    namespace=namespace,
                    name=owner["name"],
                )
            )
            return self._top(self._target(*above)) if above else target
        scaling = (raw for raw in self._scaling.get(target.ref, ()) if self._raises(raw, target))
        first = next(scaling, None)
        return self._target(SCALED_OBJECT, first) if first else target

    def _raises(self, scaled_object: Json, target: _Target) -> bool:
        """Whether a ScaledObject would raise what it scales; one that is frozen would not."""
        return set(target.kind.read(target.raw, Around(resource="")).trouble) != set(
            target.kind.read(
                target.raw, Around(resource="", scaled_objects=(scaled_object,))
            ).trouble
        )

    def idle(self, there: set[Ref]) -> Iterator[_Target]:
        """Targets that ask for cards and have no pod that holds or waits for one."""
        told = set(there)
        for target in (one for found in self._targets.values() for one in found):
            top = self._top(target)
            if top.ref not in told and self._has_its_pods(top) and self._claims(top):
                told.add(top.ref)
                yield top

    def _has_its_pods(self, top: _Target) -> bool:
        """Whether the pods below a target are its: a ScaledObject that is frozen has none."""
        below = top.kind.scaled(top.raw)
        made = self._named(below) if below else None
        return made is None or self._top(self._target(*made)).ref == top.ref

    # -- what of them

    def _claims(self, target: _Target) -> dict[str, int]:
        found = {
            resource: target.kind.read(target.raw, Around(resource=resource)).claims
            for resource in self._resources
        }
        return {resource: count for resource, count in found.items() if count}

    def tenant(self, target: _Target, pods: list[Json]) -> Tenant:
        """A target with its pods."""
        ref, namespace = target.ref, target.raw["metadata"]["namespace"]
        below = target.kind.scaled(target.raw)
        around = Around(
            resource="",
            autoscalers=tuple(
                one for one in self._autoscalers if one["metadata"]["namespace"] == namespace
            ),
            scaled_objects=tuple(self._scaling.get(below or ref, ())),
        )
        read = target.kind.read(target.raw, around)
        role, why = Role.SERVING, tuple(read.trouble)
        if controller_of(target.raw):
            role = Role.APART
        elif not pods and not read.replicas and ref.kind != SCALED_OBJECT.kind:
            role, why = Role.APART, ("it is at zero by its owner; add it where it is to come back",)
        spec, labels = self._spec(target)
        every = [labels, *(labels_of(pod) for pod in pods)]
        services = [raw for raw in self._services.get(namespace, ()) if leads(raw, every)]
        programs = spec.get("containers") or [c for pod in pods[:1] for c in pod["programs"]]
        return Tenant(
            ref=ref,
            role=role,
            why=why,
            claims=self._claims(target),
            **_held(pods, self._resources),
            workload=below.name if below else "",
            replicas=read.replicas,
            selects=spec.get("nodeSelector") or {},
            services=tuple(map(service_of, services)),
            routes=tuple(
                self._leading(namespace, {raw["metadata"]["name"] for raw in services}, target)
            ),
            images=tuple(one["image"] for one in programs if one.get("image")),
            arguments=tuple(words(programs)),
        )

    def _spec(self, target: _Target) -> tuple[Json, dict[str, str]]:
        """The pod spec of a target, or of what it scales, and its pods' labels."""
        below = target.kind.scaled(target.raw)
        refs = [target.ref, *([below] if below else [])]
        for ref in reversed(refs):
            if found := self._templates.get((ref.kind, ref.namespace, ref.name)):
                labels = (found.get("metadata") or {}).get("labels") or {}
                return found.get("spec") or {}, {**target.kind.pod_labels(target.raw), **labels}
        return {}, target.kind.pod_labels(target.raw)

    def _leading(self, namespace: str, services: set[str], target: _Target) -> Iterator[str]:
        below = target.kind.scaled(target.raw)
        wanted = services | {target.ref.name} | ({below.name} if below else set())
        for raw in self._routes.get(namespace, ()):
            if wanted & set(names_in(raw.get("spec"))):
                yield raw["metadata"]["name"]


def _by_namespace(found: Iterable[Json]) -> dict[str, list[Json]]:
    sorted_in: dict[str, list[Json]] = {}
    for raw in found:
        sorted_in.setdefault(raw["metadata"]["namespace"], []).append(raw)
    return sorted_in


def _template(raw: Json) -> Json:
    """The pod template of an object; of an InferenceService its predictor, much like one."""
    spec = raw.get("spec") or {}
    if "predictor" in spec:
        predictor = spec["predictor"] or {}
        model = [predictor["model"]] if predictor.get("model") else []
        return {"spec": {**predictor, "containers": [*predictor.get("containers", ()), *model]}}
    template: Json = spec.get("template") or {}
    return template


def _stranger(ref: Ref, pods: list[Json], resources: Sequence[str]) -> Tenant:
    """Pods whose owner idlewin cannot lower, or is not to."""
    role, why = Role.APART, f"idlewin cannot lower a {ref.kind} ({ref.api_version})"
    if ref.kind in _BATCH or batch_owner(pods[0]) is not None:
        role, why = Role.BATCH, ""
    elif ref.kind in _NODES_OWN:
        why = "a DaemonSet or a static pod is part of its node, and cannot be lowered"
    elif ref.kind == "Pod":
        why = "nothing would bring a bare pod back; make it a Deployment"
    elif ref.kind == "ReplicaSet":
        why = "its Deployment is not there, or could not be seen"
    return Tenant(ref=ref, role=role, why=(why,) if why else (), **_held(pods, resources))


def _owner(pod: Json) -> Ref:
    owner, meta = controller_of(pod), pod["metadata"]
    if owner is None:
        return Ref(api_version="v1", kind="Pod", namespace=meta["namespace"], name=meta["name"])
    name = meta["name"] if owner["kind"] == "Node" else owner["name"]
    return Ref(
        api_version=owner.get("apiVersion", ""),
        kind=owner["kind"],
        namespace=meta["namespace"],
        name=name,
    )


def _held(pods: Iterable[Json], resources: Sequence[str]) -> dict[str, Any]:
    """What pods have of each node: cards, and devices without a request."""
    held: dict[str, dict[str, int]] = {}
    devices: dict[str, set[str]] = {}
    names = []
    for pod in pods:
        spec, node = pod["spec"], pod["spec"].get("nodeName", "")
        names.append(pod["metadata"]["name"])
        claimed = {r: count for r in resources if (count := claims(spec, r))}
        for resource, count in claimed.items() if node else ():
            here = held.setdefault(node, {})
            here[resource] = here.get(resource, 0) + count
        if node and not claimed:
            devices.setdefault(node, set()).update(spec.get("devices", ()))
    return {
        "held": held,
        "devices": {node: tuple(sorted(paths)) for node, paths in devices.items() if paths},
        "pods": tuple(sorted(names)),
    }
