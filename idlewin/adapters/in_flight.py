"""What a llama-swap's event stream tells of requests in flight. No I/O, no clock of its own.

Its messages of type ``inflight`` are a snapshot of all requests, one that began or changed, one
that ended. A snapshot comes first, and again after messages were dropped.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

#: What was in flight so lately is told still: a short request must not pass between two looks.
LINGER = 30.0
#: Our own requests are no user's.
PROBE = "idlewin-probe"
_MARK = b'"inflight"'
#: Stand for a model where all are meant, and for that of a request that does not count.
_ALL, _OURS = "", " "


class FormatError(Exception):
    """The stream says something that is not understood."""


class InFlight:
    """The requests in flight, as far as the stream has told; each model's, and all."""

    def __init__(self) -> None:
        self._models: dict[str, str] | None = None
        self._early: dict[str, str] | None = {}
        self._past: dict[str, deque[tuple[float, int]]] = {}

    @property
    def known(self) -> bool:
        """Whether a snapshot has come since the stream began."""
        return self._models is not None

    @property
    def models(self) -> Counter[str]:
        """The requests of users that are in flight now, by model; none where nothing is known."""
        return Counter(model for model in (self._models or {}).values() if model != _OURS)

    def begins(self) -> None:
        """Another stream begins; what is known holds on until its snapshot."""
        self._early = {}

    def lost(self) -> None:
        """The stream is broken: nothing is known until the next snapshot."""
        self._models = None

    def most(self, model: str | None, now: float) -> int:
        """The most that were in flight at a time lately; 0 also where nothing is known."""
        return self._lately(model or _ALL, self._counts(), now)

    def busy(self, now: float) -> frozenset[str]:
        """The models that are in use, or were lately."""
        counts = self._counts()
        found = {key for key in (*counts, *self._past) if self._lately(key, counts, now)}
        self._past = {key: past for key, past in self._past.items() if past}
        return frozenset(found)

    def _lately(self, key: str, counts: Counter[str], now: float) -> int:
        past = self._past.get(key, deque())
        while past and past[0][0] < now - LINGER:
            past.popleft()
        return max([counts[key], *(count for _, count in past)])

    def heard(self, line: bytes, now: float) -> bool:
        """Take in a line of the stream; whether it told of requests. Raises FormatError."""
        if not line.startswith(b"data:") or _MARK not in line[:64]:
            return False
        try:
            message = json.loads(line[5:])
            if message["type"] != "inflight":
                return False
            self._take(json.loads(message["data"]), now)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise FormatError(
                f"it tells of requests in another way than llama-swap v240 and newer ({error!r})"
            ) from None
        return True

    def _take(self, told: dict[str, Any], now: float) -> None:
        before = self._counts()
        match told["operation"]:
            case "snapshot":
                # Empty, it has no requests at all. One that began while it was made can come
                # before it, and is not in it.
                models = {str(one["id"]): _model(one) for one in told.get("requests") or ()}
                self._models, self._early = {**(self._early or {}), **models}, None
            case "upsert":
                one = told["request"]
                self._put(str(one["id"]), _model(one))
            case "remove":
                self._put(told["id"], None)
            case other:
                raise ValueError(f"operation {other}")
        after = self._counts()
        for key, count in before.items():
            if after[key] < count:
                self._past.setdefault(key, deque()).append((now, count))

    def _put(self, key: str, model: str | None) -> None:
        for models in (self._models, self._early):
            if models is not None and model is not None:
                models[key] = model
            elif models is not None:
                models.pop(key, None)

    def _counts(self) -> Counter[str]:
        return Counter({**self.models, _ALL: self.models.total()})


def _model(entry: dict[str, Any]) -> str:
    headers = entry.get("req_headers") or {}
    return _OURS if headers.get("User-Agent") == PROBE else str(entry["model"])
