"""What is wrong with a rule, in words for the person who wrote it: field, value, what is right.

It turns pydantic's errors (plain data; pydantic itself stays in codec.py) into Problems: one for
each mistake, also where a value may be one of several kinds and each kind complains.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from idlewin.errors import Problem

Path = tuple[str | int, ...]
Json = Mapping[str, Any]

_UNKNOWN_KEY = frozenset({"unexpected_keyword_argument", "extra_forbidden"})
_MISSING = frozenset({"missing", "missing_argument", "missing_keyword_only_argument"})
_SHAPES = {
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_type": "is not a number",
    "finite_number": "is not a finite number",
    "string_type": "is not text; write it in quotes",
    "bool_type": "is neither true nor false",
    "tuple_type": "is not a list; start each entry on its own line with '- '",
    "dataclass_type": "is not a mapping; write 'key: value' lines",
    "dict_type": "is not a mapping; write 'key: value' lines",
}


def problems_in_words(
    errors: Iterable[Json], value: object, at: str, schema: Json
) -> list[Problem]:
    """Pydantic's errors on a value that stands at a field, each mistake once."""
    by_place: dict[Path, list[Json]] = {}
    for error in errors:
        by_place.setdefault(_place(error, value), []).append(error)
    told = []
    for place, here in by_place.items():
        if any(_tagged(e) for e in here) and _deeper(place, by_place):
            continue  # another kind that the value may be got further: its errors are told
        told.append(_problem(place, here, value, at, schema))
    return told


def spelled(at: str, path: Path) -> str:
    """A path as YAML people write it: spec.serving[0].demand."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return (at + "".join(steps)).removeprefix(".")


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'idleFor'?``, or what there is, for a word that is not known."""
    names = sorted(known)
    lower = {name.lower(): name for name in names}
    if close := get_close_matches(word.lower(), lower, n=1, cutoff=0.6):
        return f"; did you mean {lower[close[0]]!r}?"
    return f"; known here: {', '.join(names)}" if names else ""


def shown(value: object) -> str:
    """A value as a person wrote it, cut to a length that fits a line."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = repr(text) if isinstance(value, str) else text
    return text if len(text) <= 60 else text[:57] + "..."


def _problem(place: Path, here: Sequence[Json], value: object, at: str, schema: Json) -> Problem:
    first = here[0]
    got = first["input"]
    kind = first["type"]
    if kind in _MISSING:
        about = _node(schema, place).get("description", "")
        message = "is missing" + (f": {about}" if about else "")
        return Problem(field=spelled(at, place), message=message, path=place[:-1])
    if kind in _UNKNOWN_KEY:
        known = _node(schema, place[:-1]).get("properties", {})
        message = f"no such field{nearest(str(place[-1]), known)}"
        return Problem(field=spelled(at, place), message=message, value=got, path=place)
    if got is None:
        message = "has no value; write one, or leave the field out"
    elif any(_tagged(e) for e in here):
        message = _of_several_kinds(here, got)
    elif kind == "value_error":
        message = _own_words(first)
        place = _nearer(place, message, got)
        got = _at(value, place)
        name, _, rest = message.partition(" ")
        if place and name.strip("'").split(".")[-1] == place[-1]:
            message = rest  # the field is told before it
    else:
        message = _of_one_kind(first)
    return Problem(field=spelled(at, place), message=message, value=got, path=place)


def _of_one_kind(error: Json) -> str:
    kind, got = error["type"], error["input"]
    if kind in ("enum", "literal_error"):
        known = re.findall(r"'([^']*)'", str(error["ctx"]["expected"]))
        return f"{shown(got)} is {'none of ' if known[1:] else 'not '}{_listed(got, known)}"
    if kind == "value_error":
        return _own_words(error)
    message = _SHAPES.get(kind)
    if message is None:
        return f"{shown(got)}: {error['msg']}"
    if kind in ("int_type", "float_type") and isinstance(got, str) and got.isdigit():
        message += f"; write {got} without quotes"
    if kind == "bool_type":
        message += "; write true or false without quotes"
    return f"{shown(got)} {message}"


def _of_several_kinds(errors: Sequence[Json], got: object) -> str:
    words = sorted(
        {
            word
            for error in errors
            if error["type"] == "literal_error"
            for word in re.findall(r"'([^']*)'", str(error["ctx"]["expected"]))
        }
    )
    own = [_own_words(error) for error in errors if error["type"] == "value_error"]
    if own:
        return f"{own[0]}; or write {_listed(got, words)}" if words else own[0]
    other = "a list" if any(error["type"] == "tuple_type" for error in errors) else "another kind"
    return f"{shown(got)} is neither {other} nor {_listed(got, words)}"


def _listed(got: object, known: Sequence[str]) -> str:
    close = get_close_matches(str(got).lower(), [word.lower() for word in known], n=1)
    meant = next((word for word in known if close and word.lower() == close[0]), None)
    return ", ".join(known) + (f"; did you mean {meant}?" if meant else "")


def _own_words(error: Json) -> str:
    return str(error["ctx"]["error"]) if "ctx" in error else str(error["msg"])


# -- places


def _place(error: Json, value: object) -> Path:
    """Where an error is, without the names of the kinds that pydantic tried."""
    loc, place = error["loc"], []
    for number, step in enumerate(loc):
        real = isinstance(step, int) or (isinstance(value, Mapping) and step in value)
        if real or (number == len(loc) - 1 and not _is_tag(step)):
            place.append(step)
            value = _at(value, (step,))
    return tuple(place)


def _is_tag(step: object) -> bool:
    return isinstance(step, str) and step.endswith("]") and "[" in step


def _tagged(error: Json) -> bool:
    return bool(error["loc"]) and _is_tag(error["loc"][-1]) and error["type"] not in _UNKNOWN_KEY


def _deeper(place: Path, places: Iterable[Path]) -> bool:
    return any(len(p) > len(place) and p[: len(place)] == place for p in places)


def _nearer(place: Path, message: str, got: object) -> Path:
    """The field inside a mapping that the core's own message speaks of, where it names one."""
    if not isinstance(got, Mapping):
        return place
    name = message.split(" ", 1)[0].strip("'").split(".")[-1]
    if name in got:
        return (*place, name)
    for key, items in got.items():
        for number, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, str) and repr(item) in message:
                return (*place, key, number)
            if isinstance(item, Mapping) and any(
                isinstance(text, str) and f" {text} " in message for text in item.values()
            ):
                return (*place, key, number)
    return place


def _at(value: object, path: Path) -> Any:
    for step in path:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


# -- the schema at a place


def _node(schema: Json, path: Path) -> Json:
    node: Json = schema
    for step in path:
        for arm in _arms(node, schema):
            if isinstance(step, int) and "items" in arm:
                node = arm["items"]
                break
            if step in arm.get("properties", {}):
                node = arm["properties"][step]
                break
        else:
            return {}
    arms = _arms(node, schema)
    merged: dict[str, Any] = {}
    for arm in (*arms, node):
        merged |= arm
    return merged


def _arms(node: Json, schema: Json) -> list[Json]:
    """What a node may be, references followed."""
    if "$ref" in node:
        return _arms(schema["$defs"][node["$ref"].rsplit("/", 1)[-1]], schema)
    if "anyOf" in node:
        return [arm for one in node["anyOf"] for arm in _arms(one, schema)]
    return [node]
