"""``idlewin status``: where each rule's pool stands, as its status says."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from idlewin.cli.connection import Context, Kubeconfig, edits
from idlewin.cli.output import whole_console, written
from idlewin.codec import write_status
from idlewin.core.account import said
from idlewin.core.pool import RuleObject
from idlewin.core.reason import Reason
from idlewin.core.status import Status, Truth
from idlewin.core.tally import Tally
from idlewin.core.tallying import told
from idlewin.core.text import format_duration, format_instant
from idlewin.errors import UnreachableError

#: A change is shown so soon; the controller itself looks at its pools as often.
WATCH_EVERY = timedelta(seconds=2)
TITLES = (
    "RULE", "MODE", "PHASE", "REASON", "SINCE", "UNTIL", "WINDOWS", "LATE", "HARVESTED",
)  # fmt: skip
WIDE = ("CARDS", "SERVING", "QUEUES", "LAST START-UP", "RETURNS", "OBSERVED", "ACTED")
#: Of these conditions False is the bad news; of all others True is.
_GOOD = frozenset({"Ready", "LoadKnown"})


class Output(StrEnum):
    """How the answer is written."""

    TABLE = "table"
    WIDE = "wide"
    YAML = "yaml"
    JSON = "json"


def status(
    rule: Annotated[
        str | None, typer.Argument(metavar="RULE", help="One rule, with its conditions.")
    ] = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="table, wide, yaml or json")
    ] = Output.TABLE,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again at each change, until Ctrl-C.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show where the pools stand.

    It reads what the controller last wrote; 'idlewin explain RULE' looks at the world anew.
    """
    cluster = edits(kubeconfig, context)

    def found() -> list[RuleObject]:
        return [cluster.existing_rule(rule)] if rule else cluster.rules()

    def show(rules: list[RuleObject]) -> None:
        if output in (Output.JSON, Output.YAML):
            told = [_as_dict(one) for one in rules]
            typer.echo(written(told[0] if rule else told, output))
        elif not rules:
            typer.echo("there is no rule; write one and kubectl apply -f it")
        else:
            wide = output is Output.WIDE
            _print(rules, cluster.clock.now(), whole=rule is not None, wide=wide)

    show(seen := found())
    while watch:
        time.sleep(WATCH_EVERY.total_seconds())
        try:
            now = found()
        except UnreachableError as error:
            # An API server that restarts is watched through.
            typer.echo(f"error: {error}", err=True)
            continue
        if now != seen:
            if output not in (Output.JSON, Output.YAML):
                typer.echo(f"\n{format_instant(cluster.clock.now())}")
            show(seen := now)


def _print(rules: Sequence[RuleObject], now: datetime, *, whole: bool, wide: bool) -> None:
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in (*TITLES, *(WIDE if wide else ())):
        table.add_column(title, no_wrap=title == "RULE")
    for one in rules:
        table.add_row(*_row(one, now), *(_more(one) if wide else ()))
    console = whole_console()
    console.print(table)
    for one in rules:
        for line in _lines(one, whole=whole):
            console.print(line, markup=False)


def _more(one: RuleObject) -> list[str]:
    """What ``-o wide`` has beside: the cards, who serves on them, who fills them, a start-up."""
    rule, status = one.rule, one.status or Status()
    starts = [seconds for told in status.lead_times for seconds in told.seconds[-1:]]
    return [
        f"{rule.cards.count} {rule.cards.resource}" if rule else "",
        ", ".join(f"{ref.namespace}/{ref.name}" for ref in rule.serving) if rule else "",
        ", ".join(queue.cluster_queue for queue in rule.batch.queues) if rule else "",
        format_duration(timedelta(seconds=max(starts))) if starts else "",
        str(status.counters.returns),
        _tallied(status.tallies.observe),
        _tallied(status.tallies.act),
    ]


def _tallied(tally: Tally | None) -> str:
    """What was lent, or would have been, and how often that was late."""
    if tally is None:
        return ""
    return f"{tally.lent_card_seconds / 3600:.1f} card-h, {tally.late_returns} late"


def _row(one: RuleObject, now: datetime) -> list[str]:
    status, counters = one.status or Status(), (one.status or Status()).counters
    paused = one.rule is not None and one.rule.paused
    mode = f"{one.rule.mode.value}{' (paused)' if paused else ''}" if one.rule else "unreadable"
    hours = counters.harvested_card_seconds / 3600
    return [
        one.name,
        mode,
        "not looked at yet" if one.status is None else status.phase,
        status.reason,
        _ago(status.since, now),
        format_instant(status.until) if status.until else "",
        str(counters.windows),
        str(counters.late_returns),
        f"{hours:.1f} card-h",
    ]


def _ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    return f"{format_duration(timedelta(seconds=int((now - at).total_seconds())))} ago"


def _lines(one: RuleObject, *, whole: bool) -> list[str]:
    """What a person has to know beside the table: errors, then conditions that are bad news."""
    lines = [
        f"{one.name}: {text}" for text in (one.error, one.status_error, one.wake_error) if text
    ]
    refused = one.status is not None and one.status.reason == Reason.REHEARSAL_REFUSED
    if (whole or refused) and one.status and one.status.message:
        lines.append(f"{one.name}: {one.status.reason}: {one.status.message}")
    if whole and one.status and (text := said(one.status.budget)):
        lines.append(f"{one.name}: {text}")
    if whole and one.status:
        lines += [f"{one.name}: {text}" for text in told(one.status.tallies)]
    if one.wake_until:
        lines.append(f"{one.name}: claimed until {format_instant(one.wake_until)}")
    for condition in one.status.conditions if one.status else ():
        bad = (condition.status is not Truth.TRUE) == (condition.type in _GOOD)
        if bad or whole:
            state = f"{condition.type}={condition.status.value}"
            lines.append(f"{one.name}: {state} ({condition.reason}): {condition.message}")
    return lines


def _as_dict(one: RuleObject) -> dict[str, Any]:
    return {
        "rule": one.name,
        "mode": one.rule.mode.value if one.rule else None,
        "paused": one.rule.paused if one.rule else None,
        "error": one.error or one.status_error or one.wake_error,
        "wakeUntil": format_instant(one.wake_until) if one.wake_until else None,
        "status": write_status(one.status) if one.status else None,
    }
