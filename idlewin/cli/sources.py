"""``idlewin sources``: the catalogue, one source of it, and what a Prometheus has of it now."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from idlewin.catalogue import Catalogue, nearest
from idlewin.cli.connection import (
    Context,
    Kubeconfig,
    Prometheus,
    PrometheusTokenFile,
    Sources,
    a_catalogue,
    a_url,
    edits,
)
from idlewin.cli.output import Form, Output, written
from idlewin.codec import write_source
from idlewin.core.pool import RuleObject
from idlewin.errors import Exit, UsageError
from idlewin.options import Options
from idlewin.rulefile import read_files

PROBE = "probe"
#: Narrower, what a source sees would be one word a line.
WIDE = 140


_What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME|probe FILE",
        show_default=False,
        help="One source; or the word probe, and rule files to probe for.",
    ),
]
_Most = Annotated[
    int, typer.Option(metavar="NUMBER", min=1, help="So many keys of a source are shown.")
]
_Cluster = Annotated[
    bool,
    typer.Option("--cluster", help="Probe for the cluster's rules; --kubeconfig says so as well."),
]


def sources(
    what: _What = None,
    output: Output = Form.TEXT,
    sources: Sources = None,
    most: _Most = 5,
    cluster: _Cluster = False,
    prometheus: Prometheus = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    prometheus_token_file: PrometheusTokenFile = None,
) -> None:
    """Show the sources.

    Without a name all of them; with one all of its fields, its query included. A rule's demand
    may be a query of its own or a llamaSwap instead: docs/sources.md.

    'probe' asks a Prometheus which of them are alive, which keys they show, how old and how
    believable that is; and, of the rules in files or in the cluster, which of their demands has no
    series, and what to do. Ends with 0, or with 1 where a rule lacks one.
    """
    first, *rest = what or [""]
    catalogue = a_catalogue(sources)
    if first == PROBE:
        options = Options(
            kubeconfig=kubeconfig,
            context=context,
            prometheus=a_url(prometheus),
            prometheus_token_file=prometheus_token_file,
            catalogue=catalogue,
        )
        rules = _of_files(rest) if rest else []
        if cluster or kubeconfig or context:
            rules += edits(kubeconfig, context).rules()
        _probe(options, rules, output, most)
    elif rest:
        raise UsageError(f"{first} and more: name one source, or none, or write probe first")
    elif first:
        typer.echo(_one(catalogue, first, output))
    elif output is not Form.TEXT:
        told = [write_source(source) for source in catalogue.sources.values()]
        typer.echo(written(told, output))
    else:
        _table(catalogue)


def _of_files(paths: list[str]) -> list[RuleObject]:
    """The rules of files. Raises UsageError where one cannot be read."""
    found = read_files([Path(path) for path in paths])
    wrong = [*found.unreadable]
    wrong += [f for d in found.documents if d.rule is None for f in d.findings if not f.warning]
    if wrong:
        raise UsageError("\n".join(map(str, wrong)))
    return list(found.objects)


def _one(catalogue: Catalogue, name: str, output: Form) -> str:
    source = catalogue.sources.get(name)
    if source is None:
        if Path(name).exists():
            raise UsageError(
                f"{name} is a file, and no source; for its rules: sources probe {name}"
            )
        raise UsageError(f"there is no source {name}; {nearest(name, catalogue.sources)}")
    told = write_source(source)
    if output is not Form.TEXT:
        return written(told, output)
    lines = []
    for field, value in told.items():
        text = ", ".join(value) if isinstance(value, list) else str(value).strip()
        if "\n" in text:
            text = "".join(f"\n  {line}" for line in text.splitlines())
        lines.append(f"{field}: {text}" if not text.startswith("\n") else f"{field}:{text}")
    return "\n".join(lines)


def _table(catalogue: Catalogue) -> None:
    from rich.console import Console  # noqa: PLC0415 - only where a table is shown
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("SOURCE", "KIND", "MATCH BY", "UNIT", "SEES"):
        table.add_column(title, no_wrap=title != "SEES")
    for source in catalogue.sources.values():
        # A label that is cut short could not be copied into a rule.
        keys = "\n".join(source.keys)
        table.add_row(source.name, source.kind.value, keys, source.unit, source.about)
    # In a pipe there is no width to keep to.
    console = Console(highlight=False, soft_wrap=True)
    console.width = max(console.width, WIDE)
    console.print(table)


def _probe(options: Options, rules: list[RuleObject], output: Form, most: int) -> None:
    from idlewin.cli.surveyed import as_dict, lines, surveyed  # noqa: PLC0415 - half a second

    found = surveyed(options, rules)
    if output is not Form.TEXT:
        typer.echo(written(as_dict(found, most), output))
    else:
        for line in lines(found, most):
            typer.echo(line)
    if found.lacking:
        raise typer.Exit(Exit.FAILED)
