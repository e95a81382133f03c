"""Whether a namespace is inside Kueue's webhooks: with Kueue down nothing there can come back.

Pure functions over webhook configurations and labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from idlewin.adapters.fields import selects, trimmed

Json = dict[str, Any]

_KUEUE = "kueue"


def trim_webhooks(raw: Json) -> Json | None:
    """Kueue's webhooks that refuse when it is down; others' are not kept."""
    name = raw["metadata"]["name"]
    hooks = [
        {
            "rules": [(rule["resources"], rule["operations"]) for rule in hook.get("rules") or ()],
            # Absent selects all, as in admission.
            "namespaces": hook.get("namespaceSelector") or {},
            "objects": hook.get("objectSelector") or {},
        }
        for hook in raw.get("webhooks") or ()
        if hook.get("failurePolicy", "Fail") == "Fail" and _is_kueue(name, hook)
    ]
    return trimmed(raw, hooks=hooks) if hooks else None


def _is_kueue(name: str, hook: Json) -> bool:
    service = hook["clientConfig"].get("service") or {}
    return any(_KUEUE in text for text in (name, service.get("name", ""), hook["name"]))


def inside(
    configurations: Iterable[Json],
    namespace: Mapping[str, str],
    target: tuple[str, Mapping[str, str]],
    pod: Mapping[str, str],
) -> bool:
    """Whether bringing a target back asks Kueue: its own update, or the creation of its pods.

    ``namespace`` and ``pod`` are labels, ``target`` the plural of its kind and its labels.
    """
    plural, labels = target
    asked = ((plural, "UPDATE", labels), ("pods", "CREATE", pod))
    return any(
        _asks(hook, resource, operation)
        and selects(hook["namespaces"], namespace)
        and selects(hook["objects"], shown)
        for configuration in configurations
        for hook in configuration["hooks"]
        for resource, operation, shown in asked
    )


def _asks(hook: Json, resource: str, operation: str) -> bool:
    return any(
        {resource, "*", "*/*"} & set(resources) and {operation, "*"} & set(operations)
        for resources, operations in hook["rules"]
    )
