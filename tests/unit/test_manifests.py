"""What of deploy/ is made is not stale, and the chart's values are told and held to a schema."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.manifests import CHART, COMMAND, DEPLOY, RULE, stale

Json = dict[str, Any]
VALUES = (CHART / "values.yaml").read_text()


def test_nothing_that_is_made_is_stale() -> None:
    assert stale() == [], f"stale: {COMMAND}"


def test_the_alerts_of_the_operator_are_those_of_the_rule_file() -> None:
    rule = yaml.safe_load(RULE.read_text())

    assert rule["spec"] == yaml.safe_load((DEPLOY / "alerts.yaml").read_text())


def test_chart_and_image_have_the_version_of_the_package() -> None:
    ours = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (ours["version"], ours["version"])
    assert chart["description"] == ours["description"]
    for file in ("deployment.yaml", "watchdog.yaml"):
        assert f"image: idlewin:{ours['version']}\n" in (DEPLOY / "base" / file).read_text()


def keys(values: Json, schema: Json, path: str = "") -> Iterator[tuple[str, bool]]:
    """Each value by its path, and whether the schema has it."""
    for name, value in values.items():
        known = schema.get("properties", {}).get(name)
        yield f"{path}{name}", known is not None
        if isinstance(value, dict) and known:
            yield from keys(value, known, f"{path}{name}.")


def test_every_value_is_in_the_schema_and_the_schema_has_no_other() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load(VALUES)

    assert [path for path, known in keys(values, schema) if not known] == []
    # `global` is Helm's, where the chart is a part of another.
    assert set(schema["properties"]) - set(values) == {"global"}
    for name, value in schema["properties"].items():
        # Those of `resources` are of Kubernetes, and not there unless they are given.
        if name != "resources" and "properties" in value:
            assert set(value["properties"]) == set(values[name]), name


def test_every_value_is_commented() -> None:
    lines = VALUES.splitlines()
    bare = [
        line
        for before, line in itertools.pairwise(["", *lines])
        if re.match(r" *\w+:", line) and not re.match(r" *# ", before)
    ]

    assert bare == []


def test_a_component_is_an_overlay_or_made_for_one() -> None:
    overlays = {path.parent.name for path in DEPLOY.glob("overlays/*/kustomization.yaml")}
    components = {path.parent.name for path in DEPLOY.glob("components/*/kustomization.yaml")}

    assert overlays == components | {"act"}


def test_paths_in_the_chart_are_those_that_its_template_reads() -> None:
    template = (CHART / "templates" / "objects.yaml").read_text()
    parts = {path.relative_to(CHART / "files").parts[0] for path in Path(CHART).rglob("files/*/*")}

    assert {part for part in parts if f'"{part}"' not in template} == set()
