"""``idlewin status``: where each rule's pool stands, as its status says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

from idlewin.cli.connection import Context, Kubeconfig, edits
from idlewin.codec import write_status
from idlewin.core.account import said
from idlewin.core.pool import RuleObject
from idlewin.core.status import Status, Truth
from idlewin.core.text import format_duration, format_instant

#: Of these conditions False is the bad news; of all others True is.
_GOOD = frozenset({"Ready", "LoadKnown"})


class Output(StrEnum):
    """How the answer is written."""

    TABLE = "table"
    JSON = "json"


def status(
    rule: Annotated[
        str | None, typer.Argument(metavar="RULE", help="One rule, with its conditions.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="table or json")] = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show where the pools stand.

    It reads what the controller last wrote; 'idlewin explain RULE' looks at the world anew.
    """
    cluster = edits(kubeconfig, context)
    rules = [cluster.existing_rule(rule)] if rule else cluster.rules()
    if output is Output.JSON:
        told = [_as_json(one) for one in rules]
        typer.echo(json.dumps(told[0] if rule else told, indent=2))
    elif not rules:
        typer.echo("there is no rule; write one and kubectl apply -f it")
    else:
        _print(rules, cluster.clock.now(), whole=rule is not None)


def _print(rules: Sequence[RuleObject], now: datetime, *, whole: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - only where a table is shown
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in (
        "RULE",
        "MODE",
        "PHASE",
        "REASON",
        "SINCE",
        "UNTIL",
        "WINDOWS",
        "LATE",
        "HARVESTED",
    ):
        table.add_column(title, no_wrap=title == "RULE")
    for one in rules:
        table.add_row(*_row(one, now))
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    for one in rules:
        for line in _lines(one, whole=whole):
            console.print(line, markup=False)


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
    if whole and one.status and one.status.message:
        lines.append(f"{one.name}: {one.status.reason}: {one.status.message}")
    if whole and one.status and (text := said(one.status.budget)):
        lines.append(f"{one.name}: {text}")
    if one.wake_until:
        lines.append(f"{one.name}: claimed until {format_instant(one.wake_until)}")
    for condition in one.status.conditions if one.status else ():
        bad = (condition.status is not Truth.TRUE) == (condition.type in _GOOD)
        if bad or whole:
            state = f"{condition.type}={condition.status.value}"
            lines.append(f"{one.name}: {state} ({condition.reason}): {condition.message}")
    return lines


def _as_json(one: RuleObject) -> dict[str, Any]:
    return {
        "rule": one.name,
        "mode": one.rule.mode.value if one.rule else None,
        "paused": one.rule.paused if one.rule else None,
        "error": one.error or one.status_error or one.wake_error,
        "wakeUntil": format_instant(one.wake_until) if one.wake_until else None,
        "status": write_status(one.status) if one.status else None,
    }
