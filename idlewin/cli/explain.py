"""``idlewin explain``: one cycle that writes nothing, told in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from idlewin.cli.connection import (
    Context,
    Kubeconfig,
    Prometheus,
    PrometheusTokenFile,
    RuleName,
    Sources,
    a_catalogue,
    a_url,
    edits,
    in_sight,
)
from idlewin.cli.output import Form, Output, written
from idlewin.codec import decision_json
from idlewin.core import tallying, timing
from idlewin.core.account import said
from idlewin.core.calendar import Calendar, zone as calendar_zone
from idlewin.core.decision import Decision
from idlewin.core.explain import ends, explain as told
from idlewin.core.forecast import Outlook
from idlewin.core.load import Level
from idlewin.core.situation import Situation
from idlewin.core.text import format_duration, format_instant
from idlewin.errors import Exit, UnreachableError, UsageError
from idlewin.options import Options
from idlewin.picture import PictureError
from idlewin.picture.forecast import Drawn, draw
from idlewin.ports import LookError
from idlewin.wiring import Explaining, explaining


def explain(
    rule: RuleName,
    prometheus: Prometheus = "",
    rules: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Take the rule from files; all else is the cluster's."),
    ] = None,
    output: Output = Form.TEXT,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a PNG of the forecast there.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    prometheus_token_file: PrometheusTokenFile = None,
    sources: Sources = None,
) -> None:
    """Say why a rule's pool is where it is.

    It looks at the world now, decides as the controller does, and shows every comparison, what
    would be written, and when the pool is looked at next. Nothing is written, and the API server
    is not asked whether it would take the writes.
    """
    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        prometheus=a_url(prometheus),
        prometheus_token_file=prometheus_token_file,
        catalogue=a_catalogue(sources),
        rules=rules,
    )
    world = explaining(options)
    if rules is None:
        edits(kubeconfig, context).existing_rule(rule)
    elif rule not in (names := world.cluster.names()):
        raise UsageError(f"{rules} has no rule {rule}; it has {', '.join(names)}")
    with in_sight(world.kubernetes):
        situation, decision = _looked(world, rule)
    if output is not Form.TEXT:
        typer.echo(written(decision_json(decision), output))
    else:
        typer.echo(told(decision))
        arbiters = world.arbiters.told(situation.rule) if situation.rule else ()
        for line in chain(_beside(situation, decision.reason), arbiters):
            typer.echo(f"  {line}")
    if picture is not None:
        _draw(situation, picture)


def _looked(world: Explaining, name: str) -> tuple[Situation, Decision]:
    stored = world.cluster.rule(name)
    if stored is None:
        raise UsageError(f"there is no rule {name}; there are {', '.join(world.cluster.names())}")
    try:
        situation = world.observer.situation(stored)
        decision = world.controller.cycle(name)
    except LookError as error:
        raise UnreachableError(f"rule {name}: {error}; look at the cluster and try again") from None
    if decision is None:
        raise UsageError(f"rule {name} was deleted just now")
    return situation, decision


def _draw(s: Situation, to: Path) -> None:
    """A picture of the forecast that decided; a line on standard error says where, or why not."""
    try:
        draw(_drawn(s), to)
    except PictureError as error:
        typer.echo(f"no picture: {error}", err=True)
        raise typer.Exit(Exit.FAILED) from None
    typer.echo(f"picture of the forecast: {to}", err=True)


def _drawn(s: Situation) -> Drawn:
    if s.rule is None or s.outlook is None:
        raise PictureError(f"there is no forecast: {s.load.why}")
    opened_at = s.window.opened_at if s.window else s.now
    return Drawn(
        rule=s.object.name,
        forecast=s.outlook.forecast,
        idle_since=s.load.since if s.load.level is Level.IDLE else None,
        lent=s.window is not None,
        reclaim_at=timing.reclaim_at(s, opened_at),
        wanted_at=timing.wanted_back(s, opened_at),
        zone=s.rule.window.calendar.time_zone,
    )


def _beside(s: Situation, reason: str) -> Iterator[str]:
    """What the checks rest on, and what the controller said last: it asks the API server, too."""
    if s.status.reason and s.status.reason != reason:
        yield f"the controller's last word: {s.status.reason}: {s.status.message}"
    yield f"demand: {s.load.level}, since {format_instant(s.load.since)}: {s.load.why}"
    if s.object.wake_until:
        yield f"claim: until {format_instant(s.object.wake_until)}"
    if s.rule is not None:
        yield _calendar(s.rule.window.calendar, s)
        if s.outlook is not None:
            yield _forecast(s.outlook, s.rule.window.min)
    if text := said(s.status.budget):
        yield text
    yield from tallying.told(s.status.tallies)
    yield from ends(s)
    for refusal in s.refusals:
        yield f"{refusal.fault}: {refusal.text}"


def _forecast(ahead: Outlook, window: timedelta) -> str:
    """How likely idle lasts, and what follows at the price of a late return."""
    forecast = ahead.forecast
    text = f"forecast: {forecast.method}, resting on {forecast.rests_on}"
    if not forecast.price:
        return text
    best = f"until {format_instant(ahead.back)}" if ahead.opens else "not now"
    return (
        f"{text}; idle for {format_duration(window)} with chance {forecast.chance(window):.3f}; "
        f"where a late return costs {forecast.price:.3g} min of batch, it is best lent {best}"
    )


def _calendar(calendar: Calendar, s: Situation) -> str:
    local = s.now.astimezone(calendar_zone(calendar.time_zone)).strftime("%a %Y-%m-%d %H:%M")
    closes, opens = calendar.open_until(s.now), calendar.opens_at(s.now)
    if closes is not None:
        state = f"open until {format_instant(closes)} at least"
    else:
        state = f"closed, opens {format_instant(opens)}" if opens else "closed for weeks"
    return f"calendar: {calendar.time_zone}, where it is {local}: {state}"
