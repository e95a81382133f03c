"""Reading raw Kubernetes objects: metadata, conditions, writers, selectors, claims of cards.

Pure, and without a word of any one kind; what a kind means is in objects.py, queues.py and
serving/.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

from idlewin.core.text import in_utc

Json = dict[str, Any]

#: Annotations of other tools are not read, and may be very long.
_ANNOTATIONS = (
    "idlewin.dev/", "kueue.x-k8s.io/", "serving.kserve.io/", "autoscaling.keda.sh/",
)  # fmt: skip
_META = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "labels", "finalizers",
)  # fmt: skip
_QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([KMGTPE]i|[numkMGTPE])?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = "KMGTPE"


def trimmed(raw: Json, **parts: Any) -> Json:
    """An object's metadata as far as it is read, and the given parts."""
    meta = raw["metadata"]
    kept: Json = {name: meta[name] for name in _META if name in meta}
    kept["annotations"] = {
        name: text
        for name, text in (meta.get("annotations") or {}).items()
        if name.startswith(_ANNOTATIONS)
    }
    if owner := controller_of(raw):
        kept["ownerReferences"] = [owner]
    return {"metadata": kept, **parts}


def picked(part: Mapping[str, Any] | None, *names: str) -> Json:
    """The named fields that are there."""
    return {name: part[name] for name in names if name in part} if part else {}


def annotation(raw: Json, name: str) -> str:
    """An annotation's text; empty where it is absent."""
    return str((raw["metadata"].get("annotations") or {}).get(name, ""))


def labels_of(raw: Json) -> dict[str, str]:
    """An object's labels."""
    return raw["metadata"].get("labels") or {}


def controller_of(raw: Json) -> Json | None:
    """The ownerReference of whatever controls an object."""
    owners = raw["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def condition(raw: Json, kind: str) -> Json | None:
    """A condition of an object's status."""
    found = (raw.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == kind), None)


def holds(raw: Json, kind: str) -> bool:
    """Whether a condition is True."""
    found = condition(raw, kind)
    return found is not None and found["status"] == "True"


def instant(text: str) -> datetime:
    """An instant with its zone, in UTC. Raises ValueError."""
    return in_utc(datetime.fromisoformat(text.strip()))


def maybe_instant(text: str | None) -> datetime | None:
    """An instant that the API server wrote, if it is there."""
    return instant(text) if text else None


def last_writer(raw: Json, *path: str) -> tuple[str, str]:
    """Who wrote a field last, and when (RFC 3339); empty where nobody is on record."""
    best = ("", "")
    for entry in raw["metadata"].get("managedFields") or ():
        fields: Any = entry.get("fieldsV1") or {}
        for name in path:
            fields = fields.get(f"f:{name}") if isinstance(fields, dict) else None
        if fields is not None:
            # Owners of one value, by apply: the last to come counts.
            best = max(best, (entry.get("time", ""), entry.get("manager", "")))
    return best[1], best[0]


def digest(part: Json) -> str:
    """A short text that is another one when the part is."""
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:16]


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels. An empty one takes all, none takes nothing."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return all(_expressed(one, labels) for one in selector.get("matchExpressions") or ())


def _expressed(one: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    name, values = one["key"], one.get("values") or ()
    match one["operator"]:
        case "In":
            return labels.get(name) in values
        case "NotIn":
            return labels.get(name) not in values
        case "Exists":
            return name in labels
        case _:
            return name not in labels


def selector_text(selector: Mapping[str, Any]) -> str:
    """A label selector as a query parameter."""
    parts = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
    for one in selector.get("matchExpressions") or ():
        name, values = one["key"], ",".join(one.get("values") or ())
        words = {"In": f"{name} in ({values})", "NotIn": f"{name} notin ({values})"}
        words |= {"Exists": name, "DoesNotExist": f"!{name}"}
        parts.append(words[one["operator"]])
    return ",".join(parts)


# -- cards


def whole(quantity: object) -> int:
    """A quantity as a whole number, rounded up. Raises ValueError."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        raise ValueError(f"{quantity!r} is no quantity of cards")
    digits, suffix = found[1], found[2] or ""
    factor = Decimal(10) ** _DECIMAL.get(suffix, 0)
    if suffix.endswith("i"):
        factor = Decimal(1024) ** (_BINARY.index(suffix[0]) + 1)
    return int((Decimal(digits) * factor).to_integral_value(ROUND_CEILING))


def claims(spec: Json, resource: str) -> int:
    """Cards that a pod of this spec claims from the scheduler, as the scheduler counts them."""
    side, first = 0, [0]
    for container in spec.get("initContainers") or ():
        wanted = _claim(container, resource)
        if container.get("restartPolicy") == "Always":
            side += wanted
        else:
            first.append(wanted + side)
    run = side + sum(_claim(one, resource) for one in spec.get("containers") or ())
    return max(run, *first)


def _claim(container: Json, resource: str) -> int:
    limits = container.get("resources") or {}
    asked = {**(limits.get("limits") or {}), **(limits.get("requests") or {})}
    return whole(asked.get(resource, 0))


def asks_for_cards(spec: Json) -> bool:
    """Whether a pod of this spec claims any extended resource."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    return any(
        "/" in name
        for container in containers
        for kind in ("limits", "requests")
        for name in (container.get("resources") or {}).get(kind) or ()
    )


def devices_of(spec: Json) -> list[str]:
    """What a pod of this spec mounts of the host's /dev, or above it; normalised paths.

    A volume that no container mounts gives nothing. Of a link nothing is known. Not all paths
    begin with a slash: the API server takes that of a node with Windows, and any other.
    """
    kinds = ("containers", "initContainers", "ephemeralContainers")
    containers = [one for kind in kinds for one in spec.get(kind) or ()]
    mounted = {m["name"] for one in containers for m in one.get("volumeMounts") or ()}
    hosts = [
        posixpath.normpath("/" + volume["hostPath"]["path"].lstrip("/"))
        for volume in spec.get("volumes") or ()
        if volume.get("hostPath") and volume["name"] in mounted
    ]
    return sorted({path for path in hosts if path == "/" or within(path, "/dev")})


def within(path: str, above: str) -> bool:
    """Whether a path is another, or below it."""
    return posixpath.commonpath([path, above]) == above


def trim_pod_spec(spec: Json) -> Json:
    """What claims are read from, and ``devices``: what is mounted of the host's."""
    kept = picked(spec, "nodeName", "terminationGracePeriodSeconds")
    if devices := devices_of(spec):
        kept["devices"] = devices
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            kept[kind] = [picked(one, "resources", "restartPolicy") for one in spec[kind]]
    return kept
