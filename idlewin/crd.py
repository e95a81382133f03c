"""The CustomResourceDefinition of IdleRule, told from the classes that read it.

``python -m idlewin.crd`` prints it; deploy/base/crd.yaml is that output. Kubernetes wants a
structural schema: no references, no null, one type a node. What makes sense beyond types is
codec.py's to say, in words, on the rule: the API server is kept from refusing it first.
"""

from __future__ import annotations

import sys
from typing import Any

from idlewin.codec import Json, json_schema
from idlewin.core.rule import API_VERSION, KIND, Mode, Rule
from idlewin.core.status import Status
from idlewin.core.target import Demand
from idlewin.yamlfile import to_yaml

GROUP, VERSION = API_VERSION.split("/")
PLURAL = "idlerules"
_KEPT = ("type", "format", "enum", "pattern", "required")
#: Unknown keys reach the controller, which names them. The API server would drop them unseen, and
#: a status of a newer version would lose its record.
_KEEP_UNKNOWN = {"x-kubernetes-preserve-unknown-fields": True}
_COLUMNS = (
    ("Mode", "string", ".spec.mode"),
    ("Phase", "string", ".status.phase"),
    ("Reason", "string", ".status.reason"),
    ("Since", "date", ".status.since"),
    ("Until", "string", ".status.until"),
    ("Age", "date", ".metadata.creationTimestamp"),
)


def crd() -> Json:
    """The definition, as plain data."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["ir"],
                "categories": ["idlewin"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "type": kind, "jsonPath": path}
                        for name, kind, path in _COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": _object()},
                }
            ],
        },
    }


def spec_schema() -> Json:
    """The structural schema of the spec."""
    schema = json_schema(Rule)
    return _structural(schema, schema.get("$defs", {}))


def demand_schema() -> Json:
    """The same of one entry of ``demand``. The CRD has none: there it is a list or a word."""
    schema = json_schema(Demand)
    return _structural(schema, schema.get("$defs", {}))


def status_schema() -> Json:
    """The structural schema of the status: types only, so that no write of it is refused.

    A status that the API server turned down would be a record that is not kept.
    """
    schema = json_schema(Status)
    return _loose(_structural(schema, schema.get("$defs", {})))


def _object() -> Json:
    spec = spec_schema()
    # Harmless, for it is what an absent mode means; the printed column would be empty.
    spec["properties"]["mode"]["default"] = Mode.OBSERVE.value
    return {
        "type": "object",
        "description": "One pool of cards, lent to batch work while its users are away.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status_schema(),
        },
    }


def _structural(node: Json, defs: Json) -> Json:
    node = _flat(node, defs)
    done: Json = {}
    if text := _description(node):
        done["description"] = text
    done |= {key: node[key] for key in _KEPT if key in node}
    if "anyOf" in node:
        return done | _KEEP_UNKNOWN
    if node.get("type") == "integer":
        done["format"] = "int64"
    if "properties" in node:
        done |= _KEEP_UNKNOWN
        done["properties"] = {
            name: _structural(inner, defs) for name, inner in node["properties"].items()
        }
    if "items" in node:
        done["items"] = _structural(node["items"], defs)
    if isinstance(node.get("additionalProperties"), dict):
        done["additionalProperties"] = _structural(node["additionalProperties"], defs)
    return done


def _flat(node: Json, defs: Json) -> Json:
    """A node without reference and null; ``anyOf`` is left only where the types differ."""
    beside = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
    if "$ref" in node:
        return _flat(defs[node["$ref"].rsplit("/", 1)[-1]], defs) | beside
    arms = [_flat(arm, defs) for arm in node.get("anyOf", ()) if arm.get("type") != "null"]
    if len(arms) == 1:
        return arms[0] | beside
    if arms and all(arm.get("type") == "string" for arm in arms):
        return {"type": "string"} | beside
    return ({"anyOf": arms} if arms else {}) | beside


def _description(node: Json) -> str:
    text = " ".join(str(node.get("description", "")).replace("``", "'").split())
    default = node.get("default")
    if default is None or isinstance(default, dict | list) or default == "":
        return text
    return f"{text} Default: {_spelled(default)}.".strip()


def _spelled(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _loose(node: Json) -> Json:
    """The same without whatever could refuse a value of the right type."""
    done = {key: value for key, value in node.items() if key not in ("enum", "pattern", "required")}
    if "properties" in done:
        done["properties"] = {key: _loose(inner) for key, inner in done["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in done:
            done[key] = _loose(done[key])
    return done


if __name__ == "__main__":
    sys.stdout.write(to_yaml(crd(), "Made by python -m idlewin.crd from the classes; not by hand."))
