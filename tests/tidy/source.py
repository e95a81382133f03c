"""The source as data: modules, what they import, what they define. Standard library only."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file of Python."""

    name: str
    path: Path
    lines: int
    tree: ast.Module

    def at(self, node: ast.AST) -> str:
        """Where a node is, as an editor takes it."""
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"

    def imports(self) -> Iterator[tuple[str, ast.AST]]:
        """Every module that is imported, wherever in the file, with the place."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((alias.name, node) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module, node
                # `from idlewin import ports` names the module last.
                if node.module == "idlewin":
                    yield from ((f"idlewin.{alias.name}", node) for alias in node.names)

    def functions(self) -> Iterator[Function]:
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node


@cache
def modules(folder: str) -> tuple[Module, ...]:
    """All modules below a folder of the tree."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        tree = ast.parse(text, path)
        found.append(Module(name=name, path=path, lines=text.count("\n"), tree=tree))
    return tuple(found)


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def layers() -> list[frozenset[str]]:
    """The layers of import-linter's contract, the topmost first; each with its siblings."""
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    rows = next(c["layers"] for c in contracts if c["type"] == "layers")
    split = (row.replace("|", ":").split(":") for row in rows)
    return [frozenset(name.strip(" ()") for name in row) for row in split]


def strict_siblings() -> list[frozenset[str]]:
    """Layers whose members must not import each other."""
    contracts = pyproject()["tool"]["importlinter"]["contracts"]
    rows = next(c["layers"] for c in contracts if c["type"] == "layers")
    return [layer for row, layer in zip(rows, layers(), strict=True) if "|" in row]


def third_party(name: str) -> str | None:
    """The library that an import is of; None: the standard library's or our own."""
    root = name.partition(".")[0]
    own = root in {"idlewin", "tests"}
    return None if own or root in sys.stdlib_module_names else root


def tracked() -> list[Path]:
    """Every file that git keeps."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
