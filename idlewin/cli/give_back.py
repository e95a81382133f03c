"""``idlewin give-back``: bring serving back by hand, whether a controller runs or not."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.adapters.clock import SystemClock
from idlewin.cli.connection import Context, Kubeconfig, edits, in_sight
from idlewin.core.explain import headline, line, wish
from idlewin.core.phase import Phase
from idlewin.core.text import format_duration, parse_duration
from idlewin.errors import IdlewinError, UsageError
from idlewin.options import Options
from idlewin.ports import LookError
from idlewin.wiring import returning

if TYPE_CHECKING:
    from idlewin.controller import Controller
    from idlewin.core.decision import Decision

#: With nothing to wake us, look again after this.
STEP = timedelta(seconds=1)


_Rule = Annotated[str | None, typer.Argument(metavar="RULE", help="The IdleRule.")]
_All = Annotated[bool, typer.Option("--all", help="All rules there are.")]
_Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Do not wait for batch: serving comes back beside it once it was told to leave. "
        "Where serving opens the device node, both then use one card.",
    ),
]
_NoPause = Annotated[
    bool,
    typer.Option("--no-pause", help="Leave the rule on: a controller may lend again at once."),
]
_Timeout = Annotated[str, typer.Option(metavar="DURATION", help="Give up waiting after this.")]


def give_back(
    rule: _Rule = None,
    everything: _All = False,
    force: _Force = False,
    no_pause: _NoPause = False,
    timeout: _Timeout = "30m",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Bring serving back now.

    Pauses the rule, seals its queues, and has serving back as it was on record, by the same steps
    that a controller takes; none needs to run. 'idlewin resume RULE' lets the rule go on.
    """
    limit = _limit(timeout)
    if (rule is None) is not everything:
        raise UsageError("name one rule, or write --all")
    cluster = edits(kubeconfig, context)
    rules = cluster.rules() if rule is None else [cluster.existing_rule(rule)]
    for one in rules:
        if not no_pause and not one.deleting and not (one.rule and one.rule.paused):
            cluster.pause(one)
    names = [one.name for one in rules]
    instance = f"give-back_{socket.gethostname()}_{os.getpid()}"
    options = Options(kubeconfig=kubeconfig, context=context, instance=instance)
    kubernetes, controller = returning(options, names)
    with in_sight(kubernetes):
        changed = Event()
        kubernetes.subscribe(lambda _name: changed.set())
        _until_back(controller, names, changed, limit, force=force)


def _until_back(
    controller: Controller, names: Sequence[str], changed: Event, limit: timedelta, *, force: bool
) -> None:
    clock = SystemClock()
    end, left = clock.monotonic() + limit.total_seconds(), dict.fromkeys(names, "")
    while left:
        changed.clear()
        for name in tuple(left):
            back, left[name] = _cycle(controller, name, left[name], force=force)
            if back:
                del left[name]
        if left and clock.monotonic() >= end:
            waits = "; ".join(f"{name}: {why}" for name, why in left.items())
            raise IdlewinError(
                f"not back within {format_duration(limit)}: {waits}; what was begun goes on with "
                "the next give-back or controller"
            )
        if left:
            changed.wait(STEP.total_seconds())


def _cycle(controller: Controller, name: str, said: str, *, force: bool) -> tuple[bool, str]:
    """One cycle: whether the pool is back, and else what it waits for."""
    try:
        decision = controller.cycle(name, forced=force)
    except LookError as error:
        return False, str(error)
    if decision is None:
        typer.echo(f"{name}: the rule is gone")
        return True, ""
    for action in decision.actions:
        typer.echo(f"{name}: {wish(action)}")
    if decision.changes_phase:
        typer.echo(headline(decision))
    if _is_back(decision):
        typer.echo(f"{name}: serving is back")
        return True, ""
    waits = _waits_for(decision)
    if waits != said:
        typer.echo(f"{name}: waits for {waits}")
    return False, waits


def _is_back(decision: Decision) -> bool:
    return (
        decision.before is decision.after is Phase.SERVING
        and decision.status.window is None
        and not decision.actions
    )


def _waits_for(decision: Decision) -> str:
    failed = [line(check) for check in decision.checks if not check.passed and check.otherwise]
    return failed[0].removeprefix("no ").strip() if failed else decision.reason.meaning


def _limit(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
