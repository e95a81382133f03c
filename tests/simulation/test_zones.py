"""The clock changes of the stories are real, and windows keep to the hours on the wall in them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from idlewin.core.calendar import Calendar
from idlewin.core.phase import Phase
from idlewin.core.window import Span
from idlewin.sim.demand import Demand
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import REF, a_job, a_rule, a_setup
from tests.simulation.swarm import controller
from tests.simulation.zones import CHANGES, SECOND, open_at


@pytest.mark.parametrize(("zone", "at"), CHANGES)
def test_the_clocks_change_there_and_then(zone: str, at: datetime) -> None:
    before, after = ((at - by).astimezone(ZoneInfo(zone)) for by in (SECOND, 0 * SECOND))

    assert before.utcoffset() != after.utcoffset()


@pytest.mark.parametrize(("zone", "at"), CHANGES)
def test_a_window_over_a_clock_change_keeps_to_the_hours_on_the_wall(
    zone: str, at: datetime
) -> None:
    local = at.astimezone(ZoneInfo(zone))
    span = f"{(local - timedelta(hours=3)):%H:%M}-{(local + timedelta(hours=2)):%H:%M}"
    calendar = Calendar(time_zone=zone, allow=(span,))
    rule = a_rule()
    rule = replace(rule, window=replace(rule.window, calendar=calendar))
    start = at - timedelta(hours=5)
    demand = {REF: Demand([Span(start + timedelta(hours=20), start + timedelta(hours=21))])}
    world = World(
        seed=1,
        start=start,
        setups=[a_setup(rule, demand=demand, jobs=(a_job(),))],
        controller=controller,
    )
    Conduct(Checks(world))

    world.run(start + timedelta(hours=12))

    assert [c.after for c in world.chronicle.changes] == [
        *(Phase.YIELDING, Phase.HARVESTING, Phase.RECLAIMING, Phase.RESTORING, Phase.SERVING),
    ]
    first, last = world.chronicle.changes[0].at, world.chronicle.changes[-1].at
    assert first < at < last
    assert open_at(calendar, first)
    assert open_at(calendar, last)
