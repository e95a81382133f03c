"""Who wakes a pool, and when. Waits are for events with a limit, never for a time to pass."""

import threading
import time
from collections import deque
from datetime import UTC, datetime, timedelta

import pytest

from idlewin.adapters.clock import SystemClock
from idlewin.wakeups import Pace, WakeQueue, Wakeups

LIMIT = 10
FAR = timedelta(hours=1)


class Heard:
    def __init__(self):
        self.done, self.failed, self.forgotten = deque(), deque(), deque()
        self.any = threading.Condition()

    def _note(self, kind, rule):
        with self.any:
            kind.append(rule)
            self.any.notify_all()

    def cycle_done(self, rule, _seconds):
        self._note(self.done, rule)

    def cycle_failed(self, rule, _seconds):
        self._note(self.failed, rule)

    def gone(self, rule):
        self._note(self.forgotten, rule)

    def until(self, fact):
        with self.any:
            assert self.any.wait_for(fact, LIMIT)


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def running(heard):
    started = []

    def start(cycle, names=(), pace=None, timer=None):
        pace = pace or Pace(tick=FAR)
        wakeups = Wakeups(cycle, lambda: names, timer or SystemClock(), heard, pace, seed=1)
        started.append(wakeups)
        wakeups.start()
        return wakeups

    yield start
    for wakeups in started:
        assert wakeups.drain(timedelta(seconds=LIMIT))


class Wrong(SystemClock):
    """A clock that is hours ahead of the machine's wall clock."""

    def now(self):
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic())


def later(_name):
    return datetime.now(UTC) + FAR


def test_a_pool_waits_in_line_once_however_often_it_is_woken():
    queue = WakeQueue(lambda: 0.0)

    for name in ("a", "b", "a", "a"):
        queue.put(name)

    assert queue.depth() == 2
    assert [queue.take(), queue.take()] == ["a", "b"]


def test_a_wake_during_a_look_is_kept_until_the_look_has_ended():
    queue = WakeQueue(lambda: 0.0)
    queue.put("a")
    queue.take()

    queue.put("a")
    queue.put("a")
    during, _ = queue.depth(), queue.done("a")

    assert (during, queue.depth()) == (0, 1)


def test_the_oldest_wait_is_that_of_the_first_in_line():
    now = [10.0]
    queue = WakeQueue(lambda: now[0])
    assert queue.oldest_wait() == 0

    queue.put("a")
    now[0] = 13.0
    queue.put("b")

    assert queue.oldest_wait() == 3.0


def test_a_closed_queue_lets_those_who_wait_go():
    queue, got = WakeQueue(lambda: 0.0), []
    waiting = threading.Thread(target=lambda: got.append(queue.take()))
    waiting.start()

    queue.close()
    waiting.join(LIMIT)

    assert got == [None]


def test_every_pool_is_looked_at_once_after_the_start(running, heard):
    running(later, names=("a", "b", "c"))

    heard.until(lambda: len(heard.done) == 3)

    assert sorted(heard.done) == ["a", "b", "c"]


def test_one_pool_is_never_in_two_workers_hands(running, heard):
    inside, most, lock = [0], [0], threading.Lock()

    def cycle(name):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        wakeups.wake(name)  # a wake in the middle of the look
        time.sleep(0.001)
        with lock:
            inside[0] -= 1
        return later(name)

    wakeups = running(cycle)
    wakeups.wake("a")
    heard.until(lambda: len(heard.done) >= 50)

    assert most[0] == 1


def test_pools_are_looked_at_side_by_side(running, heard):
    both = threading.Barrier(2, timeout=LIMIT)

    def cycle(name):
        both.wait()  # passes only if both pools are being looked at at once
        return later(name)

    running(cycle, names=("a", "b"))
    heard.until(lambda: len(heard.done) == 2)

    assert not heard.failed


def test_a_pool_is_looked_at_again_when_it_asked_to_be(running, heard):
    asked = [datetime.now(UTC) + timedelta(milliseconds=300)]
    looks = []

    def cycle(name):
        looks.append(datetime.now(UTC))
        return asked.pop() if asked else later(name)

    at = asked[0]
    running(cycle, names=("a",))
    heard.until(lambda: len(heard.done) == 2)

    assert at <= looks[1] < at + timedelta(seconds=LIMIT)


def test_a_wall_clock_that_is_wrong_or_set_otherwise_makes_no_timer_late(
    running, heard, monkeypatch
):
    clock, machine = Wrong(), SystemClock()
    asked = [clock.now() + timedelta(milliseconds=300)]

    def cycle(_name):
        at = asked.pop() if asked else clock.now() + FAR
        # The machine's clock is put right just after, by years.
        monkeypatch.setattr(SystemClock, "now", lambda _self: datetime(1970, 1, 1, tzinfo=UTC))
        return at

    began = machine.monotonic()
    running(cycle, names=("a",), timer=clock)
    heard.until(lambda: len(heard.done) == 2)

    assert machine.monotonic() - began >= 0.3


def test_a_timer_that_is_long_past_is_not_dropped(running, heard):
    asked = [datetime.now(UTC) - timedelta(hours=5)]
    running(lambda name: asked.pop() if asked else later(name), names=("a",))

    heard.until(lambda: len(heard.done) == 2)

    assert list(heard.done) == ["a", "a"]


def test_the_tick_wakes_a_pool_whose_timer_was_lost(running, heard, monkeypatch):
    monkeypatch.setattr(WakeQueue, "put_at", lambda *_timer: None)
    asked = [datetime.now(UTC) + timedelta(milliseconds=400)]
    pace = Pace(tick=timedelta(milliseconds=50))

    running(lambda name: asked.pop() if asked else later(name), ("a",), pace)
    heard.until(lambda: len(heard.done) == 2)

    assert list(heard.done) == ["a", "a"]


def test_an_error_is_told_and_tried_again_and_harms_no_other_pool(running, heard, caplog):
    errors = [OSError("the API server is away"), ValueError("odd")]
    pace = Pace(tick=FAR, workers=1, first_retry=timedelta(milliseconds=10))

    def cycle(name):
        if name == "bad" and errors:
            raise errors.pop(0)
        return later(name)

    running(cycle, ("bad", "good"), pace)
    heard.until(lambda: sorted(heard.done) == ["bad", "good"])

    assert list(heard.failed) == ["bad", "bad"]
    assert "the API server is away" in caplog.text
    assert "Traceback" in caplog.text


def test_retries_come_later_and_later_up_to_a_bound(heard):
    wakeups = Wakeups(later, list, SystemClock(), heard, Pace(), seed=7)

    waits = [wakeups._retry_after("a") for _ in range(2000)]

    for n, wait in enumerate(waits):
        step = min(120, 2**n)
        assert step / 2 <= wait <= step
    assert len(set(waits[10:])) > 1000, "without jitter all pools retry at the same instant"


def test_a_rule_that_is_gone_is_forgotten(running, heard):
    there = [datetime.now(UTC) + FAR]
    wakeups = running(lambda _name: there.pop() if there else None, names=("a",))
    heard.until(lambda: len(heard.done) == 1 and wakeups.queue._timers)

    wakeups.wake("a")
    heard.until(lambda: heard.forgotten)

    assert (wakeups.queue._timers, wakeups._due) == ({}, {})


def test_stopping_lets_the_running_cycle_end_and_begins_no_other(heard):
    inside, leave = threading.Event(), threading.Event()
    looked = []

    def cycle(name):
        looked.append(name)
        inside.set()
        leave.wait(LIMIT)
        return later(name)

    pace = Pace(tick=FAR, workers=1)
    wakeups = Wakeups(cycle, lambda: ("a", "b"), SystemClock(), heard, pace)
    wakeups.start()
    inside.wait(LIMIT)

    in_time = wakeups.drain(timedelta(milliseconds=20))
    leave.set()

    assert not in_time
    assert wakeups.drain(timedelta(seconds=LIMIT))
    assert looked == ["a"]


def test_a_worker_that_hangs_is_named(running):
    inside, leave = threading.Event(), threading.Event()

    def cycle(name):
        inside.set()
        leave.wait(LIMIT)
        return later(name)

    wakeups = running(cycle, names=("stuck",))
    inside.wait(LIMIT)
    found = wakeups.trouble(timedelta(0))
    leave.set()

    assert any("rule stuck has run for" in line for line in found)


def test_a_list_of_rules_that_fails_is_asked_for_again(running, heard):
    answers = [OSError("away")]

    class Names:
        def __iter__(self):
            if answers:
                raise answers.pop()
            return iter(("a",))

    running(later, Names(), Pace(tick=timedelta(milliseconds=50)))
    heard.until(lambda: heard.done)

    assert list(heard.done) == ["a"]
