"""``idlewin audit``: who is on cards past whom, and what looks like a limit and is none."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.audit.audited import audited
from idlewin.audit.exempt import exempted
from idlewin.audit.facts import Facts
from idlewin.cli.audit_told import FORMS, Told
from idlewin.cli.connection import (
    Context,
    Kubeconfig,
    Prometheus,
    PrometheusTokenFile,
    Sources,
    a_catalogue,
    a_url,
)
from idlewin.diagnosis import Severity
from idlewin.errors import Exit, UsageError
from idlewin.exemptfile import read_exemptions
from idlewin.options import Options

if TYPE_CHECKING:
    from idlewin.adapters.api import Api
    from idlewin.adapters.audit_pods import Object
    from idlewin.audit.facts import Idle


class Output(StrEnum):
    """How the answer is written."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    SARIF = "sarif"
    JUNIT = "junit"
    PROMETHEUS = "prometheus"


class FailOn(StrEnum):
    """From which severity on the exit code is 1."""

    WARNING = "warning"
    ERROR = "error"


_From = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="Look at manifests, or what kubectl get -o yaml wrote, in place of a cluster: a file, "
        "or a directory of *.yaml, *.yml and *.json; repeatable.",
    ),
]
_Exemptions = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="What is lived with: id, object, reason, until."),
]


def audit(
    from_: _From = None,
    output: Annotated[
        Output,
        typer.Option("-o", "--output", help="text, json, yaml, sarif, junit or prometheus"),
    ] = Output.TEXT,
    exemptions: _Exemptions = None,
    fail_on: Annotated[
        FailOn, typer.Option(help="The least severity that ends with 1.")
    ] = FailOn.ERROR,
    prometheus: Prometheus = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    prometheus_token_file: PrometheusTokenFile = None,
    sources: Sources = None,
) -> None:
    """Say who is on cards past whom, and which settings only look like limits.

    It looks at a cluster, or with --from at manifests, and needs no rule and no controller. With
    --prometheus it also says how long the serving of rules that only observe was idle. Nothing is
    written. Each check: docs/audit.md.

    Ends with 0; with 1 where a finding is as severe as --fail-on says; with 2 where a manifest or
    the exemptions cannot be read.
    """
    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        prometheus=a_url(prometheus),
        prometheus_token_file=prometheus_token_file,
        catalogue=a_catalogue(sources),
    )
    known = read_exemptions(exemptions) if exemptions else []
    facts, unseen, now = _of_files(from_) if from_ else _of_cluster(options)
    found = exempted(audited(facts, now), known, now.date())
    for one in found.unused:
        typer.echo(f"{exemptions}:{one.line}: {one.id} {one.object} is found no more", err=True)
    typer.echo(FORMS[output](Told(found, unseen)))
    severe = {Severity.ERROR} | ({Severity.WARNING} if fail_on is FailOn.WARNING else set())
    if any(one.severity in severe for one in found.findings):
        raise typer.Exit(Exit.FAILED)


def _of_files(paths: Sequence[Path]) -> tuple[Facts, dict[str, str], datetime]:
    # Half a second, for verbs that need it.
    from idlewin.adapters.audited import facts_of  # noqa: PLC0415
    from idlewin.adapters.clock import ServerClock  # noqa: PLC0415
    from idlewin.adapters.manifests import read  # noqa: PLC0415

    if missing := [path for path in paths if not path.exists()]:
        raise UsageError(f"{missing[0]} is not there; name a manifest or a directory of them")
    objects, faults = read(paths)
    if faults:
        raise UsageError("\n".join(map(str, faults)))
    return facts_of(objects), {}, ServerClock().now()


def _of_cluster(options: Options) -> tuple[Facts, dict[str, str], datetime]:
    from idlewin.adapters.api import connect  # noqa: PLC0415
    from idlewin.adapters.audit_lists import objects_of  # noqa: PLC0415
    from idlewin.adapters.audited import facts_of  # noqa: PLC0415

    api: Api = connect(options.kubeconfig, options.context)
    objects, unseen = objects_of(api)
    idle = _idle(options, objects) if options.prometheus else {}
    return facts_of(objects, idle), unseen, api.clock.now()


def _idle(options: Options, objects: Sequence[Object]) -> dict[str, Idle]:
    from idlewin.adapters.audit_lists import idle_of  # noqa: PLC0415
    from idlewin.adapters.clock import ServerClock  # noqa: PLC0415
    from idlewin.adapters.objects import rule_of, trim_rule  # noqa: PLC0415
    from idlewin.adapters.prometheus import prometheus_of  # noqa: PLC0415
    from idlewin.errors import UnreachableError  # noqa: PLC0415

    metrics = prometheus_of(options, ServerClock())
    try:
        if why := metrics.answers():
            raise UnreachableError(why)
        rules = [rule_of(trim_rule(one.raw)) for one in objects if one.kind == "IdleRule"]
        return idle_of(metrics, rules)
    finally:
        metrics.close()
