"""A question is asked once, however many ask it and however long the answer takes."""

from __future__ import annotations

from datetime import timedelta

from idlewin.adapters.once import Once
from idlewin.adapters.prometheus_api import Answer
from tests.contract.demand_rules import HandClock

SECOND = timedelta(seconds=1)


def asks(took: timedelta, after: timedelta) -> int:
    """How often three sources are asked by a first rule, and by a second a while after it."""
    clock, asked = HandClock(), []
    once = Once(clock, ttl=SECOND)

    def answer() -> Answer:
        asked.append(clock.at)
        clock.at += took
        return Answer()

    for _ in range(2):
        for source in ("a", "b", "c"):
            once(source, answer)
        clock.at += after
    return len(asked)


def test_answers_that_took_longer_than_they_are_kept_serve_the_next_rule() -> None:
    """Each of 10,000 rules asked for its own, and no tick ever ended."""
    assert asks(took=2 * SECOND, after=SECOND) == 3


def test_answers_that_came_at_once_are_asked_for_anew_after_a_second() -> None:
    assert asks(took=timedelta(), after=SECOND) == 6


def test_no_answer_serves_for_longer_than_a_tick() -> None:
    assert asks(took=8 * SECOND, after=15 * SECOND) == 6
