"""The CRD: what deploy/ holds is what the classes say, and it is structural."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from idlewin.core.rule import Mode, OnReturn
from idlewin.core.status import Owed, Status, Window
from idlewin.core.text import camel
from idlewin.crd import crd, spec_schema, status_schema
from idlewin.reference import renewed
from idlewin.yamlfile import to_yaml

STORED = Path(__file__).parents[2] / "deploy" / "base" / "crd.yaml"
KEEP = "x-kubernetes-preserve-unknown-fields"


def nodes(node, path=""):
    yield path, node
    for key, inner in node.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{key}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


def test_the_stored_crd_is_what_the_classes_say():
    _, _, stored = STORED.read_text().partition("\n")

    assert stored == to_yaml(crd()), "stale: python -m idlewin.crd > deploy/base/crd.yaml"


@pytest.mark.parametrize("schema", [spec_schema(), status_schema()], ids=["spec", "status"])
def test_the_schema_is_structural(schema):
    for path, node in nodes(schema):
        assert {"$ref", "anyOf", "oneOf", "default", "title"}.isdisjoint(node), path
        assert isinstance(node.get("type"), str) or node.get(KEEP), path
        assert node.get("type") != "null", path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_each_field_of_the_spec_is_described():
    bare = [path for path, node in nodes(spec_schema()) if not node.get("description")]

    assert [path for path in bare if not path.endswith("[]")] == []


def test_a_spec_keeps_unknown_keys_so_that_the_controller_can_name_them():
    closed = [
        path for path, node in nodes(spec_schema()) if "properties" in node and not node[KEEP]
    ]

    assert closed == []


def test_words_of_a_closed_list_are_enums_in_the_spec():
    schema = spec_schema()["properties"]

    assert schema["mode"]["enum"] == [mode.value for mode in Mode]
    assert schema["batch"]["properties"]["onReturn"]["enum"] == [one.value for one in OnReturn]
    assert schema["window"]["properties"]["idleFor"]["pattern"].startswith("^")
    assert schema["window"]["properties"]["idleFor"]["description"].endswith("Default: 10m.")


def test_every_field_of_a_status_is_in_the_schema():
    schema = status_schema()["properties"]

    for kind, known in (
        (Status, schema),
        (Window, schema["window"]["properties"]),
        (Owed, schema["owed"]["properties"]),
    ):
        assert {camel(part.name) for part in fields(kind)} == set(known)


def test_nothing_but_a_wrong_type_makes_the_api_server_refuse_a_status():
    for path, node in nodes(status_schema()):
        assert {"enum", "pattern", "required"}.isdisjoint(node), path
        assert "properties" not in node or node[KEEP], path


def test_the_api_server_defaults_nothing_but_the_mode():
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

    defaulted = {path: node["default"] for path, node in nodes(schema) if "default" in node}

    assert defaulted == {".spec.mode": "Observe"}


def test_the_reference_of_fields_and_reasons_is_what_the_classes_say():
    document = (STORED.parents[2] / "docs" / "rule.md").read_text()

    assert renewed(document) == document, "stale: python -m idlewin.reference docs/rule.md"
