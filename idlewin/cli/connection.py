"""How a verb reaches the cluster: the options that name it, and the way there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.errors import UnreachableError

if TYPE_CHECKING:
    from idlewin.adapters.edits import Edits
    from idlewin.adapters.kubernetes import KubernetesCluster

#: A first list of everything takes seconds, even in a large cluster.
_SYNC = timedelta(seconds=60)

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
Prometheus = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="The Prometheus that knows the demand.",
        envvar="IDLEWIN_PROMETHEUS",
        rich_help_panel=_WHERE,
    ),
]
PrometheusToken = Annotated[
    str,
    typer.Option(
        help="A bearer token for it.",
        envvar="IDLEWIN_PROMETHEUS_TOKEN",
        show_default=False,
        rich_help_panel=_WHERE,
    ),
]
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="The IdleRule's name.")]


def edits(kubeconfig: Path | None, context: str | None) -> Edits:
    """Single reads and writes of the cluster. Raises UnreachableError where there is no way."""
    from idlewin.adapters.api import connect  # noqa: PLC0415 - half a second, for verbs that need it
    from idlewin.adapters.edits import Edits  # noqa: PLC0415

    return Edits(connect(kubeconfig, context))


@contextmanager
def in_sight(kubernetes: KubernetesCluster) -> Iterator[None]:
    """Have a cluster watched, once everything was listed. Raises UnreachableError."""
    kubernetes.start()
    try:
        if not kubernetes.wait_synced(_SYNC):
            raise UnreachableError(
                f"the cluster is not in sight: {'; '.join(kubernetes.trouble())}; look at the "
                "permissions of this user, or name another with --context"
            )
        yield
    finally:
        kubernetes.stop()
