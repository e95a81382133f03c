"""Whatever stands in a spec, a status or a file: it is read, or told in words; nothing crashes."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings, strategies as st

from idlewin.codec import read_record, read_rule, read_status, write_status
from idlewin.core.status import Status
from idlewin.errors import RuleError
from idlewin.rulecheck import checked
from idlewin.rulefile import read_files

EXAMPLE = (Path(__file__).parents[2] / "rules" / "b580.yaml").read_text()
SPEC = yaml.safe_load(EXAMPLE)["spec"]
WORDS = st.sampled_from(["", "10m", "Auto", "CalendarOnly", "Sat", "a[0]", "x]", "tuple[Demand]"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def places(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*path, key))


def replaced(value, path, new):
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = replaced(value[path[0]], path[1:], new)
    return value


@given(st.sampled_from(list(places(SPEC))), JSON)
@settings(max_examples=150, deadline=None)
@example((), [])
@example(("serving", 0, "demand"), {"a[0]": 1})
@example(("window", "calendar", "deny"), ["0001-01-01/9999-12-31"])
@example(("cards", "nodeSelector"), {"tuple[x]": 3})
def test_a_spec_with_anything_anywhere_is_a_rule_or_has_problems_in_words(path, value):
    problems = problems_of(replaced(SPEC, path, value))

    for problem in problems:
        assert problem.field == "spec" or problem.field.startswith(("spec.", "spec["))
        assert len(problem.message) > 5
        assert "Input should" not in problem.message


def problems_of(spec):
    try:
        read_rule(spec)
    except RuleError as error:
        return error.problems or pytest.fail("an error without a problem")
    return ()


@given(JSON)
@settings(max_examples=100, deadline=None)
@example({"window": {"targets": [{"ref": None}]}})
def test_a_stored_status_of_any_kind_is_read_or_told(value):
    status, error = read_status(value)

    assert (status is None) or not error
    status, error = read_status({**write_status(Status()), "window": value})
    assert (status is None) is bool(error)


@given(st.text(max_size=60))
def test_an_annotation_of_any_kind_is_a_record_or_told(text):
    record, error = read_record(text)

    assert (record is None) is bool(error)


@given(st.integers(0, len(EXAMPLE)), st.integers(0, 30), st.text(max_size=6))
@settings(max_examples=60, deadline=None)
@example(0, len(EXAMPLE), "? [a, b]\n: c")
@example(0, 0, "%YAML 1.1\n---\n")
@example(0, len(EXAMPLE), "!!python/object:os.system x")
@example(0, len(EXAMPLE), "{1: 2, null: 3, [a]: 4}")
@example(0, len(EXAMPLE), "a: 2026-12-24\nb: 0x1f\nc: .inf\n<<: {d: 1}")
def test_a_file_with_anything_in_it_is_read_or_told(tmp_path_factory, at, length, text):
    path = tmp_path_factory.mktemp("rules") / "rule.yaml"
    path.write_text(
        EXAMPLE[:at] + text + EXAMPLE[at + length :], encoding="utf-8", errors="replace"
    )

    found = checked(read_files([path]))

    lines = path.read_text(encoding="utf-8").count("\n") + 1
    usable = [document for document in found.documents if document.rule]
    assert usable or found.findings
    assert all(0 <= finding.line <= lines + 1 and finding.message for finding in found.findings)
