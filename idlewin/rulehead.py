"""The head of a rule document: apiVersion, kind, name, annotations, and nothing unknown.

Plain data in, problems out. The spec is codec.py's; lines in files are rulefile.py's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from idlewin.core import pool
from idlewin.core.rule import API_VERSION, KIND, Rule
from idlewin.core.text import camel, parse_instant
from idlewin.errors import Problem
from idlewin.wording import nearest, shown, spelled

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_SPEC = frozenset(camel(part.name) for part in fields(Rule))
_META = (
    *("name", "labels", "annotations", "finalizers", "ownerReferences", "generation", "uid"),
    *("resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields"),
    *("deletionGracePeriodSeconds", "generateName", "selfLink"),
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_ON_A_RULE = (pool.WAKE_UNTIL, pool.RESUME)
_ELSEWHERE = (pool.ADOPTED_BY, pool.EPOCH, pool.RECORD, pool.BEFORE_US)


def name_of(document: dict[str, Any]) -> str:
    """The name that a document gives itself; empty where it has none."""
    meta = document.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else ""


def head_problems(document: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with everything but the spec."""
    for key, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(key) != wanted:
            got = f"{shown(document[key])} is not known here" if key in document else "is missing"
            yield Problem(field=key, message=f"{got}; write {wanted}", path=(key,))
    for key in document:
        if key not in _TOP:
            message = f"no such field{nearest(key, _TOP)}"
            if key in _SPEC:
                message = "no such field at the top; write it under spec"
            yield Problem(field=key, message=message, path=(key,))
    meta = document.get("metadata")
    if isinstance(meta, dict):
        yield from _metadata(meta)
    else:
        yield Problem(field="metadata", message="is missing; write metadata: {name: NAME}")
    if "spec" not in document:
        yield Problem(field="spec", message="is missing; a rule without it says nothing")
    yield from _no_hours(document)


def _no_hours(document: dict[str, Any]) -> Iterator[Problem]:
    """An empty list of hours, which would be taken for all hours."""
    place, node = ("spec", "window", "calendar", "allow"), document
    for step in place[:-1]:
        node = node.get(step) if isinstance(node, dict) else None  # type: ignore[assignment]
    if isinstance(node, dict) and node.get("allow") == []:
        message = "is empty, which would allow every hour; leave it out, or name hours"
        yield Problem(field=spelled("", place), message=message, path=place)


def _metadata(meta: dict[str, Any]) -> Iterator[Problem]:
    name = meta.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > 253:
        got = f"{shown(name)} is no name" if "name" in meta else "is missing"
        yield Problem(
            field="metadata.name",
            message=f"{got}; write lower-case letters, digits, '-' and '.', such as b580",
            path=("metadata", "name"),
        )
    for key in meta:
        path = ("metadata", key)
        if key == "namespace":
            message = f"an {KIND} belongs to the cluster, not to a namespace; take it out"
            yield Problem(field="metadata.namespace", message=message, path=path)
        elif key not in _META:
            message = f"no such field{nearest(key, _META)}"
            yield Problem(field=f"metadata.{key}", message=message, path=path)
    annotations = meta.get("annotations") or {}
    for mark, value in annotations.items() if isinstance(annotations, dict) else ():
        if message := _annotation(str(mark), value):
            at = ("metadata", "annotations", str(mark))
            yield Problem(field=spelled("", at), message=message, value=value, path=at)


def _annotation(key: str, value: object) -> str:
    domain = key.split("/", 1)[0]
    if "idlewin" not in domain:
        return ""
    if key in _ELSEWHERE:
        return "belongs on a queue or a target, where idlewin writes it; take it out"
    if key not in _ON_A_RULE:
        return f"no such annotation{nearest(key, _ON_A_RULE)}"
    try:
        parse_instant(value)
    except ValueError as error:
        return str(error)
    return ""
