"""``idlewin pause``: stop a rule by its own spec."""

from __future__ import annotations

import typer

from idlewin.cli.connection import Context, Kubeconfig, RuleName, edits


def pause(rule: RuleName, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Stop a rule.

    Serving is brought back if it is away; after that nothing is written until 'idlewin resume'.
    The same as 'paused: true' in its spec: a rule that is kept in Git is changed there.
    """
    cluster = edits(kubeconfig, context)
    stored = cluster.existing_rule(rule)
    if stored.rule is not None and stored.rule.paused:
        typer.echo(f"rule {rule} is paused already")
        return
    cluster.pause(stored)
    phase = stored.status.phase if stored.status else "Serving"
    after = "" if phase == "Serving" else f"; it is in {phase}, and serving is now brought back"
    typer.echo(f"rule {rule} is paused{after}")
