"""Files of sources: one mapping of names to entries, as the catalogue that ships is written.

Every error names file, line, field, value and what would be right. A name that ships is not to be
taken: a rule would mean something else by it here than elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

from idlewin.codec import read_source
from idlewin.errors import Finding, RuleError
from idlewin.source import Source
from idlewin.wording import shown
from idlewin.yamlfile import Part, of_file, parts, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """What some files say of sources."""

    sources: tuple[Source, ...] = ()
    findings: tuple[Finding, ...] = ()
    """What is wrong with the rest."""


@cache
def shipped() -> SourceFiles:
    """The catalogue of the package."""
    with as_file(files("idlewin").joinpath("sources.yaml")) as path:
        return _merged(_of_file(path))


def read_sources(path: Path) -> SourceFiles:
    """The sources of a file, or of a directory's ``*.yaml`` and ``*.yml``, which may have none.

    A directory is not searched deeper: a mounted ConfigMap has its files in hidden folders once
    more.
    """
    if not path.exists():
        message = "is not there; name a file of sources, or a directory of them"
        return SourceFiles(findings=(of_file(path, message),))
    found = sorted(path.iterdir()) if path.is_dir() else [path]
    named = [one for one in found if one == path or one.suffix in (".yaml", ".yml")]
    ours = {source.name for source in shipped().sources}
    return _merged((entry for one in named for entry in _of_file(one)), ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    source: Source
    file: str
    line: int


def _merged(read: Iterable[_Entry | Finding], taken: Collection[str] = frozenset()) -> SourceFiles:
    """All of it, each name once, and none that is taken."""
    first: dict[str, _Entry] = {}
    findings = []
    for one in read:
        if isinstance(one, Finding):
            findings.append(one)
            continue
        name = one.source.name
        before = None if name in taken else first.setdefault(name, one)
        if before is not one:
            owner = f"{before.file}:{before.line}" if before else "the catalogue that ships"
            message = f"is taken by {owner}; choose another name"
            findings.append(Finding(file=one.file, line=one.line, field=name, message=message))
    return SourceFiles(
        sources=tuple(entry.source for entry in first.values()), findings=tuple(findings)
    )


def _of_file(path: Path) -> Iterator[_Entry | Finding]:
    text = text_of(path)
    if isinstance(text, Finding):
        yield text
        return
    for part in parts(path, text):
        if isinstance(part, Finding):
            yield part
        else:
            yield from _of_part(path, part)


def _of_part(path: Path, part: Part) -> Iterator[_Entry | Finding]:
    try:
        plain = part.plain()
    except RecursionError:
        yield of_file(path, "contains itself by an alias", part.line)
        return
    if not part.is_mapping:
        message = f"{shown(plain)} is no source; write NAME: and its fields below it"
        yield of_file(path, message, part.line)
        return
    for name, entry in plain.items():
        try:
            source = read_source(name, entry)
        except RuleError as error:
            for problem in error.problems:
                where = replace(problem, path=(name, *problem.path))
                line = part.line_of(where.path)
                yield Finding(file=str(path), line=line, field=where.field, message=where.message)
        else:
            yield _Entry(source=source, file=str(path), line=part.line_of((name,)))
