"""A control plane by hand: prints its kubeconfig, runs until it is interrupted.

python -m tests.labs.kubelab [--no-kueue] [--folder NEW_FOLDER]
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from tests.labs.build import built
from tests.labs.kubelab.controlplane import ControlPlane


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


parser = argparse.ArgumentParser(description="Runs a control plane until it is interrupted.")
parser.add_argument("--folder", type=Path, help="a new folder (default: a temporary one)")
parser.add_argument("--no-kueue", action="store_true")
arguments = parser.parse_args()
signal.signal(signal.SIGTERM, _interrupt)
with contextlib.ExitStack() as stack, contextlib.suppress(KeyboardInterrupt):
    folder = arguments.folder or Path(
        stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelab-"))
    )
    plane = stack.enter_context(
        ControlPlane(built("kubelab"), folder, with_kueue=not arguments.no_kueue)
    )
    print(plane.kubeconfig, flush=True)
    print("ready after (s):", plane.timings, file=sys.stderr, flush=True)
    signal.pause()
