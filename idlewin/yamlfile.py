"""YAML files as plain data: what each document says, and on which line it says it.

What the data mean is rulefile.py's and sourcefile.py's; how a file is changed is ruleedit.py's.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from idlewin.errors import Finding, Problem
from idlewin.wording import spelled

_GZIPPED = b"\x1f\x8b"
_YAML_1_1_BOOL = frozenset({"y", "n", "yes", "no", "on", "off"})
#: Words that YAML 1.1 takes for true, false or a number, and YAML 1.2 for text.
_NO_TEXT = re.compile(r"y|n|yes|no|on|off|[-+]?[0-9][0-9a-fx_:.]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One document of a YAML file."""

    root: Any
    """What it says, with where it says it: nodes of the YAML library."""
    offset: int = 0
    """Lines of the file before it."""
    line: int = 1
    """The first line that says something, from 1."""

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping of keys to values."""
        return isinstance(self.root, CommentedMap)

    def plain(self) -> Any:
        """It as JSON data. Raises RecursionError where it contains itself by an alias."""
        return _plain(self.root)

    def line_of(self, path: Sequence[str | int]) -> int:
        """The line of the deepest step of a path that the document has, from 1."""
        return self.offset + _line(self.root, path)

    def traps(self) -> Iterator[Problem]:
        """Plain words that kubectl, which reads YAML 1.1, takes for true or false."""
        return _traps(self.root, ())


def text_of(path: Path) -> str | Finding:
    """A file's text, or why it has none."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        return of_file(path, f"cannot be read: {error.strerror}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw.startswith(_GZIPPED):
            return of_file(path, "is gzipped, as a trace is, and no YAML; name a YAML file here")
        line = raw.count(b"\n", 0, error.start) + 1
        return of_file(path, "is not UTF-8 text; save the file as UTF-8", line)


def parts(path: Path, text: str) -> Iterator[Part | Finding]:
    """The documents of a file's text that say something, or why one cannot be read."""
    for offset, part in _split(text):
        try:
            with warnings.catch_warnings():
                # An anchor may be set anew; it is no matter of ours, and not of standard error's.
                warnings.simplefilter("ignore", ReusedAnchorWarning)
                root = _yaml().load(part)
        except YAMLError as error:
            yield _syntax(path, offset, part, error)
        except (RecursionError, ValueError) as error:
            yield of_file(path, f"cannot be read: {error}", offset + 1)
        else:
            if root is not None:
                yield Part(root=root, offset=offset, line=offset + _first_line(part))


def of_file(path: Path, message: str, line: int = 0) -> Finding:
    """What is to be said of a file, and of none of its fields."""
    return Finding(file=str(path), line=line, field="", message=message)


def to_yaml(data: Any, comment: str = "") -> str:
    """Plain data as YAML that kubectl, which reads YAML 1.1, reads alike; a comment at its head."""
    yaml = YAML(typ="rt")
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_nodes(data), out)
    return (f"# {comment}\n" if comment else "") + out.getvalue()


def _nodes(data: Any) -> Any:
    """The same data, with texts that need quotes in YAML 1.1 quoted, and several lines as lines."""
    if isinstance(data, dict):
        return {_nodes(key): _nodes(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_nodes(item) for item in data]
    if type(data) is not str:
        return data
    lines = data.split("\n")
    if lines[1:] and lines[0][:1].strip() and all(map(_is_a_line, lines)):
        return LiteralScalarString(data)
    plain = data.isprintable() and not _NO_TEXT.fullmatch(data)
    return data if plain else DoubleQuotedScalarString(data)


def _is_a_line(text: str) -> bool:
    return text.isprintable() and text == text.rstrip()


def _split(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a file, each with the number of lines before it.

    A '---' at a line's start ends a document wherever it stands, so that one that cannot be
    parsed does not take the next with it.
    """
    begin, lines = 0, text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if number > begin and re.match(r"---(\s|$)", line):
            yield begin, "".join(lines[begin:number])
            begin = number
    yield begin, "".join(lines[begin:])


def _syntax(path: Path, offset: int, part: str, error: YAMLError) -> Finding:
    mark = getattr(error, "problem_mark", None)
    at = mark.line if mark else 0
    said = (
        str(error.problem) if isinstance(error, MarkedYAMLError) and error.problem else str(error)
    )
    lines = part.splitlines()
    if isinstance(error, DuplicateKeyError):
        key = re.search(r'duplicate key "([^"]*)"', said)
        said = f"{key[1] if key else 'a key'} is written twice; keep one of the two"
    elif at < len(lines) and "\t" in lines[at][: len(lines[at]) - len(lines[at].lstrip())]:
        said = "the line is indented with a tab; indent with spaces"
    else:
        said = f"is no YAML: {said}"
    return of_file(path, said, offset + at + 1)


def _first_line(part: str) -> int:
    """The line, from 1, on which a document says something."""
    said = re.compile(r"\s*(---)?\s*(#|$)")
    return next((n for n, line in enumerate(part.splitlines(), 1) if not said.match(line)), 1)


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    return yaml


# -- YAML nodes


def _plain(node: Any) -> Any:
    """A node as JSON data: text, numbers, lists and mappings of Python's own."""
    if isinstance(node, CommentedMap):
        return {key if isinstance(key, str) else str(key): _plain(v) for key, v in node.items()}
    if isinstance(node, CommentedSeq):
        return [_plain(item) for item in node]
    if isinstance(node, TaggedScalar):
        return f"{node.tag} {node.value}"
    if isinstance(node, date):
        return node.isoformat()
    for kind in (bool, int, float, str):
        if isinstance(node, kind):
            return kind(node)
    return None if node is None else str(node)


def _line(root: Any, path: Sequence[str | int]) -> int:
    """The line of the deepest step of a path that the document has, from 1."""
    line, node = root.lc.line if hasattr(root, "lc") else 0, root
    for step in path:
        there = isinstance(node, CommentedMap) and step in node
        if not there and not (isinstance(node, CommentedSeq) and isinstance(step, int)):
            break
        place = (node.lc.data or {}).get(step)
        line, node = place[0] if place else line, node[step]
    return line + 1


def _traps(node: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Plain words that kubectl, which reads YAML 1.1, takes for true or false."""
    if isinstance(node, CommentedMap | CommentedSeq) and len(path) < 20:
        items = node.items() if isinstance(node, CommentedMap) else enumerate(node)
        for key, value in items:
            yield from _traps(value, (*path, key))
    elif type(node) is str and node.lower() in _YAML_1_1_BOOL:
        message = f"kubectl would read {node} as true or false; write '{node}' in quotes"
        yield Problem(field=spelled("", path), message=message, value=node, path=path)
