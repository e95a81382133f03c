"""Recorded demand: what a trace file may hold, and what an error says."""

from __future__ import annotations

import gzip
import itertools
import json
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from idlewin.core.window import Span
from idlewin.traces import (
    ORIGIN,
    About,
    Run,
    TraceError,
    TraceWarning,
    about,
    busy_spans,
    card_of,
    history,
    load,
    sample,
)

HEADER = "card,start,end,demand\n"


def a_trace(folder: Path, text: str) -> Path:
    path = folder / "odd.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_runs_are_read_per_card_in_order(tmp_path: Path) -> None:
    path = a_trace(tmp_path, HEADER + "b,5,9,\na,0,4,392\na,20,25,1.5\r\n\n")

    found = load(path)

    assert found == {"b": (Run(5, 9),), "a": (Run(0, 4, 392.0), Run(20, 25, 1.5))}


def test_runs_that_overlap_are_joined_with_a_warning_that_names_the_line(tmp_path: Path) -> None:
    path = a_trace(tmp_path, HEADER + "a,0,10,3\na,4,6,2\na,10,12,1\n")

    with pytest.warns(TraceWarning, match=r"odd\.csv\.gz:3: a run of a overlaps"):
        found = load(path)

    assert found == {"a": (Run(0, 10, 5.0), Run(10, 12, 1.0))}


@pytest.mark.parametrize(
    ("rows", "line", "message"),
    [
        ("a,0,4,1\na,-3,4,1\n", 3, "starts at 0 or later"),
        ("a,4,4,1\n", 2, "ends after its start"),
        ("a,9,4,1\n", 2, "ends after its start"),
        ("a,0,99999999999,1\n", 2, "within ten years"),
        ("a,5,6,1\na,0,2,1\n", 3, "sort the rows of a card by start"),
        ("a,0,1,1\ncard,start,end,demand\n", 3, "the header comes twice; remove this line"),
        ("a,0,1\n", 2, "3 fields; write 4: card,start,end,demand"),
        ("a,0,1,2,3\n", 2, "5 fields; write 4"),
        (" ,0,1,2\n", 2, "card is empty"),
        ("a,0.5,1,2\n", 2, "start is '0.5'; write whole minutes since the trace's origin"),
        ("a,0,2026-01-05,2\n", 2, "end is '2026-01-05'; write whole minutes"),
        ("a,0,,2\n", 2, "end is ''; write whole minutes"),
        ("a,0,1,nan\n", 2, "demand nan; write a count"),
        ("a,0,1,-2\n", 2, "demand -2; write a count"),
        ("a,0,1,many\n", 2, "demand many; write a count"),
    ],
)
def test_an_odd_row_is_named_with_its_line_and_a_remedy(
    tmp_path: Path, rows: str, line: int, message: str
) -> None:
    path = a_trace(tmp_path, HEADER + rows)

    with pytest.raises(TraceError) as error:
        load(path)

    assert str(error.value).startswith(f"{path}:{line}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (HEADER.encode() + b"a,0,1,2\n", "it is not gzipped; run gzip on it"),
        (b"", ":1: the header is ''"),
        (gzip.compress(b""), ":1: the header is ''"),
        (gzip.compress(b"card;start;end\n"), "write 'card,start,end,demand'"),
        (gzip.compress(HEADER.encode()), "there is no row in it"),
        (gzip.compress(HEADER.encode() + b"a,0,1,2\n")[:-12], "is it cut short?"),
        (gzip.compress(b"\xff\xfe\x00"), "it is no text; name a trace, a gzipped CSV file"),
    ],
)
def test_a_file_that_is_no_trace_is_told_with_a_remedy(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "odd.csv.gz"
    path.write_bytes(content)

    with pytest.raises(TraceError) as error:
        load(path)

    assert str(path) in str(error.value)
    assert message in str(error.value)


def test_a_missing_file_and_a_missing_card_are_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="there is no such file"):
        load(tmp_path / "gone.csv.gz")
    with pytest.raises(TraceError, match="no card 'x'; it has a, b"):
        card_of({"b": (), "a": ()}, "x", "some.csv.gz")


@pytest.mark.parametrize("named", ["", ".", "/"])
def test_a_directory_is_no_trace_however_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(tmp_path)

    assert about(named) == About()
    with pytest.raises(TraceError, match="it is a directory; name a trace"):
        load(named)


def test_what_is_known_of_a_trace_is_read_from_the_file_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "some.csv.gz"
    told = {"minutes": 600, "test_from": 60, "origin": "2020-05-01T00:00:00+08:00"}
    (tmp_path / "some.json").write_text(json.dumps(told))

    found = about(path)

    assert (found.minutes, found.test_from) == (600, 60)
    assert found.origin == datetime(2020, 4, 30, 16, tzinfo=UTC)
    # Its days are those of where the demand was.
    assert found.origin.utcoffset() == timedelta(hours=8)
    assert about(tmp_path / "other.csv.gz").origin == ORIGIN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"minutes": -5}', "minutes is -5; write a whole number"),
        ('{"test_from": true}', "test_from is True"),
        ('{"origin": "2026-01-05"}', "origin '2026-01-05'; write it as"),
        ('{"origin": "soon"}', "origin 'soon'"),
        ('{"test_form": 60}', "it may not say 'test_form'; did you mean 'test_from'?"),
        ("[]", "no JSON object"),
        ("{", "it is no JSON: "),
        ("{", "or take it away"),
    ],
)
def test_odd_words_about_a_trace_are_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "some.json").write_text(text)

    with pytest.raises(TraceError, match=r"some\.json") as error:
        about(tmp_path / "some.csv.gz")

    assert message in str(error.value)


def test_runs_become_spans_at_instants_and_a_history_up_to_now() -> None:
    spans = busy_spans((Run(0, 4), Run(4, 6), Run(20, 25)))
    covers = Span(ORIGIN, ORIGIN + timedelta(minutes=22))

    assert spans == (
        Span(ORIGIN, ORIGIN + timedelta(minutes=6)),
        Span(ORIGIN + timedelta(minutes=20), ORIGIN + timedelta(minutes=25)),
    )
    assert history(spans, covers).busy[-1].end == covers.end
    assert ORIGIN.weekday() == 0


def test_the_sample_is_small_licensed_and_has_days_with_something_to_harvest() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cards = load(sample())
    told = about(sample())

    assert len(cards) == 6
    assert sample().stat().st_size < 60_000
    assert told.licence == "Apache-2.0"
    attribution = sample().with_name("ATTRIBUTION.md").read_text(encoding="utf-8")
    assert all(f"`{card}`" in attribution for card in cards)
    for runs in cards.values():
        assert runs[-1].end <= (told.minutes or 0)
        pairs = itertools.pairwise(runs)
        assert sum(later.start - run.end >= 120 for run, later in pairs) >= 10
