"""A fact of Kueue and of Kubernetes, tied to the test that shows it; the table of docs/kueue.md."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Fact:
    """A number, a sentence, and why the simulated cluster may be without it; empty: it is not."""

    number: str
    text: str
    not_simulated: str = ""


def fact(number: str, text: str, *, not_simulated: str = "") -> Callable[[Any], Any]:
    """Says which fact a test shows. Stacked where one scene shows several."""

    def mark(test: Any) -> Any:
        test.facts = (Fact(number, text, not_simulated), *getattr(test, "facts", ()))
        return test

    return mark


def shown() -> Iterator[tuple[Fact, str]]:
    """Every fact that a test of this folder shows, and where."""
    for path in sorted(FOLDER.glob("test_*.py")):
        module = importlib.import_module(f"tests.contract.kueue.{path.stem}")
        for name, test in vars(module).items():
            if isinstance(test, FunctionType):
                for one in getattr(test, "facts", ()):
                    yield one, f"{path.stem}.{name}"


def table() -> str:
    """The facts by number; where the simulated cluster is without one, why."""
    rows = sorted(shown(), key=lambda row: [int(part) for part in row[0].number.split(".")])
    lines = [
        f"| {one.number} | {one.text} | `{where}` | {one.not_simulated or 'as the real one'} |"
        for one, where in rows
    ]
    return "\n".join(("| | fact | test | the simulated cluster |", "|---|---|---|---|", *lines))
