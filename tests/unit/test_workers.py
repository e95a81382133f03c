"""Worker processes end with the one that started them, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

#: Two workers say that they have begun, and wait for ever.
PARENT = """
import os, signal
from idlewin.workers import workers

if __name__ == "__main__":
    with workers(2, os.write, 1, b"begun\\n") as pool:
        for one in [pool.submit(signal.pause), pool.submit(signal.pause)]:
            one.result()
"""


@contextmanager
def begun() -> Iterator[subprocess.Popen[bytes]]:
    """A parent, once both of its workers wait."""
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        try:
            assert [parent.stdout.readline() for _ in range(2)] == [b"begun\n"] * 2
            yield parent
        finally:
            with suppress(ProcessLookupError):
                os.killpg(parent.pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_a_parent_that_is_ended_alone(number: signal.Signals) -> None:
    with begun() as parent:
        parent.send_signal(number)

        # Its output ends when the last process that has it is gone.
        parent.communicate(timeout=10)


def test_a_parent_that_is_terminated_puts_its_semaphores_away() -> None:
    with begun() as parent:
        parent.terminate()
        _, errors = parent.communicate(timeout=10)

    assert (parent.returncode, errors) == (128 + signal.SIGTERM, b"")
