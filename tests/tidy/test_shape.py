"""Sizes that fit a screen, docstrings that say why a file is there."""

from __future__ import annotations

import ast

import pytest

from tests.tidy.source import Function, modules

#: A file of tests is a list of cases: it is searched, not read from top to bottom.
LINES_PER_FILE = {"idlewin": 300, "tests": 600}
LINES_PER_FUNCTION = 50
PARAMETERS = 6
both = pytest.mark.parametrize("folder", ["idlewin", "tests"])


def parameters(function: Function) -> int:
    """How many a caller has to know; self and cls are not among them."""
    known = function.args
    names = [a.arg for a in (*known.posonlyargs, *known.args, *known.kwonlyargs)]
    return len([name for name in names if name not in {"self", "cls"}])


@both
def test_files_are_short(folder: str) -> None:
    long = {m.name: m.lines for m in modules(folder) if m.lines > LINES_PER_FILE[folder]}

    assert long == {}


@both
def test_functions_fit_a_screen(folder: str) -> None:
    long = [
        f"{module.at(function)} {function.name}: {function.end_lineno - function.lineno + 1} lines"
        for module in modules(folder)
        for function in module.functions()
        if (function.end_lineno or 0) - function.lineno + 1 > LINES_PER_FUNCTION
    ]

    assert long == []


def test_functions_take_few_parameters() -> None:
    # In the command line parameters are what the user may say, not what a caller must know.
    many = [
        f"{module.at(function)} {function.name}: {parameters(function)} parameters"
        for module in modules("idlewin")
        if not module.name.startswith("idlewin.cli")
        for function in module.functions()
        if parameters(function) > PARAMETERS
    ]

    assert many == []


@both
def test_every_module_says_what_it_is_for(folder: str) -> None:
    silent = [m.name for m in modules(folder) if not ast.get_docstring(m.tree)]

    assert silent == []
