"""What there is to give back, by reads made now: all rules, and the marks of rules that are gone.

A rule whose finalizer was forced off may have left its record on a target, or a queue open. No
controller comes across these any more, for none has such a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.fields import annotation
from idlewin.adapters.objects import rule_of, trim_rule
from idlewin.adapters.queues import epoch_of, left_of, policy_of
from idlewin.adapters.serving import KINDS, Kind
from idlewin.adapters.watched import QUEUES, RULES, recorded_on
from idlewin.core.phase import Phase
from idlewin.core.pool import ADOPTED_BY, MANAGER, RuleObject, StopPolicy

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """What there is to give back."""

    rules: tuple[RuleObject, ...]
    """All there are, by name."""
    marked: frozenset[str]
    """The names on records and on queues that are open by our hand; who has the only record of a
    target that a leader lowered once its window was over."""

    @property
    def gone(self) -> tuple[str, ...]:
        """Names of rules that are no more, with something of theirs left."""
        return tuple(sorted(self.marked - {rule.name for rule in self.rules}))

    @property
    def away(self) -> tuple[RuleObject, ...]:
        """Rules that are not back where they were."""
        return tuple(rule for rule in self.rules if self._is_away(rule))

    def _is_away(self, rule: RuleObject) -> bool:
        status = rule.status
        if rule.name in self.marked or (rule.deleting and rule.finalizer):
            return True
        if status is None:
            return bool(rule.status_error)
        return status.phase != Phase.SERVING or status.window is not None


def stranded(api: Api) -> Stranded:
    """What there is to give back. Raises ApiError."""
    # The rules last: a mark that was there before, and has no rule now, is nobody's.
    targets = [(kind, raw) for kind in KINDS for raw in _all(api, kind.watch_path)]
    zeros = {raw["metadata"]["uid"] for kind, raw in targets if _at_our_zero(kind, raw)}
    marked = {name for kind, raw in targets for name in recorded_on(kind, raw)}
    marked |= {annotation(raw, ADOPTED_BY) for raw in _all(api, QUEUES) if _open_by_us(raw)}
    rules = sorted((rule_of(trim_rule(raw)) for raw in _all(api, RULES)), key=lambda r: r.name)
    marked |= {rule.name for rule in rules if zeros & _not_lowered(rule)}
    return Stranded(rules=tuple(rules), marked=frozenset(marked - {""}))


def _all(api: Api, path: str) -> list[Json]:
    """All objects of a kind; none, where there is no such kind."""
    try:
        return api.listed(path)[0]
    except ApiError as error:
        if not error.gone:
            raise
        return []


def _at_our_zero(kind: Kind, raw: Json) -> bool:
    return kind.replicas(raw) == 0 and kind.writer(raw) == MANAGER


def _not_lowered(rule: RuleObject) -> set[str]:
    return {target.uid for target in rule.status.not_lowered} if rule.status else set()


def _open_by_us(raw: Json) -> bool:
    ours = epoch_of(raw) is not None and left_of(raw) in (None, StopPolicy.NONE)
    return ours and policy_of(raw) is StopPolicy.NONE and "deletionTimestamp" not in raw["metadata"]
