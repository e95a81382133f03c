"""A llama-swap's event stream, followed in a thread: ``GET /api/events``, server-sent events.

For demand nothing else is asked of it: whatever is below /upstream loads a model, or keeps one
loaded. The stream has no heartbeat and drops messages under load, so it is begun anew from time to
time; each begins with a snapshot, which proves that somebody is there. A stream that is broken,
refused or silent is unknown, never idle (promise P5). What it tells is in_flight.py's.
"""

from __future__ import annotations

import logging
import random
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event, Lock, Thread
from urllib.parse import urlsplit

from idlewin.adapters.in_flight import InFlight

#: Seconds until it has to answer, until it is asked anew, and as long as an answer is believed.
ANSWER, ANEW, BELIEVED = 10.0, 30.0, 45.0
FIRST_RETRY, LONGEST_RETRY = 0.5, 30.0
#: What nobody has read for so long is not followed any more, in seconds.
FORGOTTEN = 300.0
#: It begins with its logs, on one line each.
LONGEST_LINE = 16 << 20
_OK = 200
_SILENT = "it sends no snapshot of its requests"
log = logging.getLogger(__name__)


class Stream:
    """One llama-swap, followed from ``start`` to ``stop`` or until nobody asks."""

    def __init__(
        self, url: str, monotonic: Callable[[], float], changed: Callable[[str], None]
    ) -> None:
        """``changed`` hears the url when requests come after none, and when that is not known."""
        self.url, self._monotonic, self._changed = url, monotonic, changed
        self._lock, self._flight = Lock(), InFlight()
        self._why, self._proved, self._asked = "not asked yet", 0.0, monotonic()
        self._told, self._stopped = Event(), Event()
        self._thread = Thread(target=self._follow, name="llama-swap", daemon=True)

    def start(self) -> None:
        """Begin to follow it."""
        self._thread.start()

    def stop(self) -> None:
        """Follow it no more; a thread that waits for its next word ends with the process."""
        self._stopped.set()

    @property
    def over(self) -> bool:
        """Whether it is not followed any more."""
        return self._stopped.is_set()

    def wait(self, seconds: float) -> None:
        """Wait for its first word, or the first trouble."""
        self._told.wait(seconds)

    def most(self, model: str | None) -> tuple[int | None, str]:
        """How many requests are in flight, or were lately; None: not known, and why."""
        now = self._monotonic()
        with self._lock:
            self._asked = now
            count = self._flight.most(model, now)
            if not self._flight.known:
                return (count or None), self._why
            if now - self._proved > BELIEVED:
                return (count or None), f"its last word is {now - self._proved:.0f} s old"
            return count, ""

    def _follow(self) -> None:
        wait = FIRST_RETRY
        while not self._stopped.is_set():
            try:
                self._once()
                wait = FIRST_RETRY
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told and tried again
                self._broken(f"the stream of {self.url} is broken: {error or repr(error)}")
                self._stopped.wait(wait * random.uniform(0.5, 1))  # noqa: S311 - spreads retries
                wait = min(2 * wait, LONGEST_RETRY)
            if self._monotonic() - self._asked > FORGOTTEN:
                self._stopped.set()

    def _once(self) -> None:
        """One stream, from its beginning until it is time for another; raises where it breaks."""
        with _events(self.url, ANSWER) as (sock, answer):
            self._read(sock, answer)

    def _read(self, sock: socket.socket, answer: HTTPResponse) -> None:
        with self._lock:
            self._flight.begins()
        began, first = self._monotonic(), True
        while not self._stopped.is_set():
            left = began + (ANSWER if first else ANEW) - self._monotonic()
            if left <= 0 and not first:
                return
            try:
                line = _line(sock, answer, left)
            except TimeoutError:
                if first:
                    raise TimeoutError(_SILENT) from None
                return
            first = not self._heard(line) and first

    def _heard(self, line: bytes) -> bool:
        """Take in a line; whether it was of requests, and all are known now."""
        now = self._monotonic()
        with self._lock:
            was_known, before = self._flight.known, self._flight.busy(now)
            told = self._flight.heard(line, now)
            known, new = self._flight.known, self._flight.busy(now) - before
            if known:
                self._proved = now
        if known:
            self._told.set()
        if new or known is not was_known:
            self._changed(self.url)
        return told and known

    def _broken(self, why: str) -> None:
        with self._lock:
            news = self._flight.known
            self._flight.lost()
            self._why = why
        self._told.set()
        if news:
            log.warning("%s; demand there is unknown until it is back", why)
            self._changed(self.url)


def in_flight(url: str, seconds: float) -> Counter[str]:
    """The requests in flight now, by model, by a stream of its own. Raises where it breaks."""
    flight, end = InFlight(), time.monotonic() + seconds
    with _events(url, seconds) as (sock, answer):
        while not flight.known:
            if (left := end - time.monotonic()) <= 0:
                raise TimeoutError(_SILENT)
            flight.heard(_line(sock, answer, left), 0.0)
    return flight.models


@contextmanager
def connected(url: str, seconds: float) -> Iterator[HTTPConnection]:
    """A connection to it for as long as it is needed. Raises OSError where there is none."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        context = ssl.create_default_context()
        connection: HTTPConnection = HTTPSConnection(parts.netloc, timeout=seconds, context=context)
    else:
        connection = HTTPConnection(parts.netloc, timeout=seconds)
    try:
        connection.connect()
        yield connection
    finally:
        connection.close()


def below(url: str, path: str) -> str:
    """A path of its API, below that of its address."""
    return urlsplit(url).path.rstrip("/") + path


@contextmanager
def _events(url: str, seconds: float) -> Iterator[tuple[socket.socket, HTTPResponse]]:
    with connected(url, seconds) as connection:
        sock, path = connection.sock, below(url, "/api/events")
        _keep_alive(sock)
        connection.request("GET", path, headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        if answer.status != _OK:
            raise HTTPException(f"it answers {answer.status} to {path}")
        yield sock, answer


def _line(sock: socket.socket, answer: HTTPResponse, seconds: float) -> bytes:
    sock.settimeout(max(seconds, 0.001))
    line = answer.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise HTTPException("it has ended" if len(line) < LONGEST_LINE else "a line is too long")
    return line


def _keep_alive(sock: socket.socket) -> None:
    """A machine that is gone without a word is noticed."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
