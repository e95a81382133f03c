"""What Observe says it would have lent, held against what Act lends on the same demand."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core.decision import Remember
from idlewin.core.forecast import LONG, Forecast
from idlewin.core.rule import Mode, WindowPolicy
from idlewin.core.tally import Tallies, Tally
from idlewin.core.window import Span
from idlewin.forecasters.oracle import NEVER_LATE
from idlewin.sim.people import People
from tests.simulation.guess import Guess
from tests.simulation.scenery import NAME, START, a_rule, minutes
from tests.simulation.test_lending import a_life

HOUR = timedelta(hours=1)
END = START + 28 * HOUR
#: Users who come for a minute and for hours; far enough apart to lend between.
CALLS = tuple(
    Span(START + hour * HOUR, START + hour * HOUR + minutes(length))
    for hour, length in ((4, 1), (9, 90), (16, 6), (24, 100))
)


class Blind(Guess):
    """It sees nobody coming, and fears nobody: each window ends by a user, or by its length."""

    def forecast(self, rule, history, now, idle_since):  # noqa: ARG002
        return Forecast(method="blind", made_at=now, chances=((LONG, 1.0),), rests_on="nothing")


class Seer(Guess):
    """It sees the next user, and nothing else."""

    def forecast(self, rule, history, now, idle_since):  # noqa: ARG002
        changes = [d.next_change(now) for d in self._world.metrics.demand.values()]
        left = min([at - now for at in changes if at], default=LONG)
        return Forecast(
            method="seer", made_at=now, chances=((left, 1.0),), rests_on="x", price=NEVER_LATE
        )


def the_rule(mode: Mode):
    window = WindowPolicy(idle_for=minutes(5), min=minutes(20), max=minutes(180), max_per_day=20)
    return replace(a_rule(window=window), mode=mode)


def lived(mode: Mode) -> tuple[Tallies, int]:
    """The tallies at the end, and how often the status was written."""
    world = a_life(the_rule(mode), calls=CALLS)
    apply, wrote = world.cluster.apply, []
    world.cluster.apply = lambda action: wrote.append(type(action)) or apply(action)
    world.run(END)
    return world.objects.rules[NAME].status.tallies, wrote.count(Remember)


@pytest.mark.parametrize(("kind", "late"), [(Blind, 4), (Seer, 0)])
def test_observe_and_act_agree_on_the_same_demand(kind, late, monkeypatch):
    monkeypatch.setattr("tests.simulation.swarm.Guess", kind)

    (told, seldom), (was, often) = lived(Mode.OBSERVE), lived(Mode.ACT)
    observed, acted = told.observe, was.act

    # Observe has measured nothing: an opening counts two minutes and a return what is planned for
    # it, where a cluster takes what it takes; and it cannot know that a queue would run dry.
    assert seldom <= often
    print(f"status written {seldom} and {often} times\nobserved {observed}\nacted {acted}")
    assert acted.windows >= 6
    assert acted.late_returns == observed.late_returns == late
    assert abs(observed.windows - acted.windows) <= 1
    assert observed.lent_card_seconds == pytest.approx(acted.lent_card_seconds, rel=0.1)
    if late:
        assert acted.waited_seconds > 0
        assert observed.longest_wait_seconds <= 20 * 60


def test_who_goes_from_observe_to_act_sees_both(monkeypatch):
    monkeypatch.setattr("tests.simulation.swarm.Guess", Seer)
    world = a_life(the_rule(Mode.OBSERVE), calls=CALLS)
    world.run(START + 6 * HOUR)
    People(world).edit(NAME, the_rule(Mode.ACT))
    world.run(START + 9 * HOUR)

    tallies = world.objects.rules[NAME].status.tallies

    assert tallies.observe.windows >= 1
    assert tallies.observe.until is not None
    assert abs(tallies.observe.until - (START + 6 * HOUR)) <= minutes(1)
    assert tallies.act.windows >= 1
    assert tallies.act.since == tallies.observe.until


def test_a_tally_begins_anew_where_the_status_is_lost(monkeypatch):
    monkeypatch.setattr("tests.simulation.swarm.Guess", Seer)
    world = a_life(the_rule(Mode.OBSERVE), calls=CALLS)
    world.run(START + 6 * HOUR)
    rule = world.objects.rules[NAME]
    before = rule.status.tallies.observe
    rule.status = None
    world.run(START + 8 * HOUR)

    after = rule.status.tallies.observe

    assert before.windows >= 1
    assert before != Tally(since=before.since)
    assert after.since >= START + 6 * HOUR
    assert after.windows <= 2
