"""The sandbox by hand: starts it, says how to use it, and runs until it is interrupted.

python -m tests.labs.sandbox [--folder out/sandbox] [--days 28]
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import sys
from pathlib import Path

from tests.labs.sandbox.homelab import Homelab

SAID = """
The homelab runs. In another terminal, in this folder:

    . {env}
    kubectl get nodes,deployments -A

Then go on with docs/first-hour.md. Ctrl-C here ends the homelab and forgets it.
"""


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


parser = argparse.ArgumentParser(prog="make sandbox", description="Runs a homelab on loopback.")
parser.add_argument("--folder", type=Path, default=Path("out/sandbox"), help="made anew")
parser.add_argument("--days", type=int, default=28, help="how long its users' past is")
arguments = parser.parse_args()
signal.signal(signal.SIGTERM, _interrupt)
signal.signal(signal.SIGINT, _interrupt)
with contextlib.suppress(KeyboardInterrupt):
    shutil.rmtree(arguments.folder, ignore_errors=True)
    print("starting a control plane, Kueue and Prometheus ...", file=sys.stderr, flush=True)
    with Homelab(arguments.folder, days=arguments.days) as homelab:
        print(SAID.format(env=homelab.env), flush=True)
        signal.pause()
