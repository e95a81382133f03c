"""Objects that are like what an API server takes, apart from those that are not, each with why.

What an object refers to may be what is odd, so they are tried together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from idlewin.adapters.audit_pods import TEMPLATES, Object
from idlewin.adapters.audited import facts_of
from idlewin.audit.audited import audited
from idlewin.codec import read_rule
from idlewin.errors import RuleError

_ANY = datetime(2000, 1, 1, tzinfo=UTC)


def sound(objects: Iterable[Object]) -> tuple[list[Object], list[tuple[Object, str]]]:
    """Those that an audit can look at, and the others."""
    found = sorted(objects, key=_after_what_refers_to_it)
    odd = [(one, why) for one in found if (why := _no_rule(one))]
    found = [one for one in found if not _no_rule(one)]
    while why := _trouble(found):
        # The first that cannot join those before it: between good of them and bad of them.
        good, bad = 0, len(found)
        while bad - good > 1:
            middle = (good + bad) // 2
            told = _trouble(found[:middle])
            good, bad, why = (good, middle, told) if told else (middle, bad, why)
        one = found.pop(bad - 1)
        odd.append((one, f"{one.thing} is unlike a {one.kind} that the API server takes: {why}"))
    return found, odd


def _after_what_refers_to_it(one: Object) -> int:
    order = ("IdleRule", "Pod", *TEMPLATES, "ClusterQueue", "Cohort")
    return order.index(one.kind) if one.kind in order else len(order)


def _no_rule(one: Object) -> str:
    try:
        if one.kind == "IdleRule":
            read_rule(one.raw.get("spec"))
    except RuleError as error:
        return f"{one.thing} is no rule: {error}; idlewin check says it by line"
    return ""


def _trouble(objects: Sequence[Object]) -> str:
    try:
        audited(facts_of(objects), _ANY)
    except KeyError as error:
        return f"it has no {error}"
    except (AttributeError, TypeError, ValueError) as error:
        return str(error)
    return ""
