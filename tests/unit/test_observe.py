"""What a look rests on: on a fresh one cards are given away, and nothing of it is older."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.load import History, Reading
from idlewin.core.target import Demand, LlamaSwap
from idlewin.core.window import Span
from idlewin.observe import Observer
from tests.builders import MINUTE, NOW, a_forecast, a_pool, a_queue, a_situation, a_workload

HOUR = timedelta(hours=1)


class Surroundings:
    """A clock, metrics, a cluster and a forecaster, with a burst that only the history shows."""

    def __init__(self) -> None:
        self.at, self.burst, self.unknown, self.told = NOW, None, (), []
        self.pool, self.ready = a_pool(), True

    def now(self):
        return self.at

    def names(self):
        return []

    def rule(self, _name):
        return None

    def look(self, _scope, **_how):
        return self.pool

    def read(self, rule):
        name = str(rule.serving[0].ref)
        reading = Reading(
            target=name, name="waiting", value=0.0, busy_above=0.0, visible_at_zero=True
        )
        return (reading,)

    def history(self, _rule, past, _step):
        busy = (self.burst,) if self.burst else ()
        return History(covers=Span(self.at - past, self.at), busy=busy, unknown=self.unknown)

    def forecast(self, _rule, _history, now, idle_since):
        self.told.append(idle_since)
        return replace(a_forecast(), made_at=now, ready=self.ready)


@pytest.fixture
def around():
    return Surroundings()


@pytest.fixture
def observer(around):
    return Observer(around, around, around, around)


def test_users_that_came_and_went_since_the_forecast_show_in_a_fresh_look(observer, around):
    rule = a_situation().object
    before = observer.situation(rule).load.since
    around.at += MINUTE
    around.burst = Span(around.at - 20 * MINUTE / 60, around.at - 10 * MINUTE / 60)

    assert observer.situation(rule).load.since == before
    assert observer.situation(rule, fresh=True).load.since == around.burst.end


def test_a_history_that_lags_behind_the_readings_makes_no_night_younger(observer, around):
    rule = a_situation().object
    around.burst = Span(NOW - 11 * HOUR, NOW - 10 * HOUR)
    since = observer.situation(rule).load.since
    around.unknown = (Span(NOW, NOW + 10 * MINUTE),)
    around.at += 10 * MINUTE

    observer.situation(rule)

    assert around.told[-1] == since


@pytest.mark.parametrize(("ready", "asked"), [(True, 1), (False, 2)])
def test_a_forecast_that_is_not_ready_is_asked_for_again_soon(observer, around, ready, asked):
    around.ready = ready
    rule = a_situation().object
    for _ in range(2):
        observer.situation(rule)
        around.at += MINUTE

    assert len(around.told) == asked


def test_what_was_stamped_by_a_clock_ahead_counts_from_when_it_was_first_seen(observer, around):
    ahead = NOW + HOUR
    work = a_workload(admitted=True, admitted_at=ahead)
    around.pool = a_pool(queues=(a_queue(stopped_since=ahead, workloads=(work,)),))
    rule = a_situation().object
    observer.situation(rule)
    for minutes in (1, 70):
        around.at = NOW + minutes * MINUTE

        (queue,) = observer.situation(rule).pool.queues

        assert queue.stopped_since == NOW
        assert queue.workloads[0].admitted_at == NOW


def test_what_was_stamped_in_the_past_stays_so(observer, around):
    around.pool = a_pool(queues=(a_queue(stopped_since=NOW - HOUR),))

    (queue,) = observer.situation(a_situation().object).pool.queues

    assert queue.stopped_since == NOW - HOUR


def test_idleness_that_nobody_has_kept_counts_from_the_first_look(observer):
    rule = a_situation().object
    (serving,) = rule.rule.serving
    stream = Demand(llama_swap=LlamaSwap(url="http://swap:8080"))
    streamed = replace(serving, demand=(*serving.demand, stream))

    kept = observer.situation(rule).load.since
    observer.forget(rule.name)
    rule = replace(rule, rule=replace(rule.rule, serving=(streamed,)))

    assert kept < NOW
    assert observer.situation(rule).load.since == NOW
