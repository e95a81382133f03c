"""Child processes of a lab: started, watched, ended; never outliving this Python."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.labs.kubelab.api import HOST, T, wait_for

LOG_END = 3000
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class StartError(RuntimeError):
    """A part did not come up."""


class Processes:
    """Named parts, each a process whose output goes to its own log."""

    def __init__(self, folder: Path, *, cores: int = 2) -> None:
        """The logs go to a folder; cores bounds the threads that run Go code in each part."""
        self._folder = folder
        self._cores = cores
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(
        self, part: str, command: Iterable[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start a part that is not running."""
        if self.running(part):
            return
        parent = os.getpid()

        def end_with_parent() -> None:
            # If this Python is killed outright, the kernel ends the part too.
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)

        with (self._folder / f"{part}.log").open("ab") as log:
            self._running[part] = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C reaches only this Python
                preexec_fn=end_with_parent,  # noqa: PLW1509 - calls nothing that takes a lock
                env={
                    "PATH": os.environ.get("PATH", ""),
                    "HOME": str(self._folder),
                    "GOMAXPROCS": str(self._cores),
                    **(environment or {}),
                },
            )

    def kill(self, part: str, sig: signal.Signals = signal.SIGTERM) -> int | None:
        """End one part and wait for its end, by force after ten seconds; its exit code."""
        process = self._running.pop(part, None)
        if process is None:
            return None
        if process.poll() is None:
            process.send_signal(sig)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.wait()

    def end(self, sig: signal.Signals = signal.SIGTERM) -> None:
        """End every part, all at the same time."""
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda part: self.kill(part, sig), list(self._running)))

    def running(self, part: str) -> bool:
        process = self._running.get(part)
        return process is not None and process.poll() is None

    def pids(self) -> dict[str, int]:
        return {part: process.pid for part, process in self._running.items()}

    def log(self, part: str) -> str:
        return (self._folder / f"{part}.log").read_text(errors="replace")

    def wait(self, part: str, check: Callable[[], T], timeout: float) -> T:
        """What check returns once it is true. Raises StartError, with the log's end."""

        def alive_and_checked() -> T:
            if not self.running(part):
                raise StartError(f"{part} has ended; its log's end:\n{self.log(part)[-LOG_END:]}")
            return check()

        try:
            return wait_for(f"answer from {part}", alive_and_checked, timeout, every=0.05)
        except TimeoutError as error:
            raise StartError(f"{error}; its log's end:\n{self.log(part)[-LOG_END:]}") from None


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody has, from below those that the kernel gives to clients."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for port in random.sample(range(20000, 32000), 4000):
            if len(found) == count:
                return found
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
    raise StartError("no free loopback ports")
