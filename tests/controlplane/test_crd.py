"""The CRD on a real API server: it takes rules and statuses, and loses nothing of them."""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest
import yaml

from idlewin.codec import read_rule, read_status, status_patch, write_status
from idlewin.core.status import Status
from idlewin.crd import crd
from idlewin.errors import RuleError
from idlewin.rulefile import BESIDE
from tests.labs.kubelab.api import ApiError, wait_for

pytestmark = pytest.mark.controlplane
PLANE = {"with_kueue": False}

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RULES = "/apis/idlewin.dev/v1alpha1/idlerules"
EXAMPLES = Path(__file__).parents[2] / "rules"
RULE_FILES = [file for file in sorted(EXAMPLES.glob("*.yaml")) if not file.stem.endswith(BESIDE)]


@pytest.fixture(scope="module")
def conditions(plane):
    """The CRD's conditions, once it is served."""
    plane.api.post(CRDS, yaml.safe_load((EXAMPLES.parent / "deploy/base/crd.yaml").read_text()))
    path = f"{CRDS}/{crd()['metadata']['name']}"

    def settled():
        found = plane.api.get(path).get("status", {}).get("conditions") or []
        statuses = {one["type"]: one["status"] for one in found}
        return statuses.get("Established") == "True" and statuses

    found = wait_for("established CRD", settled)
    wait_for("served IdleRules", lambda: plane.api.get(RULES))
    return found


@pytest.fixture
def rule(plane, conditions):
    """The example rule, created, and taken away after the test."""
    assert conditions
    body = yaml.safe_load((EXAMPLES / "b580.yaml").read_text())
    yield plane.api.post(RULES, body)
    plane.api.delete(f"{RULES}/b580")


def full(kind, name=""):
    """A value of a class of the core in which no field is empty or has its default."""
    plain = {
        str: f"{name} \u00fc: {{}}",
        int: 2**40,
        float: 1.5,
        bool: True,
        timedelta: timedelta(hours=1, milliseconds=7),
        datetime: datetime(2026, 12, 24, 18, 0, 0, 123456, tzinfo=UTC),
    }
    if kind in plain:
        return plain[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    if is_dataclass(kind):
        hints = {key: one for key, one in get_type_hints(kind).items() if key[0] != "_"}
        return kind(**{key: full(one, key) for key, one in hints.items()})
    first, *_ = get_args(kind)
    if get_origin(kind) is tuple:
        return (full(first, name), full(first, name))
    return {"a/b.c": "d"} if get_origin(kind) is dict else full(first, name)


def test_the_api_server_takes_the_crd_as_structural(conditions):
    assert conditions["NamesAccepted"] == "True"
    assert "NonStructuralSchema" not in conditions


@pytest.mark.usefixtures("conditions")
@pytest.mark.parametrize("file", RULE_FILES, ids=lambda file: file.stem)
def test_each_example_rule_is_stored_as_it_was_written(plane, file):
    body = yaml.safe_load(file.read_text())

    stored = plane.api.post(f"{RULES}?dryRun=All&fieldValidation=Strict", body)

    assert stored["spec"] == body["spec"]
    assert read_rule(stored["spec"]) == read_rule(body["spec"])


@pytest.mark.usefixtures("rule")
def test_a_full_status_comes_back_byte_for_byte(plane):
    status = full(Status)
    written = write_status(status)

    plane.api.patch(f"{RULES}/b580/status", {"status": status_patch(None, status)})
    stored = plane.api.get(f"{RULES}/b580")["status"]

    assert json.dumps(stored, sort_keys=True) == json.dumps(written, sort_keys=True)
    assert read_status(stored) == (status, "")


@pytest.mark.usefixtures("rule")
def test_a_patch_clears_what_a_status_no_longer_has(plane):
    before, after = full(Status), Status(phase="Serving", epoch=9)
    plane.api.patch(f"{RULES}/b580/status", {"status": status_patch(None, before)})

    plane.api.patch(f"{RULES}/b580/status", {"status": status_patch(before, after)})

    stored = plane.api.get(f"{RULES}/b580")["status"]
    assert stored == write_status(after)


@pytest.mark.usefixtures("rule")
def test_a_status_of_a_newer_version_is_stored_whole(plane):
    written = write_status(full(Status))
    written["novel"] = {"a": [1]}
    written["window"]["novel"] = written["window"]["targets"][0]["novel"] = "x"
    written["window"]["onReturn"] = "PolicyOfTomorrow"

    plane.api.patch(f"{RULES}/b580/status", {"status": written})

    assert plane.api.get(f"{RULES}/b580")["status"] == written


@pytest.mark.usefixtures("rule")
def test_unknown_keys_of_a_spec_reach_the_controller_which_names_them(plane):
    patch = {"spec": {"windwo": {"min": "1h"}, "cards": {"cuont": 1}}}

    stored = plane.api.patch(f"{RULES}/b580?dryRun=All", patch)["spec"]

    with pytest.raises(RuleError) as error:
        read_rule(stored)
    assert {problem.field for problem in error.value.problems} == {
        "spec.windwo",
        "spec.cards.cuont",
    }


@pytest.mark.usefixtures("rule")
@pytest.mark.parametrize(
    ("patch", "told"),
    [
        ({"cards": {"count": "3"}}, "must be of type integer"),
        ({"window": {"idleFor": "10 minutes"}}, "should match"),
        ({"mode": "act"}, 'supported values: "Observe", "Act"'),
        ({"cards": {"resource": None}}, "Required value"),
    ],
)
def test_a_wrong_type_is_refused_by_the_api_server(plane, patch, told):
    with pytest.raises(ApiError, match=told) as error:
        plane.api.patch(f"{RULES}/b580", {"spec": patch})

    assert error.value.status == 422


@pytest.mark.usefixtures("rule")
def test_what_makes_no_sense_is_stored_for_the_controller_to_tell_in_words(plane):
    patch = {"spec": {"window": {"calendar": {"timeZone": "Mars/Base"}}}}

    stored = plane.api.patch(f"{RULES}/b580?dryRun=All", patch)["spec"]

    with pytest.raises(RuleError, match="'Mars/Base' is no known zone"):
        read_rule(stored)


@pytest.mark.usefixtures("conditions")
def test_a_crd_that_is_deleted_waits_for_a_rule_that_is_held_and_lets_it_be_written(plane):
    # The last of this file: the CRD is gone after it.
    body = yaml.safe_load((EXAMPLES / "b580.yaml").read_text())
    body["metadata"]["finalizers"] = ["idlewin.dev/give-back"]
    plane.api.post(RULES, body)
    path = f"{CRDS}/{crd()['metadata']['name']}"

    plane.api.delete(path)
    wait_for(
        "the rule's deletion",
        lambda: "deletionTimestamp" in plane.api.get(f"{RULES}/b580")["metadata"],
    )
    plane.api.patch(f"{RULES}/b580/status", {"status": {"phase": "Reclaiming"}})

    assert plane.api.get(f"{RULES}/b580")["status"]["phase"] == "Reclaiming"
    plane.api.patch(f"{RULES}/b580", {"metadata": {"finalizers": None}})
    wait_for("the end of the CRD", lambda: plane.api.find(path) is None)
