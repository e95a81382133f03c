"""Kueue as it runs: its version beside the tested one, and what its waitForPodsReady does to work.

Both stand in Kueue's own namespace, which is that of its webhooks' Service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.diagnosis import Diagnosis, Severity, bad, doubt, good, unasked
from idlewin.core.pool import RuleObject
from idlewin.core.text import format_duration
from idlewin.core.timing import OPENING_UNMEASURED, opening_time
from idlewin.errors import Finding
from idlewin.yamlfile import parts

Json = dict[str, Any]
#: What docs/kueue.md was shown on.
TESTED = (0, 18)
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_USUAL, _FILE = "kueue-system", "controller_manager_config.yaml"
_IMAGE = re.compile(r"(?:^|/)kueue[^/:]*:v?(\d+)\.(\d+)\.\S*")
_GO = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_GO_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
#: How long work has where it is not said.
_USUALLY = "5m"
_VERSION, _READY = "Kueue's version", "waitForPodsReady"


def of_kueue(api: Api, rules: Iterable[RuleObject]) -> Iterator[Diagnosis]:
    """Version and configuration; never raises."""
    namespace = _namespace(api)
    try:
        yield _version(
            namespace, api.listed(f"/apis/apps/v1/namespaces/{namespace}/deployments")[0]
        )
    except ApiError as error:
        yield unasked(_VERSION, error)
    try:
        found = api.listed(f"/api/v1/namespaces/{namespace}/configmaps")[0]
    except ApiError as error:
        yield unasked(_READY, error)
    else:
        yield from _configured(namespace, found, _opening(rules))


def _namespace(api: Api) -> str:
    try:
        hooks = [hook for one in api.listed(_WEBHOOKS)[0] for hook in one.get("webhooks") or ()]
    except ApiError:
        return _USUAL
    services = [hook["clientConfig"].get("service") or {} for hook in hooks]
    return next((str(s["namespace"]) for s in services if "kueue" in s.get("name", "")), _USUAL)


def _opening(rules: Iterable[RuleObject]) -> timedelta:
    """How long it takes from the wish to lend until batch runs, in the slowest pool."""
    known = [opening_time(rule.status) for rule in rules if rule.status]
    return max(known, default=OPENING_UNMEASURED)


def _version(namespace: str, deployments: Iterable[Json]) -> Diagnosis:
    containers = [c for one in deployments for c in one["spec"]["template"]["spec"]["containers"]]
    found = next((m for c in containers if (m := _IMAGE.search(c.get("image", "")))), None)
    tested = ".".join(map(str, TESTED))
    if found is None:
        return Diagnosis(
            about=_VERSION,
            severity=Severity.UNKNOWN,
            seen=f"no Deployment in {namespace} has an image that tells it",
            remedy=f"see that it is {tested}, which all tests ran on",
        )
    seen = f"image {found[0].lstrip('/')}"
    if (int(found[1]), int(found[2])) == TESTED:
        return good(_VERSION, seen)
    remedy = f"take {tested}, or hold docs/kueue.md against what changed since"
    return doubt(_VERSION, f"{seen}; all tests ran on {tested}", remedy)


def _configured(namespace: str, maps: Iterable[Json], opening: timedelta) -> Iterator[Diagnosis]:
    texts = [text for one in maps if (text := (one.get("data") or {}).get(_FILE))]
    document = next(parts(Path(_FILE), texts[0]), None) if texts else None
    if document is None or isinstance(document, Finding) or not document.is_mapping:
        why = f": {document.message}" if isinstance(document, Finding) else ""
        yield Diagnosis(
            about=_READY,
            severity=Severity.UNKNOWN,
            seen=f"no ConfigMap in {namespace} has a readable {_FILE}{why}",
            remedy=f"see that waitForPodsReady is off in Kueue's configuration, or longer than "
            f"{format_duration(opening)}",
        )
        return
    told = document.plain().get("waitForPodsReady")
    # Until v1beta2 it was switched on by ``enable``; since then by being there.
    if not isinstance(told, dict) or told.get("enable") is False:
        yield good(_READY, "it is off")
        return
    yield from _waits(told, opening)


def _waits(told: Json, opening: timedelta) -> Iterator[Diagnosis]:
    found = list(_dangers(told, opening))
    yield from found or [
        good(_READY, f"work has {told.get('timeout', _USUALLY)} to get its pods ready")
    ]


def _dangers(told: Json, opening: timedelta) -> Iterator[Diagnosis]:
    told = {"timeout": _USUALLY, **told}
    times = {key: _seconds(told[key]) for key in ("timeout", "recoveryTimeout") if key in told}
    for key, seconds in times.items():
        if seconds is None:
            yield bad(_READY, f"{key} {told[key]!r} is no duration", "write one such as 5m")
        # Of recoveryTimeout 0 means never.
        elif seconds < opening.total_seconds() and (seconds or key == "timeout"):
            yield doubt(
                _READY,
                f"{key} is {told[key]}, and from the wish to lend until batch runs it takes "
                f"{format_duration(opening)}: work that waits for a card is sent back meanwhile",
                f"set {key} to {format_duration(2 * opening)} or more",
            )
    if told.get("blockAdmission"):
        yield doubt(
            _READY,
            "with blockAdmission no queue at all lets work in while the pods of some are not ready",
            "set blockAdmission: false",
        )
    limit = (told.get("requeuingStrategy") or {}).get("backoffLimitCount")
    if limit is not None:
        yield doubt(
            _READY,
            f"work that gets no card in time is deactivated for good after {limit} tries",
            "leave backoffLimitCount out, or set it so high that a returning user spends no more "
            "than a few",
        )


def _seconds(text: object) -> float | None:
    """A duration as Go writes it, such as 5m0s."""
    found = _GO.findall(str(text))
    whole = "".join(number + unit for number, unit in found) == str(text)
    return sum(float(n) * _GO_SECONDS[unit] for n, unit in found) if found and whole else None
