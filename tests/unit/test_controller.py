"""One cycle after another, in a cluster that answers slowly, late or not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.controller import Controller, Ports
from idlewin.core.decision import Outcome, Remember, ScaleToZero, Verdict
from idlewin.core.phase import Phase
from idlewin.core.pool import Record
from idlewin.core.reason import Reason
from idlewin.core.rule import WindowPolicy
from idlewin.core.target import Ref
from tests.builders import MINUTE, NOW, a_pool, a_rule, a_situation, a_target, with_rule

SECOND = timedelta(seconds=1)
NAMES = ("a", "b", "c", "d", "e", "f")


class Clock:
    """Time passes only where a write takes some."""

    def __init__(self):
        self.at = NOW

    def now(self):
        return self.at


class Cluster:
    """A pool of six targets that the calendar alone puts away; it keeps what is written."""

    def __init__(self, clock):
        self.clock, self.takes, self.unanswered, self.away = clock, timedelta(), 0, False
        serving = a_rule().serving[0]
        rule = a_rule(
            serving=tuple(replace(serving, name=name, demand="CalendarOnly") for name in NAMES),
            window=WindowPolicy(idle_for=SECOND, min_serving=SECOND),
        )
        self.stored = with_rule(a_situation(rule=rule), status=None).object
        targets = (a_target(ref=_ref(name), uid=name, claims=0) for name in NAMES)
        self.pool = a_pool(targets=tuple(targets), pods=())
        self.lowered = []
        self.on_write = lambda: None

    def names(self):
        return [self.stored.name]

    def rule(self, _name):
        return self.stored

    def look(self, _scope, **_how):
        return self.pool

    def announce(self, decision):
        pass

    def rehearse(self, actions):
        self.unanswered -= 1
        verdict = Verdict.FAILED if self.unanswered >= 0 else Verdict.DONE
        return tuple(Outcome(action, verdict, "no answer") for action in actions)

    def apply(self, action):
        self.clock.at += self.takes
        if self.away:
            return Outcome(action, Verdict.FAILED, "no answer")
        if isinstance(action, Remember):
            self.stored = replace(self.stored, status=action.status)
        if isinstance(action, ScaleToZero):
            self.lowered.append(action.target.name)
            record = Record(rule=action.rule, uid=action.uid, replicas=2, epoch=action.epoch)
            self.pool = replace(
                self.pool,
                targets=tuple(
                    replace(one, replicas=0, ready=0, record=record, replicas_writer="idlewin")
                    if one.ref == action.target
                    else one
                    for one in self.pool.targets
                ),
            )
        self.on_write()
        return Outcome(action, Verdict.DONE, resource_version="6")


class Nothing:
    """No demand is asked for, nothing is kept, and nobody else leads."""

    def read(self, _rule):
        return ()

    def append(self, decision, outcomes):
        pass

    def held(self):
        return True


def _ref(name):
    return Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name=name)


@pytest.fixture
def cluster():
    return Cluster(Clock())


@pytest.fixture
def controller(cluster):
    nothing = Nothing()
    ports = Ports(
        clock=cluster.clock,
        metrics=nothing,
        cluster=cluster,
        journal=nothing,
        lease=nothing,
        forecaster=lambda _rule: nothing,
    )
    return Controller(ports)


@pytest.fixture
def cycle(cluster, controller):
    return lambda: controller.cycle(cluster.stored.name)


def test_a_slow_scale_down_stops_soon_after_users_are_back(cluster, cycle):
    # A peer that scaled down for a minute was so late with its return that it never came.
    cluster.takes = 3 * SECOND

    def claim():
        if cluster.lowered:
            cluster.stored = replace(cluster.stored, wake_until=NOW + 60 * MINUTE)

    cluster.on_write = claim
    opened = cycle()

    assert (opened.after, opened.reason) == (Phase.YIELDING, Reason.WINDOW_OPEN)
    assert len(cluster.lowered) < 3
    assert opened.revisit_at <= cluster.clock.now()
    back = cycle()
    assert (back.after, back.reason) == (Phase.RECLAIMING, Reason.WAKE_CLAIMED)
    assert len(cluster.lowered) < 3


def test_a_slow_scale_down_goes_on_to_its_end_if_nobody_comes(cluster, cycle):
    cluster.takes = 3 * SECOND

    decisions = [cycle()]
    while len(cluster.lowered) < len(NAMES):
        assert decisions[-1].revisit_at <= cluster.clock.now() + 2 * SECOND
        decisions.append(cycle())
        assert len(decisions) <= len(NAMES)

    assert cluster.lowered == list(NAMES)


def test_a_give_back_that_cannot_be_written_is_tried_again_without_haste(cluster, cycle):
    # The API server is away at an edge: fifty pools that ask five times a second would keep it so.
    while cycle().after is not Phase.HARVESTING:
        pass
    cluster.stored = replace(cluster.stored, wake_until=NOW + 60 * MINUTE)
    cluster.away = True

    asked = cycle()
    assert (asked.after, asked.reason) == (Phase.RECLAIMING, Reason.WAKE_CLAIMED)
    assert asked.revisit_at == cluster.clock.now() + 2 * SECOND
    cluster.away = False
    cycle()

    assert cluster.stored.status.phase == Phase.RECLAIMING


def test_serving_comes_back_where_the_forecast_fails(cluster, cycle):
    while cycle().after is not Phase.HARVESTING:
        pass
    # Its demand is looked at from now on, and neither the metrics nor the forecaster can do it.
    serving = tuple(replace(a_rule().serving[0], name=name) for name in NAMES)
    rule = replace(cluster.stored.rule, serving=serving)
    cluster.clock.at += 6 * MINUTE
    cluster.stored = replace(cluster.stored, rule=rule)

    stays = cycle()
    assert stays.after is Phase.HARVESTING
    cluster.stored = replace(cluster.stored, wake_until=NOW + 60 * MINUTE)
    back = cycle()

    assert (back.after, back.reason) == (Phase.RECLAIMING, Reason.WAKE_CLAIMED)


def test_a_dry_run_without_an_answer_is_asked_again_soon(cluster, cycle):
    # The API server was away at the very edge.
    cluster.unanswered = 1

    stays = cycle()
    assert stays.reason is Reason.REHEARSAL_REFUSED
    assert stays.status.message.endswith(" It says: no answer")
    assert stays.revisit_at - NOW <= 15 * SECOND
    cluster.clock.at = stays.revisit_at

    assert cycle().after is Phase.YIELDING


def test_a_clock_that_is_set_back_leaves_nothing_remembered_that_is_still_to_come(
    cluster, controller, cycle
):
    # Else a forecast would be kept, and a pod that left counted as just seen, for all that time.
    cycle()
    cluster.clock.at -= 60 * MINUTE

    cycle()

    memory = controller._observer.memory(cluster.stored.name)
    assert memory.outlook.forecast.made_at == memory.looked_at == cluster.clock.now()


def test_who_comes_late_to_an_end_gives_back_at_once(cluster, cycle):
    # kube-green #389: four minutes after the hour, and it waited for the next day.
    while cycle().after is not Phase.HARVESTING:
        pass
    cluster.clock.at += 13 * 60 * MINUTE

    late = cycle()

    assert (late.after, late.reason) == (Phase.RECLAIMING, Reason.WINDOW_MAX)
