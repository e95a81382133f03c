"""What each forecaster says, on histories small enough to know the answer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from time import perf_counter
from zoneinfo import ZoneInfo

import pytest

from idlewin.core.forecast import Forecast
from idlewin.core.load import History
from idlewin.core.window import Span
from idlewin.forecasters import METHODS, forecaster
from idlewin.forecasters.oracle import Oracle
from idlewin.traces import about, busy_spans, history as recorded, load, sample

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
VIENNA = ZoneInfo("Europe/Vienna")
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)


def utc(at: datetime) -> datetime:
    return at


def vienna(at: datetime) -> datetime:
    return at.astimezone(VIENNA)


def a_history(
    busy: Iterable[Span] = (),
    *,
    days: float = 14,
    unknown: tuple[Span, ...] = (),
    serving_away: tuple[Span, ...] = (),
) -> History:
    covers = Span(MONDAY, MONDAY + days * DAY)
    return History(covers=covers, busy=tuple(busy), unknown=unknown, serving_away=serving_away)


def office(days: int = 14, zone: ZoneInfo | None = None) -> tuple[Span, ...]:
    """Demand from 08:00 to 18:00, Monday to Friday, in a zone's hours."""
    first = datetime(2026, 1, 5, tzinfo=zone or UTC)
    starts = (first + n * DAY + 8 * HOUR for n in range(days) if n % 7 < 5)
    return tuple(Span(at.astimezone(UTC), (at + 10 * HOUR).astimezone(UTC)) for at in starts)


def ask(
    method: str, known: History, *, now: datetime | None = None, idle_for: timedelta = HOUR
) -> Forecast:
    now = now or known.covers.end
    return forecaster(method, local=utc).forecast(known, now, now - idle_for)


# -- what all of them owe


@pytest.mark.parametrize("method", METHODS)
def test_a_clock_behind_the_history_is_not_believed(method: str) -> None:
    known = a_history(office())

    found = ask(method, known, now=known.covers.end - 30 * MINUTE)

    assert not found.ready
    assert found.chance(5 * MINUTE) == 0
    assert "30 min behind" in found.rests_on


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_that_is_idle_since_the_future_is_idle_for_no_time(method: str) -> None:
    known = a_history(office())

    assert (
        ask(method, known, idle_for=-HOUR).chances == ask(method, known, idle_for=0 * HOUR).chances
    )


@pytest.mark.parametrize("method", METHODS)
def test_demand_all_the_time_leaves_no_hope_of_idle_time(method: str) -> None:
    known = a_history((Span(MONDAY, MONDAY + 14 * DAY),))

    found = ask(method, known, idle_for=0 * HOUR)

    assert found.chance(30 * MINUTE) < 0.1
    assert found.idle_until(0.75) == found.made_at


@pytest.mark.parametrize("method", METHODS)
def test_never_any_demand_is_likely_idle_and_never_certain(method: str) -> None:
    found = ask(method, a_history(), idle_for=14 * DAY)

    assert 0.9 < found.chance(8 * HOUR) < found.chance(30 * MINUTE) < 1


@pytest.mark.parametrize("method", METHODS)
def test_unknown_time_counts_as_demand(method: str) -> None:
    runs = office()
    known, blind = a_history(runs), a_history((), unknown=runs)

    assert ask(method, blind).chances == ask(method, known).chances


@pytest.mark.parametrize("method", METHODS)
def test_busy_and_unknown_time_that_overlaps_is_one_run(method: str) -> None:
    runs = office()
    halves = tuple(Span(run.start + HOUR, run.end - HOUR) for run in runs)

    assert (
        ask(method, a_history(runs, unknown=halves)).chances == ask(method, a_history(runs)).chances
    )


@pytest.mark.parametrize("method", METHODS)
def test_a_day_is_told_in_steps_of_five_minutes(method: str) -> None:
    steps = [step for step, _ in ask(method, a_history(office())).chances]

    assert (steps[0], steps[-1], len(steps)) == (5 * MINUTE, DAY, 288)


def test_an_unknown_method_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ValueError, match="'sesonal' is not known; did you mean 'seasonal'"):
        forecaster("sesonal", local=utc)
    with pytest.raises(ValueError, match="'oracle' is not known; write one of persistence, season"):
        forecaster("oracle", local=utc)


# -- persistence


def test_persistence_without_history_follows_the_lindy_law() -> None:
    found = ask("persistence", a_history(days=1 / 24), idle_for=2 * HOUR)

    assert found.ready
    assert found.chance(2 * HOUR) == pytest.approx(0.5)
    assert found.chance(6 * HOUR) == pytest.approx(0.25)


def test_persistence_is_the_share_of_past_gaps_that_lasted_on() -> None:
    # Gaps of just 1, 2, 3 and 4 hours.
    ends = [MONDAY + hours * HOUR for hours in (1, 3, 6, 10, 15)]
    known = a_history(Span(end - HOUR if n else end - MINUTE, end) for n, end in enumerate(ends))

    found = ask("persistence", known, idle_for=90 * MINUTE)

    # Three of them lasted 90 minutes, of which two lasted 90 more; the law says one in two.
    assert found.chance(90 * MINUTE) == pytest.approx((2 + 0.5) / (3 + 1))
    assert found.rests_on.startswith("3 of 4 past gaps")


def test_persistence_counts_a_gap_with_a_window_of_ours_by_half() -> None:
    runs = tuple(Span(MONDAY + h * HOUR, MONDAY + h * HOUR + MINUTE) for h in (1, 2, 10))
    lent = (Span(MONDAY + 3 * HOUR, MONDAY + 9 * HOUR),)

    found = ask("persistence", a_history(runs, serving_away=lent), idle_for=30 * MINUTE)

    lindy = 30 / (30 + 60)
    assert found.chance(HOUR) == pytest.approx((0.5 + lindy) / (1.5 + 1))


# -- seasonal


def test_seasonal_needs_a_week_and_says_so() -> None:
    found = ask("seasonal", a_history(office(2), days=2))

    assert not found.ready
    assert found.rests_on == "needs 7 d, has 2 d"
    assert found.chance(5 * MINUTE) == 0


def test_seasonal_takes_what_was_never_recorded_for_a_shorter_history() -> None:
    young = (Span(MONDAY, MONDAY + 6 * DAY),)
    runs = tuple(run for run in office(28) if run.start >= MONDAY + 7 * DAY)
    whole = History(covers=Span(MONDAY + 6 * DAY, MONDAY + 16 * DAY), busy=runs[:7])

    padded = a_history(runs[:7], days=16, unknown=young)

    assert ask("seasonal", padded) == ask("seasonal", whole)
    assert ask("seasonal", a_history(runs[:5], days=12.9, unknown=young)).rests_on == (
        "needs 7 d, has 6.9 d"
    )
    assert ask("seasonal", a_history(unknown=(Span(MONDAY, MONDAY + 14 * DAY),))).rests_on == (
        "needs 7 d, has 0 d"
    )


def test_seasonal_knows_when_the_office_opens() -> None:
    known = a_history(office())
    found = ask("seasonal", known, now=MONDAY + 14 * DAY + HOUR, idle_for=60 * HOUR)

    opens = found.made_at + 7 * HOUR
    assert found.rests_on == "14 d of history, returns of demand: 10"
    assert opens - 45 * MINUTE <= found.idle_until(0.9) <= opens
    assert found.chance(8 * HOUR) < 0.15


def test_seasonal_tells_weekends_from_weekdays() -> None:
    known = a_history(office(), days=12)
    saturday = ask("seasonal", known, now=MONDAY + 12 * DAY + HOUR, idle_for=6 * HOUR)

    assert saturday.chance(12 * HOUR) > 0.7


@pytest.mark.parametrize("day", [28, 29])
def test_seasonal_follows_the_zone_over_a_clock_change(day: int) -> None:
    spring = datetime(2026, 3, 16, tzinfo=VIENNA)
    starts = [spring + n * DAY + 8 * HOUR for n in range(day - 15)]
    runs = tuple(Span(at.astimezone(UTC), at.astimezone(UTC) + 10 * HOUR) for at in starts)
    covers = Span(spring.astimezone(UTC), datetime(2026, 3, day, 21, tzinfo=UTC))
    known, now = History(covers=covers, busy=runs), covers.end

    ahead = {
        name: forecaster("seasonal", local=local).forecast(known, now, runs[-1].end)
        for name, local in (("vienna", vienna), ("utc", utc))
    }

    # The clock goes forward on the 29th: 08:00 in Vienna is 06:00 UTC then, no longer 07:00.
    before = datetime(2026, 3, day + 1, 6, 30, tzinfo=UTC) - now
    assert ahead["vienna"].chance(before) < 0.2
    assert ahead["utc"].chance(before) > 0.7


def test_seasonal_trusts_a_quiet_night_less_on_a_card_with_restless_days() -> None:
    visits = tuple(
        Span(run.start + n * HOUR, run.start + n * HOUR + 5 * MINUTE)
        for run in office()
        for n in range(10)
    )
    now = MONDAY + 14 * DAY + HOUR

    calm, restless = (
        ask("seasonal", a_history(runs), now=now, idle_for=60 * HOUR) for runs in (office(), visits)
    )

    assert restless.chance(2 * HOUR) < 0.985 < calm.chance(2 * HOUR)


def test_seasonal_believes_long_idleness_more_than_a_pause() -> None:
    # Each hour of the day begins with four visits 10 minutes apart, on every other day.
    visits = [
        MONDAY + n * DAY + hour * HOUR + m * MINUTE
        for n in range(0, 14, 2)
        for hour in range(24)
        for m in (0, 10, 20, 30)
    ]
    known = a_history(Span(at, at + MINUTE) for at in visits)

    pause, long = (ask("seasonal", known, idle_for=length) for length in (10 * MINUTE, DAY))

    assert pause.chance(30 * MINUTE) < long.chance(30 * MINUTE)


def test_seasonal_does_not_learn_from_failures_only_where_nights_are_lent() -> None:
    nights = tuple(
        Span(MONDAY + n * DAY + 20 * HOUR, MONDAY + (n + 1) * DAY + 6 * HOUR) for n in range(13)
    )
    early = Span(MONDAY + 3 * DAY + 2 * HOUR, MONDAY + 3 * DAY + 3 * HOUR)
    runs = tuple(sorted((*office(), early)))
    now = MONDAY + 14 * DAY + HOUR

    lent, seen = (
        ask("seasonal", a_history(runs, serving_away=away), now=now, idle_for=60 * HOUR)
        for away in (nights, ())
    )

    # One night in ten failed; that most were lent tells hardly more or less.
    assert lent.chance(2 * HOUR) == pytest.approx(0.9, abs=0.05)
    assert lent.chance(2 * HOUR) == pytest.approx(seen.chance(2 * HOUR), abs=0.02)
    assert lent.chances != seen.chances


def test_seasonal_is_the_same_after_a_restart_and_with_another_pool_between() -> None:
    known, other = a_history(office()), a_history(office()[:-1] + office()[-1:])
    moved = list(office())
    moved[3] = Span(moved[3].start - 3 * HOUR, moved[3].end)
    method = forecaster("seasonal", local=utc)
    now = known.covers.end

    first = method.forecast(known, now, now - HOUR)
    between = method.forecast(a_history(moved), now, now - HOUR)
    again = method.forecast(other, now, now - HOUR)

    assert first == again == ask("seasonal", known)
    assert between.chances != first.chances


def test_a_zone_that_is_not_told_is_an_error() -> None:
    blind = forecaster("seasonal", local=lambda at: at.replace(tzinfo=None))
    known = a_history(office())

    with pytest.raises(ValueError, match="give an instant's astimezone"):
        blind.forecast(known, known.covers.end, MONDAY)


def test_a_forecast_over_two_weeks_of_the_sample_is_made_in_under_two_milliseconds() -> None:
    told = about(sample())
    now = told.origin + 14 * DAY
    busy = busy_spans(load(sample())["language/m-mid#98"], told.origin)
    known = recorded(busy, Span(told.origin, now))

    for method in METHODS:
        made = forecaster(method, local=vienna)
        took = []
        for later in range(20):
            start = perf_counter()
            made.forecast(known, now + later * MINUTE, now - HOUR)
            took.append(perf_counter() - start)

        # The least of them: others may be using this machine.
        assert min(took) < 0.002


# -- oracle


def test_the_oracle_is_certain_up_to_the_next_demand_and_of_nothing_after() -> None:
    busy = (Span(MONDAY + 2 * HOUR, MONDAY + 3 * HOUR),)
    oracle = Oracle(busy, known_until=MONDAY + DAY)

    before, during, after = (
        oracle.forecast(a_history(), MONDAY + hours * HOUR, MONDAY) for hours in (1, 2.5, 4)
    )

    assert (before.chance(HOUR), before.chance(HOUR + MINUTE)) == (1, 0)
    assert before.idle_until(0.99) == MONDAY + 2 * HOUR
    assert during.idle_until(0.01) == during.made_at
    assert after.idle_until(0.99) == MONDAY + DAY
    assert oracle.forecast(a_history(), MONDAY + 2 * DAY, MONDAY).chances == ()
