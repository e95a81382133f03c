"""Demand that is streamed to us, beside that which Prometheus shows: the Metrics port over both.

One llama-swap is followed once, however many rules ask. It tells no past: that is the others'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from threading import Lock
from typing import Protocol

from idlewin.adapters.llama_swap import Stream
from idlewin.catalogue import described
from idlewin.core.load import History, Reading
from idlewin.core.pool import RuleObject
from idlewin.core.rule import Rule
from idlewin.core.target import Demand, LlamaSwap
from idlewin.ports import Metrics

#: The first look at a llama-swap waits so long for its first word, in seconds.
FIRST_LOOK = 2.0


class Rules(Protocol):
    """The rules that there are."""

    def names(self) -> Sequence[str]:
        """Their names."""
        ...

    def rule(self, name: str) -> RuleObject | None:
        """One of them."""
        ...


class WithStreams:
    """Demand of both kinds. Implements Metrics and Wake."""

    def __init__(self, metrics: Metrics, rules: Rules, monotonic: Callable[[], float]) -> None:
        self._metrics, self._rules, self._monotonic = metrics, rules, monotonic
        self._wakes: list[Callable[[str], None]] = []
        self._lock, self._streams = Lock(), dict[str, Stream]()

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call ``wake`` with a rule's name when a request comes that it counts."""
        self._wakes.append(wake)

    def close(self) -> None:
        """Follow nothing any more."""
        with self._lock:
            for stream in self._streams.values():
                stream.stop()

    def read(self, rule: Rule) -> tuple[Reading, ...]:
        """A reading for each demand of the rule, as of now."""
        return (*self._metrics.read(rule), *self._streamed(rule))

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:
        """What Prometheus has kept."""
        return self._metrics.history(rule, past, step)

    def _streamed(self, rule: Rule) -> Iterator[Reading]:
        for target, demand, swap in _followed(rule):
            stream = self._stream(swap.url)
            stream.wait(FIRST_LOOK)
            count, why = stream.most(swap.model)
            yield Reading(
                target=target,
                name=described(demand),
                value=None if count is None else float(count),
                busy_above=demand.busy_above,
                visible_at_zero=bool(demand.visible_at_zero),
                why=why,
            )

    def _stream(self, url: str) -> Stream:
        with self._lock:
            stream = self._streams.get(url)
            if stream is None or stream.over:
                self._streams = {u: one for u, one in self._streams.items() if not one.over}
                stream = self._streams[url] = Stream(url, self._monotonic, self._changed)
                stream.start()
            return stream

    def _changed(self, url: str) -> None:
        for name in self._rules.names():
            stored = self._rules.rule(name)
            spec = stored.rule if stored else None
            if spec and any(swap.url == url for _, _, swap in _followed(spec)):
                for wake in self._wakes:
                    wake(name)


def _followed(rule: Rule) -> Iterator[tuple[str, Demand, LlamaSwap]]:
    for serving in rule.serving:
        for demand in serving.demand if not isinstance(serving.demand, str) else ():
            if demand.llama_swap is not None:
                yield str(serving.ref), demand, demand.llama_swap
