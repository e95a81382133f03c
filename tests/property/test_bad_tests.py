"""Whatever stands in a file of rule tests: it can be run, or is told in words; nothing crashes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings

from idlewin.ruletest.read import read_trials
from tests.property.test_bad_input import JSON, places, replaced, st

RULES = Path(__file__).parents[2] / "rules"
TESTS = yaml.safe_load((RULES / "b580.test.yaml").read_text())
TESTS["tests"][0]["events"] = [{"at": "1h", "wake": "30m"}, {"at": "2h", "pause": True}]
TESTS["tests"][0]["work"] = {"b580-short": 3}
TESTS["tests"][0]["interval"] = "1m"
TESTS["rule"] = str(RULES / "b580.yaml")
PLACES = [place for place in places(TESTS) if place[:2] != ("tests", 4)]
TIMES = st.sampled_from(["0001-01-01T00:00Z", "9999-12-31T23:59Z", "520w", "2026-01-05", "0s"])
WORDS = TIMES | st.sampled_from(["0x60", "_x100000 1", "stale", "NaN+Infx3", "Mon-Fri 08:00-18:00"])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("tests") / "b580.test.yaml"


@given(st.sampled_from(PLACES), JSON | WORDS)
@settings(max_examples=150, deadline=None)
@example(("tests", 0, "start"), "0001-01-01T00:00Z")
@example(("tests", 0, "interval"), "520w")
@example(("tests", 0, "checks", 0, "at"), "520w")
@example(("tests", 0, "history", "busy"), ["0001-01-01/9999-12-31"])
@example(("tests", 0, "history", "busy"), ["2026-01-05T03:30/2026-01-05T03:00"])
def test_a_file_with_anything_anywhere_has_trials_or_findings(file, place, value):
    file.write_text(yaml.safe_dump(replaced(TESTS, place, value)))

    found = read_trials(file)

    assert bool(found.trials) != bool(found.findings)
    for finding in found.findings:
        assert finding.line > 0 or "is empty" in finding.message
        assert len(finding.message) > 5
        assert "Input should" not in finding.message
