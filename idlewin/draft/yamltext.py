"""Words of others as YAML, in values and in comments: whatever they hold, the text stays whole."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping

#: Words without quotes that both YAML 1.1 and 1.2 read as text, also inside of braces.
_PLAIN = re.compile(r"[A-Za-z/][\w./@-]*", re.ASCII)
_NOT_TEXT = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_WIDTH = 100


def scalar(text: str) -> str:
    """A text as a value or a key."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return on_a_line(json.dumps(text, ensure_ascii=False))


def flow(values: Mapping[str, str]) -> str:
    """A mapping of texts, on one line."""
    return "{" + ", ".join(f"{scalar(key)}: {scalar(text)}" for key, text in values.items()) + "}"


def flow_list(values: Iterable[str]) -> str:
    """A list of texts, on one line."""
    return "[" + ", ".join(map(scalar, values)) + "]"


def comment(text: str, indent: int = 0) -> Iterator[str]:
    """A sentence as lines of a comment."""
    start = " " * indent + "# "
    for line in textwrap.wrap(
        on_a_line(text), _WIDTH - len(start), break_long_words=False, break_on_hyphens=False
    ):
        yield start + line


def commented(lines: Iterable[str], indent: int = 0) -> Iterator[str]:
    """Lines of YAML, each behind a #, so that whoever wants them takes that away."""
    for line in lines:
        yield f"{' ' * indent}# {line}".rstrip()


def on_a_line(text: str) -> str:
    """A text without what would end a line, or could not be seen."""
    # JSON leaves characters alone that YAML takes for a line's end, or refuses.
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
