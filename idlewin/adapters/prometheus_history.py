"""The past of a rule's demand: range queries in pieces, kept, and asked for only at their end.

What is kept is a number for each step and series, never a verdict: rules that share a source share
what was fetched, and differ in what they match and call busy.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock

from idlewin.adapters.prometheus_api import Answer, Api
from idlewin.adapters.prometheus_runs import NOTHING, Column, Grid, codes, runs
from idlewin.catalogue import Catalogue
from idlewin.core.load import History, Level
from idlewin.core.rule import Rule
from idlewin.core.target import Demand
from idlewin.ports import Clock
from idlewin.source import Source, filled, part_is, tagged

#: Prometheus refuses more than 11,000 points of a series.
POINTS = 10_000
#: Of very many series a piece has fewer, but never less than these.
_LEAST, _SMALLER = 60, 4
#: Samples may come in so late; younger steps are asked for again.
_LATE = timedelta(minutes=2)
#: What no rule has asked for so long is forgotten.
_FORGET = timedelta(days=1)
#: No finer look into a step than this, in seconds.
_FINEST = 5
Labels = tuple[tuple[str, str], ...]


class Past:
    """The history of every rule. Never raises."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        instant: Callable[[str], Answer],
        window: timedelta,
        catalogue: Catalogue,
    ) -> None:
        self._api, self._clock, self._instant, self._window = api, clock, instant, window
        self._catalogue = catalogue
        self._lock = Lock()
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._done: dict[str, tuple[Grid, History]] = {}

    def history(self, rule: Rule, past: timedelta, step: timedelta) -> History:
        """When any demand of the rule was there, from ``past`` ago to the last whole step."""
        now = self._clock.now()
        width = max(1, round(step.total_seconds()))
        last = math.floor(now.timestamp() / width)
        steps = max(1, math.ceil(past.total_seconds() / width))
        grid = Grid(first=last - steps, last=last, width=width)
        asked = [
            (str(serving.ref), demand)
            for serving in rule.serving
            if not isinstance(serving.demand, str)
            for demand in serving.demand
            if demand.llama_swap is None
        ]
        done = self._done.get(repr(asked))
        if done and done[0] == grid:
            return done[1]
        try:
            return self._found(asked, grid, now)
        except Exception:  # noqa: BLE001 - the port never raises: all of it is unknown
            return grid.unknown

    def _found(self, asked: Sequence[tuple[str, Demand]], grid: Grid, now: datetime) -> History:
        columns, complete = [], True
        for target, demand in asked:
            kept = self._fetched(demand, grid, now)
            complete = complete and kept.end == grid.last
            visible = self._catalogue.visible_at_zero(demand)
            told = _codes(demand, kept, grid, visible=visible)
            columns.append(Column(target=target, demand=demand, visible=visible, codes=told))
        found = runs(columns, grid)
        with self._lock:
            old = (now - _FORGET).timestamp()
            self._kept = {k: v for k, v in self._kept.items() if v.used > old}
            self._done = {
                k: v for k, v in self._done.items() if v[0].at(v[0].last).timestamp() > old
            }
            if complete:
                self._done[repr(asked)] = (grid, found)
        return found

    def _query(self, demand: Demand, width: int) -> str:
        if demand.source is not None:
            source = self._catalogue.sources[demand.source]
            parts = {"value": _over("max", _sourced(source, self._window), width)}
            if source.silence_is_zero:
                parts["alive"] = _over("min", source.witness, width)
            return tagged(parts)
        query = self._vector(demand.query or "")
        parts = {"value": _over("max", _believed(query, "< Inf"), width)}
        if demand.up is not None:
            parts["alive"] = _over("min", self._vector(demand.up), width)
        return tagged(parts)

    def _vector(self, query: str) -> str:
        """A free-form query as a vector, since a scalar cannot be looked at over time."""
        return f"vector({query}\n)" if self._instant(query).scalar else query

    def _fetched(self, demand: Demand, grid: Grid, now: datetime) -> _Kept:
        """What a demand's query gave over the grid, as far as it could be asked."""
        query = self._query(demand, grid.width)
        with self._lock:
            kept = self._kept.setdefault((query, grid.width), _Kept(first=grid.first))
            kept.used = now.timestamp()
        with kept.lock:
            kept.make_room(grid)
            if kept.end != grid.last:
                kept.cut(min(kept.settled, grid.last))
            while kept.end < grid.last:
                until = min(grid.last, kept.end + kept.piece)
                answer = self._api.over(
                    query,
                    grid.at(kept.end + 1),
                    grid.at(until),
                    timedelta(seconds=grid.width),
                )
                if answer.too_large and kept.piece > _LEAST:
                    kept.piece = max(_LEAST, kept.piece // _SMALLER)
                    continue
                if answer.why:
                    break
                kept.add(answer, until, grid.width)
            settled = math.floor((now - _LATE).timestamp() / grid.width)
            kept.settled = max(kept.first, min(kept.end, settled))
            return kept.copy(demand.match)


@dataclass(slots=True, kw_only=True)
class _Kept:
    """What one query gave: for each series a number a step, after ``first`` up to ``end``."""

    first: int
    end: int = field(init=False)
    settled: int = field(init=False)
    """Up to here it does not change any more."""
    used: float = 0
    longest: int = 0
    piece: int = POINTS
    """So many steps are asked for at once."""
    series: dict[Labels, array[float]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.end = self.settled = self.first

    def make_room(self, grid: Grid) -> None:
        """Begin anew where more of the past is asked for; let go what is older than anyone asks."""
        self.longest = max(self.longest, grid.last - grid.first)
        if grid.first < self.first or grid.first > self.end:
            self.series.clear()
            self.first = self.end = self.settled = grid.first
        elif (old := grid.last - self.longest - self.first) > 0:
            for numbers in self.series.values():
                del numbers[:old]
            self.first += old
            self.settled = max(self.settled, self.first)

    def cut(self, end: int) -> None:
        """Forget what comes after a step."""
        for numbers in self.series.values():
            del numbers[end - self.first :]
        self.end = end

    def add(self, answer: Answer, until: int, width: int) -> None:
        """Append an answer for the steps up to one, that one included."""
        told = [(tuple(sorted(one.labels.items())), one.points) for one in answer.series]
        for labels, _ in told:
            if labels not in self.series:
                self.series[labels] = _nothing(self.end - self.first)
        for numbers in self.series.values():
            numbers.extend(_nothing(until - self.end))
        for labels, points in told:
            numbers = self.series[labels]
            for at, value in points:
                numbers[round(at / width) - self.first - 1] = value
        self.end = until

    def copy(self, match: Mapping[str, str]) -> _Kept:
        """What a match picks, for a reader while others go on fetching."""
        other = _Kept(first=self.first)
        other.end = self.end
        wanted, alive = set(match.items()), part_is("alive")
        other.series = {
            labels: numbers[:]
            for labels, numbers in self.series.items()
            if alive in labels or wanted <= set(labels)
        }
        return other

    def part(self, name: str, match: Mapping[str, str], grid: Grid) -> list[array[float]]:
        """The numbers over the grid, as far as they go, of one part's series with these labels."""
        wanted = {part_is(name), *match.items()}
        skip = grid.first - self.first
        return [numbers[skip:] for labels, numbers in self.series.items() if wanted <= set(labels)]


def _codes(demand: Demand, kept: _Kept, grid: Grid, *, visible: bool) -> list[str]:
    steps = kept.end - grid.first
    alive = kept.part("alive", {}, grid)
    found = codes(
        demand,
        kept.part("value", demand.match, grid),
        alive[0] if alive else _nothing(steps),
        visible=visible,
    )
    return found + [Level.UNKNOWN.value] * (grid.last - kept.end)


def _nothing(steps: int) -> array[float]:
    return array("d", [math.nan]) * steps


def _sourced(source: Source, window: timedelta) -> str:
    """A source's query with -1 for what cannot be, as a key that it has lost, or made.

    A zero of a key that it has made is as where nobody asked: ``NOTHING``.
    """
    query, present = filled(source.query, window), f"on ({source.by}) {source.present}"
    good = f"(({query}\n) >= 0 <= {source.max:g} and {present})"
    made = f"-1 + ({NOTHING:g} + 1) * (({query}\n) == bool 0)"
    return f"{good} or {made} or on ({source.by}) -{source.present}"


def _believed(query: str, upper: str) -> str:
    """A query with -1 for what cannot be: the possible values of the same step outlive it."""
    return f"(({query}\n) >= 0 {upper}) or -count without () ({query}\n)"


def _over(function: str, query: str, width: int) -> str:
    """The most or the least of a query in a step, so that a burst between two steps counts."""
    finer = width // 4
    return f"{function}_over_time(({query}\n)[{width}s:{finer}s])" if finer >= _FINEST else query
