"""How a verb answers: text, JSON or YAML, tables; files, asked for before the work begins.

Answers go to standard output, and how far the work is to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

#: What reads a pipe wants the whole of a table, however wide.
_WHOLE = 10_000


class Form(StrEnum):
    """How an answer is written."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[Form, typer.Option("-o", "--output", help="text, json or yaml")]


def written(told: object, form: str) -> str:
    """Plain data as JSON or YAML."""
    if form == Form.JSON:
        return json.dumps(told, indent=2)
    from idlewin.yamlfile import to_yaml  # noqa: PLC0415 - only where YAML is written

    return f"---\n{to_yaml(json.loads(json.dumps(told)))}".rstrip()


def writable(*paths: Path | None) -> None:
    """Files that can be written at the end, after all the work. Raises UsageError."""
    for path in paths:
        if path is None:
            continue
        folder_writable(path.parent)
        if path.is_dir() or (path.exists() and not os.access(path, os.W_OK)):
            raise UsageError(f"{path} cannot be written to; name another file")


def folder_writable(folder: Path | None) -> None:
    """The same for whatever will be put into a folder, which is made. Raises UsageError."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}; name another") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder} cannot be written to; name another")


def write(path: Path, what: str | bytes) -> None:
    """Write a file, text as it is. Raises UsageError."""
    try:
        path.write_bytes(what.encode() if isinstance(what, str) else what)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; name another") from None


def whole_console() -> Console:
    """For a table: as wide as the terminal, and in a pipe with nothing cut off."""
    from rich.console import Console  # noqa: PLC0415 - only where a table is shown

    width = None if sys.stdout.isatty() else _WHOLE
    return Console(highlight=False, soft_wrap=True, width=width)


def aside() -> Console:
    """For how far long work is: whatever reads the answer does not see it."""
    from rich.console import Console  # noqa: PLC0415

    return Console(stderr=True)
