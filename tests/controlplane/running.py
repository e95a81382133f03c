"""The controller at work with the test's Prometheus: its process, its journal, its demand."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from idlewin.adapters.journal import read_journal
from tests.controlplane.deployed import Controller, Thing
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

Json = dict[str, Any]


def openmetrics(pools: Mapping[str, Iterable[tuple[int, float]]]) -> str:
    """Demand and ``up`` as Prometheus' backfill reads it, from each pool's (minute, demand)."""
    told = {pool: list(points) for pool, points in pools.items()}
    minutes = sorted({minute for points in told.values() for minute, _ in points})
    lines = ["# TYPE demand gauge\n"]
    for pool, points in told.items():
        lines += [f'demand{{pool="{pool}"}} {demand} {at * 60}\n' for at, demand in points]
    lines += ["# TYPE up gauge\n", *(f'up{{job="live"}} 1 {at * 60}\n' for at in minutes)]
    return "".join([*lines, "# EOF\n"])


def history_of(pools: Iterable[str], *, days: float = 2, busy_each_minutes: int = 60) -> str:
    """Regular days: each so many minutes one of demand, none in the last ten; up to a minute ago.

    Persistence then gives a gap of idle time an hour at even odds.
    """
    end = int(time.time()) // 60 - 1
    minutes = range(end - int(days * 1440), end + 1)
    busy = [(at, int(at % busy_each_minutes == 0 and at < end - 10)) for at in minutes]
    return openmetrics(dict.fromkeys(pools, busy))


@contextmanager
def scraped(
    programs: Path, folder: Path, history: str, demand: Mapping[str, float]
) -> Iterator[tuple[Exporter, Prometheus]]:
    """A Prometheus that has a history, and the exporter that it scrapes: each pool's demand now."""
    with Exporter() as exporter:
        for pool, value in demand.items():
            exporter.set("demand", value, pool=pool)
        prometheus = Prometheus(programs, folder / "prometheus", {"live": exporter.port})
        prometheus.backfill(history)
        with prometheus:
            yield exporter, prometheus


class Running:
    """The controller of deploy/base, with a journal that a test reads."""

    def __init__(
        self,
        plane: ControlPlane,
        things: Iterable[Thing],
        folder: Path,
        prometheus: str,
        *,
        kubeconfig: Path | None = None,
        **options: str | None,
    ) -> None:
        """``options``: further ones of ``idlewin run``, ``no_lease=None`` for a flag."""
        folder.mkdir(parents=True, exist_ok=True)
        self._journal = folder / "journal.jsonl"
        said = {f"--{key.replace('_', '-')}": value for key, value in options.items()}
        self.process = Controller(
            plane,
            things,
            folder,
            options={
                "--prometheus": prometheus,
                "--tick": "1s",
                "--journal": str(self._journal),
                **said,
            },
            kubeconfig=kubeconfig,
        )

    def __enter__(self) -> Self:
        self.process.start()
        self.process.wait_ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.__exit__()

    def journal(self, rule: str) -> list[Json]:
        """The decisions about a rule so far, of all its processes."""
        return [line for line in read_journal(self._journal) if line.get("rule") == rule]

    def moves(self, rule: str) -> list[tuple[str, str, str]]:
        """The changes of phase so far that were written: from, to, reason."""
        return [
            (line["before"], line["after"], line["reason"])
            for line in self.journal(rule)
            if line["before"] != line["after"] and _written(line)
        ]


def _written(line: Json) -> bool:
    told = (one["verdict"] for one in line["outcomes"] if one["action"]["kind"] == "Remember")
    return all(verdict == "Done" for verdict in told)
