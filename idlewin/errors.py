"""Errors that a person can do something about, by what that is; the command line's exit codes.

A message is fact, object, remedy. A programmer's error is none of these: it crashes, and whoever
supervises the process restarts it into a fresh look at the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

#: What makes a cluster know IdleRules, and the words where it does not.
DEFINE = "kubectl apply -f deploy/base/namespace.yaml -f deploy/base/crd.yaml"
NO_RULES = f"the cluster knows no IdleRule; {DEFINE}"


class Exit(IntEnum):
    """What the command line's exit code says; docs/cli.md lists them."""

    OK = 0
    FAILED = 1
    """The work was done and its answer is no: findings, or an end that was not reached."""
    USAGE = 2
    """The command or a rule file has to be changed."""
    UNREACHABLE = 3
    """The cluster or Prometheus did not answer; the same command may work later."""
    REFUSED = 4
    """The API server answered no: a permission, a conflict, a webhook."""
    INTERRUPTED = 130


class IdlewinError(Exception):
    """Something that a person can put right; the message says how."""

    exit_code = Exit.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with one field, and what would be right."""

    field: str
    """The field as YAML spells it: spec.serving[0].demand."""
    message: str
    value: object = None
    path: tuple[str | int, ...] = ()
    """The same as steps, the nearest that the document has; a file finds the line by it."""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What is to be said of a place in a file."""

    file: str
    line: int
    field: str
    message: str
    rule: str = ""
    warning: bool = False

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return (
            f"{where}: {self.field}: {self.message}" if self.field else f"{where}: {self.message}"
        )


def unreadable(error: Exception) -> str:
    """Why a file cannot be read, without Python's words where it is one of the usual reasons."""
    if isinstance(error, IsADirectoryError):
        return "it is a directory"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, UnicodeError):
        return "it is no text"
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or " ".join(str(error).split())


class RuleError(IdlewinError):
    """A rule cannot be read: change the rule."""

    exit_code = Exit.USAGE

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in problems))


class UsageError(IdlewinError):
    """The command was not understood: change the command."""

    exit_code = Exit.USAGE


class UnreachableError(IdlewinError):
    """The cluster or Prometheus did not answer: look there, or try again."""

    exit_code = Exit.UNREACHABLE


class RefusedError(IdlewinError):
    """The API server answered no: the message is its own."""

    exit_code = Exit.REFUSED
