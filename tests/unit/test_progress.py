"""What is told of long work where nobody looks at a live view."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from idlewin.cli.progress import EVERY, Lines


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def lines(out, clock, **how):
    return Lines(Console(file=out, width=200, **how), "runs", 36, clock)


def test_a_line_now_and_then_has_the_count_and_what_is_left(clock):
    out = StringIO()
    progress = lines(out, clock)

    for done in range(1, 37):
        clock.now += 5
        progress.tell(done)

    told = out.getvalue().splitlines()
    assert told[:2] == [
        "2 of 36 runs in 0:00:10, about 0:02:50 left",
        "4 of 36 runs in 0:00:20, about 0:02:40 left",
    ]
    assert len(told) == 36 * 5 / EVERY - 1  # the last needs none


def test_nothing_is_told_beside_a_live_view(clock):
    out = StringIO()
    progress = lines(out, clock, force_terminal=True)

    clock.now = 100
    progress.tell(5)

    assert out.getvalue() == ""
