"""docs/reports.md names tests that there are, and edits of lines that there are."""

from __future__ import annotations

import re

import pytest

from tests.tidy.source import ROOT

ROW = re.compile(
    r"\| (?P<report>[^|]+ #\d+[^|]*) \| [^|]+ \| `(?P<file>[^`:]+)(?:::(?P<test>\w+))?` "
    r"\| `(?P<source>[^`]+)`: `(?P<old>[^`]+)` becomes (?:`[^`]+`|nothing) \|"
)
LINES = [
    line
    for line in (ROOT / "docs/reports.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| report", "| ---"))
]


def test_there_are_reports() -> None:
    assert len(LINES) > 30


@pytest.mark.parametrize("line", LINES, ids=[line.split("|")[1].strip() for line in LINES])
def test_its_test_and_the_line_of_its_edit_are_there(line: str) -> None:
    found = ROW.fullmatch(line)
    assert found, line
    text = (ROOT / found["file"]).read_text()
    source = " ".join((ROOT / found["source"]).read_text().split())

    assert found["test"] is None or f"def {found['test']}(" in text
    assert source.count(found["old"].replace("\\|", "|")) == 1
