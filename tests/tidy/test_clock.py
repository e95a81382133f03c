"""Only one file reads the wall clock; all others are handed the time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.source import ROOT, Module, modules

THE_CLOCK = "idlewin.adapters.clock"
READS = {
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
    "pendulum": {"now", "today", "yesterday", "tomorrow"},
    "time": {"time", "time_ns", "localtime", "gmtime", "ctime"},
}


def readings(module: Module) -> Iterator[str]:
    """Every place at which a module reads the wall clock."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if node.attr in READS.get(name, ()):
                yield f"{module.at(node)} {name}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in READS:
            for alias in node.names:
                if alias.name in READS[node.module] and alias.name != "time":
                    yield f"{module.at(node)} {node.module}.{alias.name}"
                if (node.module, alias.name) == ("time", "time"):
                    yield f"{module.at(node)} time.time"


def test_only_the_clock_reads_the_wall_clock() -> None:
    wrong = [
        place
        for module in modules("idlewin")
        if module.name != THE_CLOCK
        for place in readings(module)
    ]

    assert wrong == []


@pytest.mark.parametrize(
    "line",
    ["datetime.now(UTC)", "datetime.datetime.utcnow()", "time.time()", "from time import time"],
)
def test_a_reading_of_the_wall_clock_is_seen(line: str) -> None:
    module = Module(name="x", path=ROOT / "x.py", lines=1, tree=ast.parse(line))

    assert list(readings(module)) != []
