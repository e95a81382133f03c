"""The generated part of docs/rule.md: every field of a rule and its status, every reason.

``python -m idlewin.reference docs/rule.md`` writes it anew, between the two marks in that file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from idlewin.codec import Json
from idlewin.core.reason import Reason
from idlewin.crd import demand_schema, spec_schema, status_schema

BEGIN = "<!-- made by python -m idlewin.reference; not by hand -->"
END = "<!-- end of what is made -->"


def reference() -> str:
    """The tables, as Markdown."""
    spec = [_row(*field) for field in _spec()]
    status = [_row(*field) for field in _fields(status_schema(), "status")]
    reasons = [f"| `{reason.value}` | {_cell(reason.meaning)} |" for reason in Reason]
    head = ("| field | kind | meaning |", "| --- | --- | --- |")
    lines = (
        "### spec",
        "",
        *head,
        *spec,
        "",
        "### status",
        "",
        "Written by idlewin; `window` and `owed` are what it needs to bring everything back.",
        "",
        *head,
        *status,
        "",
        "### Reasons",
        "",
        "| reason | meaning |",
        "| --- | --- |",
        *reasons,
    )
    return "\n".join(lines)


def renewed(text: str) -> str:
    """A document with the part between the marks made anew. Raises ValueError without marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no part to renew: the document has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


def _spec() -> Iterator[tuple[str, Json, bool]]:
    for path, node, required in _fields(spec_schema(), "spec"):
        yield path, node, required
        if path == _DEMAND:
            yield from _fields(demand_schema(), f"{path}[]")


#: A list or a word, so the CRD does not say what an entry has.
_DEMAND = "spec.serving[].demand"


def _fields(node: Json, at: str) -> Iterator[tuple[str, Json, bool]]:
    required = node.get("required", ())
    for name, inner in node.get("properties", {}).items():
        path = f"{at}.{name}"
        yield path, inner, name in required
        if "items" in inner:
            yield from _fields(inner["items"], f"{path}[]")
        yield from _fields(inner, path)


def _row(path: str, node: Json, required: bool) -> str:  # noqa: FBT001
    must = ", required" if required else ""
    return f"| `{path}` | {_kind(node)}{must} | {_cell(node.get('description', ''))} |"


def _kind(node: Json) -> str:
    if "enum" in node:
        return " or ".join(f"`{word}`" for word in node["enum"])
    if "additionalProperties" in node:
        return "map"
    if node.get("pattern", "").endswith("%$"):
        return "share"
    if "pattern" in node:
        return "duration"
    if node.get("format") == "date-time":
        return "instant"
    return _KINDS[node.get("type", "")]


_KINDS = {
    "": "list or text",
    "array": "list",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "object": "mapping",
    "string": "text",
}


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("``", "`")


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(renewed(document.read_text()))
