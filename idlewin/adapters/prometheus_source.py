"""What one source of the catalogue shows at one instant: per key a number, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property

from idlewin.adapters.prometheus_api import Answer
from idlewin.source import Source, filled, part_of, tagged

Key = tuple[str, ...]


class UnknownError(Exception):
    """A value cannot be told; the message is the reading's ``why``."""


def whole(source: Source, window: timedelta) -> str:
    """All that is asked of a source at one instant, in one query, so that it is of one piece."""
    return tagged(
        {
            "value": filled(source.query, window),
            "age": source.age,
            "alive": source.alive,
            "witness": source.witness,
            "witness_age": source.witness_age,
        }
    )


class Keys:
    """Keys of a source, for many rules to pick from."""

    def __init__(self, source: Source, keys: Iterable[Key]) -> None:
        self.all = sorted(keys)
        self._source = source
        self._by: dict[Key, dict[Key, list[Key]]] = {}

    @cached_property
    def names(self) -> Sequence[str]:
        """Each as people read it."""
        return [key_text(key) for key in self.all]

    @cached_property
    def unlabelled(self) -> Sequence[str]:
        """The keys that none of the series has: a match by one of them finds nothing."""
        if not self.all:
            return ()
        labels = enumerate(self._source.keys)
        return [label for place, label in labels if not any(key[place] for key in self.all)]

    def matching(self, match: Mapping[str, str]) -> Sequence[Key]:
        """The keys that a rule's match, of some or all labels, means; in order."""
        labels = tuple(sorted(match))
        if labels not in self._by:
            places = [self._source.keys.index(label) for label in labels]
            found: dict[Key, list[Key]] = {}
            for key in self.all:
                found.setdefault(tuple(key[place] for place in places), []).append(key)
            self._by[labels] = found
        return self._by[labels].get(tuple(match[label] for label in labels), ())


class Look:
    """What one source answered at one instant. Many rules pick from the same one."""

    def __init__(self, source: Source, answer: Answer) -> None:
        self.source, self.answer = source, answer
        self._parts: dict[str, dict[Key, float]] = {}
        for one in answer.series:
            key = tuple(one.labels.get(label, "") for label in source.keys)
            self._parts.setdefault(part_of(one.labels), {})[key] = one.value

    @cached_property
    def keys(self) -> Keys:
        """Every key that shows a value, or showed one lately and should."""
        parts = ("value", "age", "alive")
        return Keys(self.source, {key for part in parts for key in self._parts.get(part, {})})

    @property
    def seen(self) -> bool:
        """Whether an exporter of the source was seen lately."""
        return ("",) * len(self.source.keys) in self._parts.get("witness", {})

    def raw(self, key: Key) -> float | None:
        """What a key shows, believed or not; None: nothing."""
        return self._parts.get("value", {}).get(key)

    def failed(self, key: Key) -> bool:
        """Whether the last scrape of an exporter of a key failed."""
        return self._parts.get("alive", {}).get(key) == 0

    def age(self, key: Key) -> float | None:
        """The seconds since a key's newest sample; None: it has none."""
        return self._parts.get("age", {}).get(key)

    def value(self, key: Key, limit: timedelta) -> float:
        """The value of one key, if it is fresh, whole and possible. Raises UnknownError."""
        name = key_text(key)
        value, age, alive = (
            self._parts.get(part, {}).get(key) for part in ("value", "age", "alive")
        )
        if alive == 0:
            raise UnknownError(
                f"the last scrape of an exporter of {name} failed, "
                "which can mean that it is busy; look at its target in Prometheus"
            )
        if value is None or age is None:
            if self.source.silence_is_zero:
                # Half of it is there, so nobody's silence: the query has lost the key, or made it.
                if value:
                    raise UnknownError(
                        f"{name} shows {value:.12g}, and {self.source.series} has no sample of "
                        "that key, so nobody knows how old it is; name keys that its series have"
                    )
                if age is not None:
                    raise UnknownError(
                        f"{name} has a series, and the query of {self.source.name} no value for "
                        f"it; let the query keep its keys: sum by ({', '.join(self.source.keys)}) "
                        "(...)"
                    )
                self.witnessed(limit)
                return 0.0
            raise UnknownError(f"{name} has no present value; {self.source.remedy}")
        if alive is None:
            raise UnknownError(
                f"{name} has no up with the same job and instance, so a dead replica would not "
                "show; keep up in this Prometheus"
            )
        if not age <= limit.total_seconds():
            raise UnknownError(_old(f"the newest sample of {name}", age, limit))
        return possible(value, self.source.max)

    def witnessed(self, limit: timedelta) -> None:
        """Nothing, if every exporter of the source is alive. Raises UnknownError."""
        alone = ("",) * len(self.source.keys)
        alive = self._parts.get("witness", {}).get(alone)
        if alive is None:
            raise UnknownError(
                f"no exporter of {self.source.name} is seen "
                f"({self.source.exporter} with its up); {self.source.remedy}"
            )
        if alive < 1:
            raise UnknownError(
                f"the last scrape of an exporter of {self.source.name} failed; "
                "look at its target in Prometheus"
            )
        age = self._parts.get("witness_age", {}).get(alone, math.inf)
        if not age <= limit.total_seconds():
            raise UnknownError(_old(f"the last scrape of {self.source.name}", age, limit))


def key_text(key: Iterable[str]) -> str:
    """A key as people read it."""
    return "/".join(part or '""' for part in key)


def possible(value: float, most: float) -> float:
    """The value, if it can be one; nothing is clamped in silence. Raises UnknownError."""
    if not math.isfinite(value) or not 0 <= value <= most:
        raise UnknownError(f"the value is {value:.12g}, which cannot be; it is from 0 to {most:g}")
    return value


def _old(what: str, age: float, limit: timedelta) -> str:
    return f"{what} is {age:.0f}s old, and more than {limit.total_seconds():g}s is not believed"
