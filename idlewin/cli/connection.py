"""How a verb reaches the cluster: the options that name it, and the way there."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.errors import UnreachableError, UsageError
from idlewin.options import read_token

if TYPE_CHECKING:
    from idlewin.adapters.edits import Edits
    from idlewin.adapters.kubernetes import KubernetesCluster

#: A first list of everything takes seconds, even in a large cluster.
_SYNC = timedelta(seconds=60)
#: What fails in the same way after so long will not come.
_STUCK = timedelta(seconds=5)
#: So many different troubles are told.
_MOST = 3

_WHERE = "The cluster"

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A kubeconfig; else the pod's service account, else $KUBECONFIG or ~/.kube/config.",
        envvar="IDLEWIN_KUBECONFIG",
        rich_help_panel=_WHERE,
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The kubeconfig's context; else its current one.",
        rich_help_panel=_WHERE,
    ),
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


def _with_token(path: Path | None) -> Path | None:
    if path is not None:
        read_token(path)
    return path


PrometheusTokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the bearer token for it, read anew for each question.",
        envvar="IDLEWIN_PROMETHEUS_TOKEN_FILE",
        callback=_with_token,
        rich_help_panel=_WHERE,
    ),
]
Sources = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="A file of sources of your own, or a directory of them, beside those that ship.",
        envvar="IDLEWIN_SOURCES",
    ),
]
Lease = Annotated[
    str,
    typer.Option(
        metavar="NAMESPACE/NAME",
        help="The Lease by which one of several controllers acts. Default: idlewin, in the pod's "
        "namespace or idlewin-system.",
    ),
]
RuleName = Annotated[str, typer.Argument(metavar="RULE", help="The IdleRule's name.")]


def edits(kubeconfig: Path | None, context: str | None) -> Edits:
    """Single reads and writes of the cluster. Raises UsageError where there is no way."""
    from idlewin.adapters.api import connect  # noqa: PLC0415 - half a second, for verbs that need it
    from idlewin.adapters.edits import Edits  # noqa: PLC0415

    return Edits(connect(kubeconfig, context))


def a_lease(text: str) -> tuple[str, str]:
    """The namespace and the name that --lease says. Raises UsageError."""
    if not text:
        return os.environ.get("POD_NAMESPACE") or "idlewin-system", "idlewin"
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UsageError(f"--lease {text!r} names no Lease; write NAMESPACE/NAME")
    return namespace, name


def a_catalogue(sources: Path | None) -> Catalogue:
    """The sources that ship, and those of --sources. Raises UsageError with each of its faults."""
    if sources is None:
        return SHIPPED
    from idlewin.sourcefile import read_sources  # noqa: PLC0415 - YAML, for verbs that need it

    found = read_sources(sources)
    if found.findings:
        raise UsageError("\n".join(map(str, found.findings)))
    return Catalogue(own=found.sources)


def a_url(prometheus: str) -> str:
    """What --prometheus names, if it can be a URL; empty: it names none. Raises UsageError."""
    if not prometheus:
        return ""
    try:
        parts = urlsplit(prometheus)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise UsageError(
            f"--prometheus {prometheus!r} is no URL; write http://HOST:PORT or https://HOST:PORT"
        )
    return prometheus


@contextmanager
def in_sight(kubernetes: KubernetesCluster) -> Iterator[None]:
    """Have a cluster watched, once everything was listed. Raises IdlewinError."""
    from idlewin.adapters.edits import told  # noqa: PLC0415 - half a second, as above

    with told("the cluster"):
        kubernetes.ask()
    # Each watch tells each of its failures; here they are told once, if they keep us waiting.
    watches = logging.getLogger("idlewin.adapters.reflector")
    level = watches.level
    watches.setLevel(logging.CRITICAL)
    kubernetes.start()
    try:
        if not _synced(kubernetes):
            raise UnreachableError(
                f"the cluster is not in sight: {in_short(kubernetes.trouble())}; look at the "
                "permissions of this user, or name another with --context"
            )
        yield
    finally:
        kubernetes.stop()
        watches.setLevel(level)


def _synced(kubernetes: KubernetesCluster) -> bool:
    """Whether all was listed in time; what fails twice in the same way is not waited for."""
    from idlewin.adapters.watched import NOT_LISTED  # noqa: PLC0415 - half a second, as above

    before: set[str] = set()
    for _ in range(_SYNC // _STUCK):
        if kubernetes.wait_synced(_STUCK):
            return True
        failing = {told for told in kubernetes.trouble() if not told.endswith(NOT_LISTED)}
        if failing & before:
            return False
        before = failing
    return False


def in_short(trouble: Sequence[str]) -> str:
    """What is not watched, each reason once and without the calls that met it."""
    calls = r"^\S+: (?:[A-Z]+ \S+: )?| with url: \S+"
    reasons = list(dict.fromkeys(re.sub(calls, "", told) for told in trouble))
    more = f" (and {len(reasons) - _MOST} more)" if len(reasons) > _MOST else ""
    return "; ".join(reasons[:_MOST]) + more
