"""The catalogue of sources: what they ask Prometheus, and whether a rule uses them rightly.

What one source is stands in source.py; the files that they are read from in sourcefile.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import islice

from idlewin.core.rule import Activity, Rule
from idlewin.core.target import Demand, Serving
from idlewin.source import Source, SourceKind


@dataclass(frozen=True)
class Catalogue:
    """The sources that ship, and those that somebody added."""

    own: tuple[Source, ...] = ()

    @cached_property
    def sources(self) -> Mapping[str, Source]:
        """Every source by name."""
        from idlewin.sourcefile import shipped  # noqa: PLC0415 - YAML, for verbs that need it

        return {source.name: source for source in (*shipped().sources, *self.own)}

    def visible_at_zero(self, demand: Demand) -> bool:
        """Whether a demand shows while its target has no pod."""
        if demand.source is None:
            return bool(demand.visible_at_zero)
        source = self.sources.get(demand.source)
        return source is not None and source.visible_at_zero

    def running_work(self, demand: Demand) -> bool:
        """Whether a demand shows a request from its begin to its end, while its target has pods."""
        if demand.source is None:
            # A counter at the front door rises when a request ends.
            return not demand.visible_at_zero or not _COUNTED.search(demand.query or "")
        source = self.sources.get(demand.source)
        return source is not None and source.running_work

    def named(self, wanted: Callable[[Source], bool]) -> str:
        """The names of some sources, in the catalogue's order."""
        return ", ".join(source.name for source in self.sources.values() if wanted(source))


SHIPPED = Catalogue()
#: What PromQL asks of a counter.
_COUNTED = re.compile(r"\b(increase|rate|irate|delta|idelta|changes)\s*(by|without)?\s*\(")


def described(of: Demand | Activity) -> str:
    """A demand as a person would name it: the source and its match, or the query, cut short."""
    if isinstance(of, Demand) and of.query is not None:
        text = " ".join(of.query.split())
        return text if len(text) <= _NAME_LIMIT else text[: _NAME_LIMIT - 1] + "…"
    if isinstance(of, Demand) and of.llama_swap is not None:
        model = f"{{model={of.llama_swap.model}}}" if of.llama_swap.model else ""
        return f"llamaSwap {of.llama_swap.url}{model}"
    labels = ",".join(f"{label}={value}" for label, value in sorted(of.match.items()))
    return f"{of.source}{{{labels}}}" if labels else str(of.source)


_NAME_LIMIT = 80


def nearest(wanted: str, known: Collection[str], limit: int = 5) -> str:
    """What there is, in words, the likest first; of very many just some."""
    if not known:
        return "there are none"
    told = sorted(known) if len(known) <= _COMPARED else list(islice(known, limit))
    close = get_close_matches(wanted, told, n=limit, cutoff=0.3)
    told = [*close, *(name for name in told if name not in close)][:limit]
    more = f", and {len(known) - len(told)} more" if len(known) > len(told) else ""
    return f"there are: {', '.join(told)}{more}"


#: Of more names the likest is not looked for: each rule asks, at each tick.
_COMPARED = 200


def problems(rule: Rule, catalogue: Catalogue = SHIPPED) -> tuple[str, ...]:
    """What is wrong with a rule's demands and activity; each a sentence with a remedy."""
    found: list[str] = []
    for number, serving in enumerate(rule.serving):
        if isinstance(serving.demand, str):
            continue
        at = f"spec.serving[{number}].demand"
        wrong = [
            said
            for place, demand in enumerate(serving.demand)
            for said in _wrong(demand, f"{at}[{place}]", catalogue)
        ]
        found += wrong or _half(serving, serving.demand, at, catalogue)
    if rule.cards.activity is not None:
        found += _wrong(rule.cards.activity, "spec.cards.activity", catalogue)
    return tuple(found)


def _wrong(use: Demand | Activity, at: str, catalogue: Catalogue) -> Iterator[str]:
    if use.source is None:
        return
    source = catalogue.sources.get(use.source)
    if source is None:
        known = _known(use, use.source, catalogue)
        yield f"{at}.source {use.source!r} is not in the catalogue; {known}"
        return
    measures = source.kind is SourceKind.ACTIVITY
    if isinstance(use, Activity) and not measures:
        yield (
            f"{at}.source {use.source} shows demand, not how busy cards are; put it under "
            f"serving.demand; activity sources are {catalogue.named(_is_activity)}"
        )
    if isinstance(use, Demand) and measures:
        demands = catalogue.named(lambda one: not _is_activity(one))
        yield (
            f"{at}.source {use.source} shows how busy cards are, whoever uses them; put it under "
            f"cards.activity; demand sources are {demands}"
        )
    for label in use.match:
        if label not in source.keys:
            yield (
                f"{at}.match has {label!r}, which {use.source} cannot be picked by; "
                f"its keys are {', '.join(source.keys)}"
            )


def _half(
    serving: Serving, demands: Iterable[Demand], at: str, catalogue: Catalogue
) -> Iterator[str]:
    """A target that goes to zero, of whose demand one half would not show."""
    both = catalogue.named(lambda source: source.kind is SourceKind.IN_PATH)
    if not any(map(catalogue.visible_at_zero, demands)):
        doors = catalogue.named(lambda source: source.visible_at_zero)
        yield (
            f"{at}: nothing of it shows while {serving.ref} has no pod, so nobody could want it "
            f"back; add a source that is visible at zero ({doors}), or a query with up, or "
            "a llamaSwap that stays up meanwhile, each with visibleAtZero: true, or write "
            "CalendarOnly"
        )
    if not any(map(catalogue.running_work, demands)):
        running = catalogue.named(lambda source: source.kind is SourceKind.RUNNING)
        instead = f", or take one that counts from begin to end ({both})" if both else ""
        yield (
            f"{at}: only front doors are looked at, which count a request when it ends: a long "
            f"answer of {serving.ref} looks idle and would be cut off; add a source of running "
            f"work ({running}){instead}, or a llamaSwap, or a query of what is in flight, or write "
            "CalendarOnly"
        )


def _is_activity(source: Source) -> bool:
    return source.kind is SourceKind.ACTIVITY


def _known(use: Demand | Activity, wanted: str, catalogue: Catalogue) -> str:
    if close := get_close_matches(wanted, catalogue.sources, n=1):
        return f"did you mean {close[0]}?"
    instead = "; query and llamaSwap stand in its place" if isinstance(use, Demand) else ""
    own = "" if catalogue.own else "; those of your own are given by --sources"
    return f"{nearest(wanted, catalogue.sources)}{own}{instead}"
