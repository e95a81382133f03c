"""Laws of one cycle: in what order it writes, what it writes by which look, and when it stops.

Whatever is decided, whatever becomes of each write, however long it takes, whoever leads meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from idlewin.controller import Controller, Ports
from idlewin.core.decision import (
    Action,
    Decision,
    HoldRule,
    Outcome,
    ReleaseRule,
    Remember,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.load import History, Level, Reading
from idlewin.core.note import noted
from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.pool import Role, RuleObject, StopPolicy
from idlewin.core.situation import Situation
from idlewin.core.status import Status
from idlewin.core.window import Span
from idlewin.ports import LookError
from tests.builders import (
    MINUTE,
    NOW,
    QWEN,
    a_forecast,
    a_pool,
    a_queue,
    a_rule,
    a_situation,
    a_status,
    a_target,
    a_window,
    away,
    gone,
    with_rule,
)
from tests.property.test_core import situations
from tests.property.test_returns import returns

SECOND = timedelta(seconds=1)
FRESH, RETRY = 5 * SECOND, 2 * SECOND
VALUES = {Level.BUSY: 5.0, Level.IDLE: 0.0, Level.UNKNOWN: None}
maybe = st.booleans()
#: What of a status matters; the rest only tells.
TOLD = {"reason", "message", "conditions", "observed_generation", "until", "since"}
ESSENCE = tuple(one.name for one in fields(Status) if one.name not in TOLD)


@dataclass(slots=True)
class Entry:
    """One write, and how things were when it was made."""

    action: Action
    verdict: Verdict
    at: datetime
    look: datetime
    """When the last look was made."""
    fresh: bool
    """Whether that was by reads made now."""
    held: bool
    stored: Status | None
    """The status that was stored then."""


@dataclass(slots=True)
class Scene:
    """The ports of a controller: one pool, and what becomes of each look and each write."""

    situation: Situation = field(repr=False)
    later: Situation = field(repr=False)
    """What a fresh look shows."""
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    takes: timedelta = timedelta()
    """How long each write takes."""
    lost_after: int = 99
    """So many writes are made before another leads."""
    away: bool = False
    """Fresh looks are not answered."""
    at: datetime = NOW
    log: list[Entry] = field(default_factory=list)
    looks: list[tuple[datetime, bool]] = field(default_factory=list)
    told: list[Decision] = field(default_factory=list)
    started: RuleObject = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.started = self.situation.object

    # -- clock, lease, metrics, forecaster, journal

    def now(self) -> datetime:
        return self.at

    def held(self) -> bool:
        return len(self.log) < self.lost_after

    def read(self, rule: Any) -> tuple[Reading, ...]:
        value = VALUES[self.situation.load.level]
        name = str(rule.serving[0].ref)
        return (
            Reading(target=name, name="waiting", value=value, busy_above=0, visible_at_zero=True),
        )

    def history(self, _rule: Any, past: timedelta, _step: timedelta) -> History:
        return History(covers=Span(self.at - past, self.at))

    def forecast(self, _rule: Any, _history: Any, now: datetime, _since: datetime) -> Any:
        return replace(a_forecast(), made_at=now)

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        pass

    # -- cluster

    def names(self) -> list[str]:
        return [self.situation.object.name]

    def rule(self, _name: str) -> Any:
        return self.situation.object

    def look(self, _scope: Any, *, fresh: bool = False) -> Any:
        if fresh and self.away:
            raise LookError("no answer")
        self.looks.append((self.at, fresh))
        return (self.later if fresh else self.situation).pool

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        return tuple(Outcome(action, Verdict.DONE) for action in actions)

    def announce(self, decision: Decision) -> None:
        self.told.append(decision)

    def apply(self, action: Action) -> Outcome:
        stored, verdict = self.situation.object, self.verdicts.get(len(self.log), Verdict.DONE)
        look, fresh = self.looks[-1]
        held = self.held()
        self.log.append(Entry(action, verdict, self.at, look, fresh, held, stored.status))
        self.at += self.takes
        if isinstance(action, Remember):
            assert action.resource_version == stored.resource_version, "not by its own last write"
        if verdict is Verdict.DONE and isinstance(action, Remember | HoldRule | ReleaseRule):
            status = action.status if isinstance(action, Remember) else stored.status
            version = str(int(stored.resource_version) + 1)
            changes = {"status": status, "resource_version": version}
            self.situation = with_rule(self.situation, **changes)
            return Outcome(action, verdict, resource_version=version)
        return Outcome(action, verdict)

    def controller(self) -> Controller:
        ports: Any = self
        return Controller(
            Ports(
                clock=ports,
                metrics=ports,
                cluster=ports,
                journal=ports,
                lease=ports,
                forecaster=ports,
            )
        )


def starts() -> list[Situation]:
    """Situations in which cards are given away, or back: one for each kind of write."""
    two = tuple(
        replace(a_target(), ref=replace(QWEN, name=name), uid=name, replicas=2) for name in "ab"
    )
    entries = tuple(
        replace(a_window().targets[0], ref=one.ref, uid=one.uid, lowered=False) for one in two
    )
    yielding = replace(a_status(Phase.YIELDING), since=NOW, window=a_window(targets=entries))
    held = tuple(a_queue(name, epoch=2) for name in ("short", "resumable"))
    by_us: Any = {"stop_policy": StopPolicy.NONE, "left": StopPolicy.NONE, "stopped_since": None}
    opened = tuple(a_queue(name, **by_us) for name in ("short", "resumable"))
    claimed = with_rule(away(Phase.HARVESTING, pool=gone(queues=opened)), wake_until=NOW + MINUTE)
    back = a_pool(targets=(a_target(replicas_writer="idlewin"),))
    lowered = replace(a_status(Phase.YIELDING), since=NOW)
    begins = a_situation(pool=a_pool(targets=(a_target(claims=0),)))
    serving = a_rule().serving[0]
    both = a_rule(serving=tuple(replace(serving, name=name) for name in "ab"))
    return [
        begins,
        with_rule(begins, finalizer=False),
        away(Phase.YIELDING, rule=both, status=yielding, pool=a_pool(targets=two, queues=held)),
        away(Phase.YIELDING, status=lowered, pool=gone()),
        away(Phase.HARVESTING, pool=gone()),
        away(Phase.HARVESTING, pool=a_pool(queues=held)),
        away(Phase.RESTORING, pool=gone()),
        away(Phase.RECLAIMING, pool=gone()),
        away(Phase.RECLAIMING, pool=gone(queues=opened)),
        away(Phase.RESTORING, pool=gone(queues=opened)),
        away(Phase.RESTORING, pool=back),
        claimed,
    ]


@st.composite
def scenes(draw: Any) -> Scene:
    situation = draw(st.one_of(st.sampled_from(starts()), situations(), returns()))
    same = draw(maybe)
    other = situation if same else draw(st.one_of(st.sampled_from(starts()), situations()))
    bad = st.sampled_from([Verdict.CONFLICT, Verdict.REFUSED, Verdict.FAILED, Verdict.GONE])
    return Scene(
        situation=replace(situation, refused=()),
        later=replace(situation, pool=other.pool),
        verdicts=draw(st.dictionaries(st.integers(0, 5), bad, max_size=2)),
        takes=draw(st.sampled_from([timedelta(), timedelta(), 2 * SECOND, 6 * SECOND])),
        lost_after=draw(st.sampled_from([99, 99, 0, 1, 2, 3, 5])),
        away=draw(st.sampled_from([False, False, False, True])),
    )


def played(scene: Scene) -> Decision | None:
    try:
        return scene.controller().cycle(scene.situation.object.name)
    except LookError:
        assert scene.away
        assert scene.situation.phase is not Phase.RECLAIMING, "a return waits for no look"
        assert scene.log == [], "something was written on a guess"
        return None


def gives(action: Action) -> bool:
    """Whether it takes cards from serving, or lets work of others onto them."""
    return (
        isinstance(action, ScaleToZero)
        or (isinstance(action, SetStopPolicy) and action.policy is StopPolicy.NONE)
        or (isinstance(action, SetActive) and action.active)
    )


def of(scene: Scene, *kinds: type) -> list[Entry]:
    return [entry for entry in scene.log if isinstance(entry.action, kinds)]


def only_a_leader_writes(scene: Scene, _decision: Decision | None) -> None:
    """But for the note of what was done while leading."""
    for before, entry in zip([None, *scene.log], scene.log, strict=False):
        assert entry.held or (isinstance(entry.action, Remember) and before and before.held)


def what_is_not_on_record_is_not_done(scene: Scene, _decision: Decision | None) -> None:
    lost = [n for n, e in enumerate(scene.log)
            if isinstance(e.action, Remember) and e.verdict is not Verdict.DONE]  # fmt: skip
    assert all(number == len(scene.log) - 1 for number in lost)


def cards_are_given_away_if_all_went_well_and_by_a_fresh_look(
    scene: Scene, _decision: Decision | None
) -> None:
    well = True
    for entry in scene.log:
        if gives(entry.action):
            assert well
            assert entry.fresh
            assert entry.at <= entry.look + FRESH
        well = well and entry.verdict is Verdict.DONE


def serving_comes_back_by_a_fresh_look(scene: Scene, _decision: Decision | None) -> None:
    """And so does every change of phase but the first step of a return."""
    for entry in of(scene, ScaleBack, Remember):
        action, before = entry.action, (entry.stored or Status()).phase
        moved = isinstance(action, Remember) and action.status.phase != before
        if isinstance(action, ScaleBack) or (moved and action.status.phase != Phase.RECLAIMING):
            assert entry.fresh or scene.away


def what_was_done_is_noted_before_anything_else(scene: Scene, _decision: Decision | None) -> None:
    for entry, after in zip(scene.log, [*scene.log[1:], None], strict=False):
        if isinstance(entry.action, Remember | HoldRule | ReleaseRule):
            continue
        note = noted(entry.stored or Status(), entry.action, entry.verdict)
        if note != (entry.stored or Status()):
            assert after
            assert isinstance(after.action, Remember)
            assert after.action.status == note


def what_is_decided_is_written_first(scene: Scene, decision: Decision | None) -> None:
    first = next((e for e in scene.log if not isinstance(e.action, HoldRule)), None)
    if decision is None or first is None:
        return
    stored = scene.started.status or Status()
    if any(getattr(decision.status, name) != getattr(stored, name) for name in ESSENCE):
        assert isinstance(first.action, Remember)
    unheld = not scene.started.finalizer and not scene.started.deleting
    if decision.before is Phase.SERVING is not decision.after and unheld:
        assert isinstance(scene.log[0].action, HoldRule), "a deletion would not be waited for"


def what_is_left_is_looked_at_again_at_once(scene: Scene, decision: Decision | None) -> None:
    if decision is None:
        return
    done = [entry.action for entry in scene.log]
    left = [action for action in decision.actions if gives(action) and action not in done]
    if left or any(entry.verdict is not Verdict.DONE for entry in scene.log):
        assert decision.revisit_at <= scene.looks[-1][0] + RETRY


def what_is_given_is_what_the_fresh_look_shows(scene: Scene, _decision: Decision | None) -> None:
    for entry in scene.log:
        action, pool = entry.action, scene.later.pool
        if entry.fresh and isinstance(action, SetStopPolicy) and action.policy is StopPolicy.NONE:
            assert not [pod for pod in pool.pods if pod.role is Role.SERVING]
        if entry.fresh and isinstance(action, ScaleToZero | ScaleBack):
            target = pool.target(action.target)
            assert target
            assert (target.replicas > 0) is isinstance(action, ScaleToZero)


def nothing_is_told_that_is_not_on_record(scene: Scene, _decision: Decision | None) -> None:
    for told in scene.told:
        assert any(entry.action.status == told.status for entry in of(scene, Remember))
        assert all(entry.verdict is Verdict.DONE for entry in of(scene, Remember))


def a_return_climbs_its_ladder_and_waits_for_no_queue(
    scene: Scene, decision: Decision | None
) -> None:
    """A stop that is refused is answered in the same cycle; serving does not wait for it."""
    undone = any(e.verdict is not Verdict.DONE for e in of(scene, Remember))
    if decision is None or decision.after not in GIVING_BACK or undone or not scene.held():
        return
    made = [entry.action for entry in of(scene, ScaleBack)]
    assert [a for a in decision.actions if isinstance(a, ScaleBack) and a not in made] == []
    pool = (scene.later if scene.looks[-1][1] else scene.situation).pool
    stopped = {e.action.queue.uid for e in of(scene, StopLocalQueue)}
    for entry in of(scene, SetStopPolicy)[:1]:
        if entry.verdict is Verdict.REFUSED and entry.action in decision.actions:
            queue = pool.queue(entry.action.queue)
            still = {q.uid for q in queue.local_queues if q.stop_policy is StopPolicy.NONE}
            # One that is shut already holds nothing up: the return goes on to its next phase.
            busy = pool.on_cards(Role.BATCH) or any(
                w.admitted for q in pool.queues for w in q.workloads
            )
            assert still <= stopped or (queue.stopped_since and not busy)


def what_is_closed_on_the_way_is_owed_first(scene: Scene, _decision: Decision | None) -> None:
    for entry in of(scene, StopLocalQueue):
        assert entry.stored
        assert entry.action.queue.uid in {one.uid for one in entry.stored.owed.local_queues}


LAWS = (
    what_is_closed_on_the_way_is_owed_first,
    only_a_leader_writes,
    what_is_not_on_record_is_not_done,
    cards_are_given_away_if_all_went_well_and_by_a_fresh_look,
    serving_comes_back_by_a_fresh_look,
    what_was_done_is_noted_before_anything_else,
    what_is_decided_is_written_first,
    what_is_left_is_looked_at_again_at_once,
    what_is_given_is_what_the_fresh_look_shows,
    nothing_is_told_that_is_not_on_record,
    a_return_climbs_its_ladder_and_waits_for_no_queue,
)


@pytest.mark.parametrize("takes", [timedelta(), 6 * SECOND])
@pytest.mark.parametrize("verdict", [Verdict.REFUSED, Verdict.FAILED, Verdict.CONFLICT])
def test_a_cycle_keeps_its_order_whichever_of_its_writes_fails(verdict, takes):
    """Each first write in turn fails, or is the last before another leads."""
    for start in starts():
        for number in range(6):
            for lost, away_ in ((99, False), (99, True), (number, False)):
                scene = Scene(
                    situation=start, later=start, verdicts={number: verdict}, takes=takes,
                    lost_after=lost, away=away_,
                )  # fmt: skip
                decision = played(scene)
                for law in LAWS:
                    law(scene, decision)


@pytest.mark.parametrize("start", starts())
def test_a_cycle_keeps_its_order_whatever_its_second_look_shows(start):
    for later in starts():
        scene = Scene(situation=start, later=replace(start, pool=later.pool))
        decision = played(scene)
        for law in LAWS:
            law(scene, decision)


@settings(max_examples=200, deadline=None)
@given(scenes())
def test_a_cycle_keeps_its_order_whatever_becomes_of_its_writes(scene):
    decision = played(scene)

    for law in LAWS:
        law(scene, decision)


@settings(max_examples=60, deadline=None)
@given(scenes())
def test_a_status_that_only_tells_more_is_not_written_twice_in_a_moment(scene):
    scene = replace(scene, verdicts={}, lost_after=99, away=False, takes=timedelta())
    controller, name = scene.controller(), scene.started.name
    for turn in range(4):
        before = scene.situation.status
        scene.log.clear()
        decision = controller.cycle(name)
        if turn and all(getattr(decision.status, one) == getattr(before, one) for one in ESSENCE):
            assert not [e for e in of(scene, Remember) if e.action.status == decision.status]


@settings(max_examples=20, deadline=None)
@given(scenes())
def test_who_does_not_lead_looks_at_nothing(scene):
    scene = replace(scene, lost_after=0)

    assert scene.controller().cycle(scene.started.name) is None
    assert (scene.looks, scene.log, scene.told) == ([], [], [])
