"""Rule files to rules: every error names file, line, field, value and what would be right.

A document that cannot be read hurts only itself. What a spec means is codec.py's; what two rules
mean to each other is rulecheck.py's and the core's lint; how a file is changed is ruleedit.py's.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq, TaggedScalar
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from idlewin.codec import read_rule
from idlewin.core.pool import RuleObject
from idlewin.core.rule import KIND, Rule
from idlewin.errors import Finding, Problem, RuleError
from idlewin.rulehead import head_problems, name_of
from idlewin.wording import shown, spelled

_GZIPPED = b"\x1f\x8b"
_YAML_1_1_BOOL = frozenset({"y", "n", "yes", "no", "on", "off"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a rule file: the rule, if it can be read, and what is to be said of it."""

    file: str
    line: int
    object: RuleObject
    findings: tuple[Finding, ...] = ()
    root: CommentedMap = field(default_factory=CommentedMap, repr=False, compare=False)
    offset: int = 0

    @property
    def name(self) -> str:
        """The rule's name; empty where the document has none."""
        return self.object.name

    @property
    def rule(self) -> Rule | None:
        """The rule, if the document can be read."""
        return self.object.rule

    def finding(self, problem: Problem, *, warning: bool = False) -> Finding:
        """A problem of this document with its line; its path begins at the document."""
        line = self.offset + _line(self.root, problem.path)
        return Finding(
            file=self.file,
            line=line,
            field=problem.field,
            message=problem.message,
            rule=self.name,
            warning=warning,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFiles:
    """Everything that some paths held."""

    documents: tuple[Document, ...] = ()
    unreadable: tuple[Finding, ...] = ()
    """What is to be said of files as such."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that is to be said, in the order of the files."""
        return (*self.unreadable, *(f for document in self.documents for f in document.findings))

    @property
    def objects(self) -> tuple[RuleObject, ...]:
        """The rules, those that cannot be read with their error."""
        return tuple(document.object for document in self.documents if document.name)


def read_files(paths: Iterable[str | Path]) -> RuleFiles:
    """The rules of files and of directories' ``*.yaml`` and ``*.yml``, without ``*.test.yaml``."""
    documents: list[Document] = []
    unreadable: list[Finding] = []
    for path in paths:
        files, trouble = _files(Path(path))
        unreadable += trouble
        for file in files:
            found = _read_file(file)
            documents += found.documents
            unreadable += found.unreadable
    return RuleFiles(documents=_names_once(documents), unreadable=tuple(unreadable))


def to_yaml(data: Any, comment: str = "") -> str:
    """Plain data as YAML, with a comment at its head."""
    yaml = YAML(typ="rt")
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(data, out)
    return (f"# {comment}\n" if comment else "") + out.getvalue()


# -- files and documents


def _files(path: Path) -> tuple[list[Path], list[Finding]]:
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if _is_rule_file(p))
        if found:
            return found, []
        return [], [_of_file(path, "has no *.yaml or *.yml file in it; write a rule there")]
    if not path.exists():
        return [], [_of_file(path, "is not there; name a rule file or a directory of them")]
    return [path], []


def _is_rule_file(path: Path) -> bool:
    name = path.name
    return name.endswith((".yaml", ".yml")) and not name.endswith((".test.yaml", ".test.yml"))


def _of_file(path: Path, message: str, line: int = 0) -> Finding:
    return Finding(file=str(path), line=line, field="", message=message)


def _read_file(path: Path) -> RuleFiles:
    try:
        raw = path.read_bytes()
    except OSError as error:
        return RuleFiles(unreadable=(_of_file(path, f"cannot be read: {error.strerror}"),))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if raw.startswith(_GZIPPED):
            said = "is gzipped, as a trace is, and no rule file; name a rule file here"
            return RuleFiles(unreadable=(_of_file(path, said),))
        line = raw.count(b"\n", 0, error.start) + 1
        return RuleFiles(
            unreadable=(_of_file(path, "is not UTF-8 text; save the file as UTF-8", line),)
        )
    return read_text(path, text)


def read_text(path: Path, text: str) -> RuleFiles:
    """The rules of a file that has this text."""
    documents: list[Document] = []
    unreadable: list[Finding] = []
    for offset, part in _parts(text):
        try:
            root = _yaml().load(part)
        except YAMLError as error:
            unreadable.append(_syntax(path, offset, part, error))
        except (RecursionError, ValueError) as error:
            unreadable.append(_of_file(path, f"cannot be read: {error}", offset + 1))
        else:
            if root is not None:
                documents.append(_document(str(path), offset, root, _first_line(part)))
    if not documents and not unreadable:
        unreadable.append(_of_file(path, "is empty; write a rule, or take the file away"))
    return RuleFiles(documents=tuple(documents), unreadable=tuple(unreadable))


def _yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    return yaml


def _parts(text: str) -> Iterator[tuple[int, str]]:
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
    return _of_file(path, said, offset + at + 1)


def _first_line(part: str) -> int:
    """The line, from 1, on which a document says something."""
    said = re.compile(r"\s*(---)?\s*(#|$)")
    return next((n for n, line in enumerate(part.splitlines(), 1) if not said.match(line)), 1)


def _document(file: str, offset: int, root: Any, first: int) -> Document:
    line = offset + first
    if not isinstance(root, CommentedMap):
        message = f"{shown(_plain(root))} is no {KIND}; write apiVersion, kind, metadata and spec"
        finding = Finding(file=file, line=line, field="", message=message)
        return Document(file=file, line=line, object=_object("", None), findings=(finding,))
    try:
        plain = _plain(root)
    except RecursionError:
        finding = Finding(file=file, line=line, field="", message="contains itself by an alias")
        return Document(file=file, line=line, object=_object("", None), findings=(finding,))
    problems, rule = list(head_problems(plain)), None
    if plain.get("kind") == KIND and "spec" in plain:
        try:
            rule = read_rule(plain["spec"])
        except RuleError as error:
            problems += [replace(p, path=("spec", *p.path)) for p in error.problems]
    object_ = _object(name_of(plain), None if problems else rule, "; ".join(map(str, problems)))
    document = Document(file=file, line=line, offset=offset, root=root, object=object_)
    findings = [document.finding(problem) for problem in problems]
    # What is an error already has its advice.
    traps = [trap for trap in _traps(root, ()) if trap.path not in {p.path for p in problems}]
    findings += [document.finding(trap, warning=True) for trap in traps]
    return replace(document, findings=tuple(sorted(findings, key=lambda finding: finding.line)))


def _object(name: str, rule: Rule | None, error: str = "") -> RuleObject:
    return RuleObject(
        name=name, uid=f"file/{name}", generation=1, resource_version="", rule=rule, error=error
    )


def _names_once(documents: Sequence[Document]) -> tuple[Document, ...]:
    """The same documents; one whose name is taken has an error, and no name or rule."""
    first: dict[str, Document] = {}
    done = []
    for document in documents:
        before = first.setdefault(document.name, document) if document.name else document
        if before is document:
            done.append(document)
            continue
        message = f"{document.name!r} is taken by {before.file}:{before.line}; rename one"
        taken = Problem(field="metadata.name", message=message, path=("metadata", "name"))
        findings = (*document.findings, document.finding(taken))
        done.append(replace(document, object=_object("", None, str(taken)), findings=findings))
    return tuple(done)


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
