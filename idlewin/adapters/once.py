"""One question, asked once: a short memory of answers that many threads share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from idlewin.adapters.prometheus_api import Answer
from idlewin.ports import Clock

#: No answer at all is worth asking again this soon, however long good answers are kept.
_RETRY = timedelta(seconds=1)
#: Answers serve for so many times the time that the slowest of them took, or each of 10,000 rules
#: would ask for its own; but never for longer than a tick.
_SPARE, _LONGEST = 10, timedelta(seconds=15)


class Once:
    """Each question is asked once in a while, however many threads ask it at the same time.

    After a silent server every other question has the same answer for a second: asked one by one,
    each would wait for the whole time-out.
    """

    def __init__(self, clock: Clock, *, ttl: timedelta) -> None:
        self._clock, self._ttl = clock, ttl
        self._lock = Lock()
        self._asked: dict[str, _Asked] = {}

    def __call__(self, question: str, ask: Callable[[], Answer]) -> Answer:
        """The answer, of now or come less than the time to live ago. Raises what ``ask`` raises."""
        with self._lock:
            now = self._clock.now()
            slowest = max((a.took for a in self._asked.values()), default=timedelta())
            ttl = max(self._ttl, min(_SPARE * slowest, _LONGEST))
            self._asked = {q: a for q, a in self._asked.items() if a.good(now, ttl)}
            known = self._asked.get(question) or next(
                (a for a in self._asked.values() if a.silent), None
            )
            mine = known or self._asked.setdefault(question, _Asked(at=now))
        if known is None:
            self._ask(mine, ask)
        return mine.future.result()

    def _ask(self, mine: _Asked, ask: Callable[[], Answer]) -> None:
        try:
            answer = ask()
        except BaseException as error:
            mine.future.set_exception(error)
            raise
        came = self._clock.now()
        mine.took, mine.at = came - mine.at, came
        mine.future.set_result(answer)


@dataclass(slots=True, kw_only=True)
class _Asked:
    at: datetime
    """When it was asked, and once there is an answer, when that came."""
    took: timedelta = timedelta()
    future: Future[Answer] = field(default_factory=Future)

    def good(self, now: datetime, ttl: timedelta) -> bool:
        """Under way, or young enough; a clock that was set back makes nothing young."""
        if not self.future.done():
            return True
        failed = self.future.exception() is not None or self.future.result().why
        return timedelta() <= now - self.at < (min(ttl, _RETRY) if failed else ttl)

    @property
    def silent(self) -> bool:
        """Whether the server said nothing at all."""
        if not self.future.done() or self.future.exception() is not None:
            return False
        return self.future.result().unreachable
