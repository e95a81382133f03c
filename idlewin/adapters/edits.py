"""What a person asks for, written to rules and queues: claims, pause, resume, adoption.

Nothing is decided here, and nothing of a window is touched: that is the controller's. What rests
on what was read is written only while that still holds; a status that moves meanwhile, as those of
rules and queues do all the time, is nobody's change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.change import TRIES
from idlewin.adapters.objects import rule_of, trim_rule
from idlewin.adapters.queues import GROUP as KUEUE
from idlewin.core.decision import Verdict
from idlewin.core.pool import ADOPTED_BY, BEFORE_US, EPOCH, LEFT, MANAGER, RESUME, RuleObject
from idlewin.core.rule import API_VERSION
from idlewin.core.text import format_instant, to_second
from idlewin.errors import NO_RULES, IdlewinError, RefusedError, UnreachableError, UsageError
from idlewin.ports import LookError

Json = dict[str, Any]
RULES = f"/apis/{API_VERSION}/idlerules"
QUEUES = f"{KUEUE}/clusterqueues"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSeen:
    """A ClusterQueue as adoption sees it."""

    name: str
    resource_version: str
    stop_policy: str
    """Empty: it has none, which Kueue takes for None."""
    adopted_by: str
    before_us: str | None
    """The stop policy that adoption put on record; None: there is no record."""
    writers: tuple[str, ...]
    """Field managers other than ours that own stopPolicy, and will write it at their next write."""


class Edits:
    """Reads and writes of single objects, each made now."""

    def __init__(self, api: Api) -> None:
        self._api, self.clock = api, api.clock

    # -- rules

    def rules(self) -> list[RuleObject]:
        """All rules, by name. Raises IdlewinError."""
        with told("IdleRules"):
            found, _ = self._api.listed(RULES)
        return sorted((rule_of(trim_rule(raw)) for raw in found), key=lambda rule: rule.name)

    def existing_rule(self, name: str) -> RuleObject:
        """A rule. Raises UsageError where there is none, and IdlewinError."""
        rule = self.rule(name)
        if rule is None:
            raise UsageError(f"there is no rule {name}; idlewin status lists those that there are")
        return rule

    def rule(self, name: str) -> RuleObject | None:
        """A rule; None: there is none, or the cluster knows no IdleRule. Raises IdlewinError."""
        with told(f"rule {name}"):
            return self._rule(name)

    def stored_rule(self, name: str) -> RuleObject | None:
        """A rule by a read made now; None: there is none. Raises LookError."""
        try:
            return self._rule(name)
        except ApiError as error:
            raise LookError(_reason(error)) from None

    def _rule(self, name: str) -> RuleObject | None:
        if not _can_be_a_name(name):
            return None
        try:
            return rule_of(trim_rule(self._api.get(f"{RULES}/{name}")))
        except ApiError as error:
            if error.gone:
                return None
            raise

    def annotate_rule(
        self, name: str, annotations: Mapping[str, str | None], resource_version: str
    ) -> tuple[Verdict, str]:
        """Write annotations if the rule is still as it was read; None takes one off."""
        meta = {"resourceVersion": resource_version, "annotations": dict(annotations)}
        try:
            self._api.merge(f"{RULES}/{name}", {"metadata": meta})
        except ApiError as error:
            return _verdict(error), _reason(error)
        return Verdict.DONE, ""

    def pause(self, rule: RuleObject) -> None:
        """Write ``paused: true``. Raises IdlewinError."""
        self._patch_rule(rule.name, {"spec": {"paused": True}})

    def resume(self, rule: RuleObject) -> None:
        """Write ``paused: false``, and the instant that ends a contest. Raises IdlewinError."""
        said = format_instant(to_second(self.clock.now()))
        self._patch_rule(
            rule.name,
            {
                "metadata": {"annotations": {RESUME: said}},
                "spec": {"paused": False},
            },
        )

    def _patch_rule(self, name: str, patch: Json) -> None:
        # Whatever the rule has come to meanwhile: what a person says of it holds. Said twice it is
        # the same: where no answer came it is said once more.
        with told(f"rule {name}"):
            try:
                self._api.merge(f"{RULES}/{name}", patch)
            except ApiError as error:
                if error.status:
                    raise
                self._api.merge(f"{RULES}/{name}", patch)

    # -- queues

    def queue(self, name: str) -> QueueSeen:
        """A ClusterQueue. Raises UsageError where there is none, and IdlewinError."""
        try:
            raw = self._api.get(f"{QUEUES}/{name}") if _can_be_a_name(name) else None
        except ApiError as error:
            if not error.gone:
                raise _as_told(f"ClusterQueue {name}", error) from None
            raw = None
        if raw is None:
            raise UsageError(
                f"there is no ClusterQueue {name}; kubectl get clusterqueues lists those that "
                "there are"
            )
        annotations = raw["metadata"].get("annotations") or {}
        return QueueSeen(
            name=name,
            resource_version=raw["metadata"]["resourceVersion"],
            stop_policy=str((raw.get("spec") or {}).get("stopPolicy") or ""),
            adopted_by=annotations.get(ADOPTED_BY, ""),
            before_us=annotations.get(BEFORE_US),
            writers=tuple(sorted(set(_owners(raw)) - {MANAGER})),
        )

    def appliers(self, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Who puts the stopPolicy of queues back at each apply, of those queues that there are."""
        with told("ClusterQueues"):
            try:
                found, _ = self._api.listed(QUEUES)
            except ApiError as error:
                if not error.gone:
                    raise
                return {}
        wanted = set(names)
        return {
            raw["metadata"]["name"]: tuple(sorted(set(appliers_of(raw)) - {MANAGER}))
            for raw in found
            if raw["metadata"]["name"] in wanted
        }

    def adopt(self, queue: QueueSeen, rule: str) -> None:
        """Put a queue into a rule's hands, and its stop policy on record. Raises IdlewinError."""
        self._patch_queue(queue, {ADOPTED_BY: rule, BEFORE_US: queue.stop_policy or "None"}, {})

    def let_go(self, queue: QueueSeen, *, restore: bool) -> None:
        """Take a queue out of our hands; with the policy that was on record, if so asked."""
        spec = {"stopPolicy": queue.before_us} if restore and queue.before_us else {}
        self._patch_queue(queue, dict.fromkeys((ADOPTED_BY, BEFORE_US, EPOCH, LEFT)), spec)

    def _patch_queue(
        self, queue: QueueSeen, annotations: Mapping[str, str | None], spec: Json
    ) -> None:
        patch = {"spec": spec} if spec else {}
        now = queue
        with told(f"ClusterQueue {queue.name}"):
            for left in reversed(range(TRIES)):
                meta = {"resourceVersion": now.resource_version, "annotations": dict(annotations)}
                try:
                    self._api.merge(f"{QUEUES}/{queue.name}", {"metadata": meta, **patch})
                except ApiError as error:
                    if not error.conflict or not left:
                        raise
                    now = self.queue(queue.name)
                    if replace(now, resource_version=queue.resource_version) != queue:
                        raise
                else:
                    return


@contextmanager
def told(what: str) -> Iterator[None]:
    """Have the API server's no, or its silence, told as an error that a person can act on."""
    try:
        yield
    except ApiError as error:
        raise _as_told(what, error) from None


def _as_told(what: str, error: ApiError) -> IdlewinError:
    if error.gone and what == "IdleRules":
        return RefusedError(NO_RULES)
    match _verdict(error):
        case Verdict.CONFLICT:
            return RefusedError(f"{what} changed meanwhile; run the same command again")
        case Verdict.FAILED:
            return UnreachableError(
                f"{what}: {_reason(error)}; look at the cluster, or "
                "name another with --kubeconfig or --context"
            )
        case _:
            return RefusedError(f"{what}: {error.message}")


def _reason(error: ApiError) -> str:
    """What came back; where it is no answer, without the call, which tells a person nothing."""
    if _verdict(error) is not Verdict.FAILED:
        return error.message
    why = re.sub(r"^[A-Z]+ \S+: (no answer: )?", "", error.message)
    return f"the API server did not answer: {why}"


def _verdict(error: ApiError) -> Verdict:
    if error.gone:
        return Verdict.GONE
    if error.conflict:
        return Verdict.CONFLICT
    # Too many requests, and a server in trouble, may answer otherwise later.
    if error.status in (0, 429) or error.status >= 500:
        return Verdict.FAILED
    return Verdict.REFUSED


def _can_be_a_name(name: str) -> bool:
    """Whether an object can have this name, which becomes a path's last step."""
    return name[:1].isalnum() and all(c.isascii() and (c.isalnum() or c in "-.") for c in name)


def _owners(raw: Json, operation: str = "") -> Iterator[str]:
    """The field managers that own spec.stopPolicy, by an operation if one is named."""
    for entry in raw["metadata"].get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:spec")
        wanted = operation in ("", entry.get("operation"))
        if wanted and isinstance(fields, dict) and "f:stopPolicy" in fields:
            yield str(entry.get("manager", "?"))


def appliers_of(raw: Json) -> Iterator[str]:
    """Who has it in what is applied, on the server's side or the client's."""
    yield from _owners(raw, "Apply")
    applied = (raw["metadata"].get("annotations") or {}).get(_LAST_APPLIED, "")
    if '"stopPolicy"' in applied:
        yield "kubectl apply, or what applies as it does"
