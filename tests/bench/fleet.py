"""What forecasts for 10,000 cards cost: learning, a plan for every card, and one card's decision.

python -m tests.bench fleet

The cards are those of the packaged traces, again and again, each time with their weeks turned; a
group stays whole, since its cards fill up one after the other. Each method runs in a child process
of its own, on one thread, so that its peak memory is its own. Seconds are CPU time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from idlewin import traces
from idlewin.backtest.case import case_of
from idlewin.core.stopping import Handover, Verdicts, verdicts
from idlewin.core.window import Span
from idlewin.forecasters import method, there
from idlewin.forecasters.ahead import STEP, Asked, Model
from idlewin.forecasters.fleet import DAY, Fleet, place
from idlewin.pricing.judge import judged_on
from tests.bench.figures import Figure

CARDS, DAYS = 10_000, 28
WEEK = 7 * DAY
PRICE = 500.0
SINGLE, TIMES = 300, 5
"""How many cards are asked alone, and how often: told is the median of each one's best."""
TRACES = ("servegen-clients", "servegen-fleets", "helios-nodes")
METHODS = ("elapsed", "hazard", "boosted")
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

T = TypeVar("T")
Runs = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """CPU seconds, and the peak of memory in MiB."""

    fit: float
    plan: float
    one: float
    memory: float
    before: float
    """Memory before anything was learnt: the interpreter, and the cards' demand."""


def fleet_figures(cards: int = CARDS) -> list[Figure]:
    """Each method's cost; the goals hold for 10,000 cards."""
    found = []
    for name in filter(there, METHODS):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.bench.fleet", name, "--cards", str(cards)],
            env={**os.environ, **_ONE_THREAD},
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        cost = Cost(**json.loads(ran.stdout))
        for what, value, goal, met in (
            ("refit", f"{cost.fit:.1f} s", "at most 2 min", cost.fit <= 120),
            ("plan of every card", f"{cost.plan:.2f} s", "at most 10 s", cost.plan <= 10),
            ("one decision", f"{cost.one * 1e3:.2f} ms", "at most 1 ms", cost.one <= 1e-3),
            ("peak memory", f"{cost.memory:.0f} MiB", "at most 2 GiB", cost.memory <= 2048),
        ):
            text = f"{name}, {cards} cards: {what}"
            found.append(Figure(what=text, value=value, goal=goal, met=met))
    return found


def resampled(cards: int, seed: int = 1) -> Fleet:
    """So many cards with four weeks of demand, out of the packaged traces."""
    rng = np.random.default_rng(seed)
    groups = [group for name in TRACES for group in _groups(name)]
    runs: list[Runs] = []
    group_of: list[int] = []
    for number in itertools.count():
        if len(runs) >= cards:
            break
        # Other weeks, and another zone.
        turn = int(rng.integers(DAYS // 7)) * WEEK + int(rng.integers(24)) * 60
        group = groups[number % len(groups)][: cards - len(runs)]
        runs += [_turned(card, turn) for card in group]
        group_of += [number] * len(group)
    start = int(traces.ORIGIN.timestamp() // 60)
    covers = Span(traces.ORIGIN, traces.ORIGIN + timedelta(days=DAYS))
    nobody = np.zeros(0, dtype=np.int64)
    return Fleet(
        cards=tuple(f"card-{n}" for n in range(cards)),
        since=np.full(cards, start),
        until=start + DAYS * DAY,
        card=np.repeat(np.arange(cards), [len(begin) for begin, _ in runs]),
        busy_from=np.concatenate([begin for begin, _ in runs]) + start,
        busy_to=np.concatenate([end for _, end in runs]) + start,
        away=(nobody, nobody, nobody),
        places=(place(lambda at: at.astimezone(UTC), covers),),
        place_of=np.zeros(cards, dtype=np.int64),
        group=np.array(group_of),
    )


def _groups(name: str) -> Iterator[list[Runs]]:
    """The cards of a packaged trace that a backtest judges, group by group, over four weeks."""
    path = Path(traces.__file__).parent / f"{name}.csv.gz"
    case = case_of(name, traces.load(path), traces.about(path), Handover())
    found, whole = case.fleet, DAYS * DAY
    length = min(found.until - found.start, whole)
    times = whole // length
    for group in np.unique(found.group):
        cards = []
        for card in np.nonzero(found.group == group)[0]:
            own = (found.card == card) & (found.busy_from < found.start + length)
            begin = found.busy_from[own] - found.start
            end = np.minimum(found.busy_to[own] - found.start, length)
            cards.append(
                (
                    np.concatenate([begin + n * length for n in range(times)]),
                    np.concatenate([end + n * length for n in range(times)]),
                )
            )
        yield cards


def _turned(runs: Runs, turn: int) -> Runs:
    """Four weeks of demand that begin so much later, and end with what was left out."""
    period = DAYS * DAY
    begin, end = (np.concatenate((at, at + period)) - turn for at in runs)
    kept = (end > 0) & (begin < period)
    begin, end = np.maximum(begin[kept], 0), np.minimum(end[kept], period)
    # What ends with the four weeks may touch what begins with them.
    first = np.concatenate(([True], begin[1:] > end[:-1]))
    return begin[first], end[np.concatenate((first[1:], [True]))]


def cost(name: str, cards: int) -> Cost:
    """What a method costs in this process."""
    found = resampled(cards)
    before = _peak()
    learner = method(name)
    fit, model = _timed(lambda: learner.fit(found, found.until))
    asked = _now(found)
    plan, _ = _timed(lambda: judged_on(found, asked, model, np.array([PRICE]), Handover()))
    alone = [asked.of(np.array([n])) for n in range(0, cards, max(cards // SINGLE, 1))]
    one = median(
        min(_timed(partial(_decided, found, card, model))[0] for _ in range(TIMES))
        for card in alone
    )
    return Cost(fit=fit, plan=plan, one=one, memory=_peak(), before=before)


def _now(found: Fleet) -> Asked:
    """All cards, at the end of what is known of them."""
    gaps = found.gaps()
    elapsed = np.zeros(len(found.cards), dtype=np.int64)
    elapsed[gaps.card[~gaps.ended]] = (gaps.end - gaps.start)[~gaps.ended]
    return Asked(np.arange(len(found.cards)), np.full(len(found.cards), found.until), elapsed)


def _decided(found: Fleet, asked: Asked, model: Model) -> Verdicts:
    """What is best for one card."""
    (stays,) = np.exp(-STEP * model.rates(found, asked)).tolist()
    return verdicts(stays, PRICE, step=STEP, handover=Handover())


def _timed(run: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    made = run()
    return time.process_time() - began, made


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    _parser = argparse.ArgumentParser(description=__doc__)
    _parser.add_argument("name", choices=METHODS)
    _parser.add_argument("--cards", type=int, default=CARDS)
    _asked = _parser.parse_args()
    print(json.dumps(asdict(cost(_asked.name, _asked.cards))))
