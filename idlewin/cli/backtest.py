"""``idlewin backtest``: forecasters and peers on recorded demand, at a budget of late returns.

It reads traces and nothing else. Figures as a table, as JSON, and as a picture of the curves.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from idlewin import holidays, traces
from idlewin.backtest.case import Case, CaseError, case_of
from idlewin.backtest.figures import HEADLINE, PER_WEEK, SHARES, Budget
from idlewin.backtest.peers import PEERS
from idlewin.backtest.run import Result, followed, peer, tried
from idlewin.cli.output import aside, writable, write
from idlewin.cli.progress import Lines
from idlewin.core.rule import AUTO, METHODS
from idlewin.core.stopping import Handover
from idlewin.core.text import parse_duration
from idlewin.errors import UsageError
from idlewin.forecasters import there
from idlewin.forecasters.plans import plans
from idlewin.picture import PictureError, curves
from idlewin.pricing.control import PRICES

MINUTE = 60.0
#: A handover that takes more minutes is no handover.
LONGEST = 240
LEFT: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}


def backtest(
    trace: Annotated[
        list[Path], typer.Option(metavar="FILE", help="card,start,end,demand as .csv.gz")
    ],
    meta: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON that tells of each trace by its name.")
    ] = None,
    forecaster: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Of {', '.join(METHODS)}; default: all."),
    ] = None,
    peers: Annotated[bool, typer.Option("--peers", help="The rules in use as well.")] = False,
    open_: Annotated[
        str, typer.Option("--open", metavar="TIME", help="Opening takes so long.")
    ] = "2m",
    return_: Annotated[
        str, typer.Option("--return", metavar="TIME", help="A return takes this.")
    ] = "5m",
    rests: Annotated[
        str | None, typer.Option("--holidays", metavar="CODE", help="Days of rest: AT, DE-BY.")
    ] = None,
    until: Annotated[
        int | None, typer.Option(metavar="MINUTE", help="Cut the trace there.")
    ] = None,
    windows: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the windows of HW@1 there.")
    ] = None,
    json_out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a PNG of the curves there.")
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, metavar="COUNT", help="Default all.")] = None,
) -> None:
    """Judge forecasters on recorded demand.

    Each is run at budgets of late returns, day by day, by what was known before; peers have their
    best settings chosen in hindsight. Harvest is told as a share of the oracle's.
    """
    chosen, handover = _chosen(forecaster), _handover(open_, return_)
    cases = [_case(path, meta, handover, until, rests) for path in trace]
    writable(windows, json_out, picture)
    console, found = Console(), dict[str, dict[str, Result]]()
    for case in cases:
        found[case.trace] = _run(case, chosen, peers, cores or os.cpu_count() or 1, aside())
        console.print(*_tables(case, found[case.trace]), sep="\n")
    _write_figures(json_out, cases, found)
    _write_windows(windows, cases[0], found[cases[0].trace][chosen[-1]])
    _draw(picture, found, console)


# -- what is asked for


def _chosen(names: list[str] | None) -> list[str]:
    """The forecasters to run; each name once, the mix of all last."""
    known = [name for name in METHODS if there(name)]
    for name in names or []:
        if name not in METHODS:
            raise UsageError(
                f"--forecaster {name!r} is not known; write one of {', '.join(METHODS)}"
            )
        if name not in known:
            raise UsageError(
                f"--forecaster {name} needs LightGBM, which cannot be loaded; run: "
                "pip install 'idlewin[boosting]' (on Debian, apt install libgomp1 too)"
            )
    return [name for name in known if name in (names or known)]


def _handover(opening: str, warming: str) -> Handover:
    return Handover(opening=_minutes("--open", opening), warming=_minutes("--return", warming))


def _minutes(option: str, text: str) -> float:
    try:
        value = parse_duration(text).total_seconds() / MINUTE
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    if value != round(value) or not 0 < value <= LONGEST:
        raise UsageError(f"{option} {text} is not whole minutes from 1m to {LONGEST}m")
    return value


def _case(
    path: Path, meta: Path | None, handover: Handover, until: int | None, rests: str | None
) -> Case:
    if rests is not None and (wrong := holidays.problem(rests)):
        raise UsageError(f"--holidays: {wrong}")
    name = path.name.removesuffix(".gz").removesuffix(".csv")
    try:
        about = traces.about(path) if meta is None else traces.about_in(meta, name)
        return case_of(name, traces.load(path), about, handover, until, rests)
    except (traces.TraceError, CaseError) as error:
        raise UsageError(str(error)) from None


# -- the work


def _run(
    case: Case, names: list[str], with_peers: bool, cores: int, console: Console
) -> dict[str, Result]:
    single = [name for name in names if name != AUTO]
    tried_ = [name for name in METHODS if name != AUTO and there(name)]
    wanted = tried_ if AUTO in names else single
    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    found: dict[str, Result] = {}
    days = dict.fromkeys(wanted, 0)
    lines = Lines(console, f"days of {case.trace}", len(wanted) * (case.days - 1))
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        tasks = {name: progress.add_task(f"{name}, days", total=case.days - 1) for name in wanted}

        def tell(name: str, done: int, of: int) -> None:
            progress.update(tasks[name], completed=done, total=of)
            days[name] = done
            lines.tell(sum(days.values()))

        trials = tried(case, wanted, tell, cores)
        budgets = progress.add_task("prices", total=len(names))
        for name in names:
            of = list(trials.values()) if name == AUTO else [trials[name]]
            found[name] = followed(case, of, PRICES)
            progress.advance(budgets)
        if with_peers:
            task = progress.add_task("peers", total=len(PEERS))
            made = plans(case.gaps)
            for one in PEERS:
                found[one.name] = peer(case, made, one)
                progress.advance(task)
    return found


# -- what came of it


def _tables(case: Case, found: Mapping[str, Result]) -> Iterator[Table]:
    """What a budget buys, and what was spent: two tables, as one is wider than a terminal."""
    bought = Table(
        title=f"{case.trace}: {len(case.fleet.cards)} cards, {case.card_weeks:.0f} card-weeks, "
        f"oracle {case.best().sum() / MINUTE:,.0f} h; share of it that is harvested",
        caption="HW@N: at N late returns a card-week; HF@N: where N of the returns are late",
        **LEFT,
    )
    hindsight = any(not result.causal for result in found.values())
    spent = Table(
        title=f"{case.trace}: late returns a card-week, and what HW@1 is like",
        caption=("* settings chosen in hindsight; " if hindsight else "")
        + "'over': a budget was broken by more than chance",
        **LEFT,
    )
    for table in (bought, spent):
        table.add_column("policy", no_wrap=True)
    for budget in (*PER_WEEK, *SHARES):
        bought.add_column(_name(budget), justify="right", no_wrap=True)
    for budget in PER_WEEK:
        spent.add_column(f"@{budget.name}", justify="right")
    for name in ("on time", "worst card", "cards over", "macro"):
        spent.add_column(name, justify="right")
    for name, result in found.items():
        one, shares = result.figures, {**result.figures.hw, **result.figures.hf}
        label = name if one.causal else f"{name} *"
        bought.add_row(label, *(_share(shares[b.name]) for b in (*PER_WEEK, *SHARES)))
        spent.add_row(
            label,
            *(f"{one.realised[budget.name]:.2f}" for budget in PER_WEEK),
            f"{one.on_time:.0%}",
            f"{one.worst_card:.3g}",
            f"{one.cards_over:.0%}",
            f"{one.macro:.3f}",
        )
    yield from (bought, spent)


def _name(budget: Budget) -> str:
    return f"HF@{budget.share:.0%}" if budget.share else f"HW@{budget.name}"


def _share(value: float | None) -> str:
    return "over" if value is None else f"{value:.3f}"


def _told(case: Case, found: Mapping[str, Result]) -> dict[str, Any]:
    return {
        "trace": case.trace,
        "cards": len(case.fleet.cards),
        "returns": int(case.returns.sum()),
        "oracle_hours": round(float(case.best().sum()) / MINUTE, 3),
        "open_s": case.handover.opening * MINUTE,
        "return_s": case.handover.warming * MINUTE,
        "policies": {name: asdict(result.figures) for name, result in found.items()},
    }


def _write_figures(
    path: Path | None, cases: list[Case], found: Mapping[str, Mapping[str, Result]]
) -> None:
    if path is None:
        return
    told = [_told(case, found[case.trace]) for case in cases]
    write(path, json.dumps(told[0] if len(told) == 1 else told, indent=1) + "\n")


def _write_windows(path: Path | None, case: Case, result: Result) -> None:
    """The windows of the judged part at the headline's budget, in minutes of the trace."""
    if path is None:
        return
    made, start = result.windows[HEADLINE], case.fleet.start
    card = case.gaps.card[made.gap]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["card", "open", "close", "ready"])
    for k in range(len(made)):
        if made.ready[k] > case.judged_from:
            times = (made.open[k] - start, made.close[k] - start, made.ready[k] - start)
            rows.writerow([case.fleet.cards[card[k]], *(int(time) for time in times)])
    write(path, gzip.compress(text.getvalue().encode(), mtime=0))


def _draw(path: Path | None, found: Mapping[str, Mapping[str, Result]], console: Console) -> None:
    if path is None:
        return
    try:
        curves.draw(found, path)
    except PictureError as error:
        console.print(f"no picture: {error}")
        return
    console.print(f"picture of the curves: {path}")
