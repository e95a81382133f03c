"""Recorded demand: files of busy runs, and the small sample that comes with the package.

A trace is a gzipped CSV file with the columns ``card,start,end,demand``: runs of busy minutes
since an origin, the end exclusive; between rows the card is idle. ``demand`` is the number of
requests in the run, empty where it is not known. Beside ``NAME.csv.gz`` there may be a
``NAME.json`` with ``minutes, test_from, origin, licence, source, cards``.
No replay and no scoring here.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from idlewin.core.load import History
from idlewin.core.window import Span, clipped, merged
from idlewin.errors import unreadable
from idlewin.wording import nearest

COLUMNS = ["card", "start", "end", "demand"]
#: Minute 0 of a trace that names no origin: a Monday.
ORIGIN = datetime(2026, 1, 5, tzinfo=UTC)
_LONGEST = 10 * 366 * 24 * 60
_TRACE = f"a gzipped CSV file with the columns {','.join(COLUMNS)}"
#: What may be told of a trace; what else there is to say of it, too.
_KNOWN = frozenset({"minutes", "test_from", "origin", "licence", "source", "cards"})
_BESIDE = 'write {"minutes": ..., "test_from": ...} into it, or take it away'
_OF_SEVERAL = 'name a JSON file such as {"NAME": {"minutes": ..., "test_from": ...}}'


class TraceError(ValueError):
    """A trace file cannot be read; the message has file, line, what is wrong, and the remedy."""


class TraceWarning(UserWarning):
    """A trace file was read, with something put right on the way."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of demand on a card, in minutes since the trace's origin, the end exclusive."""

    start: int
    end: int
    demand: float | None = None
    """Requests in the run, where it is known."""


Runs = tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """What is known of a trace besides its rows."""

    minutes: int | None = None
    """How long it is; None: up to the last row."""
    test_from: int = 0
    """The first minute that is not for learning from."""
    origin: datetime = ORIGIN
    """The instant of minute 0, by the clock of where the demand was."""
    licence: str = ""
    source: str = ""


def sample() -> Path:
    """The trace that comes with the package: six cards, 14 days, Apache-2.0."""
    return Path(str(files(__name__).joinpath("sample.csv.gz")))


def load(path: Path | str) -> dict[str, Runs]:
    """The runs of each card, in order, without overlaps; warns where it had to join some.

    Raises TraceError, which names file and line.
    """
    path = Path(path)
    found: dict[str, list[Run]] = {}
    for line, row in _rows(path):
        card, run = _run(row, f"{path}:{line}")
        runs = found.setdefault(card, [])
        if runs and run.start < runs[-1].start:
            raise TraceError(
                f"{path}:{line}: start {run.start} of {card} comes after start {runs[-1].start}; "
                "sort the rows of a card by start"
            )
        if runs and run.start < runs[-1].end:
            _warn(f"{path}:{line}: a run of {card} overlaps the one before; they were joined")
            run = _joined(runs.pop(), run)
        runs.append(run)
    if not found:
        raise TraceError(f"{path}: there is no row in it; is it the right file?")
    return {card: tuple(runs) for card, runs in found.items()}


def about(path: Path | str) -> About:
    """What the JSON file beside a trace says; defaults where there is none. Raises TraceError."""
    path = Path(path)
    beside = path.parent / (path.name.removesuffix(".gz").removesuffix(".csv") + ".json")
    if not beside.exists():
        return About()
    return _about(_object(beside, _BESIDE), beside)


def about_in(path: Path | str, name: str) -> About:
    """What a JSON file that tells of several traces says of one. Raises TraceError."""
    path = Path(path)
    told = _object(path, _OF_SEVERAL)
    if not isinstance(told.get(name), dict):
        raise TraceError(f"{path}: it tells nothing of {name!r}; it has {', '.join(sorted(told))}")
    return _about(told[name], path)


def _object(path: Path, remedy: str) -> dict[str, Any]:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise TraceError(f"{path}: {unreadable(error)}; {remedy}") from None
    except ValueError as error:
        raise TraceError(f"{path}: it is no JSON: {error}; {remedy}") from None
    if not isinstance(told, dict):
        raise TraceError(f"{path}: it holds no JSON object; {remedy}")
    return told


def _about(told: Mapping[str, Any], path: Path) -> About:
    for field in told.keys() - _KNOWN:
        raise TraceError(f"{path}: it may not say {field!r}{nearest(field, _KNOWN)}")
    return About(
        minutes=_whole(told, "minutes", path),
        test_from=_whole(told, "test_from", path) or 0,
        origin=_origin(told.get("origin"), path),
        licence=str(told.get("licence") or ""),
        source=str(told.get("source") or ""),
    )


def card_of(cards: Mapping[str, Runs], name: str, path: Path | str) -> Runs:
    """The runs of one card. Raises TraceError that lists what there is."""
    if name not in cards:
        raise TraceError(f"{path}: there is no card {name!r}; it has {', '.join(sorted(cards))}")
    return cards[name]


def busy_spans(runs: Iterable[Run], origin: datetime = ORIGIN) -> tuple[Span, ...]:
    """Runs at absolute instants; those that touch are joined."""
    return merged(
        Span(origin + timedelta(minutes=run.start), origin + timedelta(minutes=run.end))
        for run in runs
    )


def history(busy: Sequence[Span], covers: Span) -> History:
    """What would have been known of a trace's demand over a stretch, all of it looked at."""
    return History(covers=covers, busy=clipped(busy, covers))


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows below the header, each with its line. Raises TraceError."""
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text)
            header = next(reader, None)
            if header != COLUMNS:
                raise TraceError(
                    f"{path}:1: the header is {','.join(header or [])!r}; "
                    f"write {','.join(COLUMNS)!r}"
                )
            for row in reader:
                if row:
                    yield reader.line_num, row
    except gzip.BadGzipFile:
        raise TraceError(f"{path}: it is not gzipped; run gzip on it") from None
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{path}: it cannot be read ({error}); is it cut short?") from None
    except (OSError, UnicodeError, csv.Error) as error:
        raise TraceError(f"{path}: {unreadable(error)}; name a trace, {_TRACE}") from None


def _run(row: list[str], where: str) -> tuple[str, Run]:
    if row == COLUMNS:
        raise TraceError(f"{where}: the header comes twice; remove this line")
    if len(row) != len(COLUMNS):
        raise TraceError(f"{where}: {len(row)} fields; write {len(COLUMNS)}: {','.join(COLUMNS)}")
    card, *numbers = (field.strip() for field in row)
    if not card:
        raise TraceError(f"{where}: card is empty; give the card a name")
    start, end = (
        _minute(name, text, where) for name, text in zip(COLUMNS[1:3], numbers[:2], strict=True)
    )
    try:
        demand = float(numbers[2]) if numbers[2] else None
    except ValueError:
        demand = math.nan
    if not 0 <= start < end <= _LONGEST:
        raise TraceError(
            f"{where}: {card} from {start} to {end}; a run starts at 0 or later, "
            "ends after its start, and within ten years"
        )
    if demand is not None and not (math.isfinite(demand) and demand >= 0):
        raise TraceError(f"{where}: demand {numbers[2]}; write a count, or leave it empty")
    return card, Run(start, end, demand)


def _minute(name: str, text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise TraceError(
            f"{where}: {name} is {text!r}; write whole minutes since the trace's origin"
        ) from None


def _joined(one: Run, other: Run) -> Run:
    known = [run.demand for run in (one, other) if run.demand is not None]
    return Run(one.start, max(one.end, other.end), sum(known) if known else None)


def _whole(told: Mapping[str, Any], field: str, path: Path) -> int | None:
    value = told.get(field)
    if value is None or (type(value) is int and 0 <= value <= _LONGEST):
        return value
    raise TraceError(f"{path}: {field} is {value!r}; write a whole number of minutes")


def _origin(value: object, path: Path) -> datetime:
    if value is None:
        return ORIGIN
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError:
        at = datetime.min  # noqa: DTZ901 - naive, so refused below
    if at.tzinfo is None:
        raise TraceError(f"{path}: origin {value!r}; write it as 2026-01-05T00:00:00+00:00")
    return at


def _warn(message: str) -> None:
    warnings.warn(message, TraceWarning, stacklevel=3)
