"""Rule files: every error has its line, and hurts only the rule that has it."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from idlewin.rulecheck import checked, hours, out_of_reach
from idlewin.rulefile import read_files
from idlewin.yamlfile import to_yaml

RULES = Path(__file__).parents[2] / "rules"
GOOD = """\
apiVersion: idlewin.dev/v1alpha1
kind: IdleRule
metadata:
  name: NAME
spec:
  cards:
    resource: gpu.intel.com/xe
    count: 1
    nodeSelector: {pool: NAME}
  serving:
    - apiVersion: apps/v1
      kind: Deployment
      namespace: ai
      name: NAME
      demand: CalendarOnly
  batch:
    queues:
      - {clusterQueue: NAME-short, maxRuntime: 30m}
  window:
    calendar: {allow: ["22:00-07:00"]}
"""


def good(name="a"):
    return GOOD.replace("NAME", name)


def written(folder, text, name="rules.yaml"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def told(folder, text):
    """What is told of a file, without the folder's name."""
    found = checked(read_files([written(folder, text)]))
    return [str(finding).removeprefix(f"{folder}/") for finding in found.findings]


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("count: 1", "count: '3'", "rules.yaml:8: spec.cards.count: '3' is not a whole number"),
        ("count: 1", "cuont: 1", "rules.yaml:8: spec.cards.cuont: no such field; did you mean"),
        ("    count: 1\n", "", "rules.yaml:6: spec.cards.count: is missing"),
        ("maxRuntime: 30m", "maxRuntime: 30", "rules.yaml:18: spec.batch.queues[0].maxRuntime: 30"),
        (", maxRuntime: 30m", "", "rules.yaml:18: spec.batch.queues[0]: queue a-short has neither"),
        ("22:00-07:00", "22:00-7", "rules.yaml:20: spec.window.calendar.allow[0]: calendar span"),
        (
            "{allow",
            "{timeZone: X, allow",
            "rules.yaml:20: spec.window.calendar.timeZone: 'X' is no",
        ),
        ("CalendarOnly", "always", "rules.yaml:15: spec.serving[0].demand: 'always' is neither"),
        ("name: a\nspec", "nmae: a\nspec", "rules.yaml:3: metadata.name: is missing"),
        ("name: a\nspec", "name: A_b\nspec", "rules.yaml:4: metadata.name: 'A_b' is no name"),
        ("name: a\nspec", "name: a\n  namespace: x\nspec", "rules.yaml:5: metadata.namespace: an"),
        ("kind: IdleRule", "kind: Deployment", "rules.yaml:2: kind: 'Deployment' is not known"),
        ("v1alpha1", "v1", "rules.yaml:1: apiVersion: 'idlewin.dev/v1' is not known here; write"),
        ("spec:", "sepc:", "rules.yaml:5: sepc: no such field; did you mean 'spec'?"),
        (
            "spec:",
            "mode: Act\nspec:",
            "rules.yaml:5: mode: no such field at the top; write it",
        ),
        (
            "    count: 1",
            "\tcount: 1",
            "rules.yaml:8: the line is indented with a tab; indent with",
        ),
        ("    count: 1", "    count: 1\n    count: 2", "rules.yaml:9: count is written twice"),
        ("{pool: a}", "{pool: a", "rules.yaml:10: is no YAML:"),
    ],
)
def test_a_mistake_is_told_with_file_line_field_and_remedy(tmp_path, old, new, finding):
    text = good().replace(old, new)
    assert text != good()

    assert any(one.startswith(finding) for one in told(tmp_path, text)), told(tmp_path, text)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (
            "idlewin.dev/wake-untill: x",
            "no such annotation; did you mean 'idlewin.dev/wake-until'?",
        ),
        (
            "idlewin.io/exlude: 'true'",
            "no such annotation; known here: idlewin.dev/resume, idlewin",
        ),
        ("idlewin.dev/wake-until: tomorrow", "'tomorrow' is no instant; write one such as 2026-"),
        ("idlewin.dev/epoch: '3'", "belongs on a queue or a target, where idlewin writes it"),
    ],
)
def test_an_annotation_that_does_nothing_is_an_error(tmp_path, annotation, message):
    # caas-team/py-kube-downscaler #126: annotations that do not exist were ignored.
    text = good().replace("name: a\nspec", f"name: a\n  annotations: {{{annotation}}}\nspec")

    (finding,) = told(tmp_path, text)

    assert finding.startswith("rules.yaml:5: metadata.annotations.")
    assert message in finding


def test_others_annotations_and_ours_that_are_right_are_let_through(tmp_path):
    marks = "{example.org/x: z, idlewin.dev/wake-until: '2026-12-24T18:00:00Z'}"

    assert told(tmp_path, good().replace("name: a\ns", f"name: a\n  annotations: {marks}\ns")) == []


@pytest.mark.parametrize(
    "broken",
    ["a: [1", "\tx: 1", "just text", "- a\n- b", "a: 1\na: 2", "a: &x [*x]", "apiVersion: v1"],
)
def test_a_broken_document_leaves_its_neighbours_whole(tmp_path, broken):
    path = written(tmp_path, f"{good('a')}---\n{broken}\n---\n{good('b')}")

    found = read_files([path])

    assert [d.name for d in found.documents if d.rule] == ["a", "b"]
    assert found.findings
    assert all(finding.line in (22, 23) for finding in found.findings)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        (b"", "rules.yaml: is empty; write a rule, or take the file away"),
        (b"# only a comment\n---\n", "rules.yaml: is empty"),
        (b"a: b\nc: \xff\n", "rules.yaml:2: is not UTF-8 text; save the file as UTF-8"),
        (gzip.compress(b"card,start,end,demand\n"), "rules.yaml: is gzipped, as a trace is"),
    ],
)
def test_a_file_without_a_rule_says_so(tmp_path, text, finding):
    assert told(tmp_path, text)[0].startswith(finding)


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path):
    text = b"\xef\xbb\xbf" + good().replace("\n", "\r\n").encode()

    assert told(tmp_path, text) == []


def test_norway_is_text_here_and_a_warning_says_what_kubectl_makes_of_it(tmp_path):
    text = good() + "  forecast: {dayTypes: {holidays: NO}}\n"

    found = read_files([written(tmp_path, text)])

    assert found.documents[0].rule.forecast.day_types.holidays == "NO"
    (finding,) = found.findings
    assert finding.warning
    assert "kubectl would read NO as true or false; write 'NO' in quotes" in finding.message


def test_a_word_that_is_no_truth_has_one_advice(tmp_path):
    found = read_files([written(tmp_path, good() + "  paused: no\n")])

    (finding,) = found.findings
    assert not finding.warning
    assert finding.message.endswith("write true or false without quotes")


def test_a_quoted_word_is_no_trap(tmp_path):
    text = good() + "  forecast: {dayTypes: {holidays: 'NO'}}\n"

    assert read_files([written(tmp_path, text)]).findings == ()


def test_a_name_that_is_taken_is_an_error_on_the_later(tmp_path):
    one, two = written(tmp_path, good(), "1.yaml"), written(tmp_path, good(), "2.yaml")

    found = read_files([tmp_path])

    assert [rule.name for rule in found.objects] == ["a"]
    (finding,) = found.findings
    assert str(finding) == f"{two}:4: metadata.name: 'a' is taken by {one}:1; rename one"


def test_a_directory_is_its_rule_files_without_tests(tmp_path):
    inner = tmp_path / "more"
    inner.mkdir()
    written(tmp_path, good("a"), "a.yaml")
    written(inner, good("b"), "b.yml")
    written(tmp_path, "not: a rule", "a.test.yaml")
    written(tmp_path, "not: a rule", "a.plane.yaml")
    written(tmp_path, "text", "README.md")

    assert [d.name for d in read_files([tmp_path]).documents] == ["a", "b"]


def test_a_directory_without_rules_and_a_path_that_is_not_there_say_so(tmp_path):
    findings = read_files([tmp_path, tmp_path / "no.yaml"]).findings

    assert "has no *.yaml or *.yml file in it" in findings[0].message
    assert "is not there" in findings[1].message


def test_a_rule_that_cannot_be_read_is_handed_on_with_its_error(tmp_path):
    path = written(tmp_path, f"{good('a').replace('count: 1', 'count: 0')}---\n{good('b')}")

    broken, whole = read_files([path]).objects

    assert (broken.name, broken.rule) == ("a", None)
    assert "cards.count: is 0" in broken.error
    assert whole.rule is not None
    assert whole.error == ""


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("b-short", "a-short", ":39: spec.batch.queues[0].clusterQueue: a-short is rule a ("),
        ("name: b\n      d", "name: a\n      d", ":35: spec.serving[0].name: Deployment ai/a is"),
        ("{pool: b}", "{pool: a}", ":30: spec.cards.nodeSelector: gpu.intel.com/xe on these nodes"),
        ("{pool: b}", "{pool: a, zone: x}", ":30: spec.cards.nodeSelector: gpu.intel.com/xe on"),
    ],
)
def test_two_rules_on_one_thing_are_an_error_on_the_later(tmp_path, old, new, finding):
    second = good("b").replace(old, new)
    assert second != good("b")

    found = told(tmp_path, f"{good('a')}---\n{second}")

    assert len(found) == 1
    assert found[0].startswith(f"rules.yaml{finding}")


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('calendar: {allow: ["22:00-07:00"]}', "min: 30m", "CalendarOnly without window.calendar"),
        (
            "  window:",
            "  window:\n    min: 10h",
            "10h is longer than the calendar is ever open (9h)",
        ),
        (
            "maxRuntime: 30m",
            "maxRuntime: 9h",
            "9h and the grace of 30s do not fit into the longest",
        ),
        (
            "CalendarOnly",
            "CalendarOnly\n      leadTime: 40m",
            "window.min 30m is no longer than the",
        ),
        (
            "CalendarOnly",
            "CalendarOnly\n      leadTime: 20h",
            "leadTime: 20h to come back leave nothing of the longest window (9h), so nothing is",
        ),
    ],
)
def test_what_is_doubtful_is_a_warning(tmp_path, old, new, finding):
    found = checked(read_files([written(tmp_path, good().replace(old, new))]))

    (doubt,) = found.findings
    assert doubt.warning
    assert finding in str(doubt)


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (
            "kind: Deployment",
            "kind: Deploymnt",
            "Deploymnt (apps/v1) cannot be lowered; Deployment",
        ),
        ("  batch:", "  forecast: {method: hazrd}\n  batch:", "did you mean 'hazard'?"),
        (
            "CalendarOnly",
            "[{source: traefik-routr}]",
            "demand[0].source: 'traefik-routr' is not in",
        ),
        (
            "CalendarOnly",
            "[{source: vllm-requests}]",
            "spec.serving[0].demand: nothing of it shows",
        ),
        (
            "  batch:",
            "  forecast: {dayTypes: {holidays: DE-XY}}\n  batch:",
            "spec.forecast.dayTypes.holidays: DE has no region 'XY'; known here: ",
        ),
        (
            'allow: ["22:00-07:00"]',
            "allow: []",
            "spec.window.calendar.allow: is empty, which would allow every hour; leave it out",
        ),
    ],
)
def test_what_can_be_read_but_cannot_work_is_an_error(tmp_path, old, new, finding):
    found = checked(read_files([written(tmp_path, good().replace(old, new))]))

    assert any(finding in str(one) and not one.warning for one in found.findings), found.findings
    assert all(one.line > 1 for one in found.findings)


@pytest.mark.parametrize(
    ("calendar", "words"),
    [
        ("allow: ['22:00-07:00'], timeZone: Europe/Berlin", "9 h a day on average, Europe/Berlin"),
        ("allow: ['07:00-22:00'], timeZone: Europe/Berlin", "15 h a day on average, Europe/Berlin"),
        ("allow: ['Sat 12:00-14:00']", "0.3 h a day on average, UTC"),
        ("allow: ['2026-12-24/2026-12-27']", "on dates only, UTC"),
        ("timeZone: UTC", "at any hour, UTC"),
    ],
)
def test_the_hours_of_a_rule_are_told_so_that_reversed_ones_show(tmp_path, calendar, words):
    text = good().replace('allow: ["22:00-07:00"]', calendar)

    (document,) = read_files([written(tmp_path, text)]).documents

    assert hours(document.rule) == f"may lend {words}"


@pytest.mark.parametrize(
    "probe",
    [
        '{http: {url: "http://qwen3-8b.ai.svc/v1/models", expect: 200, timeout: 10s}}',
        '{completion: {url: "http://qwen3-8b.ai.svc/v1/completions", model: qwen3-8b}}',
    ],
)
def test_a_probe_whose_host_has_no_address_here_is_a_warning_at_its_line(tmp_path, probe):
    text = (Path(__file__).parents[2] / "rules/b580.yaml").read_text()
    text = re.sub(r"probe: \{.*", f"probe: {probe}", text)
    (line,) = [n for n, one in enumerate(text.splitlines(), 1) if f" probe: {probe}" in one]
    found = checked(read_files([written(tmp_path, text)]))

    within, outside = (out_of_reach(found, lambda _, there=there: there) for there in (True, False))

    assert within.findings == ()
    (warning,) = outside.findings
    assert (warning.warning, warning.line) == (True, line)
    assert warning.message.startswith("qwen3-8b.ai.svc has no address on this machine: ")


def test_the_example_rules_have_no_error():
    found = checked(read_files([RULES]))

    assert {document.name for document in found.documents} >= {"b580", "speech", "office"}
    assert [finding for finding in found.findings if not finding.warning] == []


def test_plain_data_written_as_yaml_is_the_same_data(tmp_path):
    path = written(tmp_path, to_yaml({"a": [1, {"b": "yes: no"}], "c": "x" * 200}, "A comment."))

    assert path.read_text().startswith("# A comment.\n")
    assert not any(line != line.rstrip() for line in path.read_text().splitlines())
