"""The catalogue of sources: what they ask Prometheus, and whether a rule uses them rightly.

What one source is stands in source.py; the files that they are read from in sourcefile.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType

from idlewin.core.rule import Activity, Rule
from idlewin.core.target import Demand, Serving
from idlewin.source import Source, SourceKind
from idlewin.sourcefile import shipped


@cache
def sources() -> Mapping[str, Source]:
    """Every source that ships, by name."""
    return MappingProxyType({source.name: source for source in shipped().sources})


def described(of: Demand | Activity) -> str:
    """A demand as a person would name it: the source and its match, or the query, cut short."""
    if isinstance(of, Demand) and of.query is not None:
        text = " ".join(of.query.split())
        return text if len(text) <= _NAME_LIMIT else text[: _NAME_LIMIT - 1] + "…"
    labels = ",".join(f"{label}={value}" for label, value in sorted(of.match.items()))
    return f"{of.source}{{{labels}}}" if labels else str(of.source)


_NAME_LIMIT = 80


def visible_at_zero(demand: Demand) -> bool:
    """Whether a demand shows while its target has no pod."""
    if demand.source is None:
        return bool(demand.visible_at_zero)
    source = sources().get(demand.source)
    return source is not None and source.visible_at_zero


def nearest(wanted: str, known: Iterable[str], limit: int = 5) -> str:
    """What there is, in words, the likest first."""
    names = sorted(known)
    if not names:
        return "there are none"
    close = get_close_matches(wanted, names, n=limit, cutoff=0.3)
    told = [*close, *(name for name in names if name not in close)][:limit]
    more = f", and {len(names) - len(told)} more" if len(names) > len(told) else ""
    return f"there are: {', '.join(told)}{more}"


def problems(rule: Rule) -> tuple[str, ...]:
    """What is wrong with a rule's demands and activity; each a sentence with a remedy."""
    found: list[str] = []
    for number, serving in enumerate(rule.serving):
        if isinstance(serving.demand, str):
            continue
        at = f"spec.serving[{number}].demand"
        for place, demand in enumerate(serving.demand):
            found += _wrong(demand, f"{at}[{place}]", activity=False)
        found += _unseen(serving, serving.demand, at)
    if rule.cards.activity is not None:
        found += _wrong(rule.cards.activity, "spec.cards.activity", activity=True)
    return tuple(found)


def _wrong(use: Demand | Activity, at: str, *, activity: bool) -> Iterator[str]:
    if use.source is None:
        return
    source = sources().get(use.source)
    if source is None:
        yield f"{at}.source {use.source!r} is not in the catalogue; {_known(use.source)}"
        return
    if activity and source.kind is not SourceKind.ACTIVITY:
        yield (
            f"{at}.source {use.source} shows demand, not how busy cards are; "
            f"put it under serving.demand; {_of_kind(activity=True)}"
        )
    if not activity and source.kind is SourceKind.ACTIVITY:
        yield (
            f"{at}.source {use.source} shows how busy cards are, whoever uses them; put it under "
            f"cards.activity; {_of_kind(activity=False)}"
        )
    for label in use.match:
        if label not in source.keys:
            yield (
                f"{at}.match has {label!r}, which {use.source} cannot be picked by; "
                f"its keys are {', '.join(source.keys)}"
            )


def _unseen(serving: Serving, demands: Iterable[Demand], at: str) -> Iterator[str]:
    """A target that goes to zero and whose demand would not show there."""
    if not any(visible_at_zero(demand) for demand in demands):
        doors = ", ".join(s.name for s in sources().values() if s.visible_at_zero)
        yield (
            f"{at}: nothing of it shows while {serving.ref} has no pod, so nobody could want it "
            f"back; add a front door ({doors}), or a query with up and visibleAtZero: true"
        )


def _known(wanted: str) -> str:
    close = get_close_matches(wanted, sources(), n=1)
    return f"did you mean {close[0]}?" if close else nearest(wanted, sources())


def _of_kind(*, activity: bool) -> str:
    names = [s.name for s in sources().values() if (s.kind is SourceKind.ACTIVITY) is activity]
    return f"{'activity' if activity else 'demand'} sources are {', '.join(names)}"
