"""Settings of device plugins, wherever they are written: arguments, custom objects, Helm values.

Pure functions over raw objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from idlewin.adapters.audit_pods import Object
from idlewin.audit.facts import Kind, Setting
from idlewin.errors import Finding
from idlewin.yamlfile import parts

Json = dict[str, Any]
_INTEL, _NVIDIA = "gpu.intel.com", "nvidia.com"
_ARGUMENT = re.compile(r"--?(shared-dev-num|resource-manager)(?:=(\S+))?")
_DMEM = re.compile(r"dmem", re.IGNORECASE)
_MPS = re.compile(r"mps-control-daemon", re.IGNORECASE)
#: Where settings stand: other objects that happen to have such a key mean something else.
_HOMES = frozenset({"ConfigMap", "GpuDevicePlugin", "HelmRelease", "Application", "ClusterPolicy"})
_DEPTH = 30
_TELLS = re.compile(r"timeSlicing|\bmps:|sharedDevNum|resourceManager")


def settings(one: Object) -> Iterator[Setting]:
    """Those of an object, each once."""
    if one.kind in ("DaemonSet", "Deployment"):
        spec = ((one.raw.get("spec") or {}).get("template") or {}).get("spec") or {}
        yield from dict.fromkeys(_programs(one, spec))
    elif one.kind in _HOMES:
        inside = one.raw.get("data" if one.kind == "ConfigMap" else "spec")
        yield from dict.fromkeys(_written(one, inside))


def tells(data: Json | None) -> bool:
    """Whether the data of a ConfigMap may hold some."""
    return any(_TELLS.search(str(text)) for text in (data or {}).values())


def _programs(one: Object, spec: Json) -> Iterator[Setting]:
    for container in spec.get("containers") or ():
        image = str(container.get("image", ""))
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            yield from _argument(one, str(word))
        if _DMEM.search(image):
            yield Setting(thing=one.thing, kind=Kind.LIMITER, text=f"image {image} runs")
        elif _MPS.search(f"{image} {one.thing.name} {container.get('command')}"):
            text = "the control daemon of MPS runs"
            yield Setting(thing=one.thing, kind=Kind.LIMITER, text=text, domain=_NVIDIA)


def _argument(one: Object, word: str) -> Iterator[Setting]:
    found = _ARGUMENT.fullmatch(word)
    if found and found[1] == "resource-manager" and found[2] in (None, "true"):
        yield Setting(thing=one.thing, kind=Kind.MANAGER, text=word, domain=_INTEL)
    elif found and (found[2] or "").isdigit() and int(found[2]) > 1:
        yield Setting(
            thing=one.thing, kind=Kind.SHARED, text=word, domain=_INTEL, count=int(found[2])
        )


def _written(one: Object, node: Any, depth: int = 0) -> Iterator[Setting]:
    """In data at whatever depth, texts that are YAML included."""
    if depth > _DEPTH:
        return
    if isinstance(node, str) and _TELLS.search(node):
        for part in parts(Path(one.file), node):
            if not isinstance(part, Finding) and part.is_mapping:
                yield from _written(one, part.plain(), depth + 1)
    elif isinstance(node, list):
        for item in node:
            yield from _written(one, item, depth + 1)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from _known(one, key, value)
            if key not in ("timeSlicing", "mps"):
                yield from _written(one, value, depth + 1)


def _known(one: Object, key: str, value: Any) -> Iterator[Setting]:
    if key == "sharedDevNum" and isinstance(value, int) and value > 1:
        text = f"sharedDevNum: {value}"
        yield Setting(thing=one.thing, kind=Kind.SHARED, text=text, domain=_INTEL, count=value)
    elif key == "resourceManager" and value not in (False, None, "false"):
        enabled = value.get("enabled", True) if isinstance(value, dict) else True
        if enabled:
            text = "resourceManager is on"
            yield Setting(thing=one.thing, kind=Kind.MANAGER, text=text, domain=_INTEL)
    elif key in ("timeSlicing", "mps") and isinstance(value, dict):
        for shared in value.get("resources") or ():
            count = shared.get("replicas", 1) if isinstance(shared, dict) else 1
            if isinstance(count, int) and count > 1:
                kind = Kind.SHARED if key == "timeSlicing" else Kind.LIMITER
                text = f"sharing.{key} has {count} replicas of {shared.get('name')}"
                yield Setting(thing=one.thing, kind=kind, text=text, domain=_NVIDIA, count=count)
