"""Workers: processes for work on all cores, which end with whoever started them, at once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnContext
from threading import Thread, current_thread, main_thread
from typing import Any

#: Not forked: what was imported may have threads.
SPAWN: SpawnContext = get_context("spawn")


@contextmanager
def workers(
    cores: int, begin: Callable[..., None] | None = None, *given: Any
) -> Iterator[ProcessPoolExecutor]:
    """A pool of so many; each first calls ``begin`` with what is given.

    None outlives its parent: each watches a pipe whose other end is here alone, and which the
    system closes where the parent is killed. SIGTERM ends the process in order, with 143.
    """
    watched, held = SPAWN.Pipe(duplex=False)
    pool = ProcessPoolExecutor(cores, SPAWN, initializer=_begun, initargs=(watched, begin, given))
    with _terminable():
        try:
            yield pool
        except BaseException:
            # Whoever interrupts does not wait for a thousand runs, nor for those that have begun.
            held.close()
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            pool.shutdown()
            held.close()
            watched.close()


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM raises, as SIGINT does: what is to be put away is put away."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _begun(watched: Connection, begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    """An interrupt ends the run that it meets, without a word: the parent tells it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_end_with_parent, args=(watched,), daemon=True).start()
    if begin is not None:
        begin(*given)


def _end_with_parent(watched: Connection) -> None:
    """Nothing is ever sent: the pipe turns readable when its other end is closed."""
    watched.poll(None)
    os._exit(1)
