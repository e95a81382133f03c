"""``idlewin wake``: say that users are coming, as a claim on the rule itself."""

from __future__ import annotations

from typing import Annotated

import typer

from idlewin.adapters.claims import Answer, Claims, claim_length
from idlewin.cli.connection import Context, Kubeconfig, RuleName, edits
from idlewin.errors import RefusedError, UnreachableError, UsageError

_ERRORS = {
    Answer.UNKNOWN_RULE: UsageError,
    Answer.REFUSED: RefusedError,
    Answer.AWAY: UnreachableError,
}


def wake(
    rule: RuleName,
    length: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long from now, such as 30m or 2h.")
    ] = "15m",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Say that users are coming.

    While the claim lasts serving is brought back, or kept. It is on record in the cluster when
    this ends, so it needs no controller that runs now. It never shortens a claim in force.
    """
    try:
        wanted = claim_length(length)
    except ValueError as error:
        raise UsageError(f"--for: {error}") from None
    store = edits(kubeconfig, context)
    claim = Claims(store, store.clock).claim(rule, wanted)
    if not claim.holds:
        raise _ERRORS[claim.answer](claim.message)
    typer.echo(claim.message)
