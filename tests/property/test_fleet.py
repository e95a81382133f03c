"""Laws of a fleet's arrays, and of what is learnt from them: each against a plain count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import given, settings, strategies as st

from idlewin.core.load import History
from idlewin.core.window import Span, clipped, merged
from idlewin.forecasters.ahead import Asked
from idlewin.forecasters.fleet import DAY, Card, fleet, place
from idlewin.forecasters.hazard import Hazards
from idlewin.forecasters.kin import _busy as kin_quarters, kin, together
from idlewin.forecasters.plans import plans
from idlewin.forecasters.sample import part, sample

ORIGIN = datetime(2026, 3, 27, tzinfo=UTC)  # a clock change lies within
START = int(ORIGIN.timestamp() // 60)
DAYS = 4
COVERS = Span(ORIGIN, ORIGIN + timedelta(days=DAYS))
MINUTES = DAYS * DAY
ZONES = [ZoneInfo(name) for name in ("UTC", "Europe/Vienna", "Asia/Kathmandu")]


def _spans(pairs):
    made = (
        Span(ORIGIN + timedelta(minutes=a), ORIGIN + timedelta(minutes=a + n)) for a, n in pairs
    )
    return clipped(merged(made), COVERS)


RUNS = st.lists(
    st.tuples(st.integers(0, MINUTES - 1), st.integers(1, 900)), min_size=0, max_size=12
).map(_spans)


def _place(zone):
    return place(lambda at: at.astimezone(zone), COVERS)


@st.composite
def fleets(draw):
    places = [
        _place(zone) for zone in draw(st.lists(st.sampled_from(ZONES), min_size=1, max_size=2))
    ]
    cards = draw(st.integers(1, 4))
    return fleet(
        [
            Card(
                name=f"card-{n}",
                history=History(covers=COVERS, busy=draw(RUNS), serving_away=draw(RUNS)),
                place=draw(st.sampled_from(places)),
                group=draw(st.sampled_from(["", "one", "two"])),
            )
            for n in range(cards)
        ]
    )


def _busy(found, card):
    """Minute by minute."""
    busy = np.zeros(MINUTES, dtype=bool)
    for begin, end in zip(
        found.busy_from[found.card == card], found.busy_to[found.card == card], strict=True
    ):
        busy[begin - START : end - START] = True
    return busy


@settings(max_examples=40, deadline=None)
@given(found=fleets(), since=st.integers(0, MINUTES), length=st.integers(-15, MINUTES))
def test_kin_look_at_each_quarter_of_an_hour(found, since, length):
    until = min(since + length, MINUTES)
    told = kin_quarters(found, START + since, START + until)

    assert told.shape[1] == len(range(since, until, 15))
    for card in range(len(found.cards)):
        assert told[card].tolist() == _busy(found, card)[since : max(until, 0) : 15].tolist()


MOMENTS = st.lists(st.integers(0, MINUTES - 1), min_size=1, max_size=10)


@settings(max_examples=60, deadline=None)
@given(found=fleets(), moments=MOMENTS)
def test_demand_before_an_instant_is_what_a_count_of_minutes_says(found, moments):
    at = np.array(moments)
    for card in range(len(found.cards)):
        busy, cards = _busy(found, card), np.full(len(at), card)
        since = found.busy_before(cards, at + START) - found.busy_before(cards, 0 * at + START)
        runs = found.runs_before(cards, at + START) - found.runs_before(cards, 0 * at + START)
        begins = busy & ~np.concatenate(([False], busy[:-1]))

        assert since.tolist() == [int(busy[:moment].sum()) for moment in moments]
        assert runs.tolist() == [int(begins[:moment].sum()) for moment in moments]
        assert found.is_busy(cards, at + START).tolist() == busy[at].tolist()


@settings(max_examples=60, deadline=None)
@given(found=fleets(), until=st.integers(1, MINUTES))
def test_gaps_are_all_idle_time_up_to_an_instant(found, until):
    gaps = found.gaps(START + until)
    for card in range(len(found.cards)):
        idle, own = np.zeros(until, dtype=bool), gaps.card == card
        for begin, end in zip(gaps.start[own] - START, gaps.end[own] - START, strict=True):
            assert not idle[begin:end].any()
            idle[begin:end] = True

        busy = _busy(found, card)
        assert (idle == ~busy[:until]).all()
        # One that has ended ends where demand begins; the others are cut by the instant.
        for end, ended in zip(gaps.end[own] - START, gaps.ended[own], strict=True):
            assert end < until or not ended or busy[end]
            assert ended == (end < until)


@settings(max_examples=60, deadline=None)
@given(found=fleets(), data=st.data())
def test_some_cards_of_a_fleet_have_the_demand_that_they_had_in_it(found, data):
    cards = sorted(data.draw(st.sets(st.integers(0, len(found.cards) - 1), min_size=1)))
    some = part(found, np.array(cards))
    at = np.array([START, START + MINUTES])

    assert some.cards == tuple(found.cards[card] for card in cards)
    for number, card in enumerate(cards):
        assert (_busy(some, number) == _busy(found, card)).all()
        assert some.group[number] == found.group[card]
        both = [of.local(np.full(2, n), at)[0] for of, n in ((some, number), (found, card))]
        assert (both[0] == both[1]).all()
        away = [list(_away(of, n, MINUTES)) for of, n in ((some, number), (found, card))]
        assert away[0] == away[1]


@settings(max_examples=40, deadline=None)
@given(found=fleets(), most=st.integers(1, 4))
def test_a_sample_cuts_one_group_at_most(found, most):
    some = sample(found, most)

    assert len(some.cards) == min(most, len(found.cards))
    whole = {card: int(group) for card, group in zip(found.cards, found.group, strict=True)}
    kept = [whole[card] for card in some.cards]
    cut = [g for g in set(kept) if kept.count(g) < list(whole.values()).count(g)]
    assert len(cut) <= 1


@settings(max_examples=60, deadline=None)
@given(found=fleets())
def test_plans_cover_each_gap_from_its_first_minute_to_its_last(found):
    gaps = found.gaps()
    made = plans(gaps)
    for gap in range(len(gaps)):
        own = made.gap == gap
        ends = made.at[own] + 5 * made.steps[own]

        assert made.at[own][0] == gaps.start[gap]
        assert (made.at[own][1:] == ends[:-1]).all()
        assert gaps.end[gap] <= ends[-1] < gaps.end[gap] + 5


@settings(max_examples=40, deadline=None)
@given(found=fleets(), moment=st.integers(DAY, MINUTES), reach=st.integers(1, 600))
def test_cards_together_are_the_mean_of_each(found, moment, reach):
    numbers = found.group
    everybody = int(numbers.max()) + 1
    both = together(found, numbers, np.full_like(numbers, everybody))
    for number in range(everybody + 1):
        cards = np.nonzero((numbers == number) | (number == everybody))[0]
        busy = np.mean([_busy(found, card)[moment - reach : moment].mean() for card in cards])
        told = both.busy(
            np.array([number]), np.array([START + moment - reach]), np.array([START + moment])
        )
        assert abs(float(told[0]) - busy) < 1e-9


@settings(max_examples=40, deadline=None)
@given(found=fleets(), until=st.integers(1, MINUTES - 1), data=st.data())
def test_nothing_later_than_the_instant_is_learnt(found, until, data):
    """The same past with another future: the same rates."""
    other = fleet(
        [
            Card(
                name=name,
                history=History(
                    covers=COVERS,
                    busy=clipped(
                        merged((*_past(found, card, until), *_later(data.draw(RUNS), until))),
                        COVERS,
                    ),
                    serving_away=_away(found, card, until),
                ),
                place=found.places[found.place_of[card]],
                group=str(found.group[card]),
            )
            for card, name in enumerate(found.cards)
        ]
    )
    cards = np.arange(len(found.cards))
    asked = Asked(cards, np.full(len(cards), START + until), np.full(len(cards), 45))
    for method in (Hazards(), Hazards(hours=False)):
        one = method.fit(found, START + until).rates(found, asked)
        two = method.fit(other, START + until).rates(other, asked)

        assert np.allclose(one, two)
    assert (kin(found, START + until) == kin(other, START + until)).all()


def _past(found, card, until):
    own = found.card == card
    for begin, end in zip(found.busy_from[own], found.busy_to[own], strict=True):
        if begin < START + until:
            yield Span(_at(begin), _at(min(end, START + until)))


def _later(spans, until):
    """Demand after the instant; a minute lies between, so that no earlier run goes on."""
    return clipped(spans, Span(_at(START + until + 1), COVERS.end)) if until + 1 < MINUTES else ()


def _away(found, card, until):
    cards, begins, ends = found.away
    own = (cards == card) & (begins < START + until)
    return tuple(
        Span(_at(begin), _at(end)) for begin, end in zip(begins[own], ends[own], strict=True)
    )


def _at(minute):
    return datetime.fromtimestamp(int(minute) * 60, UTC)
