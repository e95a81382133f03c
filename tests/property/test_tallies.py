"""Laws of tallies: when one is written, what holds a window back in it, what is not believed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, strategies as st

from idlewin.core.account import PERIOD
from idlewin.core.decide import decide
from idlewin.core.rule import Mode
from idlewin.core.tally import Tallies, WouldBe
from tests.builders import MINUTE, NOW, a_rule, a_situation
from tests.unit.test_tallying import after, busy, observed

FAR = st.integers(1, 10**9).map(lambda n: PERIOD + n * timedelta(minutes=1)) | st.integers(
    1, 10**6
).map(lambda n: -PERIOD - n * timedelta(minutes=1))


@given(FAR)
def test_what_a_clock_gone_wrong_has_put_far_away_is_forgotten(by):
    far = NOW + by

    assert after(observed(WouldBe(opened_at=far))).would_be.opened_at == NOW
    assert after(observed(WouldBe(back_at=far))).observe.late_returns == 0
    assert after(observed(WouldBe(again_at=far))).observe.windows == 1


@pytest.mark.parametrize(
    "would",
    [
        WouldBe(again_at=NOW + MINUTE),
        WouldBe(windows_today=a_rule().window.max_per_day, day="2026-03-04"),
    ],
    ids=["minServing", "maxPerDay"],
)
def test_the_pace_of_a_rule_holds_back_what_would_open_too(would):
    assert after(observed(would)).observe.windows == 0


def test_a_tally_alone_is_no_reason_to_write():
    quiet = a_situation(rule=a_rule(mode=Mode.OBSERVE), load=busy())
    known = replace(quiet, object=replace(quiet.object, status=decide(quiet).status))
    lost = replace(known, object=replace(known.object, status=replace(
        known.object.status, tallies=Tallies()
    )))  # fmt: skip

    assert decide(lost).actions == ()
    assert decide(quiet).status.tallies.observe.since == NOW
