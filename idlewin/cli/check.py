"""``idlewin check``: what is wrong with rule files, and what is doubtful.

It judges what the files show, and what a cluster says against them where one is named. No rule is
changed.
"""

from __future__ import annotations

import socket
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from idlewin.cli.connection import Context, Kubeconfig, Sources, a_catalogue, in_sight
from idlewin.cli.output import Form, Output, written
from idlewin.errors import Exit, Finding, UnreachableError, UsageError
from idlewin.options import Options
from idlewin.ports import LookError
from idlewin.rulecheck import checked, held_against, hours, out_of_reach
from idlewin.rulefile import Document, RuleFiles, read_files


def check(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="Rule files, or directories of them.")
    ],
    output: Output = Form.TEXT,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Ask the cluster too; --kubeconfig says so as well.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    sources: Sources = None,
) -> None:
    """Check rule files.

    With --cluster, --kubeconfig or --context each rule is also held against its cluster: queues,
    adoption, quota, cards, serving, webhooks, and the rules that are there. The hosts of probes are
    looked up, too, from this machine.

    Ends with 0 where every rule can be used (warnings do not count), 1 where one cannot, 2 where
    a path is not there, or a file of --sources has a fault.
    """
    if missing := [path for path in paths if not path.exists()]:
        raise UsageError(f"{missing[0]} is not there; name a rule file or a directory of them")
    found = checked(read_files(paths), a_catalogue(sources))
    if cluster or kubeconfig or context:
        found = _held(found, Options(kubeconfig=kubeconfig, context=context))
    typer.echo(_as_text(found) if output is Form.TEXT else written(_as_data(found), output))
    if any(not finding.warning for finding in found.findings):
        raise typer.Exit(Exit.FAILED)


def _held(found: RuleFiles, options: Options) -> RuleFiles:
    # A second, which a check of files alone need not wait for.
    from idlewin.adapters.clock import ServerClock  # noqa: PLC0415
    from idlewin.wiring import recorded  # noqa: PLC0415

    kubernetes, recorder = recorded(options, ServerClock())
    with in_sight(kubernetes):
        try:
            return out_of_reach(held_against(found, recorder), _has_an_address)
        except LookError as error:
            raise UnreachableError(str(error)) from None


def _has_an_address(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def _as_text(found: RuleFiles) -> str:
    lines = [f"{_kind(finding)} {finding}" for finding in found.unreadable]
    for document in found.documents:
        lines.append(
            f"{document.file}:{document.line}: {document.name or 'no name'}: {_sum(document)}"
        )
        if document.rule:
            lines.append(f"  {hours(document.rule)}")
        lines += [f"  {_kind(finding)} {finding}" for finding in document.findings]
    return "\n".join(lines)


def _as_data(found: RuleFiles) -> dict[str, object]:
    rules = [
        {
            "name": document.name,
            "file": document.file,
            "line": document.line,
            "ok": _errors(document) == 0,
            "hours": hours(document.rule) if document.rule else None,
            "findings": [asdict(finding) for finding in document.findings],
        }
        for document in found.documents
    ]
    unreadable = [asdict(finding) for finding in found.unreadable]
    return {"rules": rules, "unreadable": unreadable}


def _sum(document: Document) -> str:
    errors = _errors(document)
    warnings = len(document.findings) - errors
    parts = [
        _count(errors, "error") if errors else "ok",
        *([_count(warnings, "warning")] if warnings else []),
    ]
    return ", ".join(parts)


def _errors(document: Document) -> int:
    return sum(not finding.warning for finding in document.findings)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _kind(finding: Finding) -> str:
    return "warning:" if finding.warning else "error:"
