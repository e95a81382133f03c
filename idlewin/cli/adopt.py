"""``idlewin adopt``: a person's consent that a rule opens and closes a ClusterQueue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.cli.connection import Context, Kubeconfig, edits
from idlewin.errors import UsageError

if TYPE_CHECKING:
    from idlewin.adapters.edits import Edits, QueueSeen


def adopt(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The ClusterQueue's name.")],
    rule: Annotated[
        str, typer.Option(metavar="RULE", help="The IdleRule that is to open and close it.")
    ] = "",
    undo: Annotated[
        bool, typer.Option("--undo", help="Take it out of the rule's hands again.")
    ] = False,
    restore: Annotated[
        bool,
        typer.Option("--restore", help="With --undo: write back the stop policy from before."),
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Give a ClusterQueue into a rule's hands.

    Its stop policy is put on record, and nothing else of it is changed now. Without this the rule
    writes nothing to the queue.
    """
    if restore and not undo:
        raise UsageError("--restore belongs to --undo; leave it out, or add --undo")
    cluster = edits(kubeconfig, context)
    seen = cluster.queue(queue)
    if undo:
        _undo(cluster, seen, rule, restore=restore)
    elif not rule:
        raise UsageError("name the rule that is to open and close the queue: --rule RULE")
    else:
        _adopt(cluster, seen, rule)


def _adopt(cluster: Edits, seen: QueueSeen, rule: str) -> None:
    if seen.adopted_by and seen.adopted_by != rule:
        raise UsageError(
            f"ClusterQueue {seen.name} is in the hands of rule {seen.adopted_by}; one rule owns a "
            f"queue: first run 'idlewin adopt {seen.name} --undo'"
        )
    if seen.adopted_by:
        typer.echo(f"ClusterQueue {seen.name} is in the hands of rule {rule} already")
    else:
        cluster.adopt(seen, rule)
        before = seen.stop_policy or "None"
        typer.echo(f"ClusterQueue {seen.name} is in the hands of rule {rule}; it was {before}")
    for writer in seen.writers:
        _warn(
            f"{writer} has written stopPolicy of {seen.name} and does so again at its next write; "
            f"take the field out of what {writer} applies"
        )
    stored = cluster.rule(rule)
    if stored is None:
        _warn(f"there is no rule {rule} yet")
    elif stored.rule and seen.name not in [q.cluster_queue for q in stored.rule.batch.queues]:
        _warn(f"rule {rule} does not name {seen.name} in batch.queues; add it there")


def _undo(cluster: Edits, seen: QueueSeen, rule: str, *, restore: bool) -> None:
    if not seen.adopted_by:
        typer.echo(f"ClusterQueue {seen.name} is in no rule's hands")
        return
    if rule and rule != seen.adopted_by:
        raise UsageError(
            f"ClusterQueue {seen.name} is in the hands of rule {seen.adopted_by}, not {rule}; "
            "leave --rule out"
        )
    owner = cluster.rule(seen.adopted_by)
    if owner is not None and owner.status is not None and owner.status.window is not None:
        raise UsageError(
            f"rule {owner.name} is in {owner.status.phase} and needs ClusterQueue {seen.name} to "
            f"come back from there; first run 'idlewin give-back {owner.name}'"
        )
    if restore and seen.before_us is None:
        raise UsageError(
            f"ClusterQueue {seen.name} has no stop policy on record; leave --restore out and set "
            "spec.stopPolicy yourself"
        )
    cluster.let_go(seen, restore=restore)
    now = seen.before_us if restore else seen.stop_policy or "None"
    typer.echo(f"ClusterQueue {seen.name} is in no rule's hands; its stop policy is {now}")
    if now != "None":
        patch = '{"spec":{"stopPolicy":"None"}}'
        typer.echo(f"to open it: kubectl patch clusterqueue {seen.name} --type merge -p '{patch}'")


def _warn(text: str) -> None:
    typer.echo(f"warning: {text}", err=True)
