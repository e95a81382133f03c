"""Files of rule tests: what is wrong with one is told by file, line, field and what is right."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from idlewin.cli.tested import Ran, as_json, as_junit, as_text
from idlewin.core.load import Level
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.window import Span
from idlewin.errors import Finding
from idlewin.ruletest.read import find, read_trials
from idlewin.ruletest.trial import Seen, Series, differences
from idlewin.ruletest.written import Expect, Queues
from tests.unit.test_cli import idlewin

RULE = """\
apiVersion: idlewin.dev/v1alpha1
kind: IdleRule
metadata: {name: pool}
spec:
  cards: {resource: nvidia.com/gpu, count: 1, nodeSelector: {pool: mine}}
  serving:
    - apiVersion: apps/v1
      kind: Deployment
      namespace: ai
      name: model
      demand:
        - {source: vllm-requests, match: {namespace: ai}}
        - {query: door_requests, up: up, visibleAtZero: true}
  batch: {queues: [{clusterQueue: night, maxRuntime: 30m}]}
  window: {calendar: {timeZone: Europe/Vienna}}
  forecast: {budget: {share: 100%}}
"""
TEST = """\
tests:
  - name: lent
    start: 2026-01-05T18:00+01:00
    demand: {model: '0x120'}
    checks:
      - {at: 5m, expect: {phase: Serving, reason: IdleTooShort}}
      - {at: 1h, expect: {phase: Harvesting}}
"""
START = datetime(2026, 1, 5, 17, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def file(tmp_path):
    """A file of tests beside its rule, with some of its text written otherwise."""

    def made(*edits, rule=RULE, name="pool.test.yaml"):
        (tmp_path / "pool.yaml").write_text(rule)
        text = TEST
        for before, after in edits:
            assert before in text
            text = text.replace(before, after)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return made


def told(path: Path) -> list[str]:
    """What is said of a file, without the folder that it is in."""
    found = read_trials(path)
    assert bool(found.findings) != bool(found.trials)
    return [str(finding).replace(f"{path.parent}/", "") for finding in found.findings]


def test_a_test_is_bound_to_the_rule_beside_it(file):
    (trial,) = read_trials(file()).trials

    assert (trial.pool, trial.name, trial.line, trial.start) == ("pool", "lent", 2, START)
    assert trial.rule.mode == "Act"
    ((ref, series),) = trial.demand.items()
    assert (ref.name, len(series), series[0].end) == ("model", 2, START + 121 * MINUTE)
    assert [look.line for look in trial.looks] == [6, 7]
    assert [look.at for look in trial.looks] == [START + 5 * MINUTE, START + 60 * MINUTE]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("name: lent", "nam: lent", "2: tests[0].nam: no such field; did you mean 'name'?"),
        ("tests:", "test:", "1: test: no such field; did you mean 'tests'?"),
        ("phase: Harvesting", "phase: Lent", "7: tests[0].checks[1].expect.phase: 'Lent' is none"),
        ("IdleTooShort", "Idle", "6: tests[0].checks[0].expect.reason: 'Idle' is none of Record"),
        ("IdleTooShort", "IdleToShort", "did you mean IdleTooShort?"),
        ("{phase: Harvesting}", "{}", "7: tests[0].checks[1].expect: says nothing; write some of"),
        ("{phase: Harvesting}", "{queues: Shut}", "7: tests[0].checks[1].expect.queues: 'Shut'"),
        ("'0x120'", "'0x30 many'", "4: tests[0].demand.model: 'many' in the series '0x30 many'"),
        ("'0x120'", "0x120", "4: tests[0].demand.model: 288 is no series; write it in quotes"),
        ("'0x120'", "'0x59'", "7: tests[0].checks[1].at: is beyond the series of 60 samples"),
        ("'0x120'", "{query: '0x120'}", "4: tests[0].demand.model: has no series for vllm-requ"),
        (
            "'0x120'",
            "{query: '0x120', vllm-request: '0x120'}",
            "4: tests[0].demand.model.vllm-request: Deployment ai/model has no such demand; did",
        ),
        ("model:", "modell:", "tests[0].demand: has no series for Deployment ai/model; write"),
        ("model: '", "other: '0x120', model: '", "4: tests[0].demand.other: no such target"),
        ("18:00+01:00", "18:00", "3: tests[0].start: '2026-01-05T18:00' is no instant"),
        ("at: 5m", "at: 5", "6: tests[0].checks[0].at: 5 is neither a time from start, such as 1h"),
        ("at: 5m", "at: 2026-01-05T18:05", "checks[0].at: '2026-01-05T18:05' is no instant"),
        (
            "at: 5m",
            "at: 2026-01-05T16:59Z",
            "6: tests[0].checks[0].at: is out of start and the 31d",
        ),
        ("at: 1h,", "at: 32d,", "7: tests[0].checks[1].at: is out of start and the 31d after it"),
        ("2026-01-05T18:00+01:00", "0001-01-01T00:00Z", "3: tests[0].start: is in no year from"),
        (
            "    checks",
            "    interval: 0s\n    checks",
            "5: tests[0].interval: is 0s; write how long",
        ),
        ("    checks", "    activity: '0'\n    checks", "the rule has no cards.activity; take it"),
        ("    checks", "    work: {day: 1}\n    checks", "5: tests[0].work.day: no such queue"),
        ("    checks", "    work: {night: -1}\n    checks", "5: tests[0].work.night: -1 jobs"),
        (
            "    checks",
            "    events: [{at: 1m, wake: 1m, pause: true}]\n    checks",
            "5: tests[0].events[0]: an event is one of wake, pause, prometheusDown, kueueDown",
        ),
        ("    checks", "    history: {days: 29}\n    checks", "history.days: is 29; a forecast"),
        (
            "    checks",
            "    history: {days: 9, busy: ['Mon 8-9']}\n    checks",
            "tests[0].history.busy[0]: calendar span 'Mon 8-9' is not understood",
        ),
        ("tests:", "rule: other.yaml\ntests:", "pool.test.yaml:1: rule: there is no other.yaml"),
        ("tests:", "of: box\ntests:", "1: of: pool.yaml has no rule 'box'; known here: pool"),
        ("tests:", "tests: [", "is no YAML"),
        (TEST, "", "pool.test.yaml: is empty"),
        (TEST, "- 3\n", "pool.test.yaml:1: [3] is no mapping; write tests:"),
        (TEST, "tests: []\n", "is empty"),
    ],
)
def test_a_mistake_is_told_by_its_line_and_field(file, before, after, wanted):
    assert wanted in "\n".join(told(file((before, after))))


def test_a_series_of_a_target_that_goes_by_the_calendar_is_refused(file):
    rule = RULE[: RULE.index("      demand:")] + "      demand: CalendarOnly\n"
    rule += RULE[RULE.index("  batch:") :]

    (finding,) = told(file(rule=rule))

    assert "demand.model: goes by the calendar only, so nothing is looked at" in finding


def test_a_rule_that_cannot_be_read_is_told_with_its_own_error(file):
    (finding,) = told(file(rule=RULE.replace("count: 1", "count: one")))

    assert finding.startswith("pool.test.yaml:1: rule: cannot be read: pool.yaml:5: spec.cards.cou")


def test_a_file_of_several_rules_needs_the_name_of_one(file):
    two = RULE + "---\n" + RULE.replace("name: pool}", "name: box}")
    path = file(rule=two)

    assert told(path) == ["pool.test.yaml:1: of: pool.yaml has 2 rules; write one of pool, box"]
    (trial,) = read_trials(file(("tests:", "of: box\ntests:"), rule=two)).trials
    assert trial.pool == "box"


def test_a_file_of_another_name_says_which_rule_it_is_of(file):
    assert told(file(name="night.yaml")) == [
        "night.yaml:1: rule: night.yaml is no NAME.test.yaml; write rule: NAME.yaml"
    ]
    assert read_trials(file(("tests:", "rule: pool.yaml\ntests:"), name="night.yaml")).trials


def test_two_targets_of_one_name_are_told_apart_by_their_namespace(file):
    again = RULE[RULE.index("    - apiVersion") : RULE.index("  batch:")]
    rule = RULE.replace("  batch:", again.replace("namespace: ai", "namespace: lab") + "  batch:")

    (finding,) = told(file(rule=rule))
    both = ("{model:", "{ai/model: '0x120', lab/model:")
    (trial,) = read_trials(file(both, rule=rule)).trials

    assert "demand.model: may be Deployment ai/model or Deployment lab/model; write NAM" in finding
    assert [ref.namespace for ref in trial.demand] == ["ai", "lab"]


def test_two_demands_of_one_kind_are_named_by_their_place(file):
    rule = RULE.replace("        - {query", "        - {query: more}\n        - {query")
    series = "{vllm-requests: '0x120', 1: '0x120', 2: '5x120'}"

    (trial,) = read_trials(file(("'0x120'", series), rule=rule)).trials

    assert [one.values[0] for one in next(iter(trial.demand.values()))] == [0, 0, 5]


def test_what_was_before_the_start_is_in_the_zone_of_the_rules_calendar(file):
    past = "    history: {days: 7, busy: ['Mon-Fri 08:00-12:00']}\n    checks"

    (trial,) = read_trials(file(("    checks", past))).trials

    assert trial.known_from == START - timedelta(days=7)
    assert len(trial.past) == 5
    assert trial.past[-1] == Span(START.replace(hour=7), START.replace(hour=11))


def test_a_date_in_the_past_is_found_however_far_from_what_is_known_first(file):
    past = "    history: {days: 28, busy: ['2026-01-04/2026-01-05']}\n    checks"

    (trial,) = read_trials(file(("    checks", past))).trials

    assert trial.past == (Span(START.replace(day=3, hour=23), START.replace(day=4, hour=23)),)


def test_directories_are_searched_and_what_is_not_there_is_told(file, tmp_path):
    path = file()
    (tmp_path / "empty").mkdir()

    files, wrong = find([tmp_path, path, tmp_path / "empty", tmp_path / "none"])

    assert files == [path]
    assert ["has no *.test.yaml" in str(wrong[0]), "is not there" in str(wrong[1])] == [True, True]


# -- series


def test_a_sample_stands_until_the_next_and_after_the_last_nothing_is_known():
    series = Series(START, MINUTE, (0.0, 5.0, None))

    assert [series.at(START + k * MINUTE / 2) for k in range(-1, 7)] == [
        *(None, 0, 0, 5, 5, None, None, None)
    ]


def test_a_series_says_when_it_is_busy_idle_and_unknown():
    series = Series(START, MINUTE, (0.0, 5.0, 2.0, None, -1.0, float("nan"), 0.0))

    def minutes(level: Level) -> list[tuple[float, float]]:
        spans = series.when(level, busy_above=2)
        return [((s.start - START) / MINUTE, (s.end - START) / MINUTE) for s in spans]

    assert minutes(Level.BUSY) == [(1, 2)]
    assert minutes(Level.IDLE) == [(0, 1), (2, 3), (6, 7)]
    assert minutes(Level.UNKNOWN) == [(3, 6)]


# -- what became of it

SEEN = Seen(
    phase=Phase.SERVING,
    reason=Reason.LOAD_BUSY,
    serving=1,
    queues=Queues.CLOSED,
    told="2026-01-05T17:05:00Z pool: Serving (LoadBusy): Users are there.\n  no  no demand: 5",
)


def test_only_what_is_expected_is_compared():
    assert differences(Expect(phase=Phase.SERVING), SEEN) == ()
    assert [d.field for d in differences(Expect(phase=Phase.HARVESTING, serving=0), SEEN)] == [
        "phase",
        "serving",
    ]


@pytest.fixture
def ran(file):
    """A test of which one of two looks is not as it was to be."""
    (trial,) = read_trials(file()).trials
    good = replace(SEEN, reason=Reason.IDLE_TOO_SHORT)
    return Ran(path="rules/pool.test.yaml", trial=trial, seen=(good, SEEN), seconds=1.5)


def test_a_failure_tells_where_when_what_and_why(ran):
    assert as_text([ran], []).splitlines() == [
        "rules/pool.test.yaml: 1 of 1 test failed",
        "rules/pool.test.yaml:7: pool: lent: at 1h (2026-01-05T18:00:00Z)",
        "  - phase: Harvesting",
        "  + phase: Serving",
        "    2026-01-05T17:05:00Z pool: Serving (LoadBusy): Users are there.",
        "      no  no demand: 5",
        "1 test, 2 checks: 1 failed",
    ]


def test_junit_has_a_case_for_each_test_and_for_each_file_that_cannot_be_used(ran):
    wrong = Finding(file="x.test.yaml", line=3, field="tests", message="is \x00 odd")

    root = ET.fromstring(as_junit([ran], [wrong]).encode())

    suite, files = root
    assert suite.attrib == {
        "name": "rules/pool.test.yaml",
        "tests": "1",
        "failures": "1",
        "errors": "0",
        "time": "1.500",
    }
    assert suite[0].attrib == {"classname": "pool", "name": "lent", "time": "1.500"}
    assert suite[0][0].get("message") == "phase: Serving, not Harvesting"
    assert "rules/pool.test.yaml:7" in suite[0][0].text
    assert (files.get("errors"), files[0][0].tag) == ("1", "error")


def test_json_has_each_look_with_what_was(ran):
    data = json.loads(as_json([ran], []))

    (test,) = data["tests"]
    assert (test["ok"], test["rule"], test["line"]) == (False, "pool", 2)
    assert test["checks"][0]["differences"] == []
    assert test["checks"][1] == {
        "line": 7,
        "at": "2026-01-05T18:00:00Z",
        "phase": "Serving",
        "reason": "LoadBusy",
        "serving": 1,
        "queues": "Closed",
        "differences": [{"field": "phase", "wanted": "Harvesting", "was": "Serving"}],
    }


# -- the verb


def test_the_verb_ends_with_0_where_all_is_as_expected(file):
    done = idlewin("test", file().parent)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "1 test, 2 checks: all as expected"


def test_the_verb_ends_with_1_where_something_is_not(file):
    path = file(("phase: Harvesting", "phase: Serving"))

    done = idlewin("test", path)

    assert (done.returncode, done.stderr) == (1, "")
    assert f"{path}:7: pool: lent: at 1h (2026-01-05T18:00:00Z)" in done.stdout
    assert "  - phase: Serving\n  + phase: Harvesting\n" in done.stdout
    assert "pool: Harvesting (Harvesting): The window is open." in done.stdout


def test_the_verb_ends_with_2_where_a_file_cannot_be_used_and_runs_the_others(file, tmp_path):
    path = file()
    (tmp_path / "bad.test.yaml").write_text("tests: 3\n")

    done = idlewin("test", tmp_path)

    assert done.returncode == 2
    assert "bad.test.yaml:1: tests: 3 is not a list" in done.stderr
    assert f"{path}: 1 test ok" in done.stdout
