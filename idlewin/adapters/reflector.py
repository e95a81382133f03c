"""A reflector: keeps a store the same as the API server's objects of one path, by list and watch.

Own work, and why: docs/decisions/0001-own-reflector.md. It knows no kinds and no rules; what is
kept of an object is the store's business.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread
from time import monotonic
from typing import Any, Protocol

from idlewin.adapters.api import ApiError, SilenceError
from idlewin.adapters.store import Store

Json = dict[str, Any]
log = logging.getLogger(__name__)


class Events(Protocol):
    """The events of a running watch; closing them from another thread ends it."""

    def __iter__(self) -> Any: ...

    def close(self) -> None:
        """End the watch."""
        ...


class Source(Protocol):
    """Where lists and watches come from. Raises ApiError."""

    def pages(self, path: str) -> Iterator[tuple[list[Json], str]]:
        """All objects of a path by pages, each with the version of the list."""
        ...

    def watch(
        self, path: str, version: str, *, lasts: timedelta, silence: timedelta
    ) -> AbstractContextManager[Events]:
        """Events after a version."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long watches last, and how soon they are tried again."""

    lasts: timedelta = timedelta(minutes=8)
    """A watch ends by itself after this, up to a quarter earlier."""
    silence: timedelta = timedelta(seconds=100)
    """Nothing at all for so long: connect anew. The server speaks about once a minute."""
    first_retry: timedelta = timedelta(milliseconds=500)
    """After a failure; doubled with each in a row, jittered."""
    longest_retry: timedelta = timedelta(seconds=30)
    """The longest wait after failures."""
    blind: timedelta = timedelta(seconds=20)
    """Out of touch for so long, what is stored is no longer taken for the truth."""


@dataclass(slots=True)
class Counts:
    """What a reflector asked for so far."""

    lists: int = 0
    watches: int = 0
    silences: int = 0
    failures: int = 0


class Reflector:
    """Keeps a store in step with a path, in a thread of its own."""

    def __init__(
        self, source: Source, path: str, store: Store, timing: Timing | None = None
    ) -> None:
        self.path = path
        self.counts = Counts()
        self.synced = Event()
        self.tried = Event()
        """Set once there was any answer, or none came: listed, or its trouble is known."""
        self.trouble = ""
        """What went wrong last; empty while all is well."""
        self.absent = False
        """Whether the server knows no such kind, as it said at the last list."""
        self.in_sight: Callable[[], object] = lambda: None
        """Called when it is in touch again after a failure."""
        self.back: Callable[[], object] = lambda: None
        """Called when it is in touch again after it was blind."""
        self._source = source
        self._store = store
        self._timing = timing or Timing()
        self._version = ""
        self._lost_since: float | None = None
        self._failures, self._answered = 0, False
        self._watching: Events | None = None
        self._stopping, self._again = Event(), Event()
        self._thread = Thread(target=self._run, name=f"reflector {path}", daemon=True)

    def start(self) -> None:
        """Begin to list and watch."""
        self._thread.start()

    def close(self) -> None:
        """Begin to end it."""
        self._stopping.set()
        self._again.set()
        if watching := self._watching:
            watching.close()

    def hurry(self) -> None:
        """Try again now, if it waits after a failure: others are in touch again."""
        self._again.set()

    def join(self, timeout: timedelta = timedelta(seconds=5)) -> None:
        """Wait for the end of its thread."""
        end = monotonic() + timeout.total_seconds()
        # A watch that had just begun when the end was asked for is closed by a later round.
        while self._thread.is_alive() and monotonic() < end:
            self.close()
            self._thread.join(0.1)

    @property
    def in_touch(self) -> bool:
        """Whether the store can be taken for the truth."""
        return self.synced.is_set() and not self._blind

    @property
    def _blind(self) -> bool:
        lost = self._lost_since
        return lost is not None and monotonic() - lost >= self._timing.blind.total_seconds()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if not self._version and not self._list():
                    self._stopping.wait(self._timing.longest_retry.total_seconds())
                    continue
                self._watch()
            except SilenceError:
                # No failure yet: a quiet path looks the same. A dead one fails to be reached.
                self.counts.silences += 1
            except ApiError as error:
                answered, self._answered = self._answered, error.status > 0
                if error.status in (404, 410):
                    self._version = ""
                if self._answered and not answered:
                    # A server that says no is there again: what failed before is over.
                    self._failures = 0
                self._failed(str(error))
            except Exception as error:
                # A bug, or an object unlike all others: begin anew rather than go blind.
                log.exception("%s: the watch stumbled", self.path)
                self._version = ""
                self._failed(f"{type(error).__name__}: {error}")

    def _list(self) -> bool:
        """Whether there is such a kind; where not, it is known that nothing of it exists."""
        self.counts.lists += 1
        try:
            self._version = self._store.replace(self._source.pages(self.path))
            self.absent = False
        except ApiError as error:
            if error.status != 404:
                raise
            self._store.clear()
            self.absent = True
        self.synced.set()
        self.tried.set()
        self._in_touch_again()
        return bool(self._version)

    def _in_touch_again(self) -> None:
        blind, lost, self._lost_since = self._blind, self._lost_since, None
        if lost is not None:
            self.in_sight()
        if blind:
            self.back()

    def _watch(self) -> None:
        self.counts.watches += 1
        lasts = self._timing.lasts * random.uniform(0.75, 1)  # noqa: S311 - spreads the load
        began, heard, lost = monotonic(), False, self._lost_since
        with self._source.watch(
            self.path, self._version, lasts=lasts, silence=self._timing.silence
        ) as events:
            self._watching = events
            # Taken up where we left off: nothing is missed from here.
            self.trouble = ""
            self._in_touch_again()
            try:
                for event in events:
                    self._take(event)
                    self._failures, heard = 0, True
            except ApiError as error:
                if error.status == 410:
                    # What happened since we lost it is still not known.
                    self._lost_since = lost
                raise
            finally:
                self._watching = None
        if not heard and monotonic() - began < 1 and not self._stopping.is_set():
            raise ApiError(0, f"{self.path}: the watch ended at once, without a word")

    def _take(self, event: Json) -> None:
        kind, shown = event["type"], event["object"]
        if kind == "ERROR":
            status = int(shown.get("code") or 0)
            raise ApiError(status, f"{self.path}: the watch ended: {shown.get('message', shown)}")
        if kind == "DELETED":
            self._store.deleted(shown)
        elif kind != "BOOKMARK":
            self._store.upsert(shown)
        self._version = shown["metadata"]["resourceVersion"]

    def _failed(self, why: str) -> None:
        if self._stopping.is_set():
            return
        self.counts.failures += 1
        self._failures += 1
        self.trouble = why
        self.tried.set()
        if self._lost_since is None:
            self._lost_since = monotonic()
        longest = self._timing.longest_retry
        # The exponent is bounded: a cluster that is away for days must not overflow it.
        wait = min(self._timing.first_retry * 2 ** min(self._failures - 1, 16), longest)
        log.log(
            logging.WARNING if self._failures > 1 else logging.INFO,
            "%s: %s; again in at most %.1f s", self.path, why, wait.total_seconds(),
        )  # fmt: skip
        self._again.wait(wait.total_seconds() * random.uniform(0.5, 1))  # noqa: S311
        self._again.clear()
