"""What time it is: the API server's, whatever is done to the clock of the machine."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from idlewin.adapters.clock import AGREE, BELIEVED, FORGOTTEN, ServerClock, TimedMetrics
from idlewin.core.load import History, Level, Reading, judge
from idlewin.core.window import Span
from tests.builders import a_rule

NOW = datetime(2026, 3, 2, 12, 0, 0, 600_000, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


class Machine:
    """A machine whose wall clock the test sets, beside a server that goes right."""

    def __init__(self):
        self.passed, self.wall = 1000.0, NOW - HOUR

    def now(self):
        return self.wall

    def monotonic(self):
        return self.passed

    def true(self):
        return NOW + timedelta(seconds=self.passed - 1000)


@pytest.fixture
def machine():
    return Machine()


@pytest.fixture
def clock(machine):
    return ServerClock(machine)


def date(at):
    return format_datetime(at.astimezone(UTC), usegmt=True)


def answers(machine, clock, *, off=timedelta(), after=1.0, takes=0.0):
    """An answer of the server, some seconds later; ``off``: of one whose clock is wrong."""
    machine.passed += after
    sent = machine.passed
    told = date(machine.true() + off)
    machine.passed += takes
    clock.heard(told, sent)


def lag(machine, clock):
    return (machine.true() - clock.now()).total_seconds()


def test_before_the_first_answer_it_is_the_machines_time_and_in_doubt(machine, clock):
    assert clock.now() == machine.wall
    assert "has not told the time yet" in clock.doubt()


@pytest.mark.parametrize("text", [None, "", "soon", "Mon, 99 Foo 2026 12:00:00 GMT"])
def test_an_answer_without_a_date_tells_nothing(clock, text):
    clock.heard(text, 0.0)

    assert "has not told the time yet" in clock.doubt()


def test_the_first_answer_is_believed_to_the_second_and_later_ones_make_it_finer(machine, clock):
    answers(machine, clock)
    assert 0 <= lag(machine, clock) < 1

    for _ in range(20):
        answers(machine, clock, after=1.07)

    assert 0 <= lag(machine, clock) < 0.1
    assert clock.doubt() == ""


def test_a_machine_whose_clock_is_set_otherwise_changes_nothing(machine, clock):
    answers(machine, clock)
    before = clock.now()

    for step in (HOUR, -3 * HOUR, timedelta(days=365)):
        machine.wall += step

    assert (clock.now(), clock.doubt()) == (before, "")


def test_a_slow_answer_does_not_set_it_back(machine, clock):
    for _ in range(10):
        answers(machine, clock, after=1.07)
    before = lag(machine, clock)

    answers(machine, clock, takes=14.0)

    assert lag(machine, clock) == pytest.approx(before)


@pytest.mark.parametrize("rate", [0.9999, 1.0001])
def test_it_stays_within_a_second_of_a_server_that_goes_at_another_rate(machine, clock, rate):
    for _ in range(2000):
        machine.passed += 30
        told = NOW + timedelta(seconds=(machine.passed - 1000) * rate)
        clock.heard(date(told), machine.passed)
        assert abs((told - clock.now()).total_seconds()) <= 1


@pytest.mark.parametrize("off", [HOUR, -HOUR, timedelta(minutes=1), timedelta(minutes=-1)])
def test_one_date_that_says_otherwise_is_not_believed_but_a_reason_to_doubt(machine, clock, off):
    answers(machine, clock)

    answers(machine, clock, off=off)

    assert 0 <= lag(machine, clock) < 1
    assert (
        f"{abs(off) / SECOND:.0f} s {'ahead of' if off > HOUR * 0 else 'behind'}" in clock.doubt()
    )

    answers(machine, clock)
    assert clock.doubt()
    answers(machine, clock, after=FORGOTTEN)

    assert clock.doubt() == ""


@pytest.mark.parametrize("off", [HOUR, -HOUR])
def test_when_all_answers_say_otherwise_for_a_while_they_are_believed(machine, clock, off):
    answers(machine, clock)

    for _ in range(int(BELIEVED)):
        answers(machine, clock, off=off)
        assert clock.doubt()
    answers(machine, clock, off=off)

    assert clock.doubt() == ""
    assert 0 <= (machine.true() + off - clock.now()).total_seconds() < 1


def test_two_servers_whose_clocks_differ_leave_it_in_doubt_and_do_not_move_it(machine, clock):
    answers(machine, clock)

    for _ in range(50):
        answers(machine, clock, off=HOUR)
        assert clock.doubt()
        assert 0 <= lag(machine, clock) < 1
        answers(machine, clock)
        assert clock.doubt()


def test_answers_by_turns_seldom_as_they_are_move_nothing(machine, clock):
    answers(machine, clock)

    for after in (1.0, 4.0, 11.0, 9.0) * 10:
        answers(machine, clock, off=HOUR, after=after)
        answers(machine, clock, after=after / 2)
        assert 0 <= lag(machine, clock) < 1


def test_servers_that_differ_by_seconds_are_one_clock(machine, clock):
    for n in range(50):
        answers(machine, clock, off=SECOND * (AGREE / 2) * (n % 2))
        assert clock.doubt() == ""


class Quiet:
    """No demand, and a past in which there was none."""

    def read(self, _rule):
        return (
            Reading(target="t", name="waiting", value=0.0, busy_above=0.0, visible_at_zero=True),
        )

    def history(self, _rule, past, _step):
        return History(covers=Span(NOW - past, NOW))


def test_in_doubt_demand_is_unknown_whatever_is_shown_of_it(machine, clock):
    metrics = TimedMetrics(Quiet(), clock)

    before = judge(metrics.read(a_rule()))
    answers(machine, clock)
    after = judge(metrics.read(a_rule()))

    assert before == (Level.UNKNOWN, "the time: the API server has not told the time yet")
    assert after[0] is Level.IDLE
    assert metrics.history(a_rule(), HOUR, SECOND).covers == Span(NOW - HOUR, NOW)
