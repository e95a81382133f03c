"""Cards replayed beside each other, on all cores, each with a bar that says where it is."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, as_completed
from datetime import datetime, timedelta
from multiprocessing.queues import SimpleQueue
from threading import Thread
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from idlewin.cli.progress import Lines
from idlewin.replay import Case, Result, replay
from idlewin.wiring import replayed
from idlewin.workers import SPAWN, workers

HOUR = timedelta(hours=1)
#: The number of a card, its hours so far, its day, its phase; None: no more will come.
News = tuple[int, float, str, str] | None
_ways: list[SimpleQueue[News]] = []


def run(cases: Sequence[Case], console: Console) -> list[Result]:
    """Replay each case; the results in their order. An interrupt waits for none of them."""
    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[day]:>12}  {task.fields[phase]:11}"),
        TimeElapsedColumn(),
    )
    news: SimpleQueue[News] = SPAWN.SimpleQueue()
    cores = min(len(cases), os.cpu_count() or 1)
    live = Progress(*columns, console=console, disable=not console.is_terminal)
    days = Lines(console, "days", sum(case.covers.length.days for case in cases))
    with live as progress, workers(cores, _begin, news) as pool:
        for case in cases:
            progress.add_task(case.card, total=case.covers.length / HOUR, day="", phase="waits")
        hearing = Thread(target=_hear, args=(news, progress, days), daemon=True)
        hearing.start()
        waiting = {pool.submit(_one, number, case): number for number, case in enumerate(cases)}
        _tell(waiting, cases, console)
        news.put(None)
        hearing.join()
    return [future.result() for future in waiting]


def _tell(waiting: dict[Future[Result], int], cases: Sequence[Case], console: Console) -> None:
    """Where there is no live view, a line as each card is done."""
    for future in as_completed(waiting):
        ours, card = future.result().ours, cases[waiting[future]].card
        if not console.is_terminal:
            console.print(
                f"{card}: {ours.harvested / HOUR:.1f} h harvested, {ours.late_returns} late"
            )


def _hear(news: SimpleQueue[News], progress: Progress, days: Lines) -> None:
    passed: dict[int, float] = {}
    while (told := news.get()) is not None:
        number, hours, day, phase = told
        progress.update(progress.task_ids[number], completed=hours, day=day, phase=phase)
        passed[number] = hours
        days.tell(sum(passed.values()) / 24)


def _begin(news: SimpleQueue[News]) -> None:
    _ways[:] = [news]


def _one(number: int, case: Case) -> Result:
    result = replay(case, replayed, _teller(number, case, _ways[0].put))
    days = case.covers.length.days
    _ways[0].put((number, case.covers.length / HOUR, f"day {days}", "done"))
    return result


def _teller(number: int, case: Case, put: Callable[[News], Any]) -> Callable[[datetime, str], None]:
    def tell(now: datetime, phase: str) -> None:
        passed = now - case.covers.start
        day = min(passed.days + 1, case.covers.length.days)
        put((number, passed / HOUR, f"day {day}", phase))

    return tell
