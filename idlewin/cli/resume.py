"""``idlewin resume``: let a paused or contested rule go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.cli.connection import Context, Kubeconfig, edits
from idlewin.errors import IdlewinError, UsageError

if TYPE_CHECKING:
    from idlewin.adapters.edits import Edits
    from idlewin.core.pool import RuleObject

_WHOM = "name one rule, or write --all"
_Rule = Annotated[str | None, typer.Argument(metavar="RULE", help="The IdleRule.")]
_All = Annotated[bool, typer.Option("--all", help="All rules that are paused; others are let be.")]


def resume(
    rule: _Rule = None,
    everything: _All = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Let a rule go on.

    Ends a pause, a contest and the wait after a failed handover, and lets idlewin open a queue
    that a person has closed. With --all: after 'idlewin give-back --all', every rule that is
    paused, whoever paused it.
    """
    if (rule is None) is not everything:
        raise UsageError(f"{_WHOM}; not both" if everything else _WHOM)
    cluster = edits(kubeconfig, context)
    if rule is not None:
        typer.echo(_goes_on(cluster, cluster.existing_rule(rule)))
        return
    # One that cannot be read may be paused: give-back pauses it, too.
    paused = [one for one in cluster.rules() if not one.deleting and _may_be_paused(one)]
    if not paused:
        typer.echo("no rule is paused")
    failed: list[IdlewinError] = []
    for one in paused:
        try:
            typer.echo(_goes_on(cluster, one))
        except IdlewinError as error:
            typer.echo(f"warning: {error}", err=True)
            failed.append(error)
    if failed:
        what = f"{len(failed)} of {len(paused)} rules do not go on; see above"
        raise type(failed[0])(what)


def _may_be_paused(one: RuleObject) -> bool:
    return one.rule is None or one.rule.paused


def _goes_on(cluster: Edits, stored: RuleObject) -> str:
    cluster.resume(stored)
    by = stored.status.contested_by if stored.status else ""
    contest = f"; the contest with {by} is over, unless it goes on writing" if by else ""
    return f"rule {stored.name} goes on{contest}"
