"""The catalogue of sources: what they ask Prometheus, and whether a rule uses them rightly.

It reads the package's own sources.toml and nothing else: no network, no rule's values in a query.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from idlewin.core.rule import Activity, Rule
from idlewin.core.target import Demand, Serving


class SourceKind(StrEnum):
    """What a source can see."""

    RUNNING = "running"
    """Work that a server runs or has queued: nothing while the server has no pod."""
    FRONT_DOOR = "front-door"
    """Requests on their way in: also those for a server that has no pod."""
    ACTIVITY = "activity"
    """How busy a card is, whoever uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of the catalogue."""

    name: str
    kind: SourceKind
    keys: tuple[str, ...]
    """Labels that tell its series apart; a rule's match names some or all of them."""
    unit: str
    valid_max: float
    """No value above it is believed, nor one below 0."""
    series: str
    """A selector of one metric that is there for each key; its samples' age is the key's."""
    exporter: str
    """A selector of one metric that the exporter always has, also without any key."""
    query: str
    """PromQL with one series for each key; ``$window`` stands for a stretch of time."""
    about: str
    remedy: str
    """What to look at where a key is missing."""

    @property
    def visible_at_zero(self) -> bool:
        """Whether demand shows while the target has no pod."""
        return self.kind is SourceKind.FRONT_DOOR

    @property
    def age(self) -> str:
        """PromQL: for each key, the seconds since its newest sample; of replicas, the oldest's."""
        return f"max by ({self._by}) (time() - timestamp({self.series}))"

    @property
    def alive(self) -> str:
        """PromQL: for each key, 1 while every exporter that showed it lately is scraped."""
        return f"min by ({self._by}) ({_scraped(self.series, (*self.keys, 'job', 'instance'))})"

    @property
    def witness(self) -> str:
        """PromQL: 1 while every exporter that was there lately is scraped."""
        return f"min({_scraped(self.exporter, ('job', 'instance'))})"

    @property
    def witness_age(self) -> str:
        """PromQL: the seconds since an exporter was last scraped, of the one longest ago."""
        return (
            "max((time() - timestamp(up)) and on (job, instance) "
            f"last_over_time({self.exporter}[{_LATELY}]))"
        )

    @property
    def _by(self) -> str:
        return ", ".join(self.keys)


#: An exporter that was scraped so long ago and is still a target is missed while it is down.
_LATELY = "1h"


def _scraped(selector: str, labels: Iterable[str]) -> str:
    """PromQL: for each exporter that had a series lately, whether its last scrape went well.

    A target that is gone on purpose has no ``up`` any more and drops out.
    """
    by = ", ".join(dict.fromkeys(labels))
    return (
        f"group by ({by}) (last_over_time({selector}[{_LATELY}])) "
        "* on (job, instance) group_left () min by (job, instance) (up)"
    )


_PART = "idlewin_part"


def filled(query: str, window: timedelta) -> str:
    """A catalogue query with its stretch of time put in."""
    return query.replace("$window", f"{max(1, round(window.total_seconds()))}s")


def tagged(parts: Mapping[str, str]) -> str:
    """Several queries as one, whose series say by a label which of them they answer."""
    # The line break ends a comment that a query may end with.
    return "\nor\n".join(
        f'label_replace(({query}\n), "{_PART}", "{name}", "", "")' for name, query in parts.items()
    )


def part_is(name: str) -> tuple[str, str]:
    """The label that the series of a part carry."""
    return _PART, name


def part_of(labels: Mapping[str, str]) -> str:
    """Which of the tagged queries a series answers."""
    return labels.get(_PART, "")


@cache
def sources() -> Mapping[str, Source]:
    """Every source that ships, by name."""
    text = files("idlewin").joinpath("sources.toml").read_text(encoding="utf-8")
    return MappingProxyType(
        {
            name: Source(
                name=name,
                kind=SourceKind(entry["kind"]),
                keys=tuple(entry["keys"]),
                unit=entry["unit"],
                valid_max=float(entry["max"]),
                series=entry["series"],
                exporter=entry["exporter"],
                query=entry["query"].strip(),
                about=entry["about"],
                remedy=entry["remedy"],
            )
            for name, entry in tomllib.loads(text).items()
        }
    )


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
