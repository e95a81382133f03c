"""``make bench``: prints the figures of docs/benchmarks.md, each with its goal where it has one.

python -m tests.bench                         all, about 20 minutes
python -m tests.bench live --minutes 1        those of the real control plane, over a minute
python -m tests.bench simulated
python -m tests.bench failover                how long a takeover takes (5 minutes)
python -m tests.bench sources                 what demand costs with 10,000 rules (2 minutes)
python -m tests.bench peers                   what other tools lose under faults (8 minutes)
python -m tests.bench fleet                   what forecasts for 10,000 cards cost (2 minutes)
python -m tests.bench draws                   forecasters and peers on five draws (45 minutes)
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from tests.bench.draws import draws_table
from tests.bench.failover import failover_figures
from tests.bench.figures import Figure, machine, table
from tests.bench.fleet import fleet_figures
from tests.bench.live import live_figures
from tests.bench.peers import peers_table
from tests.bench.simulated import cycle_figures, days_figures
from tests.bench.sources import sources_figures


def main() -> int:
    """The command line; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "which",
        nargs="?",
        choices=("all", "live", "simulated", "failover", "peers", "fleet", "draws", "sources"),
        default="all",
    )
    parser.add_argument("--minutes", type=float, default=10, help="of steady state (default 10)")
    parser.add_argument("--scale", type=int, default=10, help="5 times so many rules (default 10)")
    parser.add_argument("--seeds", type=int, default=20, help="worlds of the swarm (default 20)")
    parser.add_argument("--cards", type=int, default=10_000, help="of the fleet (default 10000)")
    parser.add_argument("--draws", type=int, default=5, help="seeds of the minutes (default 5)")
    parser.add_argument("--cores", type=int, default=2, help="for the draws (default 2)")
    parser.add_argument("--folder", type=Path, help="keep logs there")
    asked = parser.parse_args()
    figures: list[Figure] = []
    if asked.which == "draws":
        with tempfile.TemporaryDirectory(prefix="idlewin-bench-") as folder:
            print(draws_table(asked.folder or Path(folder), asked.draws, asked.cores))
        return 0
    if asked.which == "peers":
        with tempfile.TemporaryDirectory(prefix="idlewin-bench-") as folder:
            cases, figures = peers_table(asked.folder or Path(folder))
        print(f"{machine()}\n\n{cases}\n\n{table(figures)}")
        return int(any(figure.met is False for figure in figures))
    if asked.which in ("all", "simulated"):
        figures += [*cycle_figures(), *days_figures(asked.seeds)]
    if asked.which in ("all", "fleet"):
        figures += fleet_figures(asked.cards)
    if asked.which in ("all", "sources"):
        with tempfile.TemporaryDirectory(prefix="idlewin-bench-") as folder:
            figures += sources_figures(asked.folder or Path(folder))
    if asked.which in ("all", "failover"):
        with tempfile.TemporaryDirectory(prefix="idlewin-bench-") as folder:
            figures += failover_figures(asked.folder or Path(folder))
    if asked.which in ("all", "live"):
        over = timedelta(minutes=asked.minutes)
        with tempfile.TemporaryDirectory(prefix="idlewin-bench-") as folder:
            figures += live_figures(asked.folder or Path(folder), over=over, scale=asked.scale)
    print(f"{machine()}\n\n{table(figures)}")
    return int(any(figure.met is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
