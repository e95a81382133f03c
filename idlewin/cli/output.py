"""Files that a verb writes: asked for before the work begins, written after it."""

from __future__ import annotations

import os
from pathlib import Path

from idlewin.errors import UsageError


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
