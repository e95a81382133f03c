"""Rules, statuses and decisions to and from plain JSON data. The one importer of pydantic.

Reading a rule is strict: unknown keys, ``"3"`` for a number and values that make no sense are
errors, each told in words with its field. Reading a status is lenient: what a newer version added
must not hide the record of what serving was. The CRD's shape is crd.py's, told from the same
classes; files and lines are rulefile.py's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from idlewin.core.decision import Decision, Outcome, Remember
from idlewin.core.pool import Record
from idlewin.core.rule import Rule
from idlewin.core.status import Status
from idlewin.core.text import camel, format_duration, in_utc
from idlewin.errors import Problem, RuleError
from idlewin.source import Source
from idlewin.wording import problems_in_words

Json = dict[str, Any]
#: Instants of a status beyond these years are nobody's: all that is added to one stays a time.
_YEARS = range(1000, 9001)
Read = TypeVar("Read")


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def json_schema(kind: type) -> Json:
    """The JSON Schema of one of the core's classes, as it is read."""
    schema: Json = _adapter(kind).json_schema(by_alias=True, mode="serialization")
    return schema


# -- rules


def read_rule(spec: object, at: str = "spec") -> Rule:
    """The rule of a spec; ``at`` is where the spec stands in its document. Raises RuleError."""
    rule: Rule = _strictly(Rule, spec, at)
    return rule


def read_as(kind: type[Read], document: object) -> Read:
    """What a document says that is no rule, such as a file of rule tests. Raises RuleError."""
    read: Read = _strictly(kind, document, "")
    return read


def _strictly(kind: type, value: object, at: str) -> Any:
    try:
        return _adapter(kind).validate_json(json.dumps(value))
    except ValidationError as error:
        words = problems_in_words(error.errors(), value, at, json_schema(kind))
        raise RuleError(words) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise RuleError([Problem(field=at, message=f"is no JSON data: {error}")]) from None


def read_source(name: str, entry: object) -> Source:
    """The source that an entry of a catalogue describes. Raises RuleError, fields by ``name``."""
    if isinstance(entry, dict) and "name" in entry:
        message = "no such field; a source's name is the key that it stands under"
        raise RuleError([Problem(field=f"{name}.name", message=message, path=("name",))])
    named = {"name": name, **entry} if isinstance(entry, dict) else entry
    try:
        source: Source = _adapter(Source).validate_json(json.dumps(named))
    except ValidationError as error:
        schema = json_schema(Source)
        known = {key: part for key, part in schema["properties"].items() if key != "name"}
        said = problems_in_words(error.errors(), named, name, schema | {"properties": known})
        raise RuleError(said) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise RuleError([Problem(field=name, message=f"is no JSON data: {error}")]) from None
    return source


def write_source(source: Source) -> Json:
    """All fields of a source, as an entry spells them, its name among them."""
    written: Json = _adapter(Source).dump_python(source, mode="json", by_alias=True)
    return written


def write_rule(rule: Rule) -> Json:
    """The spec of a rule, every default written out."""
    written: Json = _without_nulls(_adapter(Rule).dump_python(rule, mode="json", by_alias=True))
    return written


def write_brief(rule: Rule) -> Json:
    """The spec of a rule as a person writes it: its mode, and what is not the default."""
    written = _adapter(Rule).dump_python(rule, mode="json", by_alias=True, exclude_defaults=True)
    return {"mode": rule.mode.value, **_without_empty(written)}


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = ((key, _without_empty(item)) for key, item in value.items())
        return {key: item for key, item in kept if item not in (None, {}, [])}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


# -- statuses

#: Parts of a status from which nothing is decided that giving back needs.
_TELLS = frozenset(
    {"reason", "message", "conditions", "leadTimes", "observedGeneration", "tallies"}
)


def read_status(stored: Mapping[str, Any] | None) -> tuple[Status | None, str]:
    """A stored status, or why it cannot be read; neither, where there is none.

    Keys and enum values of a newer version are dropped, for the rest of the record still counts;
    so does it where what only tells is no status of ours.
    """
    if not stored:
        return None, ""
    value, error = _read_leniently(Status, stored, "status")
    if error and isinstance(stored, Mapping):
        record = {key: part for key, part in stored.items() if key not in _TELLS}
        value, _ = _read_leniently(Status, record, "status")
    return (value, "") if isinstance(value, Status) else (None, error)


def write_status(status: Status) -> Json:
    """A status as it is stored: what is absent or empty by default is left out, numbers are not."""
    written: Json = _plain(status)
    return written


def status_patch(before: Status | Mapping[str, Any] | None, after: Status) -> Json:
    """The JSON merge patch from one status to another; empty where they are written alike.

    What went away is null, lists are replaced whole. ``before`` as stored (a mapping) clears every
    key that the new status has not, which an unreadable status needs; as a Status, it leaves alone
    what a newer version added.
    """
    old = write_status(before) if isinstance(before, Status) else dict(before or {})
    return _difference(old, write_status(after))


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    patch: Json = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key in old and isinstance(value, dict) and isinstance(old[key], Mapping):
            if inner := _difference(old[key], value):
                patch[key] = inner
        elif key not in old or value != old[key] or type(value) is not type(old[key]):
            patch[key] = value
    return patch


# -- records on targets, decisions for the journal


def read_record(text: str) -> tuple[Record | None, str]:
    """The record in a target's annotation, or why it cannot be read."""
    try:
        stored = json.loads(text)
    except ValueError as error:
        return None, f"the record is no JSON: {error}"
    value, trouble = _read_leniently(Record, stored, "record")
    return (value, "") if isinstance(value, Record) else (None, trouble)


def write_record(record: Record) -> str:
    """A record as the annotation's text; equal records give equal text."""
    return json.dumps(_plain(record), separators=(",", ":"))


def decision_json(decision: Decision) -> Json:
    """A decision as the journal keeps it; each action says its kind."""
    written: Json = _plain(decision)
    written["actions"] = [_action_json(action) for action in decision.actions]
    return written


def outcome_json(outcome: Outcome) -> Json:
    """What became of an action, as the journal keeps it."""
    written: Json = _plain(outcome)
    return {**written, "action": _action_json(outcome.action)}


def _action_json(action: object) -> Json:
    kind = type(action).__name__
    # Its status is the decision's own: not kept twice.
    return {"kind": kind} if isinstance(action, Remember) else {"kind": kind, **_plain(action)}


# -- what they share


def _read_leniently(kind: type, stored: object, at: str) -> tuple[object, str]:
    while True:
        try:
            value = _adapter(kind).validate_json(json.dumps(stored))
        except ValidationError as error:
            problems = error.errors()
            newer = [p["loc"] for p in problems if p["type"] in _OF_A_NEWER_VERSION]
            if not newer:
                words = problems_in_words(problems, stored, at, json_schema(kind))
                return None, "; ".join(str(problem) for problem in words)
            before = stored
            for loc in newer:
                stored = _dropped(stored, loc)
            if stored == before:
                return None, f"{at}: {error}"
        except (TypeError, ValueError, RecursionError) as error:
            return None, f"{at} is no JSON data: {error}"
        else:
            if odd := next(_nowhen(value), None):
                why = f"{odd}, without a zone or in no year from 1000 to 9000; write it in UTC"
                return None, f"{at} has the time {why}"
            return value, ""


_OF_A_NEWER_VERSION = frozenset({"unexpected_keyword_argument", "enum"})


def _dropped(value: Any, loc: tuple[int | str, ...]) -> Any:
    """The same value without what stands at a place."""
    if isinstance(value, list):
        index = int(loc[0])
        return [_dropped(v, loc[1:]) if i == index else v for i, v in enumerate(value)]
    key, rest = loc[0], loc[1:]
    if not isinstance(value, dict) or key not in value:
        return value
    if not rest:
        return {k: v for k, v in value.items() if k != key}
    return {**value, key: _dropped(value[key], rest)}


def _nowhen(value: object) -> Iterator[datetime]:
    """Times without a zone, or so far away that one cannot count on from them, nor write them."""
    if isinstance(value, datetime):
        try:
            near = in_utc(value).year in _YEARS
        except ValueError:
            near = False
        if not near:
            yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nowhen(item)
    elif is_dataclass(value):
        for part in fields(value):
            yield from _nowhen(getattr(value, part.name))


def _plain(value: Any) -> Any:
    """A value of the core as JSON data, in the API's spelling."""
    if is_dataclass(value):
        written = ((part, _plain(getattr(value, part.name))) for part in fields(value))
        return {camel(part.name): item for part, item in written if not _absent(part, item)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _absent(part: Field[Any], item: object) -> bool:
    """Whether a written field is empty, and its absence says the same."""
    if item is not None and item not in ("", [], {}):
        return False
    if part.default_factory is not MISSING:
        return bool(_plain(part.default_factory()) == item)
    return part.default is not MISSING and bool(_plain(part.default) == item)
