"""The journal: what is kept, what is joined, and that trouble with it is nobody else's."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from idlewin.adapters.journal import FileJournal, Journals, MemoryJournal, read_journal
from idlewin.core.decision import Check, Decision, HoldRule, Outcome, Verdict
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.status import Status

START = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DONE = Outcome(HoldRule("b580", "1"), Verdict.DONE)


def a_decision(minute=0, rule="b580", reason=Reason.IDLE_TOO_SHORT, after=Phase.SERVING):
    at = START + minute * MINUTE
    return Decision(
        rule=rule,
        at=at,
        before=Phase.SERVING,
        after=after,
        reason=reason,
        checks=(Check("idle for", reason is Reason.WINDOW_OPEN, f"{minute}m", "10m"),),
        status=Status(),
        revisit_at=at + MINUTE,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def test_equal_decisions_in_a_row_are_one_entry_with_the_latest_observed():
    journal = MemoryJournal()

    for minute in range(5):
        journal.append(a_decision(minute), ())

    (entry,) = journal.entries("b580")
    assert (entry.count, entry.first_at) == (5, START)
    assert entry.decision.checks[0].observed == "4m"


def test_another_reason_begins_another_entry():
    journal = MemoryJournal()

    for reason in (Reason.LOAD_BUSY, Reason.LOAD_BUSY, Reason.LOAD_UNKNOWN, Reason.LOAD_BUSY):
        journal.append(a_decision(reason=reason), ())

    assert [entry.count for entry in journal.entries("b580")] == [2, 1, 1]


def test_writes_are_never_joined():
    journal = MemoryJournal()

    journal.append(a_decision(), (DONE,))
    journal.append(a_decision(), (DONE,))

    assert [entry.outcomes for entry in journal.entries("b580")] == [(DONE,), (DONE,)]


def test_rules_do_not_break_each_others_runs_and_are_forgotten_alone():
    journal = MemoryJournal()
    for minute in range(3):
        journal.append(a_decision(minute), ())
        journal.append(a_decision(minute, rule="a770"), ())

    journal.gone("b580")

    assert journal.entries("b580") == ()
    assert [entry.count for entry in journal.entries("a770")] == [3]


def test_memory_is_bounded():
    journal = MemoryJournal(keep=10)

    for _ in range(100):
        journal.append(a_decision(), (DONE,))

    assert len(journal.entries("b580")) == 10


def test_a_decision_is_in_the_file_at_once_and_its_repeats_at_the_end(path):
    journal = FileJournal(path)
    for minute in range(4):
        journal.append(a_decision(minute), ())
    during = path.read_text().splitlines()

    journal.append(a_decision(4, reason=Reason.WINDOW_OPEN, after=Phase.YIELDING), (DONE,))

    assert [json.loads(line)["reason"] for line in during] == ["IdleTooShort"]
    first, second = read_journal(path)
    assert (first["repeated"], first["lastAt"]) == (4, "2026-03-02T12:03:00Z")
    assert first["checks"][0] == {
        "name": "idle for", "passed": False, "observed": "0m", "limit": "10m",
    }  # fmt: skip
    assert (second["after"], second["outcomes"][0]["verdict"]) == ("Yielding", "Done")


def test_closing_writes_down_what_is_left(path):
    journal = FileJournal(path)
    for minute in range(3):
        journal.append(a_decision(minute), ())

    journal.close()

    assert [line["repeated"] for line in read_journal(path)] == [3]


def test_files_turn_over_by_size_and_nothing_is_lost_up_to_the_bound(path):
    journal = FileJournal(path, largest=4000, older=3)

    for minute in range(60):
        journal.append(a_decision(minute), (DONE,))

    files = sorted(path.parent.iterdir())
    assert [file.name for file in files] == [path.name] + [f"{path.name}.{n}" for n in (1, 2, 3)]
    assert all(file.stat().st_size <= 4000 for file in files)
    kept = [line["at"] for line in read_journal(path)]
    assert kept == sorted(kept)
    assert kept[-1] == "2026-03-02T12:59:00Z"
    assert len(kept) > 20


def test_a_restart_goes_on_with_the_file(path):
    FileJournal(path).append(a_decision(), ())

    FileJournal(path).append(a_decision(reason=Reason.LOAD_BUSY), ())

    assert [line["reason"] for line in read_journal(path)] == ["IdleTooShort", "LoadBusy"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_counted_and_raises_nothing(caplog):
    journal = FileJournal(Path("/dev/full"))

    for _ in range(3):
        journal.append(a_decision(), (DONE,))

    assert journal.errors == 3
    assert caplog.text.count("cannot be written") == 1


def test_a_directory_that_comes_back_is_written_to_again(tmp_path):
    path = tmp_path / "later" / "journal.jsonl"
    journal = FileJournal(path)
    journal.append(a_decision(), (DONE,))

    path.parent.mkdir()
    journal.append(a_decision(1), (DONE,))

    assert journal.errors == 1
    assert [line["at"] for line in read_journal(path)] == ["2026-03-02T12:01:00Z"]


def test_half_a_line_is_passed_over_when_reading(path):
    path.write_text('{"rule":"b580","reason":"LoadB\n[]\n\xff\n{"rule":"b5')

    FileJournal(path).append(a_decision(), ())

    assert [line["reason"] for line in read_journal(path)] == ["IdleTooShort"]


def test_one_journals_trouble_is_not_the_others(caplog):
    class Broken:
        def append(self, _decision, _outcomes):
            raise RuntimeError("broken")

    memory = MemoryJournal()
    Journals(Broken(), memory).append(a_decision(), ())

    assert len(memory.entries("b580")) == 1
    assert "Broken lost a decision" in caplog.text
