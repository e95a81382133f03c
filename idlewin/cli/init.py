"""``idlewin init``: a first rule for each pool of cards, drafted from what the cluster shows."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from idlewin.cli.connection import (
    Context,
    Kubeconfig,
    Prometheus,
    PrometheusTokenFile,
    Sources,
    a_catalogue,
    a_url,
)
from idlewin.cli.output import folder_writable
from idlewin.errors import DEFINE, Exit, UsageError, unreadable
from idlewin.options import Options

if TYPE_CHECKING:
    from idlewin.draft.facts import Facts, Wanted
    from idlewin.draft.rules import Draft

#: What the file is called in what is said, where it goes to standard output.
_MINE = "my.yaml"

_Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write there; else to standard output."),
]
_Queues = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write manifests of the queues that are missing there; else they are in comments.",
    ),
]


def init(
    out: _Out = None,
    queues: _Queues = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over files that are there.")
    ] = False,
    node: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only cards of this node; repeatable.")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this extended resource; repeatable."),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only cards on which it serves; repeatable."),
    ] = None,
    prometheus: Prometheus = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    prometheus_token_file: PrometheusTokenFile = None,
    sources: Sources = None,
) -> None:
    """Write a first rule for each pool of cards.

    It looks at the nodes' cards, at who holds them, at the queues, and, with --prometheus, at the
    sources of demand that are alive; and writes rules in mode Observe, with comments for what it
    could not know. The cluster is not changed. What was found is said on standard error.

    Ends with 0, or with 1 where nothing could be written, or 'idlewin check' stops at what was:
    the comments say where.
    """
    _writable(out, queues, force=force)
    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        prometheus=a_url(prometheus),
        prometheus_token_file=prometheus_token_file,
        catalogue=a_catalogue(sources),
    )
    draft = _drafted(options, (node, resource, namespace), out, queues)
    if draft.text:
        _put(out, draft.text, force=force)
    if draft.queues and queues is not None:
        _put(queues, draft.queues, force=force)
    for line in _said(draft, out, queues):
        typer.echo(line, err=True)
    if not draft.text or draft.stops:
        raise typer.Exit(Exit.FAILED)


def _drafted(
    options: Options,
    narrowed: tuple[list[str] | None, ...],
    out: Path | None,
    queues: Path | None,
) -> Draft:
    from idlewin.adapters.api import connect  # noqa: PLC0415 - half a second, for this verb alone
    from idlewin.adapters.inventory import inventory  # noqa: PLC0415
    from idlewin.draft.facts import Wanted  # noqa: PLC0415
    from idlewin.draft.rules import drafted  # noqa: PLC0415

    nodes, resources, namespaces = (frozenset(names or ()) for names in narrowed)
    wanted = Wanted(nodes=nodes, resources=resources, namespaces=namespaces)
    facts = inventory(connect(options.kubeconfig, options.context))
    _there(facts, wanted)
    return drafted(
        _with_sources(facts, options),
        wanted,
        options.catalogue,
        str(out or _MINE),
        str(queues or ""),
    )


def _there(facts: Facts, wanted: Wanted) -> None:
    """Nothing, if there is what was asked for by name. Raises UsageError."""
    nodes = {node.name for node in facts.nodes}
    resources = {name for node in facts.nodes for name, count in node.cards.items() if count}
    for what, asked, known in (
        ("node", wanted.nodes, nodes),
        ("extended resource", wanted.resources, resources),
    ):
        for name in sorted(asked - known):
            there = ", ".join(sorted(known)) or "none"
            raise UsageError(f"no {what} {name} has anything here; there are: {there}")


def _with_sources(facts: Facts, options: Options) -> Facts:
    from dataclasses import replace  # noqa: PLC0415

    from idlewin.adapters.clock import ServerClock  # noqa: PLC0415
    from idlewin.adapters.prometheus import prometheus_of  # noqa: PLC0415
    from idlewin.adapters.survey import seen  # noqa: PLC0415

    if not options.prometheus:
        return replace(
            facts, no_prometheus="no Prometheus was named: --prometheus http://HOST:9090"
        )
    metrics = prometheus_of(options, ServerClock())
    try:
        if why := metrics.answers():
            return replace(facts, no_prometheus=why)
        return replace(facts, sources=tuple(seen(metrics, options.catalogue)))
    finally:
        metrics.close()


# -- files


def _writable(*paths: Path | None, force: bool) -> None:
    """Files that can be written at the end, and lose nothing. Raises UsageError."""
    named = [path for path in paths if path is not None]
    if len({path.resolve() for path in named}) < len(named):
        raise UsageError("--out and --queues name one file; name two")
    for path in named:
        folder_writable(path.parent)
        if path.is_dir():
            raise UsageError(f"{path} is a directory; name a file in it")
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no file that could be written over; name another")
        if path.exists() and not force:
            raise UsageError(f"{path} is there; name another file, or add --force to write over it")


def _put(path: Path | None, text: str, *, force: bool) -> None:
    """Write a file, whole or not at all; without one to standard output. Raises UsageError."""
    if path is None:
        typer.echo(text, nl=False)
        return
    # Not onto what has come meanwhile; what is written over is there until the new one is whole.
    target = path.with_name(f".{path.name}.{os.getpid()}") if force else path
    try:
        with target.open("xb") as file:
            _fill(file, target, text)
        if force:
            target.replace(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {unreadable(error)}; name another") from None


def _fill(file: BinaryIO, path: Path, text: str) -> None:
    try:
        file.write(text.encode())
        file.flush()
    except OSError:
        path.unlink(missing_ok=True)
        raise


# -- what is said


def _said(draft: Draft, out: Path | None, queues: Path | None) -> Iterator[str]:
    yield from draft.found
    for left in draft.left:
        yield f"not known: {left}"
    if not draft.text:
        yield "no rule was written: there are no cards that somebody serves on and no rule has"
        return
    mine = shlex.quote(str(out or _MINE))
    yield f"rules: {', '.join(draft.rules)}"
    for stop in draft.stops:
        yield f"check stops at: {stop}"
    yield "next, with each TODO of it put right:"
    yield f"  idlewin check {mine}"
    if draft.queues:
        yield from _first_the_queues(draft, queues)
    if draft.no_definition:
        yield f"  {DEFINE}"
    yield f"  kubectl apply -f {mine}"
    for queue, rule in draft.adopt:
        yield f"  idlewin adopt {queue} --rule {rule}"
    yield f"  idlewin check {mine} --cluster"
    yield f"  idlewin sources probe {mine}"


def _first_the_queues(draft: Draft, queues: Path | None) -> Iterator[str]:
    from idlewin.draft.queues import NAMESPACE  # noqa: PLC0415

    file = shlex.quote(str(queues)) if queues else "queues.yaml, with what stands in its comments"
    yield f"  kubectl create namespace {NAMESPACE}"
    yield f"  kubectl apply -f {file}"
    for queue in draft.missing:
        # Open it would let work in beside serving, in mode Observe too.
        hold = '{"spec":{"stopPolicy":"Hold"}}'
        yield f"  kubectl patch clusterqueue {queue} --type merge -p '{hold}'"
