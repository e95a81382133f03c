"""What lending brought and cost, on spans that are small enough to count by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from idlewin.core.phase import Phase
from idlewin.core.score import (
    NO_SCORE,
    Delays,
    Timeline,
    foreseen,
    gaps,
    reactive,
    score,
    waits,
)
from idlewin.core.window import Span

MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
DAY = Span(MIDNIGHT, MIDNIGHT + timedelta(days=1))


def at(minute: float) -> datetime:
    return MIDNIGHT + timedelta(minutes=minute)


def runs(*pairs: tuple[float, float]) -> tuple[Span, ...]:
    return tuple(Span(at(start), at(end)) for start, end in pairs)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def lived(*phases: tuple[float, Phase], batch: tuple[Span, ...] = ()) -> Timeline:
    return Timeline(phases=tuple((at(minute), phase) for minute, phase in phases), batch=batch)


LENT = (
    (0, Phase.SERVING),
    (70, Phase.YIELDING),
    (72, Phase.HARVESTING),
    (150, Phase.RECLAIMING),
    (152, Phase.RESTORING),
    (155, Phase.SERVING),
)
ONE_GAP = runs((0, 60), (160, 200))


def test_a_window_that_ends_before_demand_is_on_time() -> None:
    found = score(ONE_GAP, lived(*LENT, batch=runs((72, 150))), DAY)

    assert found.harvested == minutes(78)
    assert found.oracle == minutes(100 - 2 - 5)
    assert (found.windows, found.on_time, found.late_returns, found.handovers) == (1, 1, 0, 2)
    assert found.serving_away_while_demand == timedelta()


def test_demand_that_finds_serving_on_its_way_back_is_late_and_the_wait_is_owed() -> None:
    busy = runs((0, 60), (153, 200))

    found = score(busy, lived(*LENT, batch=runs((72, 150))), DAY)

    assert (found.late_returns, found.on_time) == (1, 0)
    assert found.serving_away_while_demand == minutes(2)


def test_several_runs_of_demand_in_one_absence_are_one_late_return() -> None:
    busy = runs((0, 60), (100, 101), (105, 106), (150, 200))
    timeline = lived(*LENT, batch=runs((72, 150)))

    found = score(busy, timeline, DAY)

    assert found.late_returns == 1
    assert found.serving_away_while_demand == minutes(1 + 1 + 5)
    assert [wait.start for wait in waits(busy, timeline, DAY)] == [at(100)]


def test_batch_that_runs_beside_demand_is_not_harvest() -> None:
    busy = runs((0, 60), (140, 200))

    found = score(busy, lived(*LENT, batch=runs((72, 150))), DAY)

    assert found.harvested == minutes(140 - 72)


def test_idle_time_after_the_last_demand_counts_for_nobody() -> None:
    timeline = lived((0, Phase.SERVING), (210, Phase.HARVESTING), batch=runs((210, 24 * 60)))

    found = score(ONE_GAP, timeline, DAY)

    assert (found.harvested, found.windows, found.late_returns) == (timedelta(), 0, 0)
    assert found.oracle == minutes(93)


def test_an_absence_that_was_given_up_before_batch_ran_is_no_window_but_can_be_late() -> None:
    busy = runs((0, 60), (71, 200))
    timeline = lived(
        (0, Phase.SERVING), (70, Phase.YIELDING), (72, Phase.RESTORING), (75, Phase.SERVING)
    )

    found = score(busy, timeline, DAY)

    assert (found.windows, found.late_returns, found.handovers) == (0, 1, 2)


def test_an_absence_that_began_before_the_stretch_still_counts() -> None:
    later = Span(at(100), at(200))

    found = score(runs((0, 60), (153, 200)), lived(*LENT, batch=runs((72, 150))), later)

    assert (found.windows, found.late_returns) == (1, 1)
    assert found.harvested == minutes(50)
    assert found.oracle == minutes(53 - 7)


def test_an_absence_that_never_ends_is_never_on_time() -> None:
    timeline = lived((0, Phase.SERVING), (70, Phase.HARVESTING))

    found = score(ONE_GAP, timeline, DAY)

    assert (found.windows, found.on_time, found.late_returns, found.handovers) == (1, 0, 1, 1)
    assert found.serving_away_while_demand == minutes(40)


def test_without_demand_nothing_is_won_or_lost() -> None:
    assert score((), lived(*LENT, batch=runs((72, 150))), DAY) == NO_SCORE
    assert waits((), lived(*LENT), DAY) == ()


def test_constant_demand_leaves_nothing_to_harvest() -> None:
    found = score((DAY,), reactive((DAY,), DAY), DAY)

    assert found == NO_SCORE
    assert found.share == 0


def test_the_reactive_rule_is_late_at_each_gap_that_it_opened() -> None:
    busy = runs((0, 60), (69, 80), (91, 100), (200, 230), (400, 500))

    found = score(busy, reactive(busy, DAY), DAY)

    # Gaps of 9, 11, 100 and 170 minutes: the first is too short to open, the second for batch.
    assert found.late_returns == 3
    assert (found.windows, found.on_time) == (2, 0)
    assert found.harvested == minutes((100 - 12) + (170 - 12))
    assert found.serving_away_while_demand == minutes(3 * 5)


def test_the_reactive_rule_opens_no_new_window_before_serving_is_back() -> None:
    busy = runs((0, 60), (100, 101), (200, 210))
    slow = Delays(back=minutes(30))

    timeline = reactive(busy, DAY, slow)

    assert [when for when, phase in timeline.phases if phase is Phase.YIELDING] == [
        at(70),
        at(130),
    ]


def test_the_oracle_rule_harvests_all_that_can_be_had_and_is_never_late() -> None:
    busy = runs((0, 60), (66, 80), (180, 200), (900, 1000))

    found = score(busy, foreseen(busy, DAY), DAY)

    assert found.harvested == found.oracle == minutes((100 - 7) + (700 - 7))
    assert found.share == 1
    assert (found.windows, found.on_time, found.late_returns) == (2, 2, 0)


def test_scores_of_cards_add_up() -> None:
    one = score(ONE_GAP, lived(*LENT, batch=runs((72, 150))), DAY)

    both = sum((one, one), NO_SCORE)

    assert both.harvested == 2 * one.harvested
    assert (both.windows, both.share) == (2, one.share)


def test_a_gap_ends_with_demand_and_may_begin_with_the_stretch() -> None:
    assert gaps(runs((30, 60), (50, 70), (100, 110)), DAY) == runs((0, 30), (70, 100))


def test_a_timeline_out_of_order_is_an_error() -> None:
    with pytest.raises(ValueError, match="out of order; sort them"):
        lived((5, Phase.YIELDING), (0, Phase.SERVING))
