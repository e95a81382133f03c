"""``idlewin resume``: let a paused or contested rule go on."""

from __future__ import annotations

import typer

from idlewin.cli.connection import Context, Kubeconfig, RuleName, edits


def resume(rule: RuleName, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Let a rule go on.

    Ends a pause, a contest and the wait after a failed handover, and lets idlewin open a queue
    that a person has closed.
    """
    cluster = edits(kubeconfig, context)
    stored = cluster.existing_rule(rule)
    cluster.resume(stored)
    by = stored.status.contested_by if stored.status else ""
    contest = f"; the contest with {by} is over, unless it goes on writing" if by else ""
    typer.echo(f"rule {rule} goes on{contest}")
