"""Workers: processes for work on all cores, which an interrupt does not wait for."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.context import SpawnContext
from typing import Any

#: Not forked: what was imported may have threads.
SPAWN: SpawnContext = get_context("spawn")


@contextmanager
def workers(
    cores: int, begin: Callable[..., None] | None = None, *given: Any
) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many; each first calls ``begin`` with what is given."""
    pool = ProcessPoolExecutor(cores, SPAWN, initializer=_begun, initargs=(begin, given))
    try:
        yield pool
    except BaseException:
        # Whoever interrupts does not wait for a thousand runs.
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _begun(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    """An interrupt ends the run that it meets, without a word: the parent tells it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if begin is not None:
        begin(*given)
