"""Manifests in files, as objects with the line that each begins on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from idlewin.adapters.audit_pods import Object
from idlewin.adapters.audit_sound import sound
from idlewin.audit.kinds import KINDS
from idlewin.errors import Finding
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
                    objects += _objects(file, part)
    objects, odd = sound(objects)
    findings += [of_file(Path(one.file), why, one.line) for one, why in odd]
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
