"""Breadth first: every state that is reached, by every order of steps, each looked at once.

What is left out of a state, and why no step is lost by it:

- Demand, and how long things have lasted, are chosen anew at each look: users come and go as they
  like, so every state has the same futures whatever it was before.
- Epochs are the smallest numbers in the same order; looks are shared where no decision can tell
  their epochs apart (``told_apart``: it asks for the highest, and against one other).
- The leaders are alike: of two states that differ in who is who, one is kept.
- A write that depends on a version that is past has one answer, and changes nothing: it is had at
  once, for no other step can see whether it was.
- Equal looks are decided once, and equal writes to equal parts of the cluster made once: both are
  functions of what they are given.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from typing import NamedTuple

from idlewin.core.decision import Action, ScaleBack, ScaleToZero, SetActive, Verdict
from idlewin.core.explain import wish
from idlewin.core.status import Status
from tests.exhausted.checks import Checks
from tests.exhausted.cycle import Cycles, Plan
from tests.exhausted.furnish import Scene
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
from tests.exhausted.steps import Step, World
from tests.exhausted.write import Writing, of_another

IDLE = 0
_READ = -1


class Leader(NamedTuple):
    """What a leader has in hand: where it is in its cycle, and what it goes by."""

    node: int = 0
    epochs: tuple[int, ...] = ()
    fresh: bool = True
    """Whether the rule's version that it has read is still the present one."""
    moved: frozenset[str] = frozenset()
    """Queues and targets that were written since its look; pods and work that are others by now."""
    status: int = 0
    """The status that it has read, where it has not looked yet."""


class Led(NamedTuple):
    """One step that a leader may take."""

    after: Cluster
    leader: Leader
    touches: str = ""
    broken: str = ""
    cost: int = 0
    """1: it is a fault."""
    looks: str = ""
    """What it does, in words; or, where it writes:"""
    wrote: tuple[Action, Verdict] | None = None

    @property
    def words(self) -> str:
        """For a trace."""
        return f"{wish(self.wrote[0])}: {self.wrote[1]}" if self.wrote else self.looks


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
        self.writing = Writing(scene, self.statuses)
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
        self._ranks: dict[tuple[int, int, int], tuple[tuple[int, int], ...] | None] = {}
        self._renamed: dict[tuple[int, int, tuple[tuple[int, int], ...]], int] = {}
        self._worlds: tuple[dict[int, list], dict[int, list]] = ({}, {})
        self._by_leader: dict[int, list] = {}
        self._touches: dict[tuple[int, str], int] = {}
        self._asked: set[int] = set()
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
        """Its number. An answer that is certain, and changes nothing, is had at once."""
        number = self._leaders.get(leader)
        if number is None:
            sure = self._answered(leader)
            if sure is not leader:
                number = self._leaders[leader] = self.leader(sure)
                return number
            number = self._leaders[leader] = len(self._leader)
            self._leader.append(leader)
            self._used_l.append(self._uses(frozenset(leader.epochs) - {0}))
        return number

    def _answered(self, leader: Leader) -> Leader:
        if leader.node <= 0 or "unanswered" in self.scene.kinds:
            return leader
        node = self.cycles.nodes[leader.node]
        if node.status is not None:
            verdict = None if leader.fresh else Verdict.CONFLICT
        else:
            verdict = of_another(node.action, leader.moved)
        if verdict is None:
            return leader
        return self._after(
            leader, node, verdict, dict(zip(node.epochs, leader.epochs, strict=True))
        )

    def _uses(self, epochs: frozenset[int]) -> int:
        if epochs not in self._used:
            self._used[epochs] = len(self._use)
            self._use.append(epochs)
        return self._used[epochs]

    def begin(self) -> int:
        serving = Cluster(
            targets=tuple(Target() for _ in self.scene.claims),
            queues=tuple(Queue() for _ in self.scene.queues),
        )
        number, epochs = self.statuses.number(Status(epoch=1))
        first = self.cluster(serving._replace(status=number, epochs=epochs))
        return packed(first, IDLE, IDLE, self.scene.faults)

    # -- steps

    def moves(self, state: int) -> Iterator[tuple[int, str, bool]]:
        """All that may happen next: (state, what it breaks, whether the leaders change places)."""
        c, a, b, left = unpacked(state)
        touched, moved = self._touched, self._moved
        for after, touches, broken, cost in self._own(c, 0) + (self._own(c, 1) if left else []):
            if touches:
                yield moved(after, touched(a, touches), touched(b, touches), left - cost, broken)
            else:
                yield moved(after, a, b, left - cost, broken)
        for after, mine, touches, broken, cost in self._led(c, a):
            if cost <= left:
                yield moved(after, mine, touched(b, touches), left - cost, broken)
        if a == b or self.scene.leaders < 2:
            return
        for after, mine, touches, broken, cost in self._led(c, b):
            if cost <= left:
                yield moved(after, touched(a, touches), mine, left - cost, broken)

    def _told(self, state: int) -> Iterator[tuple[str, int]]:
        """The same in words, with who does it: 0 and 1 are leaders, -1 the world."""
        c, a, b, left = unpacked(state)
        for step in (*self._steps(c, 0), *(self._steps(c, 1) if left else ())):
            yield step.words, -1
        for who, leader in ((0, a), (1, b)):
            if who == 0 or (a != b and self.scene.leaders == 2):
                yield from ((s.words, who) for s in self._leads(c, leader) if s.cost <= left)

    def _moved(self, c: int, a: int, b: int, left: int, broken: str) -> tuple[int, str, bool]:
        """A state by the smallest names of its epochs; the leaders are alike, and in order."""
        key = (self._used_c[c], self._used_l[a], self._used_l[b])
        names = self._ranks.get(key, _UNKNOWN)
        if names is _UNKNOWN:
            used = self._use[key[0]] | self._use[key[1]] | self._use[key[2]]
            to = ranks(used)
            names = None if all(k == v for k, v in to.items()) else tuple(sorted(to.items()))
            self._ranks[key] = names
        if names is not None:
            c = self._rename(c, -1, names)
            a, b = self._rename(a, 1, names), self._rename(b, 1, names)
        if a > b and self.scene.leaders == 2:
            return packed(c, b, a, left), broken, True
        return packed(c, a, b, left), broken, False

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

    # -- the world's own

    def _steps(self, c: int, cost: int) -> Iterator[Step]:
        cluster = self._cluster[c]
        if cost:
            return self.world.faults(cluster)
        return chain(self.world.steps(cluster), self.world.recoveries(cluster))

    def _own(self, c: int, cost: int) -> list[tuple]:
        """(cluster, touches, broken, cost) for each step of the world; cost 1: for each fault."""
        ways = self._worlds[cost].get(c)
        if ways is None:
            ways = self._worlds[cost][c] = [
                (self.cluster(s.after), s.touches, s.broken or self.checks.stands(s.after), cost)
                for s in self._steps(c, cost)
            ]
        return ways

    def _touched(self, number: int, touches: str) -> int:
        """The leader once something that it has looked at is another."""
        if not number or not touches:
            return number
        key = (number, touches)
        if key not in self._touches:
            leader = self._leader[number]
            node = self.cycles.nodes[leader.node] if leader.node > 0 else None
            if touches == "status":
                after = leader._replace(fresh=bool(node and not node.remembers))
            elif node and touches in node.minds:
                after = leader._replace(moved=leader.moved | {touches})
            else:
                after = leader
            self._touches[key] = self.leader(after)
        return self._touches[key]

    # -- a leader's own

    def _led(self, c: int, number: int) -> list[tuple]:
        """(cluster, leader, touches, broken, cost) for each step that a leader may take."""
        key = c << _BITS | number
        ways = self._by_leader.get(key)
        if ways is None:
            ways = self._by_leader[key] = [
                (self.cluster(s.after), self.leader(s.leader), s.touches, s.broken, s.cost)
                for s in self._leads(c, number)
            ]
        return ways

    def _leads(self, c: int, number: int) -> Iterator[Led]:
        cluster, leader = self._cluster[c], self._leader[number]
        if leader.node <= 0:
            yield from self._looks(cluster, leader)
            return
        yield (wrote := self.write(cluster, leader))
        yield Led(cluster, Leader(), looks="crashes")
        if "unanswered" in self.scene.kinds and wrote.wrote:
            yield from self._unanswered(cluster, leader, wrote)

    def _looks(self, cluster: Cluster, leader: Leader) -> Iterator[tuple]:
        shown = cluster
        if leader.node == _READ:
            shown = cluster._replace(status=leader.status, epochs=leader.epochs)
        elif self.scene.slow:
            read = Leader(_READ, cluster.epochs, status=cluster.status)
            yield Led(cluster, read, looks="reads the rule, and is slow")
        for plan in self.cycles.plans(shown):
            words = f"looks{', ' + plan.since if plan.since else ''}: {plan.words}"
            if plan.node < 0:
                yield Led(cluster, Leader(), broken=plan.words, looks=words)
            else:
                yield Led(cluster, self.goes(plan, fresh=leader.fresh), looks=words)
        if leader.node == _READ:
            yield Led(cluster, Leader(), looks="crashes")

    def _unanswered(self, cluster: Cluster, leader: Leader, wrote: Led) -> Iterator[Led]:
        """No answer to a write: it was not made, or it was."""
        node = self.cycles.nodes[leader.node]
        to = {0: 0, **dict(zip(node.epochs, leader.epochs, strict=True))}
        then, told = self._after(leader, node, Verdict.FAILED, to), wrote.wrote
        assert told is not None
        yield Led(cluster, then, cost=1, wrote=(told[0], Verdict.FAILED))
        if told[1] is Verdict.DONE:
            if node.status is not None and then.node:
                then = then._replace(fresh=not self.cycles.nodes[then.node].remembers)
            words = f"{wish(told[0])}: done, but not answered"
            yield Led(wrote.after, then, wrote.touches, wrote.broken, cost=1, looks=words)

    def goes(self, plan: Plan, *, fresh: bool) -> Leader:
        """A leader that goes by a plan."""
        epochs = tuple(theirs for _, theirs in plan.epochs)
        return Leader(plan.node, epochs, fresh or not self.cycles.nodes[plan.node].remembers)

    def write(self, cluster: Cluster, leader: Leader) -> Led:
        """The leader's next write."""
        node = self.cycles.nodes[leader.node]
        to = {0: 0, **dict(zip(node.epochs, leader.epochs, strict=True))}
        touches, broken, action = "", "", node.action
        if node.status is not None:
            number, (epoch, began) = node.status
            after, verdict = cluster, Verdict.CONFLICT
            if leader.fresh:
                verdict, touches = Verdict.DONE, "status"
                after = self._remembered(cluster, number, (to[epoch], to[began]))
        else:
            if hasattr(action, "epoch"):
                action = replace(action, epoch=to[action.epoch])
            after, verdict = self.writing.apply(cluster, action, node.name, leader.moved)
        if verdict is Verdict.DONE:
            if isinstance(action, ScaleToZero | ScaleBack):
                touches = action.uid
            elif isinstance(action, SetActive):
                touches = f"spec of {action.uid}"
            broken = self.checks.written(cluster, after, node, stale=not leader.fresh)
        then = self._after(leader, node, verdict, to)
        return Led(after, then, touches, broken, wrote=(action, verdict))

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
            after = after._replace(targets=targets)
            # Where both copies were lost, nobody knows more once that is told.
            if not any(target.at_our_zero for target in targets):
                after = after._replace(lost=False, pruned=False)
        return after

    # -- all of it

    def run(self, *, most: int = 10**9, seconds: float = 10**9, tell=None, broke=None) -> Found:
        """Look at every state; stop at so many, or after so long."""
        began, found = time.process_time(), Found(self.scene)
        told = 0
        parents = {(first := self.begin()): -1}
        layer, depth = [first], 0
        while layer and len(parents) < most and time.process_time() - began < seconds:
            layer, depth = self._layer(layer, parents, most, found), depth + 1
            if broke:
                broke(found, told)
                told = len(found.violations)
            if tell:
                tell(depth, len(parents), len(layer), time.process_time() - began)
        found.states, found.left = len(parents), len(layer)
        found.clusters, found.programs = len(self._asked), len(self.cycles.nodes) - 1
        found.looks, found.seconds = self.cycles.looks, time.process_time() - began
        return found

    def _layer(
        self, layer: list[int], parents: dict[int, int], most: int, found: Found
    ) -> list[int]:
        following: list[int] = []
        for at, state in enumerate(layer):
            if len(parents) >= most:
                return layer[at:] + following
            c = state >> _CLUSTER
            if c not in self._asked:
                self._asked.add(c)
                if (stuck := self.live.stuck(self._cluster[c])) is not None:
                    kind, way = stuck
                    if kind not in found.violations:
                        found.violations[kind] = [*self.trace(parents, state), *way]
            for after, broken, _ in self.moves(state):
                if broken:
                    if broken not in found.violations:
                        found.violations[broken] = self.trace(parents, state, broken)
                elif after not in parents:
                    parents[after] = state
                    following.append(after)
        return following

    def trace(self, parents: dict[int, int], state: int, broken: str = "") -> list[str]:
        """A shortest way to a state, in words, and to what is broken there."""
        way = [state]
        while (before := parents[way[-1]]) >= 0:
            way.append(before)
        way.reverse()
        names, told = ["A", "B"], []
        for before, after in pairwise([*way, -1] if broken else way):
            told.append(self._named(before, after, broken, names))
        return told

    def _named(self, before: int, after: int, broken: str, names: list[str]) -> str:
        """The step between two states, or the one that breaks; ``names`` may change places."""
        for (words, who), (to, breaks, swapped) in zip(
            self._told(before), self.moves(before), strict=True
        ):
            if breaks == broken if after < 0 else (to == after and not breaks):
                told = f"leader {names[who]} {words}" if who >= 0 else words
                if swapped:
                    names.reverse()
                return told
        raise AssertionError("no step leads there")


#: Room for a million leaders, and four faults.
_BITS, _FAULTS = 20, 2
_CLUSTER = 2 * _BITS + _FAULTS
_UNKNOWN = ((-1, -1),)


def packed(c: int, a: int, b: int, left: int) -> int:
    """A state as one number: cluster, two leaders, faults left."""
    return ((c << _BITS | a) << _BITS | b) << _FAULTS | left


def unpacked(state: int) -> tuple[int, int, int, int]:
    """And back."""
    left, state = state & 3, state >> _FAULTS
    mask = (1 << _BITS) - 1
    return state >> 2 * _BITS, state >> _BITS & mask, state & mask, left
