"""A window that would be open in Observe, followed step by step; what was, in Act; their words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.cli.status import _more
from idlewin.codec import read_status, write_status
from idlewin.core.decide import decide
from idlewin.core.load import Level, Load
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode
from idlewin.core.status import Status
from idlewin.core.tally import Tallies, Tally, WouldBe
from idlewin.core.tallying import told
from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_pool,
    a_rule,
    a_situation,
    a_status,
    a_target,
    a_window,
    an_outlook,
)

SINCE = NOW - 48 * HOUR
#: In Observe, as builders have it: lead time 2 min, grace 1 min, a second a card, 5 s to settle.
BACK = 3 * MINUTE + timedelta(seconds=6)
OPENING = 2 * MINUTE


def observed(would=None, load=None, rule=None, tally=None, **changes):
    tallies = Tallies(observe=tally or Tally(since=SINCE), would_be=would or WouldBe())
    return a_situation(
        rule=rule or a_rule(mode=Mode.OBSERVE),
        status=a_status(tallies=tallies),
        **({"load": load} if load else {}),
        **changes,
    )


def after(situation) -> Tallies:
    return decide(situation).status.tallies


def busy(minutes=1):
    return Load(level=Level.BUSY, since=NOW - minutes * MINUTE, why="users")


def test_a_window_would_open_where_all_else_holds():
    tallies = after(observed())

    assert tallies.observe.windows == 1
    assert tallies.would_be.opened_at == NOW
    assert decide(observed()).after is Phase.SERVING


def test_a_user_ends_it_and_waits_for_as_long_as_a_return_is_planned_to_take():
    would = WouldBe(opened_at=NOW - HOUR)
    ended = after(observed(would, busy()))

    came = NOW - MINUTE
    assert ended.observe.lent_card_seconds == (59 * MINUTE - OPENING).total_seconds()
    assert ended.would_be == WouldBe(opened_at=NOW - HOUR, back_at=came + BACK, wanted_at=came)

    again = replace(observed(ended.would_be, busy(), tally=ended.observe), now=came + BACK)
    done = after(again)

    assert done.observe.late_returns == 1
    assert done.observe.waited_seconds == BACK.total_seconds()
    assert done.observe.longest_wait_seconds == BACK.total_seconds()
    assert done.would_be == WouldBe(again_at=came + BACK + a_rule().window.min_serving)


def test_a_planned_end_is_in_time_and_a_user_who_comes_before_serving_would_be_back_is_late():
    would = WouldBe(opened_at=NOW - HOUR)
    soon = an_outlook(4 * MINUTE)
    ended = after(observed(would, outlook=soon))
    back = ended.would_be.back_at

    assert back == NOW + BACK
    assert ended.would_be.wanted_at is None

    idle = replace(observed(ended.would_be), now=back)
    late = replace(
        observed(ended.would_be), now=back + HOUR, load=replace(busy(), since=back - MINUTE)
    )
    after_it = replace(late, load=replace(busy(), since=back + MINUTE))

    assert after(idle).observe.late_returns == 0
    assert after(late).observe == Tally(
        since=SINCE, late_returns=1, waited_seconds=60, longest_wait_seconds=60
    )
    assert after(after_it).observe.late_returns == 0


@pytest.mark.parametrize(
    ("changes", "ends"),
    [
        ({}, False),
        ({"load": Load(level=Level.UNKNOWN, since=NOW - MINUTE, why="x")}, False),
        ({"load": Load(level=Level.UNKNOWN, since=NOW - HOUR, why="x")}, True),
        ({"rule": a_rule(mode=Mode.OBSERVE, paused=True)}, True),
        ({"would": WouldBe(opened_at=NOW - 13 * HOUR)}, True),
    ],
    ids=["idle", "unknown", "unknown for long", "paused", "window.max"],
)
def test_it_ends_when_a_window_would(changes, ends):
    would = changes.get("would") or WouldBe(opened_at=NOW - HOUR)
    others = {name: value for name, value in changes.items() if name != "would"}

    assert (after(observed(would, **others)).would_be.back_at is not None) is ends


def test_it_is_looked_at_again_when_it_would_end():
    decision = decide(
        observed(WouldBe(opened_at=NOW - 30 * MINUTE), outlook=an_outlook(40 * MINUTE))
    )

    assert NOW < decision.revisit_at < NOW + 40 * MINUTE


def test_in_act_the_same_is_counted_of_what_was():
    lending = a_situation(
        Phase.HARVESTING,
        status=a_status(
            Phase.HARVESTING,
            window=a_window(count=2),
            since=NOW - HOUR,
            tallies=Tallies(act=Tally(since=SINCE, windows=1)),
        ),
        load=busy(),
    )
    ended = decide(lending)

    assert ended.reason is not Reason.HARVESTING
    assert ended.status.tallies.act.lent_card_seconds == 7200

    window = a_window(give_back=Reason.DEMAND_RETURNED.value, restoring_since=NOW - MINUTE)
    status = a_status(
        Phase.RESTORING,
        window=window,
        tallies=Tallies(act=Tally(since=SINCE, windows=1), wanted_at=NOW - 4 * MINUTE),
    )
    target = replace(a_target(), replicas=2, ready=2)
    back = a_situation(Phase.RESTORING, status=status, pool=a_pool(targets=(target,)))

    act = after(back).act
    assert decide(back).status.counters.late_returns == act.late_returns == 1
    assert act.waited_seconds == 240


def test_who_switches_the_mode_keeps_the_other_tally_as_it_was():
    observe = Tally(since=SINCE, windows=7)
    status = a_status(tallies=Tallies(observe=observe, would_be=WouldBe(opened_at=NOW - HOUR)))

    tallies = after(a_situation(status=status))

    assert tallies.observe == replace(observe, until=NOW)
    assert tallies.act == Tally(since=NOW, windows=1)
    assert tallies.would_be is None


def test_both_are_stored_and_stand_in_the_wide_table():
    tallies = Tallies(
        observe=Tally(since=SINCE, until=NOW, windows=1, lent_card_seconds=5400, late_returns=1),
        would_be=WouldBe(opened_at=NOW, day="2026-03-04", windows_today=1),
    )
    status = a_status(tallies=tallies)

    assert read_status(write_status(status)) == (status, "")
    assert "tallies" not in write_status(Status())
    assert _more(a_situation(status=status).object)[-2:] == ["1.5 card-h, 1 late", ""]


@pytest.mark.parametrize("rubbish", ["soon", {"observe": {"since": "2026-03-04T01:00:00"}}])
def test_rubbish_in_its_place_hides_nothing_else_of_a_status(rubbish):
    stored = write_status(a_status(Phase.HARVESTING, window=a_window())) | {"tallies": rubbish}

    status, error = read_status(stored)

    assert error == ""
    assert status.window == a_window()
    assert decide(a_situation(status=status)).reason


def test_both_are_told_in_words():
    tallies = Tallies(
        observe=Tally(
            since=SINCE, until=NOW, windows=1, lent_card_seconds=5400, late_returns=1,
            longest_wait_seconds=300,
        ),
        act=Tally(since=NOW, windows=2, lent_card_seconds=3600),
    )  # fmt: skip

    assert told(tallies) == (
        (
            "in Observe, since 2026-03-02T01:00:00Z until 2026-03-04T01:00:00Z: would have lent "
            "1.5 card-h in 1 window, late once, by 5 min at most"
        ),
        "in Act, since 2026-03-04T01:00:00Z: lent 1.0 card-h in 2 windows, late 0 times",
    )
    assert told(Status().tallies) == ()
