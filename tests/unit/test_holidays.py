"""Public holidays by code: which days they are, and what is said of a code that is none."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from idlewin.core.lint import Fault
from idlewin.core.window import Span
from idlewin.holidays import dates, problem
from idlewin.rulecheck import checked, faults
from idlewin.rulefile import read_files
from tests.tidy.source import ROOT

DECEMBER = Span(datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 31, tzinfo=UTC))


def test_the_days_are_those_of_the_region():
    germany, bavaria = dates("DE", DECEMBER), dates("DE-BY", DECEMBER)

    assert date(2026, 10, 3) in germany
    assert date(2026, 1, 6) in set(bavaria) - set(germany)
    assert list(bavaria) == sorted(bavaria)


def test_the_years_beside_a_stretch_are_told_too():
    """What is forecast in December lies in January."""
    found = dates("AT", DECEMBER)

    assert {date(2025, 12, 25), date(2027, 1, 1)} <= set(found)


@pytest.mark.parametrize("code", ["AT", "AUT", "AT-9", "DE-BY", "US-CA", "NO", "GB-SCT"])
def test_a_code_of_a_country_or_region_is_known(code):
    assert problem(code) is None
    assert len(dates(code, DECEMBER)) >= 3 * 5


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("at", "did you mean 'AT'?"),
        ("de-by", "did you mean 'DE-BY'?"),
        ("Austria", "did you mean 'AT'?"),
        ("Germny", "did you mean 'DE'?"),
        ("US-ca", "US has no region 'ca'; did you mean 'CA'?"),
        ("AT-W", "AT has no region 'W'; known here: 1, 2, 3"),
        ("AT-", "AT has no region ''; known here: 1, 2, 3"),
        ("MC-1", "MC has no region '1'; write 'MC'"),
        ("XX", "write one such as AT or DE-BY"),
        ("", "write one such as AT or DE-BY"),
        ("utils", "write one such as AT or DE-BY"),
    ],
)
def test_a_code_that_is_none_has_no_days_and_says_what_would_be_right(code, remedy):
    assert dates(code, DECEMBER) == ()
    assert remedy in (problem(code) or "")


def test_a_rule_without_a_code_has_no_holidays():
    assert dates(None, DECEMBER) == ()


def test_a_rule_with_a_wrong_code_is_told_and_lends_nothing(tmp_path):
    """A fault shuts windows only: what is lent comes back whatever the rule says."""
    path = tmp_path / "rule.yaml"
    path.write_text((ROOT / "rules/b580.yaml").read_text().replace("holidays: AT", "holidays: ÖS"))

    (document,) = checked(read_files([path])).documents

    (told,) = [finding for finding in document.findings if "holidays" in finding.message]
    assert not told.warning
    assert [fault.fault for fault in faults(document.rule)] == [Fault.NOT_SUPPORTED]
