"""Manifests in files, as objects with the line that each begins on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from idlewin.adapters.audit_pods import Object
from idlewin.adapters.audit_settings import settings
from idlewin.adapters.audited import facts_of
from idlewin.audit.kinds import KINDS
from idlewin.codec import read_rule
from idlewin.errors import Finding, RuleError
from idlewin.yamlfile import Part, of_file, parts, text_of

Json = dict[str, Any]
_SUFFIXES = (".yaml", ".yml", ".json")


def read(paths: Iterable[Path]) -> tuple[list[Object], list[Finding]]:
    """The objects of files, and of directories' YAML and JSON; and what cannot be read of them.

    Documents that are no objects, such as Helm's values, are passed over.
    """
    objects: list[Object] = []
    findings: list[Finding] = []
    for path in paths:
        files = _files(path)
        if not files:
            findings.append(of_file(path, "has no manifest in it; name a directory that has some"))
        for file in files:
            text = text_of(file)
            for part in [text] if isinstance(text, Finding) else parts(file, text):
                if isinstance(part, Finding):
                    findings.append(part)
                else:
                    for one in _objects(file, part):
                        trouble = _unlike(one)
                        (findings if trouble else objects).append(trouble or one)  # type: ignore[arg-type]
    return objects, findings


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.suffix in _SUFFIXES and p.is_file())
    return [path]


def _objects(file: Path, part: Part) -> Iterator[Object]:
    if not part.is_mapping:
        return
    root = part.plain()
    if str(root.get("kind", "")).endswith("List") and isinstance(root.get("items"), list):
        for number, item in enumerate(root["items"]):
            if isinstance(item, dict):
                yield from _object(file, part.line_of(("items", number)), item)
    else:
        yield from _object(file, part.line, root)


def _object(file: Path, line: int, raw: Json) -> Iterator[Object]:
    """One of a kind that is looked at, with the namespace that kubectl would give it."""
    known = KINDS.get(str(raw.get("kind", "")))
    meta = raw.get("metadata")
    if known is None or not known.is_of(str(raw.get("apiVersion", ""))):
        return
    if not isinstance(meta, dict) or not meta.get("name"):
        return  # a patch, or what gets its name when it is made
    if known.namespaced:
        raw = {**raw, "metadata": {"namespace": "default", **meta}}
    yield Object(raw, str(file), line)


def _unlike(one: Object) -> Finding | None:
    """Why an object cannot be looked at by itself."""
    try:
        if one.kind == "IdleRule":
            read_rule(one.raw.get("spec"))
        facts_of([one])
        list(settings(one))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"has no {error}" if isinstance(error, KeyError) else f"cannot be read: {error}"
        message = f"{one.thing} is unlike a {one.kind} that the API server takes: it {why}"
        return of_file(Path(one.file), message, one.line)
    except RuleError as error:
        message = f"{one.thing} is no rule: {error}; idlewin check says it by line"
        return of_file(Path(one.file), message, one.line)
    return None
