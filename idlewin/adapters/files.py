"""Rules from files, over a cluster that is only looked at.

A file cannot remember what serving was, so nothing is ever changed for such a rule: it is
observed, or run dry. Put a recorder around this, which keeps the status in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Protocol

from idlewin.core.pool import Pool, RuleObject, Scope
from idlewin.core.rule import Mode
from idlewin.errors import UsageError
from idlewin.rulefile import read_files

log = logging.getLogger(__name__)


class Looks(Protocol):
    """What shows a cluster."""

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Raises LookError."""
        ...


class FileRules:
    """A cluster's reads, with the rules of a directory instead of its own.

    Files are read when this is made and whenever one of them has changed. What cannot be read is
    told in the log with its line, and hurts only itself.
    """

    def __init__(self, path: Path, looks: Looks) -> None:
        """Read the files. Raises UsageError where there is not one rule in them."""
        self._path, self._looks, self._lock = path, looks, Lock()
        self._rules: dict[str, RuleObject] = {}
        self._marks: frozenset[object] = frozenset()
        self._read()
        if not self._rules:
            raise UsageError(f"{path} holds no rule; idlewin check {path} says why")

    def names(self) -> Sequence[str]:
        """The names of all rules, in the order of the files."""
        self._read()
        return tuple(self._rules)

    def rule(self, name: str) -> RuleObject | None:
        """A rule as its file has it."""
        return self._rules.get(name)

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Raises LookError."""
        return self._looks.look(scope, fresh=fresh)

    def _read(self) -> None:
        with self._lock:
            marks = frozenset(_marks(self._path))
            if marks == self._marks and self._rules:
                return
            found = read_files([self._path])
            for finding in found.findings:
                log.warning("%s", finding)
            self._rules = {rule.name: rule for rule in found.objects}
            self._marks = marks


def refuse_acting(rules: Iterable[RuleObject | None]) -> None:
    """Raise UsageError if a rule from a file wants to act."""
    for rule in rules:
        if rule is not None and rule.rule is not None and rule.rule.mode is Mode.ACT:
            raise UsageError(
                f"rule {rule.name} is in mode Act, and a file cannot remember what serving was; "
                "apply it to the cluster (kubectl apply -f) and run without --rules, or add "
                "--dry-run, or write mode: Observe"
            )


def _marks(path: Path) -> Iterable[object]:
    """What changes when a file is written, comes or goes."""
    for file in path.rglob("*") if path.is_dir() else [path]:
        try:
            stat = file.stat()
        except OSError:
            continue  # it went while we looked; the next reading says so
        yield file, stat.st_mtime_ns, stat.st_size
