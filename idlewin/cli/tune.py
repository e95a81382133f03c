"""``idlewin tune``: other values for a rule's fields, each replayed on the rule's own history.

The points worth choosing as a table and a picture, and what to write into the rule's file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from idlewin import traces
from idlewin.cli.connection import (
    Prometheus,
    PrometheusTokenFile,
    Sources,
    a_catalogue,
    a_url,
)
from idlewin.cli.output import aside, writable, write
from idlewin.cli.progress import Lines
from idlewin.cli.recorded import asked, demo_rule, one_rule, recorded
from idlewin.cli.tuned import Found, diff, drawn, table, texts, told, verdict
from idlewin.core.rule import Rule
from idlewin.core.window import clipped
from idlewin.errors import UsageError
from idlewin.options import Options
from idlewin.replay import Case
from idlewin.tune import (
    FIELDS,
    Tried,
    VaryError,
    allowed,
    best,
    grid,
    suggested,
    tried,
    usual,
)
from idlewin.wiring import replayed

#: A grid with more runs is a mistake: it would take hours.
MOST = 1000
DEMO_CARD = "language/m-mid#98"

_RuleFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A rule file; or --demo.", show_default=False)
]
_Trace = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Its history: card,start,end,demand as .csv.gz"),
]
_Card = Annotated[
    list[str] | None, typer.Option(metavar="CARD", help="A card of it; more than one are summed.")
]
_Vary = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FIELD=A,B,...",
        help=f"Values to try. Fields: {', '.join(FIELDS)}. Default: half and twice the budget and "
        "window.min, and each method.",
    ),
]
_Pick = Annotated[
    int | None, typer.Option(min=1, metavar="NUMBER", help="The point to write; else *.")
]
_Write = Annotated[bool, typer.Option("--write", help="Change the file; else show the change.")]
_Picture = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a PNG of the points there.")
]
_Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there.")
]
_Cores = Annotated[int | None, typer.Option(min=1, metavar="COUNT", help="Default all.")]
_Demo = Annotated[
    bool, typer.Option("--demo", help="The packaged rule, and a card of the packaged trace.")
]


def tune(
    rule: _RuleFile = None,
    trace: _Trace = None,
    card: _Card = None,
    prometheus: Prometheus = "",
    prometheus_token_file: PrometheusTokenFile = None,
    vary: _Vary = None,
    pick: _Pick = None,
    write_: _Write = False,
    picture: _Picture = None,
    json_out: _Json = None,
    cores: _Cores = None,
    demo: _Demo = False,
    sources: Sources = None,
) -> None:
    """Try other values of a rule's fields on its own history.

    Each combination is replayed by the controller in a simulated cluster. What is worth choosing
    is told by harvest, late returns and handovers, and as a change to the rule file.
    """
    if demo == (rule is not None) or (demo and (trace or write_)):
        raise UsageError("name a rule file and its history, or write --demo alone")
    path, catalogue = rule or demo_rule(), a_catalogue(sources)
    document, now = one_rule(path, catalogue)
    writable(picture, json_out, path if write_ else None)
    wanted = _vary(vary) if vary else usual(now)
    options = Options(
        prometheus=a_url(prometheus),
        prometheus_token_file=prometheus_token_file,
        catalogue=catalogue,
    )
    if demo:
        cases = recorded(now, traces.sample(), card or [DEMO_CARD])
    elif trace is not None:
        cases = _cards(recorded(now, trace, card), trace, card)
    else:
        cases = [asked(now, document.name, options)]
    _judged(cases := [replace(case, catalogue=catalogue) for case in cases])
    console = Console()
    found = _run(now, cases, wanted, cores or os.cpu_count() or 1, aside())
    console.print(table(found))
    drawn(picture, found, document.name, console)
    if json_out is not None:
        write(json_out, json.dumps(told(found), indent=1) + "\n")
    typer.echo(verdict(found, chosen := _picked(found, pick)))
    before, after = texts(path, chosen)
    typer.echo(diff(path, before, after), nl=False)
    if write_ and before != after:
        write(path, after)
        typer.echo(f"written: {path}")


# -- what is asked for


def _vary(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        field, equals, rest = text.partition("=")
        values = tuple(dict.fromkeys(value.strip() for value in rest.split(",")))
        if not equals or "" in values:
            raise UsageError(f"--vary {text!r} names no values; write window.min=15m,30m,1h")
        if field in found:
            raise UsageError(f"--vary {field} is written twice; name all its values in one")
        found[field] = values
    return found


def _cards(cases: list[Case], trace: Path, named: list[str] | None) -> list[Case]:
    """The cards of a trace that a rule is tuned for: which, has to be said. Raises UsageError."""
    if len(cases) > 1 and not named:
        names = [case.card for case in cases]
        more = f" and {len(names) - 6} more" if len(names) > 6 else ""
        raise UsageError(
            f"{trace} has {len(names)} cards, and a rule has its own history; name it with --card: "
            f"{', '.join(names[:6])}{more}"
        )
    return cases


def _judged(cases: Sequence[Case]) -> None:
    """There is something to be late for. Raises UsageError."""
    if not any(clipped(case.busy, case.judged) for case in cases):
        raise UsageError(
            f"no demand is known after {cases[0].judged_from:%Y-%m-%d %H:%M} UTC, from when on "
            "points are judged: no return could be late; name a longer history"
        )


# -- the work


def _run(
    now: Rule, cases: list[Case], wanted: dict[str, tuple[str, ...]], cores: int, console: Console
) -> Found:
    if (asked_for := math.prod(map(len, wanted.values())) * len(cases)) > MOST:
        raise UsageError(
            f"that would be {asked_for:,} runs, more than {MOST:,}; name fewer values with --vary"
        )
    try:
        points, left_out = grid(now, wanted)
    except VaryError as error:
        raise UsageError(f"--vary {error}") from None
    for why in left_out:
        console.print(f"left out: {why}", markup=False, highlight=False)
    days = sum(case.covers.length.days for case in cases) / len(cases)
    runs = len(points) * len(cases)
    used = min(cores, runs)
    console.print(
        f"{runs} run{'s' * (runs > 1)} of {days:.0f} days on {used} core{'s' * (used > 1)}"
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    lines = Lines(console, "runs", runs)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("replays", total=runs)

        def tell(done: int) -> None:
            progress.update(task, completed=done)
            lines.tell(done)

        found = tried(points, cases, replayed, tell, cores)
    most, front = allowed(now, cases), best(found)
    return Found(
        cases=cases,
        fields=list(wanted),
        all=found,
        front=front,
        allowed=most,
        suggested=suggested(front, most),
    )


def _picked(found: Found, pick: int | None) -> Tried:
    if pick is None:
        return found.suggested or found.now
    if pick > len(found.front):
        raise UsageError(f"--pick {pick}: the table has points 1 to {len(found.front)}")
    return found.front[pick - 1]
