"""Laws of the Lease: never two holders, however late an answer; and a holder, if anybody lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings, strategies as st

from idlewin.adapters.api import ApiError
from idlewin.adapters.lease import KubernetesLease, Terms
from tests.builders import NOW

Json = dict[str, Any]
TERMS = Terms()
MARGIN = TERMS.margin.total_seconds()


@dataclass(slots=True)
class Shared:
    """One Lease object, a clock that all share, and what happens while an answer is awaited."""

    at: float = 1000.0
    lease: Json | None = None
    version: int = 0
    delays: list[float] = field(default_factory=list)
    """How long the next requests and answers are on their way; the last one first."""
    pair: list[KubernetesLease] = field(default_factory=list)
    asking: int = 0
    """Who asks now."""
    inside: bool = False
    held: dict[str, tuple[float, float]] = field(default_factory=dict)
    """From when to when each was seen to hold it last."""

    def tried(self, who: int) -> None:
        self.asking = who
        with suppress(ApiError):
            self.pair[who].renew()

    def pass_on(self, seconds: float, *, other: bool = True) -> None:
        """Time passes, by the second; the other asks meanwhile, and never do two hold it."""
        for _ in range(round(seconds)):
            self.at += 1
            holders = [one for one in self.pair if one.held()]
            assert len(holders) <= 1, "two hold it"
            for one in holders:
                self._took(one._holder)
            if other and not self.inside:
                self._other()

    def _other(self) -> None:
        """The one that is not asking has quick answers."""
        kept, self.delays, self.inside = self.delays, [], True
        asking = self.asking
        self.tried(1 - asking)
        self.delays, self.inside, self.asking = kept, False, asking

    def _took(self, name: str) -> None:
        since, until = self.held.get(name, (self.at, self.at))
        if self.at > until + 1:
            since = self.at
        if since == self.at:
            for other, (_, end) in self.held.items():
                assert other == name or self.at > end + MARGIN, "what it began is on its way"
        self.held[name] = (since, self.at)

    def _waits(self) -> None:
        """A request or an answer is on its way."""
        if self.delays:
            self.pass_on(self.delays.pop())

    def get(self, _path: str) -> Json:
        self._waits()
        found = deepcopy(self.lease)
        self._waits()
        if found is None:
            raise ApiError(404, "not found")
        return found

    def post(self, _path: str, body: Json) -> Json:
        self._waits()
        if self.lease is not None:
            raise ApiError(409, "already exists")
        return self._stored(body)

    def put(self, _path: str, body: Json) -> Json:
        self._waits()
        asked = body["metadata"].get("resourceVersion")
        if self.lease and asked not in (None, self.lease["metadata"]["resourceVersion"]):
            raise ApiError(409, "modified")
        return self._stored(body)

    def _stored(self, body: Json) -> Json:
        self.version += 1
        meta = {"name": "idlewin", "resourceVersion": str(self.version)}
        self.lease = {**deepcopy(body), "metadata": meta}
        answer = deepcopy(self.lease)
        self._waits()
        return answer

    def now(self) -> Any:
        return NOW


@contextmanager
def two(shared: Shared) -> Iterator[tuple[KubernetesLease, KubernetesLease]]:
    with patch("idlewin.adapters.lease.monotonic", lambda: shared.at):
        api: Any = shared
        pair = tuple(KubernetesLease(api, api, ("ns", "idlewin"), name) for name in "ab")
        shared.pair = list(pair)
        yield pair  # type: ignore[misc]


@settings(max_examples=120, deadline=None)
@example([(0, 0, False, []), (1, 14, False, []), (0, 5, True, [0, 0, 2, 0])])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.sampled_from([0, 1, 2, 5, 14, 20]),
            st.booleans(),
            st.lists(st.sampled_from([0, 0, 1, 2, 6, 16]), max_size=4),
        ),
        min_size=3,
        max_size=16,
    )
)
def test_never_do_two_hold_it_however_late_the_answers(turns):
    shared = Shared()
    with two(shared):
        for who, wait, asks, delays in turns:
            shared.delays = list(delays)
            shared.tried(who)
            shared.delays = []
            shared.pass_on(wait, other=asks)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.booleans())
def test_who_dies_is_followed_within_the_term_and_who_stops_at_once(turns, stops):
    shared = Shared()
    ask = TERMS.ask.total_seconds()
    with two(shared) as (first, second):
        for _ in range(turns):
            shared.tried(0)
            shared.pass_on(ask, other=False)
            shared.tried(1)
            assert first.held()
        if stops:
            first._release()
            first._until = 0.0
            shared.held.clear()
        shared.tried(1)
        assert second.held() is stops

        for _ in range(round(TERMS.duration / timedelta(seconds=ask)) + 1):
            shared.pass_on(ask, other=False)
            shared.tried(1)
        assert second.held()
