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


#: Facts that idlewin does not stand on: nothing here shows them, and why that cannot hurt.
NOT_USED = (
    Fact("1.5", "Who lends cannot take them back by preemption while the borrower's queue is held.",
         "no return of idlewin's waits for a preemption by quota"),
    Fact("2.4", "pendingWorkloads of a ClusterQueue goes on counting jobs of a LocalQueue on Hold.",
         "idlewin counts Workloads itself and reads no counter of a queue's status"),
    Fact("4.2", "A job that has quota reserved and waits for admission checks loses it under Hold, "
         "and keeps checks that are Ready.",
         "idlewin has no AdmissionCheck, and a job without admission holds no card"),
    Fact("5.8", "Deleting the Workload of a job that its maximum time ended makes a new one, which "
         "is admitted.",
         "idlewin never deletes a Workload: the job agreed to that end"),
    Fact("8.7", "Kueue's pod webhook keeps the finalizer on batch pods that ended without it.",
         "a pod that has ended is off its card for the scheduler and for idlewin alike"),
    Fact("10.5", "Server-side apply of a stopPolicy makes a ClusterQueue that is not there, or "
         "takes the field from nobody but whom it belongs to.",
         "idlewin writes merge patches with a resourceVersion only"),
)  # fmt: skip


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
    rows = [
        (one, f"`{where}`", one.not_simulated or "as the real one") for one, where in shown()
    ] + [(one, "none", one.not_simulated) for one in NOT_USED]
    rows.sort(key=lambda row: [int(part) for part in row[0].number.split(".")])
    lines = [f"| {one.number} | {one.text} | {where} | {how} |" for one, where, how in rows]
    return "\n".join(("| | fact | test | the simulated cluster |", "|---|---|---|---|", *lines))
