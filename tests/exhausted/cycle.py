"""What a leader does after a look: the shipped ``Controller.cycle``, as a tree of writes.

The controller runs against ports that answer from the abstract cluster. Each of its writes is a
step of its own: the cycle is run again for each answer that a write may get, so a tree of writes
and answers comes out of it, notes and rungs of the ladder included. Equal trees are one.
"""

# ruff: noqa: ARG002 - the shapes of the ports

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from idlewin.controller import Controller, Ports
from idlewin.core.decision import (
    Action,
    Decision,
    EvictPod,
    FenceQueue,
    ForgetRecord,
    Outcome,
    ReleaseRule,
    Remember,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    Verdict,
)
from idlewin.core.follow import LOST
from idlewin.core.forecast import Forecast
from idlewin.core.load import History, Level, Reading
from idlewin.core.phase import Phase
from idlewin.core.situation import Situation
from idlewin.core.window import Span
from tests.exhausted.checks import broken_by_plan
from tests.exhausted.furnish import HOUR, MINUTE, NAME, NEAR, Room, Scene, Since, drains
from tests.exhausted.state import (
    ADMITTED,
    BETWEEN,
    NOW,
    OPEN,
    RUNNING,
    Cluster,
    Statuses,
    epochs_of,
    ranks,
    relabelled,
    told_apart,
)

END = 0
_DAY = 24 * HOUR


class Node(NamedTuple):
    """A write that is due, and what follows each answer."""

    action: Action
    name: int
    """Equal for equal actions."""
    status: tuple[int, tuple[int, int]] | None
    """What a ``Remember`` writes: a status by its number, and its epochs."""
    then: tuple[tuple[Verdict, int], ...]
    epochs: tuple[int, ...]
    """Those that are written from here on."""
    remembers: bool
    """Whether the rule's version matters from here on."""
    minds: frozenset[str]
    """Of which queues and pods it matters from here on whether they are as they were seen."""


class Plan(NamedTuple):
    """What a leader would do."""

    since: str
    """What time had decided, in a word."""
    words: str
    node: int
    epochs: tuple[tuple[int, int], ...]
    """The program's numbers for epochs, and the cluster's."""


#: What an API server, or our own precondition, may answer beside Done.
_NO: dict[type[Action], tuple[Verdict, ...]] = {
    Remember: (Verdict.CONFLICT,),
    ScaleToZero: (Verdict.CONFLICT,),
    ScaleBack: (Verdict.REFUSED,),
    ForgetRecord: (Verdict.REFUSED,),
    SetStopPolicy: (Verdict.REFUSED, Verdict.CONFLICT),
    FenceQueue: (Verdict.REFUSED,),
    ReopenLocalQueue: (Verdict.REFUSED,),
    SetActive: (Verdict.REFUSED, Verdict.GONE, Verdict.CONFLICT),
    EvictPod: (Verdict.GONE,),
    ReleaseRule: (Verdict.GONE,),
}


class Waiting(BaseException):
    """The cycle waits for the answer to a write."""


class Seat:
    """All ports of one cycle, with the answers that its writes get."""

    def __init__(self, room: Room, since: Since) -> None:
        self._room, self._since = room, since
        self._rule = room.rule()
        self._pool = room.pool(self._rule)
        self._answers: tuple[Verdict, ...] = ()
        self.asked: list[Action] = []
        self.name = "abstract"

    def answer(self, answers: tuple[Verdict, ...]) -> None:
        """So are the first writes answered; the one after them is waited for."""
        self._answers, self.asked = answers, []

    # Clock, Lease, Journal
    def now(self) -> datetime:
        return NOW

    def held(self) -> bool:
        return True

    def append(self, decision: Decision, outcomes: object) -> None:
        """A journal that nobody reads."""

    # Metrics, Forecaster
    def read(self, rule) -> tuple[Reading, ...]:
        value = {Level.IDLE: 0.0, Level.BUSY: 1.0, Level.UNKNOWN: None}[self._since.level]
        return tuple(
            Reading(
                target=str(serving.ref),
                name="waiting",
                value=value,
                busy_above=0,
                visible_at_zero=True,
            )
            for serving in rule.serving
        )

    def history(self, rule, past: timedelta, step: timedelta) -> History:
        covers = Span(NOW - _DAY, NOW)
        if self._since.level is Level.UNKNOWN:
            gap = (Span(NOW - HOUR, NOW),) if self._since.long else ()
            return History(covers=covers, unknown=gap)
        ended = Span(NOW - MINUTE, NOW - MINUTE / 2)
        return History(covers=covers, busy=() if self._since.long else (ended,))

    def forecast(self, rule, history: History, now: datetime, idle_since: datetime) -> Forecast:
        chances = ((self._since.ahead, 0.9999),) if self._since.ahead else ()
        return Forecast(
            method="abstract", made_at=now, chances=chances, rests_on="a choice", price=1000.0
        )

    # Cluster
    def names(self) -> list[str]:
        return [NAME]

    def rule(self, name: str):
        return self._rule

    def look(self, scope, *, fresh: bool = False):
        return self._pool

    def rehearse(self, actions) -> tuple[Outcome, ...]:
        return self._room.rehearse(actions)

    def announce(self, decision: Decision) -> None:
        """Events are no business of ours."""

    def apply(self, action: Action) -> Outcome:
        at = len(self.asked)
        self.asked.append(action)
        if at >= len(self._answers):
            raise Waiting
        return Outcome(action, self._answers[at], resource_version="next")


_BUSY = Since("users there", level=Level.BUSY)
#: While giving back no guard asks for demand; what is counted of it is no part of a state.
_GIVING_BACK = (
    Since("", timedelta(), level=Level.BUSY),
    Since("20 s later", MINUTE / 2, level=Level.BUSY),
    Since("drainTimeout later", level=Level.BUSY),
)


def _unknown(phase: timedelta) -> tuple[Since, Since]:
    return (
        Since("load unknown", phase, Level.UNKNOWN, long=False),
        Since("load unknown for staleAfter", phase, Level.UNKNOWN),
    )


class Cycle(Controller):
    """The shipped cycle, in two parts: what is decided, and what is done about it.

    A look is made at one instant here, so that a second look at once shows the same.
    """

    seen: tuple[Situation, Decision] | None = None

    def _second_look(self, s: Situation, decision: Decision) -> tuple[Situation, Decision]:
        return s, decision

    def _act(self, s: Situation, decision: Decision) -> tuple[Decision, tuple[Outcome, ...]]:
        self.seen = (s, decision)
        return super()._act(s, decision)

    def again(self) -> Decision:
        """Act once more on what was decided, with other answers."""
        assert self.seen is not None
        self._observer.memory(NAME).written_at = NOW
        return super()._act(*self.seen)[0]


class Cycles:
    """Trees of writes, each made once."""

    def __init__(self, scene: Scene, statuses: Statuses) -> None:
        self.scene, self.statuses = scene, statuses
        self._unanswered = (Verdict.FAILED,) if "unanswered" in scene.kinds else ()
        self.nodes: list[Node] = [Node(None, 0, None, (), (), remembers=False, minds=frozenset())]  # type: ignore[arg-type]
        self._numbers: dict[object, int] = {}
        self._names: dict[str, int] = {}
        self._known: dict[tuple[Cluster, Since], tuple[str, int, str]] = {}
        self.looks = 0

    def plans(self, cluster: Cluster, *, users: bool = False) -> Iterator[Plan]:
        """What a leader that looks now may do, whatever time it is; ``users``: they are there."""
        if cluster.gone:
            return
        seen = set()
        cluster = told_apart(cluster, self.statuses.phase(cluster.status))
        used = epochs_of(cluster)
        to = ranks(used)
        serving = self.statuses.phase(cluster.status) is Phase.SERVING
        plain = _shown(relabelled(cluster, to), serving=serving)
        back = {rank: epoch for epoch, rank in to.items()}
        # One more than the status's; or, where that was lost, far more than all.
        for step in (1, LOST):
            back[max(to.values()) + step] = max(used | {0}) + step
        for since in self.choices(cluster):
            if users and since.level is not Level.BUSY:
                continue
            key = (plain, since)
            if key not in self._known:
                self._known[key] = self._planned(plain, since)
            words, number, broken = self._known[key]
            if (number or broken) and number not in seen:
                seen.add(number)
                epochs = tuple((e, back[e]) for e in self.nodes[number].epochs)
                yield Plan(since.name, broken or words, number if not broken else -1, epochs)

    def choices(self, cluster: Cluster) -> tuple[Since, ...]:
        """All that time may have decided by now."""
        match self.statuses.phase(cluster.status):
            case Phase.SERVING:
                return (
                    _BUSY,
                    Since("no user there"),
                    Since("no user there for a moment", long=False),
                    *_unknown(HOUR),
                )
            case Phase.YIELDING:
                return (
                    Since("", MINUTE),
                    Since("yieldTimeout over"),
                    replace(_BUSY, phase=MINUTE),
                    *_unknown(MINUTE),
                )
            case Phase.HARVESTING:
                near = (Since("little time left", MINUTE, ahead=NEAR),) if self.scene.fit else ()
                return (
                    Since("", MINUTE),
                    Since("demand expected", MINUTE, ahead=timedelta()),
                    replace(_BUSY, phase=MINUTE),
                    Since("dryAfter over"),
                    *_unknown(MINUTE),
                    *near,
                )
            case _ if self.scene.prompt and _kueue_is_at_it(cluster):
                return _GIVING_BACK[:1]
            case _:
                return _GIVING_BACK

    def _planned(self, cluster: Cluster, since: Since) -> tuple[str, int, str]:
        self.looks += 1
        room = Room(self.scene, cluster, self.statuses, since)
        seat = Seat(room, since)
        ports = Ports(
            clock=seat,
            metrics=seat,
            cluster=seat,
            journal=seat,
            lease=seat,
            forecaster=seat,
        )
        cycle = Cycle(ports)
        # A status that only tells more was written a moment ago.
        cycle._observer.memory(NAME).written_at = NOW
        number = self._grown(seat, cycle, partial(cycle.cycle, NAME), ())
        decision = cycle.seen[1] if cycle.seen else None
        assert decision is not None
        way = f"{decision.before} to {decision.after}" if decision.changes_phase else decision.after
        words = f"{way} ({decision.reason})"
        return words, number, broken_by_plan(self, cluster, number)

    def _grown(self, seat: Seat, cycle: Cycle, go, answers: tuple[Verdict, ...]) -> int:
        seat.answer(answers)
        try:
            go()
        except Waiting:
            action = seat.asked[-1]
            verdicts = (Verdict.DONE, *_NO.get(type(action), ()), *self._unanswered)
            then = tuple(
                (v, self._grown(seat, cycle, cycle.again, (*answers, v))) for v in verdicts
            )
            return self._node(action, then)
        return END

    def _node(self, action: Action, then: tuple[tuple[Verdict, int], ...]) -> int:
        status = self.statuses.number(action.status) if isinstance(action, Remember) else None
        name = self._names.setdefault(repr(action), len(self._names)) if not status else 0
        key = (status or name, then)
        if key not in self._numbers:
            after = [self.nodes[number] for _, number in then]
            epochs = {getattr(action, "epoch", 0), *(status[1] if status else ())}
            epochs = epochs.union(*(node.epochs for node in after)) - {0}
            minds = _minds(action).union(*(node.minds for node in after))
            self._numbers[key] = len(self.nodes)
            remembers = bool(status) or any(node.remembers for node in after)
            made = Node(action, name, status, then, tuple(sorted(epochs)), remembers, minds)
            self.nodes.append(made)
        return self._numbers[key]


def _minds(action: Action) -> frozenset[str]:
    match action:
        case SetStopPolicy(queue=name):
            return frozenset({name})
        case EvictPod(pod=pod):
            return frozenset({pod.uid})
        case SetActive(uid=uid, active=False):
            return frozenset({uid, f"spec of {uid}"})
        case SetActive(uid=uid) | ScaleToZero(uid=uid):
            return frozenset({uid})
        case _:
            return frozenset()


def _kueue_is_at_it(cluster: Cluster) -> bool:
    """Whether Kueue runs, and has something to do that takes it seconds."""
    return cluster.up and any(
        queue.seen is not queue.policy
        or queue.local_seen is not queue.local
        or (queue.policy is not OPEN and not queue.settled)
        or (queue.work in (BETWEEN, RUNNING) and (drains(queue) or not queue.active))
        for queue in cluster.queues
    )


def _shown(cluster: Cluster, *, serving: bool) -> Cluster:
    """Without what no look shows."""
    return cluster._replace(
        up=cluster.up or not serving,  # A rehearsal only asks for it.
        lost=False,
        pruned=False,
        targets=tuple(
            target._replace(wants=0, at_our_zero=False, raised=False) for target in cluster.targets
        ),
        queues=tuple(
            queue._replace(
                seen=OPEN,
                local_seen=OPEN,
                late=False,
                past=queue.past and queue.work in ADMITTED,
            )
            for queue in cluster.queues
        ),
    )
