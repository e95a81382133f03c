"""What an audit looks at in a cluster: one list of each kind, made now, and no watch."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from idlewin.adapters.api import Api
from idlewin.adapters.audit_pods import Object, at_cards
from idlewin.adapters.audit_settings import tells
from idlewin.adapters.audit_sound import sound
from idlewin.adapters.inventory import Lists
from idlewin.audit.facts import Idle
from idlewin.audit.kinds import KINDS
from idlewin.core.load import History
from idlewin.core.pool import RuleObject
from idlewin.ports import Metrics

Json = dict[str, Any]
#: How far back demand is asked for.
PAST, _STEP = timedelta(days=7), timedelta(minutes=1)


def objects_of(api: Api) -> tuple[list[Object], dict[str, str]]:
    """All objects, and why some could not be listed, by their plural, or not be understood.

    Raises IdlewinError where nodes or pods cannot be listed.
    """
    lists = Lists(api)
    found: list[Object] = []
    for kind, looked in KINDS.items():
        keep = _KEEP.get(kind, _all)
        listing = lists.needed if looked.needed else lists.all
        # An item of a list does not say of what kind it is.
        found += [Object({**raw, "kind": kind}) for raw in listing(looked.path, keep)]
    found, odd = sound(found)
    return found, {**lists.unseen, **{str(one.thing): why for one, why in odd}}


def _all(raw: Json) -> Json | None:
    return raw


def _pod(raw: Json) -> Json | None:
    return raw if at_cards(raw.get("spec") or {}) else None


def _map(raw: Json) -> Json | None:
    return raw if tells(raw.get("data")) else None


#: Of kinds with very many objects only some say something.
_KEEP = {"Pod": _pod, "ConfigMap": _map}


def idle_of(metrics: Metrics, rules: Iterable[RuleObject]) -> dict[str, Idle]:
    """How long each rule's serving was idle, as far as its demand is known."""
    return {
        one.name: _idle(metrics.history(one.rule, PAST, _STEP))
        for one in rules
        if one.rule and any(not isinstance(s.demand, str) for s in one.rule.serving)
    }


def _idle(past: History) -> Idle:
    unknown = sum((span.length for span in past.unknown), timedelta())
    busy = sum((span.length for span in past.busy), timedelta())
    known = max(past.covers.length - unknown, timedelta())
    return Idle(idle=max(known - busy, timedelta()), known=known)
