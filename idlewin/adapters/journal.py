"""The journal: every decision with its reason, kept in memory or as JSON lines in a file.

Equal decisions in a row are joined. Nothing reads the journal to decide anything, and what goes
wrong here is counted and logged, never raised: a full disk must not keep serving away.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

from idlewin.codec import decision_json, outcome_json
from idlewin.core.decision import Decision, Outcome, Remember, Verdict
from idlewin.core.text import format_instant
from idlewin.ports import Journal

#: One file's size; with the older ones kept, a journal takes at most six times as much.
LARGEST_FILE = 32 << 20
OLDER_FILES = 5
#: Errors are logged the first time, and then each so many times.
LOG_EACH = 100
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A decision, and how often in a row it was made."""

    decision: Decision
    """The latest of them: what was observed moves on while the verdicts stay."""
    outcomes: tuple[Outcome, ...]
    first_at: datetime
    count: int = 1

    def joined(self, decision: Decision, outcomes: Sequence[Outcome]) -> Entry | None:
        """The entry with one more decision; None: that one says something else."""
        wrote = self.outcomes or outcomes  # a write is told each time, were they ever so alike
        if wrote or _says(self.decision) != _says(decision):
            return None
        return replace(self, decision=decision, count=self.count + 1)


def _says(decision: Decision) -> tuple[object, ...]:
    """What a decision says, without the times and amounts that change from one to the next."""
    return (
        decision.before,
        decision.after,
        decision.reason,
        tuple((check.name, check.passed) for check in decision.checks),
        decision.alarms,
        decision.status.epoch,
    )


def moved(decision: Decision, outcomes: Sequence[Outcome]) -> bool:
    """Whether the pool changed its phase: the decision says so, and its status was written."""
    return decision.changes_phase and all(
        outcome.verdict is Verdict.DONE
        for outcome in outcomes
        if isinstance(outcome.action, Remember)
    )


class MemoryJournal:
    """Keeps the last entries of each rule in memory; for tests, replay, and a look at what was."""

    def __init__(self, keep: int | None = 100) -> None:
        self._keep, self._lock = keep, Lock()
        self._entries: dict[str, deque[Entry]] = {}

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Keep one decision; one equal to the last of its rule is joined with it."""
        with self._lock:
            kept = self._entries.setdefault(decision.rule, deque(maxlen=self._keep))
            if kept and (joined := kept[-1].joined(decision, outcomes)):
                kept[-1] = joined
            else:
                kept.append(
                    Entry(decision=decision, outcomes=tuple(outcomes), first_at=decision.at)
                )

    def entries(self, rule: str) -> tuple[Entry, ...]:
        """What is kept of one rule, oldest first."""
        with self._lock:
            return tuple(self._entries.get(rule, ()))

    def gone(self, rule: str) -> None:
        """Forget a rule that is deleted."""
        with self._lock:
            self._entries.pop(rule, None)


class FileJournal:
    """Writes JSON lines: a decision at once, and how often it was repeated when that ends.

    A crash loses at most the count of the last one. At ``largest`` bytes the file becomes
    ``NAME.1``, and so on up to ``older``.
    """

    def __init__(self, path: Path, largest: int = LARGEST_FILE, older: int = OLDER_FILES) -> None:
        self._path, self._largest, self._older = path, largest, older
        self._lock = Lock()
        self._last: dict[str, Entry] = {}
        self._torn = path.is_file()
        self.errors = 0
        """Lines that could not be written."""

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Keep one decision; one equal to the last of its rule is joined with it."""
        with self._lock:
            last = self._last.get(decision.rule)
            joined = last.joined(decision, outcomes) if last else None
            if joined is None:
                self._end_run(last)
                self._write(_line(decision, outcomes))
            self._last[decision.rule] = joined or Entry(
                decision=decision, outcomes=tuple(outcomes), first_at=decision.at
            )

    def gone(self, rule: str) -> None:
        """Write down what is left of a rule that is deleted."""
        with self._lock:
            self._end_run(self._last.pop(rule, None))

    def close(self) -> None:
        """Write down what is left to be said."""
        with self._lock:
            for last in self._last.values():
                self._end_run(last)
            self._last.clear()

    def _end_run(self, last: Entry | None) -> None:
        if last is not None and last.count > 1:
            self._write(
                {
                    "rule": last.decision.rule,
                    "repeated": last.count,
                    "firstAt": format_instant(last.first_at),
                    "lastAt": format_instant(last.decision.at),
                }
            )

    def _write(self, line: dict[str, Any]) -> None:
        try:
            text = json.dumps(line, separators=(",", ":")).encode() + b"\n"
            self._rotate(len(text))
            with self._path.open("ab", buffering=0) as file:
                # After half a line, as a full disk leaves it, the next must not be lost too.
                text = b"\n" + text if self._torn else text
                self._torn = True
                self._torn = file.write(text) != len(text)
            failed = "half a line was written" if self._torn else ""
        except OSError as error:
            failed = str(error)
        if failed:
            if self.errors % LOG_EACH == 0:
                log.error("journal %s cannot be written: %s; cycles go on", self._path, failed)
            self.errors += 1

    def _rotate(self, coming: int) -> None:
        if not self._path.is_file() or self._path.stat().st_size + coming <= self._largest:
            return
        for number in range(self._older - 1, 0, -1):
            if (old := _numbered(self._path, number)).exists():
                old.replace(_numbered(self._path, number + 1))
        self._path.replace(_numbered(self._path, 1))
        self._torn = False


class Journals:
    """Several journals as one; the trouble of one is not the others'."""

    def __init__(self, *journals: Journal) -> None:
        self._journals = journals

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Have each keep one decision."""
        for journal in self._journals:
            try:
                journal.append(decision, outcomes)
            except Exception:
                log.exception("rule %s: %s lost a decision", decision.rule, type(journal).__name__)


def _line(decision: Decision, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {**decision_json(decision), "outcomes": [outcome_json(outcome) for outcome in outcomes]}


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal, older files first; what is no JSON object is passed over.

    A decision that was made several times in a row comes once, with ``repeated`` and ``lastAt``.
    """
    files = [_numbered(path, n) for n in range(OLDER_FILES, 0, -1)] + [path]
    waiting: dict[str, dict[str, Any]] = {}
    for line in chain.from_iterable(_lines(file) for file in files if file.is_file()):
        rule = str(line.get("rule"))
        if "repeated" in line and rule in waiting:
            waiting[rule] |= {key: line[key] for key in ("repeated", "lastAt") if key in line}
        elif "repeated" not in line:
            if rule in waiting:
                yield waiting.pop(rule)
            waiting[rule] = line
    yield from waiting.values()


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open("rb") as text:
        for line in text:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
