"""How a verb reaches the cluster: the options that name it, and the way there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from idlewin.adapters.edits import Edits

_WHERE = "The cluster"

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="A kubeconfig; else the pod's service account, else $KUBECONFIG or ~/.kube/config.",
        envvar="IDLEWIN_KUBECONFIG",
        rich_help_panel=_WHERE,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(help="The kubeconfig's context; else its current one.", rich_help_panel=_WHERE),
]
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="The IdleRule's name.")]


def edits(kubeconfig: Path | None, context: str | None) -> Edits:
    """Single reads and writes of the cluster. Raises UnreachableError where there is no way."""
    from idlewin.adapters.api import connect  # noqa: PLC0415 - half a second, for verbs that need it
    from idlewin.adapters.edits import Edits  # noqa: PLC0415

    return Edits(connect(kubeconfig, context))
