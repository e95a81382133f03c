"""Traces made of ServeGen's counts, as those of the package: what the draw of the minutes changes.

ServeGen counts the requests of a client in windows of ten minutes, and says how uneven the times
between them are. When in its window a request came was never published: that is drawn. The packaged
``servegen-clients`` is the draw of seed 7; ``servegen-fleets`` needs none.
"""

from __future__ import annotations

import csv
import gzip
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

COUNTS = Path(__file__).parent / "data" / "servegen-language.csv.gz"
MINUTES, WINDOW = 14 * 1440, 10
REPLICAS = 24
#: Whose demand needs all replicas of a model for so much of the time.
ALL_BUSY = 0.005
#: So many requests, less uneven than that, leave no minute of their window without one.
MANY, EVEN = 200, 3.0
#: Times between requests are drawn as no more regular than this.
LEAST_CV = 0.3
META = {"minutes": MINUTES, "test_from": MINUTES // 2, "origin": None, "licence": "Apache-2.0"}
HEADLINES = (("hw", "0.25"), ("hw", "1"), ("hw", "3"), ("hf", "0.05"))


class Row(NamedTuple):
    """A run of busy minutes, the end exclusive; ``demand`` is its requests, None: not known."""

    card: str
    start: int
    end: int
    demand: int | None = None


class Count(NamedTuple):
    """The requests of a client in a window of ten minutes."""

    client: str
    window: int
    requests: int
    cv: float


def counts(path: Path = COUNTS) -> Iterator[Count]:
    """What was published, client by client, in order of time."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            yield Count(row["client"], int(row["window"]), int(row["requests"]), float(row["cv"]))


# -- traces


def clients(of: Iterable[Count], seed: int) -> Iterator[Row]:
    """Each client on a card of its own, with its requests drawn into minutes."""
    draw = np.random.default_rng(seed)
    client, per_minute = "", np.zeros(MINUTES, np.int64)
    for count in of:
        if count.client != client:
            yield from _runs(client, per_minute)
            client, per_minute = count.client, np.zeros(MINUTES, np.int64)
        first = count.window * WINDOW
        per_minute[first : first + WINDOW] = _minutes(draw, count)
    yield from _runs(client, per_minute)


def _minutes(draw: np.random.Generator, count: Count) -> np.ndarray:
    """Requests in each minute of a window: a renewal process with gamma times, fitted to it."""
    if count.requests >= MANY and count.cv < EVEN:
        spread = np.full(WINDOW, count.requests // WINDOW)
        spread[: count.requests % WINDOW] += 1
        return spread
    shape = 1 / max(count.cv, LEAST_CV) ** 2
    passed = np.cumsum(draw.gamma(shape, 1.0, count.requests + 1))
    at = (passed / passed[-1] * WINDOW)[:-1].astype(np.int64)
    # A time that rounding puts at the very end of the window is in its last minute.
    return np.bincount(np.minimum(at, WINDOW - 1), minlength=WINDOW)


def _runs(card: str, demand: np.ndarray) -> Iterator[Row]:
    edges = np.flatnonzero(np.diff(np.r_[False, demand > 0, False]))
    for start, end in edges.reshape(-1, 2):
        yield Row(card, int(start), int(end), int(demand[start:end].sum()))


def fleets(of: Iterable[Count]) -> Iterator[Row]:
    """The k-th of 24 replicas of each model, last in first out.

    A replica serves so much that all are busy for a two-hundredth of the time; the requests of ten
    minutes around each minute, spread evenly over their windows, say how many are.
    """
    models: dict[str, np.ndarray] = {}
    for count in of:
        model = count.client.partition("#")[0]
        total = models.setdefault(model, np.zeros(MINUTES // WINDOW))
        total[count.window] += count.requests
    for model, total in models.items():
        each = np.pad(np.repeat(total / WINDOW, WINDOW), (WINDOW // 2, WINDOW // 2 - 1), "edge")
        around = np.convolve(each, np.ones(WINDOW), "valid")
        needed = np.ceil(around / (np.quantile(around, 1 - ALL_BUSY) / REPLICAS))
        for k in range(REPLICAS):
            for row in _runs(f"{model}/{k}", needed > k):
                yield row._replace(demand=None)


def write(rows: Iterable[Row], name: str, folder: Path, source: str) -> Path:
    """A trace as ``idlewin backtest`` reads it, with the JSON beside it."""
    path = folder / f"{name}.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8", newline="") as text:
        table = csv.writer(text, lineterminator="\n")
        table.writerow(Row._fields)
        table.writerows(rows)
    (folder / f"{name}.json").write_text(json.dumps({**META, "source": source}, indent=1) + "\n")
    return path


# -- what a draw changes


def draws_table(folder: Path, seeds: int, cores: int) -> str:
    """The figures of each policy on the clients, over the draws of so many seeds; from 1 on."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for seed in range(1, seeds + 1):
        name = f"servegen-clients-{seed}"
        trace = write(clients(counts(), seed), name, folder, f"ServeGen, draw {seed}")
        found.append(_backtested(trace, cores))
    lines = [
        *(
            f"draw {seed}: {one['cards']} cards, {one['returns']:,} returns, "
            f"oracle {one['oracle_hours']:,.0f} h"
            for seed, one in enumerate(found, start=1)
        ),
        "",
        "| policy | HW@0.25 (rate) | HW@1 (rate) | HW@3 (rate) | HF@5% (share) |",
        "| --- | --- | --- | --- | --- |",
    ]
    for policy in found[0]["policies"]:
        each = [one["policies"][policy] for one in found]
        cells = [_cell(each, kind, budget) for kind, budget in HEADLINES]
        lines.append(f"| `{policy}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def _backtested(trace: Path, cores: int) -> dict[str, Any]:
    """What ``idlewin backtest`` says of a trace, peers and all."""
    told = trace.with_name(trace.name.replace(".csv.gz", "-figures.json"))
    verb = [str(Path(sys.executable).with_name("idlewin")), "backtest", "--peers"]
    where = ["--trace", str(trace), "--json", str(told), "--cores", str(cores)]
    subprocess.run([*verb, *where], check=True, stdout=subprocess.DEVNULL)
    return json.loads(told.read_text())


def _cell(each: list[dict[str, Any]], kind: str, budget: str) -> str:
    """Mean and standard deviation over the draws, and what was spent on average."""
    bought = [one[kind][budget] for one in each if one[kind][budget] is not None]
    if len(bought) < len(each):
        return f"over in {len(each) - len(bought)}"
    spent = statistics.mean(one["realised"][budget] for one in each)
    rate = f"{spent:.1%}" if kind == "hf" else f"{spent:.2f}"
    spread = statistics.stdev(bought) if len(bought) > 1 else 0.0
    return f"{statistics.mean(bought):.3f} ± {spread:.3f} ({rate})"
