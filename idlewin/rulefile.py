"""Rule files to rules: every error names file, line, field, value and what would be right.

A document that cannot be read hurts only itself. What a spec means is codec.py's; what two rules
mean to each other is rulecheck.py's and the core's lint; how YAML is read is yamlfile.py's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from idlewin.codec import read_rule
from idlewin.core.pool import RuleObject
from idlewin.core.rule import KIND, Rule
from idlewin.errors import Finding, Problem, RuleError
from idlewin.rulehead import head_problems, name_of
from idlewin.wording import shown
from idlewin.yamlfile import Part, of_file, parts, text_of

#: How the names of other files end that lie beside rules, without ``.yaml``: tests, planes.
BESIDE = (".test", ".plane")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One document of a rule file: the rule, if it can be read, and what is to be said of it."""

    file: str
    line: int
    object: RuleObject
    findings: tuple[Finding, ...] = ()
    part: Part = field(default_factory=lambda: Part(root={}), repr=False, compare=False)

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
        return Finding(
            file=self.file,
            line=self.part.line_of(problem.path),
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
    """The rules of files and of directories' ``*.yaml`` and ``*.yml``, but for what lies beside."""
    documents: list[Document] = []
    unreadable: list[Finding] = []
    for path in paths:
        files, trouble = _files(Path(path))
        unreadable += trouble
        for file in files:
            text = text_of(file)
            if isinstance(text, Finding):
                unreadable.append(text)
                continue
            found = read_text(file, text)
            documents += found.documents
            unreadable += found.unreadable
    return RuleFiles(documents=_names_once(documents), unreadable=tuple(unreadable))


# -- files and documents


def _files(path: Path) -> tuple[list[Path], list[Finding]]:
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if _is_rule_file(p))
        if found:
            return found, []
        return [], [of_file(path, "has no *.yaml or *.yml file in it; write a rule there")]
    if not path.exists():
        return [], [of_file(path, "is not there; name a rule file or a directory of them")]
    return [path], []


def _is_rule_file(path: Path) -> bool:
    name = path.name
    return name.endswith((".yaml", ".yml")) and not name.rpartition(".")[0].endswith(BESIDE)


def read_text(path: Path, text: str) -> RuleFiles:
    """The rules of a file that has this text."""
    documents: list[Document] = []
    unreadable: list[Finding] = []
    for part in parts(path, text):
        if isinstance(part, Finding):
            unreadable.append(part)
        else:
            documents.append(_document(str(path), part))
    if not documents and not unreadable:
        unreadable.append(of_file(path, "is empty; write a rule, or take the file away"))
    return RuleFiles(documents=tuple(documents), unreadable=tuple(unreadable))


def _document(file: str, part: Part) -> Document:
    try:
        plain = part.plain()
    except RecursionError:
        finding = Finding(
            file=file, line=part.line, field="", message="contains itself by an alias"
        )
        return Document(file=file, line=part.line, object=_object("", None), findings=(finding,))
    if not part.is_mapping:
        message = f"{shown(plain)} is no {KIND}; write apiVersion, kind, metadata and spec"
        finding = Finding(file=file, line=part.line, field="", message=message)
        return Document(file=file, line=part.line, object=_object("", None), findings=(finding,))
    problems, rule = list(head_problems(plain)), None
    if plain.get("kind") == KIND and "spec" in plain:
        try:
            rule = read_rule(plain["spec"])
        except RuleError as error:
            problems += [replace(p, path=("spec", *p.path)) for p in error.problems]
    object_ = _object(name_of(plain), None if problems else rule, "; ".join(map(str, problems)))
    document = Document(file=file, line=part.line, part=part, object=object_)
    findings = [document.finding(problem) for problem in problems]
    # What is an error already has its advice.
    traps = [trap for trap in part.traps() if trap.path not in {p.path for p in problems}]
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
