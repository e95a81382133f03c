"""What stands between a cluster and a first window: looked at, and told with what to do.

For people who set idlewin up, or wonder why nothing happens. Nothing is written, and nothing is
decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.diagnosis import Diagnosis, Severity, bad, doubt, good, parted, unasked
from idlewin.adapters.permissions import denied
from idlewin.adapters.queues import GROUP as KUEUE
from idlewin.adapters.serving import KINDS
from idlewin.core.condition import INSIDE_KUEUE
from idlewin.core.lint import NO_KUEUE, refusals, too_much_quota
from idlewin.core.pool import RuleObject
from idlewin.core.rule import API_VERSION
from idlewin.core.scope import scope_of
from idlewin.crd import PLURAL, crd
from idlewin.errors import DEFINE
from idlewin.ports import Cluster
from idlewin.rulecheck import faults

Json = dict[str, Any]
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: Minor versions of Kubernetes 1: that of all tests, and the first that has all that is asked for.
_TESTED, _OLDEST = 36, 30
_MINOR = re.compile(r"(\d+)")
#: What gives the account all that it needs.
ACT = "kubectl apply -k deploy/overlays/act"


def of_cluster(api: Api) -> Iterator[Diagnosis]:
    """The API server, our definition, Kueue's API, and the kinds that a cluster may lack."""
    yield _asked("Kubernetes", api, "/version", _version)
    name = f"{PLURAL}.{API_VERSION.partition('/')[0]}"
    yield _asked("CRD", api, f"{_DEFINITIONS}/{name}", _definition, gone=_no_definition())
    yield _asked("Kueue", api, KUEUE, _kueue, gone=bad("Kueue", *NO_KUEUE.rsplit("; ", 1)))
    for kind in KINDS:
        if kind.optional:
            without = good(kind.kind, "not in this cluster")
            yield _asked(kind.kind, api, f"/apis/{kind.api_version}", _there, gone=without)


def of_account(api: Api, account: str, namespace: str) -> Iterator[Diagnosis]:
    """What the account of the controller may not do."""
    who = account or "who asks"
    try:
        found = list(denied(api, account, namespace))
    except ApiError as error:
        yield unasked("permissions", error)
        return
    for needed, verbs in found:
        yield Diagnosis(
            about="permissions",
            severity=Severity.WARNING if needed.optional else Severity.ERROR,
            seen=f"{who} may not {', '.join(verbs)} {needed}, by which {needed.use}",
            remedy=f"to lend it needs that: {ACT}, or your overlay of it; observe leaves it out",
        )
    if not found:
        yield good("permissions", f"{who} may do all of it")


def of_rules(
    rules: Iterable[RuleObject], cluster: Cluster, writers: dict[str, tuple[str, ...]]
) -> Iterator[Diagnosis]:
    """Each rule held against its cluster. Raises LookError.

    ``writers``: who has a ClusterQueue's stopPolicy in what is applied, by its name.
    """
    known = list(rules)
    if not known:
        yield Diagnosis(
            about="rules",
            severity=Severity.WARNING,
            seen="there is none",
            remedy="write one with mode Observe, and kubectl apply -f it (docs/rule.md)",
        )
    for rule in known:
        told = [*_of_rule(rule, cluster, known), *_of_queues(rule, writers)]
        yield from told or [
            Diagnosis(
                about=f"rule {rule.name}", severity=Severity.OK, seen="agrees with its cluster"
            )
        ]


def _of_rule(
    this: RuleObject, cluster: Cluster, known: Iterable[RuleObject]
) -> Iterator[Diagnosis]:
    about, pool = f"rule {this.name}", cluster.look(scope_of(this))
    own = faults(this.rule) if this.rule else ()
    for refusal in (*own, *refusals(this, pool, known)):
        yield bad(about, *parted(refusal.text))
    if this.rule is None:
        return
    for target in pool.targets:
        if target.inside_kueue:
            yield doubt(about, *parted(f"{target.ref}: {INSIDE_KUEUE}"))
    if text := too_much_quota(this.rule, pool):
        yield doubt(about, *parted(text))
    if this.rule.paused:
        yield doubt(about, "it is paused, so nothing is lent", f"idlewin resume {this.name}")


def _of_queues(this: RuleObject, writers: dict[str, tuple[str, ...]]) -> Iterator[Diagnosis]:
    for queue in this.rule.batch.queues if this.rule else ():
        if others := writers.get(queue.cluster_queue):
            yield doubt(
                f"rule {this.name}",
                f"{', '.join(others)} has stopPolicy of ClusterQueue {queue.cluster_queue}, "
                "and puts it back at each apply",
                "take stopPolicy out of what that applies",
            )


# -- single answers


def _version(answer: Json) -> Diagnosis:
    told, minor = str(answer.get("gitVersion", "?")), _MINOR.search(str(answer.get("minor", "")))
    seen, number = f"API server {told}", int(minor[1]) if minor else _TESTED
    if number < _OLDEST:
        return doubt("Kubernetes", f"{seen}, older than 1.{_OLDEST}", "none older was tried")
    if number > _TESTED:
        return doubt("Kubernetes", f"{seen}, newer than 1.{_TESTED}", "none newer was tried")
    tried = "" if number == _TESTED else f"; all tests ran on 1.{_TESTED}"
    return good("Kubernetes", f"{seen}{tried}")


def _definition(stored: Json) -> Diagnosis:
    """Whether the API server knows the fields that this version writes and reads."""
    ours = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    theirs = {
        one["name"]: one["schema"]["openAPIV3Schema"]["properties"]
        for one in stored["spec"]["versions"]
    }.get(crd()["spec"]["versions"][0]["name"], {})
    missing = sorted(
        f"{part}.{name}"
        for part in ("spec", "status")
        for name in _fields(ours[part]) - _fields(theirs.get(part, {}))
    )
    if missing:
        seen = f"IdleRule is of another version: it knows no {', '.join(missing[:3])}"
        return doubt("CRD", seen, "kubectl apply -f deploy/base/crd.yaml")
    return good("CRD", f"IdleRule ({API_VERSION})")


def _fields(schema: Json, above: str = "") -> set[str]:
    found = set()
    for name, part in (schema.get("properties") or {}).items():
        found.add(f"{above}{name}")
        found |= _fields(part, f"{above}{name}.") | _fields(
            part.get("items") or {}, f"{above}{name}[]."
        )
    return found


def _kueue(answer: Json) -> Diagnosis:
    there = {one["name"] for one in answer.get("resources", ())}
    missing = {"clusterqueues", "localqueues", "workloads", "cohorts"} - there
    if missing:
        return bad(
            "Kueue", f"it has no {', '.join(sorted(missing))}", "install Kueue 0.18 or newer"
        )
    return _there(answer)


def _there(answer: Json) -> Diagnosis:
    return good("", str(answer["groupVersion"]))


def _no_definition() -> Diagnosis:
    return bad("CRD", "the cluster does not know IdleRule", DEFINE)


def _asked(
    about: str,
    api: Api,
    path: str,
    read: Callable[[Json], Diagnosis],
    gone: Diagnosis | None = None,
) -> Diagnosis:
    """What an answer of the API server says; ``gone``: what it says that there is none."""
    try:
        found = read(api.get(path))
    except ApiError as error:
        return gone if gone and error.gone else unasked(about, error)
    return replace(found, about=about)
