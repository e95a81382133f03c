"""Breadth first: every state that is reached, by every order of steps, each looked at once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

from idlewin.core.decision import Verdict
from idlewin.core.explain import wish
from idlewin.core.status import Status
from tests.exhausted.checks import Checks
from tests.exhausted.cycle import Cycles, Plan
from tests.exhausted.furnish import Room, Scene, Since
from tests.exhausted.live import Liveness
from tests.exhausted.state import (
    Cluster,
    Queue,
    Statuses,
    Target,
    epochs_of,
    ranks,
    relabelled,
)
from tests.exhausted.steps import World

IDLE = 0
_READ = -1


class Leader(NamedTuple):
    """What a leader has in hand: where it is in its cycle, and what it goes by."""

    node: int = 0
    epochs: tuple[int, ...] = ()
    fresh: bool = True
    """Whether the rule's version that it has read is still the present one."""
    moved: frozenset[str] = frozenset()
    """Queues that a person has written since its look; pods and work that are others by now."""
    status: int = 0
    """The status that it has read, where it has not looked yet."""


class Moved(NamedTuple):
    """One step, and who has made it: 0 and 1 are leaders, -1 the world."""

    words: str
    state: tuple[int, int, int, int]
    """Cluster, two leaders, faults left."""
    who: int = -1
    broken: str = ""


@dataclass
class Found:
    """What an exploration has come to."""

    scene: Scene
    states: int = 0
    clusters: int = 0
    programs: int = 0
    looks: int = 0
    left: int = 0
    """States that were reached and not looked at, for want of room or time."""
    seconds: float = 0.0
    violations: dict[str, list[str]] = field(default_factory=dict)
    """Each broken promise, with a shortest trace in words."""


class Explorer:
    """All states of one scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.statuses = Statuses()
        self.cycles = Cycles(scene, self.statuses)
        self.world = World(scene, self.statuses)
        self.checks = Checks(scene, self.statuses)
        self.live = Liveness(self)
        self._clusters: dict[Cluster, int] = {}
        self._cluster: list[Cluster] = []
        self._leaders: dict[Leader, int] = {}
        self._leader: list[Leader] = []
        self._used: dict[frozenset[int], int] = {}
        self._use: list[frozenset[int]] = []
        self._used_c: list[int] = []
        self._used_l: list[int] = []
        self._ranks: dict[tuple[int, int, int], dict[int, int] | None] = {}
        self._renamed: dict[tuple[int, int, tuple[tuple[int, int], ...]], int] = {}
        self._own: dict[int, list[tuple]] = {}
        self._by_leader: dict[tuple[int, int], list[tuple]] = {}
        self._touched: dict[tuple[int, str], int] = {}
        self.leader(Leader())

    # -- numbers for clusters and leaders

    def cluster(self, cluster: Cluster) -> int:
        number = self._clusters.get(cluster)
        if number is None:
            number = self._clusters[cluster] = len(self._cluster)
            self._cluster.append(cluster)
            self._used_c.append(self._uses(epochs_of(cluster)))
        return number

    def leader(self, leader: Leader) -> int:
        number = self._leaders.get(leader)
        if number is None:
            number = self._leaders[leader] = len(self._leader)
            self._leader.append(leader)
            self._used_l.append(self._uses(frozenset(leader.epochs) - {0}))
        return number

    def _uses(self, epochs: frozenset[int]) -> int:
        if epochs not in self._used:
            self._used[epochs] = len(self._use)
            self._use.append(epochs)
        return self._used[epochs]

    def begin(self) -> tuple[int, int, int, int]:
        serving = Cluster(
            targets=tuple(Target() for _ in self.scene.claims),
            queues=tuple(Queue() for _ in self.scene.queues),
        )
        number, epochs = self.statuses.number(Status(epoch=1))
        return (
            self.cluster(serving._replace(status=number, epochs=epochs)),
            IDLE,
            IDLE,
            self.scene.faults,
        )

    # -- steps

    def moves(self, state: tuple[int, int, int, int]) -> Iterator[Moved]:
        """All that may happen next."""
        c, a, b, left = state
        for words, after, touches, cost, broken in self._world(c):
            if cost <= left:
                if touches:
                    a2, b2 = self._touch(a, touches), self._touch(b, touches)
                    yield self._moved(words, (after, a2, b2, left - cost), -1, broken)
                else:
                    yield self._moved(words, (after, a, b, left - cost), -1, broken)
        for words, after, mine, touches, broken in self._led(c, a):
            other = self._touch(b, touches) if touches else b
            yield self._moved(words, (after, mine, other, left), 0, broken)
        if self.scene.leaders == 2:
            for words, after, mine, touches, broken in self._led(c, b):
                other = self._touch(a, touches) if touches else a
                yield self._moved(words, (after, other, mine, left), 1, broken)

    def _moved(self, words: str, state: tuple[int, int, int, int], who: int, broken: str) -> Moved:
        c, a, b, left = state
        key = (self._used_c[c], self._used_l[a], self._used_l[b])
        to = self._ranks.get(key, _UNKNOWN)
        if to is _UNKNOWN:
            used = self._use[key[0]] | self._use[key[1]] | self._use[key[2]]
            to = ranks(used)
            to = self._ranks[key] = None if all(k == v for k, v in to.items()) else to
        if to is not None:
            names = tuple(sorted(to.items()))
            c = self._rename(c, -1, names)
            a, b = self._rename(a, 1, names), self._rename(b, 1, names)
        return Moved(words, (c, a, b, left), who, broken)

    def _rename(self, number: int, kind: int, names: tuple[tuple[int, int], ...]) -> int:
        key = (number, kind, names)
        if key not in self._renamed:
            to = dict(names)
            if kind < 0:
                self._renamed[key] = self.cluster(relabelled(self._cluster[number], to))
            else:
                leader = self._leader[number]
                epochs = tuple(to[e] for e in leader.epochs)
                self._renamed[key] = self.leader(leader._replace(epochs=epochs))
        return self._renamed[key]

    def _world(self, c: int) -> list[tuple]:
        if c not in self._own:
            cluster = self._cluster[c]
            steps = [(0, s) for s in (*self.world.steps(cluster), *self.world.recoveries(cluster))]
            steps += [(1, s) for s in self.world.faults(cluster)]
            self._own[c] = [
                (
                    s.words,
                    self.cluster(s.after),
                    s.touches,
                    cost,
                    s.broken or self.checks.stands(s.after),
                )
                for cost, s in steps
            ]
        return self._own[c]

    def _touch(self, number: int, touches: str) -> int:
        if number == IDLE:
            return number
        key = (number, touches)
        if key not in self._touched:
            leader = self._leader[number]
            node = self.cycles.nodes[leader.node] if leader.node > 0 else None
            if touches == "status":
                after = leader._replace(fresh=bool(node and not node.remembers))
            elif node and touches in node.minds:
                after = leader._replace(moved=leader.moved | {touches})
            else:
                after = leader
            self._touched[key] = self.leader(after)
        return self._touched[key]

    # -- a leader's own

    def _led(self, c: int, number: int) -> list[tuple]:
        """(words, cluster, leader, touches, broken) for each step that a leader may take."""
        key = (c, number)
        if key not in self._by_leader:
            leader, cluster = self._leader[number], self._cluster[c]
            if leader.node > 0:
                steps = [self.write(cluster, leader), ("crashes", cluster, Leader(), "", "")]
            else:
                steps = list(self._looks(cluster, leader))
            self._by_leader[key] = [
                (words, self.cluster(after), self.leader(mine), touches, broken)
                for words, after, mine, touches, broken in steps
            ]
        return self._by_leader[key]

    def _looks(self, cluster: Cluster, leader: Leader) -> Iterator[tuple]:
        shown = cluster
        if leader.node == _READ:
            shown = cluster._replace(status=leader.status, epochs=leader.epochs)
        elif self.scene.slow:
            read = Leader(_READ, cluster.epochs, status=cluster.status)
            yield "reads the rule, and is slow", cluster, read, "", ""
        for plan in self.cycles.plans(shown):
            words = f"looks{', ' + plan.since if plan.since else ''}: {plan.words}"
            if plan.node < 0:
                yield words, cluster, Leader(), "", plan.words
            else:
                yield words, cluster, self._with(plan, fresh=leader.fresh), "", ""
        if leader.node == _READ:
            yield "crashes", cluster, Leader(), "", ""

    def _with(self, plan: Plan, *, fresh: bool) -> Leader:
        epochs = tuple(theirs for _, theirs in plan.epochs)
        return Leader(plan.node, epochs, fresh or not self.cycles.nodes[plan.node].remembers)

    def write(self, cluster: Cluster, leader: Leader) -> tuple:
        """The leader's next write: (words, cluster, leader, touches, broken)."""
        node = self.cycles.nodes[leader.node]
        to = {0: 0, **dict(zip(node.epochs, leader.epochs, strict=True))}
        touches, broken = "", ""
        if node.status is not None:
            number, (epoch, began) = node.status
            action = replace(node.action, status=replace(node.action.status, epoch=to[epoch]))
            after, verdict = cluster, Verdict.CONFLICT
            if leader.fresh:
                verdict, touches = Verdict.DONE, "status"
                after = self._remembered(cluster, number, (to[epoch], to[began]))
        else:
            action = node.action
            if hasattr(action, "epoch"):
                action = replace(action, epoch=to[action.epoch])
            room = Room(self.scene, cluster, self.statuses, Since())
            after, verdict = room.apply(action, leader.moved)
        if verdict is Verdict.DONE:
            broken = self.checks.written(cluster, after, node, stale=not leader.fresh)
        words = f"{wish(action)}: {verdict}"
        return words, after, self._after(leader, node, verdict, to), touches, broken

    def _after(self, leader: Leader, node, verdict: Verdict, to: dict[int, int]) -> Leader:
        number = dict(node.then)[verdict]
        if number == 0:
            return Leader()
        then = self.cycles.nodes[number]
        return Leader(
            number,
            tuple(to[epoch] for epoch in then.epochs),
            leader.fresh or not then.remembers,
            leader.moved & then.minds,
        )

    def _remembered(self, cluster: Cluster, number: int, epochs: tuple[int, int]) -> Cluster:
        after = cluster._replace(status=number, epochs=epochs)
        if self.statuses.phase(number).value == "Serving":
            targets = tuple(target._replace(raised=False) for target in after.targets)
            after = after._replace(lost=False, pruned=False, targets=targets)
        return after

    # -- all of it

    def run(self, *, most: int = 10**9, seconds: float = 10**9, tell=None) -> Found:  # noqa: C901 - one loop
        """Look at every state; stop at so many, or after so long."""
        began, found = time.process_time(), Found(self.scene)
        first = self.begin()
        parents: dict[tuple, tuple | None] = {first: None}
        layer, depth, asked = [first], 0, set()
        while layer and len(parents) < most and time.process_time() - began < seconds:
            following: list[tuple] = []
            for at, state in enumerate(layer):
                if len(parents) >= most:
                    following = layer[at:] + following
                    break
                if state[0] not in asked:
                    asked.add(state[0])
                    if (stuck := self.live.stuck(self._cluster[state[0]])) is not None:
                        kind, way = stuck
                        if kind not in found.violations:
                            found.violations[kind] = [*self.trace(parents, state), *way]
                for move in self.moves(state):
                    if move.broken:
                        if move.broken not in found.violations:
                            trace = self.trace(parents, state)
                            found.violations[move.broken] = [*trace, self._named(move, [])]
                        continue
                    after = move.state
                    if self.scene.leaders == 2 and after[1] > after[2]:
                        after = (after[0], after[2], after[1], after[3])
                    if after not in parents:
                        parents[after] = state
                        following.append(after)
            layer, depth = following, depth + 1
            if tell:
                tell(depth, len(parents), len(layer), time.process_time() - began)
        found.states, found.left = len(parents), len(layer)
        found.clusters, found.programs = len(self._cluster), len(self.cycles.nodes) - 1
        found.looks, found.seconds = self.cycles.looks, time.process_time() - began
        return found

    def trace(self, parents: dict, state: tuple) -> list[str]:
        """A shortest way to a state, in words."""
        way = [state]
        while (before := parents[way[-1]]) is not None:
            way.append(before)
        way.reverse()
        names, told = ["A", "B"], []
        for before, after in pairwise(way):
            for move in self.moves(before):
                c, a, b, left = move.state
                swapped = self.scene.leaders == 2 and a > b
                if not move.broken and (c, *((b, a) if swapped else (a, b)), left) == after:
                    told.append(self._named(move, names))
                    if swapped:
                        names.reverse()
                    break
        return told

    def _named(self, move: Moved, names: list[str]) -> str:
        if move.who < 0:
            return move.words
        return f"leader {names[move.who] if names else 'X'} {move.words}"


_UNKNOWN: dict = {}
