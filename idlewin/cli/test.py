"""``idlewin test``: the tests beside rules, run in a simulated cluster by the real controller."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import as_completed
from enum import StrEnum
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from idlewin.cli.connection import Sources, a_catalogue
from idlewin.cli.progress import Lines
from idlewin.cli.tested import Ran, as_json, as_junit, as_text
from idlewin.errors import Exit
from idlewin.ruletest.read import find, read_trials
from idlewin.ruletest.trial import Trial
from idlewin.wiring import tried
from idlewin.workers import workers


class Output(StrEnum):
    """How the answer is written."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


_FORMS = {Output.TEXT: as_text, Output.JSON: as_json, Output.JUNIT: as_junit}


def test(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files of tests, or directories with *.test.yaml."),
    ],
    output: Annotated[
        Output, typer.Option("-o", "--output", help="text, json or junit")
    ] = Output.TEXT,  # noqa: PT028
    sources: Sources = None,  # noqa: PT028
) -> None:
    """Run the tests of rules.

    Each test has a cluster, a Prometheus and a clock of its own, all simulated; the controller is
    the one that runs live, and acts as in mode Act unless the test says Observe. What a file of
    tests may say: docs/rule-tests.md.

    Ends with 0 where all is as expected, 1 where something is not, 2 where a file cannot be used.
    """
    catalogue = a_catalogue(sources)
    files, findings = find(paths)
    read = [read_trials(file, catalogue) for file in files]
    findings += [finding for one in read for finding in one.findings]
    trials = [(one.path, trial) for one in read for trial in one.trials]
    for finding in findings:
        typer.echo(f"error: {finding}", err=True)
    ran = _run(trials)
    typer.echo(_FORMS[output](ran, findings))
    if findings:
        raise typer.Exit(Exit.USAGE)
    if any(one.failures for one in ran):
        raise typer.Exit(Exit.FAILED)


def _run(trials: Sequence[tuple[Path, Trial]]) -> list[Ran]:
    """Each test, on all cores; in their order."""
    if not trials:
        return []
    console = Console(stderr=True)
    lines = Lines(console, "tests", len(trials))
    with workers(min(len(trials), os.cpu_count() or 1)) as pool:
        waiting = [pool.submit(_one, path, trial) for path, trial in trials]
        done = as_completed(waiting)
        told = track(
            done, "tests", len(trials), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        for number, _ in enumerate(told, 1):
            lines.tell(number)
    return [future.result() for future in waiting]


def _one(path: Path, trial: Trial) -> Ran:
    begun = perf_counter()
    seen = tried(trial)
    return Ran(path=str(path), trial=trial, seen=seen, seconds=perf_counter() - begun)
