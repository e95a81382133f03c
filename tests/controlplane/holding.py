"""Writes of one controller that are held on their way, each pool's at a write of its own.

So one kill, or one freeze, is many at once: each pool is caught at another step.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.labs.kubelab.proxy import Drop, Exchange, Moment, Proxy

#: The n-th write of a pool from now on, and where on its way it is held.
Spot = tuple[int, Moment]


@dataclass(eq=False)
class Held:
    """Holds from its making on; ``release`` must be called."""

    proxy: Proxy
    spots: Mapping[str, Spot]
    """Pools by the name of all their objects, each with where it is caught."""
    caught: dict[str, Exchange] = field(default_factory=dict)
    """The pools that are held, each with its write."""
    late: list[Exchange] = field(default_factory=list)
    """Writes that were begun after ``release``."""
    _counts: Counter[str] = field(default_factory=Counter)
    _numbers: dict[int, int] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _released: bool = False
    _drop: bool = False

    def __post_init__(self) -> None:
        self.proxy.hook = self._hook

    def wait(self, timeout: float = 60) -> None:
        """Wait until every pool is caught. Raises AssertionError."""
        end = time.monotonic() + timeout
        with self._changed:
            while missing := sorted(set(self.spots) - set(self.caught)):
                left = end - time.monotonic()
                assert left > 0, f"not caught: {missing}; writes so far: {dict(self._counts)}"
                self._changed.wait(left)

    def let_go(self, *, drop: bool) -> None:
        """Let them go their way, or drop their connections."""
        with self._changed:
            self._released, self._drop = True, drop
            self._changed.notify_all()

    def release(self, *, drop: bool) -> None:
        """The same; returns when each is over."""
        self.let_go(drop=drop)
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended >= set(self.caught), 30)

    def _hook(self, exchange: Exchange, moment: Moment) -> None:
        pool = next((part for part in exchange.path.split("/") if part in self.spots), None)
        if pool is None or not exchange.number:
            return
        with self._changed:
            if moment is Moment.BEFORE:
                self._counts[pool] += 1
                self._numbers[exchange.number] = self._counts[pool]
                if self._released:
                    self.late.append(exchange)
            if (self._numbers.get(exchange.number), moment) == self.spots[pool]:
                if self._released:
                    return
                self.caught[pool] = exchange
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._released, 600)
                if self._drop:
                    self._end(pool)
                    raise Drop
            # One that is held before is over when it is answered.
            if pool in self.caught and moment is Moment.AFTER:
                self._end(pool)

    def _end(self, pool: str) -> None:
        self._ended.add(pool)
        self._changed.notify_all()
