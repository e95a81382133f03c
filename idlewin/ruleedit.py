"""Changes to the text of a rule file: a value here and there, and not a letter besides.

A file that is loaded and dumped again loses its owner's quotes, breaks and columns; so values are
replaced where they stand. What a change comes to is read again, by rulefile.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError


class EditError(ValueError):
    """A file has no place for a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A value for a field of a document."""

    path: tuple[str, ...]
    """From the document's root: spec, window, min."""
    value: str
    """As YAML writes it."""
    instead: str = ""
    """A key beside the field's that gives way to it, where the field is not there yet."""


def edited(text: str, changes: Iterable[Change]) -> str:
    """A file's text with changes to its first document that has something in it.

    Raises EditError where that is no mapping, or the change's place is none.
    """
    for change in changes:
        text = _edited(text, change)
    return text


def _edited(text: str, change: Change) -> str:
    try:
        roots = [node for node in YAML().compose_all(text) if node is not None]
    except YAMLError as error:
        raise EditError(str(error)) from None
    node = roots[0] if roots else None
    for depth, step in enumerate(change.path):
        if node is None or node.id != "mapping":
            raise EditError(f"{'.'.join(change.path[:depth]) or 'it'} is no mapping")
        found = _entry(node, step)
        if found is None:
            return _with_key(text, node, change, depth)
        node = found[1]
    return _replaced(text, node, change.value)


def _with_key(text: str, mapping: Any, change: Change, depth: int) -> str:
    """The text with a key that was not there."""
    *outer, last = change.path[depth:]
    former = _entry(mapping, change.instead)
    if former is not None and not outer:
        # The value stands behind its key: it goes first, so that the key stays where it is.
        return _replaced(_replaced(text, former[1], change.value), former[0], last)
    entry = f"{last}: {change.value}"
    for step in reversed(outer):
        entry = f"{step}: {{{entry}}}"
    if mapping.flow_style:
        first = not mapping.value
        at: int = mapping.start_mark.index + 1 if first else mapping.value[-1][1].end_mark.index
        return text[:at] + (entry if first else f", {entry}") + text[at:]
    column: int = mapping.start_mark.column
    newline = "\r\n" if "\r\n" in text else "\n"
    at = text.find("\n", _end(text, mapping)) + 1 or len(text)
    entry = " " * column + entry
    if not text[:at].endswith("\n"):
        return text + newline + entry
    return text[:at] + entry + newline + text[at:]


def _entry(mapping: Any, name: str) -> tuple[Any, Any] | None:
    return next(((key, value) for key, value in mapping.value if key.value == name), None)


def _end(text: str, mapping: Any) -> int:
    """Where the last that a mapping says ends; the comments that follow are not its own."""
    key, value = mapping.value[-1]
    while value.id != "scalar" and value.value and not value.flow_style:
        last = value.value[-1]
        key, value = last if isinstance(last, tuple) else (last, last)
    said = value if value.start_mark.index < value.end_mark.index else key
    return len(text[: said.end_mark.index].rstrip())


def _replaced(text: str, node: Any, value: str) -> str:
    start: int = node.start_mark.index
    end: int = node.end_mark.index
    return text[:start] + value + text[end:]
