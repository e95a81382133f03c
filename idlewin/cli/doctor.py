"""``idlewin doctor``: what stands between this cluster and a first window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from idlewin.cli.connection import (
    Context,
    Kubeconfig,
    Prometheus,
    PrometheusTokenFile,
    Sources,
    a_catalogue,
    a_url,
    edits,
    in_sight,
)
from idlewin.cli.output import Form, Output, written
from idlewin.errors import Exit, UnreachableError, UsageError
from idlewin.options import Options
from idlewin.ports import LookError

if TYPE_CHECKING:
    from idlewin.adapters.api import Api
    from idlewin.adapters.diagnosis import Diagnosis
    from idlewin.adapters.edits import Edits
    from idlewin.core.pool import RuleObject


_Account = Annotated[
    str,
    typer.Option(
        metavar="NAMESPACE/NAME",
        help="The controller's ServiceAccount, whose permissions are looked at; without it, those "
        "of who asks.",
    ),
]


def doctor(
    output: Output = Form.TEXT,
    account: _Account = "",
    prometheus: Prometheus = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    prometheus_token_file: PrometheusTokenFile = None,
    sources: Sources = None,
) -> None:
    """Say what stands between a cluster and a window, and what to do.

    It looks at the API server, IdleRule's definition, Kueue and its waitForPodsReady, permissions,
    priorities, each rule against its cluster, and, with --prometheus, at each demand and how far
    back it is known. Nothing is written.

    Ends with 0, or with 1 where something lets no window open, or may keep serving out.
    """
    options = Options(
        kubeconfig=kubeconfig,
        context=context,
        prometheus=a_url(prometheus),
        prometheus_token_file=prometheus_token_file,
        catalogue=a_catalogue(sources),
    )
    found = list(_looked(options, *_user_of(account)))
    if output is Form.TEXT:
        typer.echo("\n".join(map(_line, found)))
    else:
        typer.echo(written([asdict(one) for one in found], output))
    if any(one.severity == "error" for one in found):
        raise typer.Exit(Exit.FAILED)


def _user_of(account: str) -> tuple[str, str]:
    """A service account's name as a user, and its namespace. Raises UsageError."""
    if not account:
        return "", "idlewin-system"
    namespace, slash, name = account.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UsageError(
            f"--account {account!r} names no ServiceAccount; write NAMESPACE/NAME, such as "
            "idlewin-system/idlewin"
        )
    return f"system:serviceaccount:{namespace}:{name}", namespace


def _looked(options: Options, user: str, namespace: str) -> Iterator[Diagnosis]:
    from idlewin.adapters import checkup  # noqa: PLC0415 - half a second, for this verb alone
    from idlewin.adapters.api import connect  # noqa: PLC0415

    api = connect(options.kubeconfig, options.context)
    first = list(checkup.of_cluster(api))
    if all(one.severity == "unknown" for one in first):
        raise UnreachableError(f"the cluster is not in sight: {first[0].seen}")
    yield from first
    yield from checkup.of_account(api, user, namespace)
    missing = {one.about for one in first if one.severity == "error"}
    cluster = edits(options.kubeconfig, options.context)
    rules = [] if "CRD" in missing else cluster.rules()
    if "Kueue" not in missing:
        yield from _of_kueue(api, rules)
    if "CRD" not in missing:
        yield from _of_rules(options, cluster, rules)
        yield from _of_demand(options, rules)


def _of_kueue(api: Api, rules: list[RuleObject]) -> Iterator[Diagnosis]:
    from idlewin.adapters.checkup_kueue import of_kueue  # noqa: PLC0415
    from idlewin.adapters.checkup_priority import of_priorities  # noqa: PLC0415

    yield from of_kueue(api, rules)
    yield from of_priorities(api, rules)


def _of_rules(options: Options, cluster: Edits, rules: list[RuleObject]) -> Iterator[Diagnosis]:
    from idlewin.adapters import checkup  # noqa: PLC0415
    from idlewin.adapters.clock import ServerClock  # noqa: PLC0415
    from idlewin.wiring import recorded  # noqa: PLC0415

    named = {q.cluster_queue for one in rules if one.rule for q in one.rule.batch.queues}
    kubernetes, recorder = recorded(options, ServerClock())
    with in_sight(kubernetes):
        try:
            yield from checkup.of_rules(rules, recorder, cluster.appliers(named))
        except LookError as error:
            raise UnreachableError(str(error)) from None


def _of_demand(options: Options, rules: list[RuleObject]) -> Iterator[Diagnosis]:
    from idlewin.adapters.checkup_demand import of_prometheus  # noqa: PLC0415
    from idlewin.adapters.clock import ServerClock  # noqa: PLC0415
    from idlewin.adapters.diagnosis import Diagnosis, Severity  # noqa: PLC0415
    from idlewin.adapters.prometheus import prometheus_of  # noqa: PLC0415

    if not options.prometheus:
        yield Diagnosis(
            about="Prometheus",
            severity=Severity.UNKNOWN,
            seen="none was named, so no demand was looked at",
            remedy="add --prometheus http://HOST:9090",
        )
        return
    metrics = prometheus_of(options, ServerClock())
    try:
        yield from of_prometheus(metrics, options.catalogue, rules)
    finally:
        metrics.close()


def _line(one: Diagnosis) -> str:
    remedy = f"\n{'':9}-> {one.remedy}" if one.remedy else ""
    return f"{one.severity:8} {one.about}: {one.seen}{remedy}"
