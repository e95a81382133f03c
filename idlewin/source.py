"""One source of the catalogue: what its fields mean, and what Prometheus is asked for it.

A query gives one series for each key and never carries a rule's own values, so that all rules share
one answer. The file that sources stand in is sourcefile.py's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar

from idlewin.core.text import SCHEMA

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
#: One metric by its name, and labels of it; an expression would not go into the questions below.
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*\s*)?({.*})?", re.ASCII | re.DOTALL)
#: What is filled in; $1 and the like stand for what label_replace has found.
_VARIABLE = re.compile(r"\$(?![0-9])\w+")
#: The label that tells the parts of a question apart.
_PART = "idlewin_part"


class SourceKind(StrEnum):
    """What a source can see."""

    RUNNING = "running"
    """Work that a server runs or has queued: nothing while the server has no pod."""
    FRONT_DOOR = "front-door"
    """Requests at what stands in front of a server, counted when they end: also those for a server
    that has no pod, but not a long answer while it lasts."""
    IN_PATH = "in-path"
    """Requests at what stands in front of a server, from their first byte to their last: both."""
    ACTIVITY = "activity"
    """How busy a card is, whoever uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source of the catalogue."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    name: str
    """What rules call it; in a file it is the key that the entry stands under."""
    kind: SourceKind
    """What it can see: running, front-door, in-path or activity."""
    keys: tuple[str, ...]
    """Labels that tell its series apart; a rule's match names some or all of them."""
    unit: str
    """What is counted: requests, or ratio for a share from 0 to 1."""
    max: float
    """No value above it is believed, nor one below 0."""
    series: str
    """A selector of one metric that is there for each key; its samples' age is the key's."""
    exporter: str
    """A selector of one metric that the exporter always has, also without any key."""
    query: str
    """PromQL with one series for each key; ``$window`` stands for a stretch of time, at least
    four scrape intervals."""
    about: str
    """What it shows, in a few words."""
    remedy: str
    """What to look at where a key is missing."""
    spellings: dict[str, str] = field(default_factory=dict)
    """Keys that some versions or scrape configurations call otherwise, and by which label."""
    always: bool = False
    """Whether each key has its series as soon as it is configured: a missing one is unknown."""
    project: str = ""
    """Whose metrics they are: OWNER/NAME."""
    versions: str = ""
    """What differs between versions of the project, and which were looked at."""
    see: str = ""
    """The address of what the project itself says of these metrics."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is no name of a source; write lower-case letters, digits and "
                "single '-', such as my-gateway"
            )
        if not self.keys or len(set(self.keys)) < len(self.keys):
            raise ValueError("keys are labels, one or more, each once; such as [namespace, pod]")
        for key in self.keys:
            if not _LABEL.fullmatch(key) or key == _PART:
                raise ValueError(f"keys has {key!r}, which is no label of Prometheus")
        if foreign := sorted(set(self.spellings) - set(self.keys)):
            raise ValueError(f"spellings has {', '.join(foreign)}, which is not in keys")
        for other in self.spellings.values():
            if not _LABEL.fullmatch(other):
                raise ValueError(f"spellings has {other!r}, which is no label of Prometheus")
        if not self.max > 0:
            raise ValueError(f"max is {self.max:g}; write the largest value that is possible")
        self._check_texts()

    def _check_texts(self) -> None:
        for name in ("unit", "series", "exporter", "query", "about", "remedy"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} is empty")
        for name in ("series", "exporter"):
            if not _SELECTOR.fullmatch(selector := getattr(self, name).strip()):
                raise ValueError(
                    f"{name} is {selector!r}; write one metric with or without labels, such as "
                    'my_gateway_in_flight{port="8080"}'
                )
        if odd := sorted(set(_VARIABLE.findall(self.query)) - {"$window"}):
            raise ValueError(f"query has {', '.join(odd)}, which nobody fills in; there is $window")

    @property
    def visible_at_zero(self) -> bool:
        """Whether demand shows while the target has no pod."""
        return self.kind in (SourceKind.FRONT_DOOR, SourceKind.IN_PATH)

    @property
    def silence_is_zero(self) -> bool:
        """Whether a key without a series means that nobody asked, while the exporter lives."""
        return self.visible_at_zero and not self.always

    def key_of(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        """The key that a series has, whatever its labels are called."""
        return tuple(
            labels.get(self.spellings.get(key, key)) or labels.get(key, "") for key in self.keys
        )

    @property
    def running_work(self) -> bool:
        """Whether a request shows from its begin to its end, while the target has pods."""
        return self.kind in (SourceKind.RUNNING, SourceKind.IN_PATH)

    @property
    def age(self) -> str:
        """PromQL: for each key, the seconds since its newest sample; of replicas, the oldest's."""
        return f"max by ({self.by}) ({self._spelled(f'time() - timestamp({self.series})')})"

    @property
    def by(self) -> str:
        """Its keys as PromQL lists them."""
        return ", ".join(self.keys)

    @property
    def present(self) -> str:
        """PromQL: 1 for each key that its series has."""
        return f"group by ({self.by}) ({self._spelled(self.series)})"

    @property
    def alive(self) -> str:
        """PromQL: for each key, 1 while every exporter that showed it lately is scraped."""
        series = self._spelled(f"last_over_time({self.series}[{_LATELY}])")
        return f"min by ({self.by}) ({_scraped(series, (*self.keys, 'job', 'instance'))})"

    @property
    def witness(self) -> str:
        """PromQL: 1 while every exporter that was there lately is scraped."""
        exporter = f"last_over_time({self.exporter}[{_LATELY}])"
        return f"min({_scraped(exporter, ('job', 'instance'))})"

    @property
    def witness_age(self) -> str:
        """PromQL: the seconds since an exporter was last scraped, of the one longest ago."""
        return (
            "max((time() - timestamp(up)) and on (job, instance) "
            f"last_over_time({self.exporter}[{_LATELY}]))"
        )

    def _spelled(self, vector: str) -> str:
        """PromQL: the same vector, with its keys by the names that rules know."""
        for key, other in self.spellings.items():
            vector = f'label_replace({vector}, "{key}", "$1", "{other}", "(.+)")'
        return vector


#: An exporter that was scraped so long ago and is still a target is missed while it is down.
_LATELY = "1h"


def _scraped(lately: str, labels: Iterable[str]) -> str:
    """PromQL: for each exporter that had a series lately, whether its last scrape went well.

    A target that is gone on purpose has no ``up`` any more and drops out.
    """
    by = ", ".join(dict.fromkeys(labels))
    return (
        f"group by ({by}) ({lately}) * on (job, instance) group_left () min by (job, instance) (up)"
    )


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
