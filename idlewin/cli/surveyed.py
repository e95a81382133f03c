"""What a Prometheus has of the sources and of rules' demands, in words and as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from idlewin.adapters.clock import ServerClock
from idlewin.adapters.prometheus import prometheus_of
from idlewin.adapters.survey import Found, Sight, State, Use, oldest, sights, uses
from idlewin.core.pool import RuleObject
from idlewin.errors import UnreachableError
from idlewin.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found."""

    sights: tuple[Sight, ...]
    rules: tuple[tuple[RuleObject, tuple[Use, ...]], ...]

    @property
    def lacking(self) -> bool:
        """Whether a rule lacks what it looks at, or cannot be read."""
        return any(
            rule.rule is None or any(use.found is Found.MISSING for use in found)
            for rule, found in self.rules
        )


def surveyed(options: Options, rules: Iterable[RuleObject]) -> Survey:
    """Ask a Prometheus. Raises UsageError where none is named, UnreachableError if it is silent."""
    metrics = prometheus_of(options, ServerClock())
    try:
        if why := metrics.answers():
            raise UnreachableError(why)
        return Survey(
            sights=tuple(sights(metrics, options.catalogue)),
            rules=tuple(
                (rule, tuple(uses(metrics, options.catalogue, rule.rule)) if rule.rule else ())
                for rule in rules
            ),
        )
    finally:
        metrics.close()


def as_dict(found: Survey, most: int) -> dict[str, Any]:
    """All of it as data, of each source at most so many keys."""
    return {
        "sources": [
            {
                "name": sight.source.name,
                "kind": sight.source.kind.value,
                "state": sight.state.value,
                "why": sight.why,
                "count": len(sight.shown),
                "oldest": oldest(sight.shown),
                "outOfRange": sum(not one.possible for one in sight.shown),
                "keys": [asdict(one) for one in sight.shown[:most]],
            }
            for sight in found.sights
        ],
        "rules": [
            {"name": rule.name, "error": rule.error, "looksAt": [asdict(use) for use in told]}
            for rule, told in found.rules
        ],
    }


def lines(found: Survey, most: int) -> Iterator[str]:
    """All of it for a person, what is not there in one line."""
    for sight in found.sights:
        if sight.state is not State.ABSENT or sight.shown:
            yield from _of_source(sight, most)
    absent = [s.source.name for s in found.sights if s.state is State.ABSENT and not s.shown]
    if absent:
        yield f"not seen: {', '.join(absent)}"
    for rule, told in found.rules:
        yield ""
        yield f"rule {rule.name}:" if rule.rule else f"rule {rule.name}: {rule.error}"
        if rule.rule and not told:
            yield "  looks at no demand: it goes by the calendar"
        yield from map(_of_use, told)


def _of_source(sight: Sight, most: int) -> Iterator[str]:
    shown = sight.shown
    age = oldest(shown)
    facts = [
        sight.state.value,
        f"{len(shown)} key{'' if len(shown) == 1 else 's'}",
        *([f"oldest sample {age:.0f}s ago"] if age is not None else []),
        *([f"{wrong} out of range"] if (wrong := sum(not one.possible for one in shown)) else []),
    ]
    yield f"{sight.source.name} ({sight.source.kind.value}): {', '.join(facts)}"
    if sight.why:
        yield f"  {sight.why}"
    # What is not believed comes first: it is what there is to do.
    for one in sorted(shown, key=lambda one: not one.why)[:most]:
        named = ", ".join(f"{label}={value}" for label, value in one.match.items())
        value = "no value" if one.value is None else f"{one.value:g}"
        yield f"  {named}: {one.why or value}"
    if len(shown) > most:
        yield f"  and {len(shown) - most} more"


def _of_use(use: Use) -> str:
    value = "" if use.value is None else f"{use.value:g}"
    return f"  {use.found.value:7} {use.field} {use.name}: {use.why or value}"
