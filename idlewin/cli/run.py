"""``idlewin run``: the controller, until it is told to stop."""

from __future__ import annotations

import os
import signal
import socket
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.adapters.files import refuse_acting
from idlewin.adapters.logs import LogFormat, set_up
from idlewin.cli.connection import (
    Context,
    Kubeconfig,
    Lease,
    Prometheus,
    PrometheusTokenFile,
    Sources,
    a_catalogue,
    a_lease,
    a_url,
)
from idlewin.core.text import format_duration, parse_duration
from idlewin.errors import Exit, UsageError
from idlewin.options import Options, read_token
from idlewin.rulefile import read_files
from idlewin.wiring import dry_run, live

if TYPE_CHECKING:
    from types import FrameType

    from idlewin.service import Service

LEAST_TICK = timedelta(seconds=1)
#: A Lease is kept in whole seconds, and a busy machine must be able to renew it in time.
LEAST_LEASE = timedelta(seconds=3)


_Rules = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        help="Rules from files instead of the cluster's. They are observed, or run dry: a file "
        "cannot remember what serving was.",
    ),
]
_Dry = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Write nothing at all. The status is remembered in memory, but the pool does not "
        "move: the first step of a handover is shown; the rest is for replay.",
    ),
]
_Listen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="Where /healthz, /readyz, /metrics, /wake and /alertmanager answer. "
        "Default: 0.0.0.0:8080 in a cluster, 127.0.0.1:8080 elsewhere.",
        envvar="IDLEWIN_LISTEN",
    ),
]
_TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A file with the bearer token that calls of /wake and /alertmanager need.",
    ),
]
_Tick = Annotated[str, typer.Option(metavar="DURATION", help="How often demand is asked for.")]
_Workers = Annotated[
    int,
    typer.Option(
        metavar="NUMBER", min=1, max=64, help="Pools that are looked at at the same time."
    ),
]
_Journal = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A file that every decision is written to, as JSON lines."),
]
_LeaseDuration = Annotated[
    str,
    typer.Option(
        metavar="DURATION",
        help="How long another controller waits for one that is dead. The Lease is renewed each "
        "third of it.",
    ),
]
_NoLease = Annotated[
    bool, typer.Option("--no-lease", help="No other controller runs: act without a Lease.")
]
_LogFormat = Annotated[LogFormat, typer.Option(help="How a line of the log looks.")]


def run(
    prometheus: Prometheus = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    rules: _Rules = None,
    dry: _Dry = False,
    listen: _Listen = "",
    token_file: _TokenFile = None,
    tick: _Tick = "15s",
    workers: _Workers = 4,
    journal: _Journal = None,
    lease: Lease = "",
    lease_duration: _LeaseDuration = "15s",
    no_lease: _NoLease = False,
    log_format: _LogFormat = LogFormat.TEXT,
    prometheus_token_file: PrometheusTokenFile = None,
    sources: Sources = None,
) -> None:
    """Run the controller.

    It ends between two actions at SIGTERM or SIGINT. Whatever it was at is found and ended by the
    next one that starts.
    """
    set_up(log_format)
    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        prometheus=a_url(prometheus),
        prometheus_token_file=prometheus_token_file,
        catalogue=a_catalogue(sources),
        rules=rules,
        listen=_address(listen),
        token=read_token(token_file) if token_file else "",
        journal=_journal(journal),
        lease=None if no_lease else a_lease(lease),
        lease_duration=_at_least("--lease-duration", lease_duration, LEAST_LEASE),
        instance=f"{os.environ.get('POD_NAME') or socket.gethostname()}_{os.getpid()}",
        tick=_at_least("--tick", tick, LEAST_TICK),
        workers=workers,
    )
    if rules is not None and not dry:
        refuse_acting(read_files([rules]).objects)
    service = (dry_run if dry or rules is not None else live)(options)

    _run(service)


def _run(service: Service) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        service.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    if not service.run():
        raise typer.Exit(Exit.FAILED)


def _address(text: str) -> tuple[str, int]:
    if not text:
        return ("0.0.0.0" if "KUBERNETES_SERVICE_HOST" in os.environ else "127.0.0.1", 8080)  # noqa: S104
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not int(port) < 65536:
        raise UsageError(f"--listen {text!r} is no address; write HOST:PORT, such as 0.0.0.0:8080")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104 - so it was asked for


def _journal(path: Path | None) -> Path | None:
    # A full or broken disk must not keep the controller from starting; a wrong name may.
    if path is not None and path.is_dir():
        raise UsageError(f"--journal {path} is a directory; name a file in it")
    return path


def _at_least(option: str, text: str, least: timedelta) -> timedelta:
    if text.isdecimal():
        # Seconds are meant here, and the minutes of a rule would be no good example.
        raise UsageError(f"{option} {text} has no unit; write {text}s")
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
    if found < least:
        raise UsageError(f"{option} {text} is too short; write {format_duration(least)} or more")
    return found
