"""``idlewin replay``: recorded days of a card through the shipped controller, and their score.

It reads a rule, a trace and nothing else: no cluster, no Prometheus. Figures as a table, as JSON,
and as a picture of the days.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from idlewin import traces
from idlewin.cli import cards
from idlewin.cli.connection import (
    Prometheus,
    PrometheusTokenFile,
    Sources,
    a_catalogue,
    a_url,
)
from idlewin.cli.output import aside, folder_writable, writable, write
from idlewin.cli.recorded import all_rules, asked, demo_rule, one_rule, recorded
from idlewin.cli.replay_page import Replayed, part
from idlewin.cli.replayed import draw, tell
from idlewin.core.rule import METHODS, Rule
from idlewin.errors import UsageError
from idlewin.observe import PAST
from idlewin.options import Options
from idlewin.picture.page import page
from idlewin.replay import Case, as_dict

_RuleFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="A rule file, with --trace or --prometheus (a directory, too); or --demo.",
    ),
]
_Rules = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="The same as FILE, as run and explain name it."),
]
_Days = Annotated[
    int,
    typer.Option(
        metavar="NUMBER", min=3, max=366, help="How far back --prometheus is asked; 28 as ever."
    ),
]
_Trace = Annotated[
    Path | None, typer.Option(metavar="FILE", help="card,start,end,demand as .csv.gz")
]
_Card = Annotated[list[str] | None, typer.Option(metavar="CARD", help="A card of it; else all.")]
_Method = Annotated[
    str | None,
    typer.Option(metavar="METHOD", help=f"{', '.join(METHODS)} or oracle; else the rule's."),
]
_Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there.")
]
_Page = Annotated[
    Path | None,
    typer.Option(
        "--page", metavar="FILE", help="Write all of it there as a page, with a picture a card."
    ),
]
_Pictures = Annotated[Path | None, typer.Option(metavar="DIR", help="Write a PNG a card there.")]
_Seed = Annotated[int, typer.Option(metavar="NUMBER", help="Of the simulated cluster.")]
_Demo = Annotated[bool, typer.Option("--demo", help="The packaged rule and trace, all cards.")]


def replay(
    rule: _RuleFile = None,
    trace: _Trace = None,
    card: _Card = None,
    method: _Method = None,
    json_out: _Json = None,
    page_out: _Page = None,
    pictures: _Pictures = None,
    seed: _Seed = 1,
    demo: _Demo = False,
    prometheus: Prometheus = "",
    prometheus_token_file: PrometheusTokenFile = None,
    days: _Days = PAST.days,
    sources: Sources = None,
    rules: _Rules = None,
) -> None:
    """Replay recorded demand.

    The controller is the one that runs in a cluster; time and cluster are simulated. The first
    part of the demand is for the forecaster to learn from; the figures are those of the rest. With
    --prometheus it is the demand of your own rules: what they would have lent, and whom late.
    """  # fmt: skip
    rule = _once(rule, rules)
    _understood(rule, trace, prometheus, demo=demo)
    catalogue = a_catalogue(sources)
    options = Options(
        prometheus=a_url(prometheus),
        prometheus_token_file=prometheus_token_file,
        catalogue=catalogue,
    )
    drawn = pictures or (Path("out") if demo else None)
    folder_writable(drawn)
    if demo and page_out is None:
        page_out = Path("out/replay.html")
    writable(json_out, page_out)
    console, all_results, parts = Console(), [], []
    for name, chosen, found in _asked(rule, trace, card, options, timedelta(days=days)):
        now = _by_method(chosen, method)
        cases = [replace(one, rule=now, seed=seed, catalogue=catalogue) for one in found]
        all_results += (results := cards.run(cases, aside()))
        tell(now, results, console)
        parts.append(part(Replayed(name=name, rule=now, results=results)))
    if json_out is not None:
        write(json_out, json.dumps([as_dict(result) for result in all_results], indent=1) + "\n")
    if page_out is not None:
        write(page_out, page(parts, _history(trace, prometheus, days, demo=demo)))
        console.print(f"page: {page_out}")
    if drawn is not None:
        draw(all_results, drawn, console)


def _once(rule: Path | None, rules: Path | None) -> Path | None:
    if rule is not None and rules is not None:
        raise UsageError(f"{rule} and --rules {rules}: name the rules once")
    return rule or rules


def _understood(rule: Path | None, trace: Path | None, prometheus: str, *, demo: bool) -> None:
    """One history, and the rule that it is for. Raises UsageError."""
    # An address that only the environment names is one that nobody wrote for this.
    histories = (trace is not None) + (trace is None and not demo and bool(prometheus))
    if demo == (rule is not None or trace is not None) or (rule is not None and histories != 1):
        raise UsageError(
            "name a rule file and its history, --trace FILE.csv.gz or --prometheus "
            "http://HOST:9090, or write --demo alone"
        )


def _asked(
    rule: Path | None, trace: Path | None, card: list[str] | None, options: Options, past: timedelta
) -> Iterator[tuple[str, Rule, list[Case]]]:
    """Each rule by its name with its cases. Raises UsageError and UnreachableError."""
    if rule is None or trace is not None:
        document, chosen = one_rule(rule or demo_rule(), options.catalogue)
        yield document.name, chosen, recorded(chosen, trace or traces.sample(), card)
        return
    for document, chosen in all_rules(rule, options.catalogue):
        yield document.name, chosen, [asked(chosen, document.name, options, past)]


def _history(trace: Path | None, prometheus: str, days: int, *, demo: bool) -> str:
    """Whose demand it was, in a sentence."""
    if demo:
        return "Demand: the packaged trace."
    if trace is not None:
        return f"Demand: {trace.name}."
    return f"Demand: what {prometheus} remembers of the last {days} days."


def _by_method(rule: Rule, method: str | None) -> Rule:
    if method is None:
        return rule
    if method not in (*METHODS, "oracle"):
        known = ", ".join((*METHODS, "oracle"))
        raise UsageError(f"--method {method!r} is not known; write one of {known}")
    return replace(rule, forecast=replace(rule.forecast, method=method))
