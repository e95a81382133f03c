"""The promises, checked after every write and every cycle. Nothing here knows of a fault's cause.

What is compared is what the world really is, not what the controller believes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from idlewin.adapters.clock import ServerClock
from idlewin.core.decision import (
    Action,
    Decision,
    EvictPod,
    Outcome,
    Remember,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    Verdict,
)
from idlewin.core.phase import Phase
from idlewin.core.pool import MANAGER, Pool, Scope, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import Contract, Mode, OnReturn, Rule
from idlewin.core.status import Status
from idlewin.sim.objects import Deployment, SimRule, Work
from idlewin.sim.process import Process
from idlewin.sim.world import World

LENT = (Phase.YIELDING, Phase.HARVESTING)
PAST_BOUND = timedelta(seconds=30)
#: What the product takes for now may be off by so much: an answer's date is cut to the second.
CLOCK = timedelta(seconds=1)


class Violation(BaseException):
    """A promise is broken. Not an Exception: no code under test may catch it."""


@dataclass(slots=True)
class Truth:
    """What a look could have shown at the time: who exists and who is on the cards."""

    at: datetime
    serving: frozenset[str] = frozenset()
    batch: frozenset[str] = frozenset()
    works: frozenset[str] = frozenset()
    paused: bool = False
    contested: bool = False
    demand: str = ""
    """Why no window may open by what is shown of demand; empty: nothing is against it."""


@dataclass(slots=True)
class Before:
    """An object as it was before a write."""

    replicas: int = 0
    at_our_zero: bool = False
    wrote_at: datetime | None = None
    policy: StopPolicy = StopPolicy.HOLD
    writer: str = MANAGER
    left: StopPolicy | None = None
    epoch: int = 0
    status: Status = field(default_factory=Status)


class Checks:
    """Watches a world; raises Violation at the first broken promise."""

    def __init__(self, world: World) -> None:
        self.world, self.objects = world, world.objects
        self._truths: dict[tuple[Process | None, str], Truth] = {}
        """By who looked, and at which rule."""
        self.opened_at: dict[str, datetime] = {}
        self.before = Before()
        self.lagging = False
        self.injected = 0
        self.truth_at_start: dict[str, list[str]] = {}
        self.lost: set[str] = set()
        """Rules whose records were taken from both places: nothing can be promised of those."""
        self.faults = lambda: 0
        self.started_at: dict[str, datetime] = {}
        self.writes = 0
        world.cluster.witnesses.append(self)
        world.kueue.on_evict.append(self.evicted)
        world.on_cycle.append(self.cycle)

    def stale(self) -> bool:
        """Whether a write is one of a controller beside which another leads."""
        return self.world.acting not in (None, self.world.process)

    # -- what is seen

    def looked(self, scope: Scope, pool: Pool, *, fresh: bool) -> None:  # noqa: ARG002
        self._truths[self.world.acting, scope.rule] = self._truth(scope.rule)

    def seen(self, rule: str) -> Truth:
        """What the last look of whoever acts could have shown."""
        return self._truths.get((self.world.acting, rule)) or self._truth(rule)

    def _truth(self, rule: str) -> Truth:
        pods = [p for p in self.objects.pods.values() if p.pool == rule and p.node is not None]
        stored = self.objects.rules.get(rule)
        return Truth(
            at=self.world.clock.now(),
            serving=frozenset(p.uid for p in pods if isinstance(p.owner, Deployment)),
            batch=frozenset(
                p.uid for p in pods if isinstance(p.owner, Work) and p.node and not p.node.dead
            ),
            works=frozenset(w.uid for w in self.objects.works.values() if w.pool == rule),
            paused=bool(stored and stored.rule and stored.rule.paused),
            contested=bool(self._status(rule).contested_by),
            demand=self._demand(stored.rule if stored else None),
        )

    def _demand(self, rule: Rule | None) -> str:
        metrics = self.world.metrics
        refs = [serving.ref for serving in rule.serving] if rule else []
        if dark := [str(ref) for ref in refs if metrics.unknown_since(ref)]:
            return f"demand of {dark} cannot be told"
        busy = [str(ref) for ref in refs if metrics.shown(ref)]
        return f"there is demand of {busy}" if busy else ""

    # -- after every write

    def writing(self, action: Action) -> None:
        match action:
            case ScaleToZero(target=ref) | ScaleBack(target=ref):
                if (now := self.objects.deployments.get(ref)) is not None:
                    self.before = Before(now.replicas, now.at_our_zero, now.owner_wrote_at)
            case SetStopPolicy(queue=name):
                if (queue := self.objects.queues.get(name)) is not None:
                    self.before = Before(
                        policy=queue.stop_policy,
                        writer=queue.writer,
                        wrote_at=queue.wrote_at,
                        left=queue.left,
                        epoch=queue.epoch or 0,
                    )
            case Remember(rule=name):
                self.before = Before(status=self._status(name))
            case SetActive(namespace=space, name=name, active=False):
                if (work := self.objects.works.get((space, name))) is not None and work.admitted:
                    self._may_evict(work, "SetActive")
            case EvictPod(pod=seen):
                pod = self.objects.pods.get(seen.uid)
                if pod and isinstance(pod.owner, Work) and not pod.terminating:
                    self._may_evict(pod.owner, "EvictPod")

    def wrote(self, outcome: Outcome) -> None:
        if outcome.verdict is not Verdict.DONE:
            return
        self.writes += 1
        match outcome.action:
            case ScaleToZero() as action if self.before.replicas > 0:
                self._lowered(action)
            case ScaleBack() as action:
                self._restored(action)
            case SetStopPolicy(policy=StopPolicy.NONE) as action:
                if self.before.policy is not StopPolicy.NONE:
                    self._opened(action)
            case SetStopPolicy() as action if self.before.policy is not action.policy:
                self._closed(action)
            case Remember() as action:
                self._remembered(action)
        self._records()

    def _lowered(self, action: ScaleToZero) -> None:
        target = self.objects.deployments[action.target]
        window = self._status(action.rule).window
        entry = next((t for t in window.targets if t.uid == target.uid), None) if window else None
        held = target.record
        if self.stale():
            # The fence is the record on the target: whoever finds it while serving gives it back.
            self._must(held and held.replicas == target.owner_wants, "P1", f"no record: {held}")
            return
        self._must(entry is not None, "P1", f"{target.ref} lowered, not on record in the status")
        self._must(
            entry and entry.replicas == self.before.replicas == target.owner_wants,
            "P1",
            f"{target.ref} was {self.before.replicas}, on record is {entry and entry.replicas}",
        )
        self._must(
            held and held.replicas == self.before.replicas and held.uid == target.uid,
            "P1",
            f"{target.ref} lowered without the record on it: {held}",
        )
        changed = self.before.wrote_at
        self._must(
            changed is None or changed <= self.opened_at.get(action.rule, changed),
            "P6",
            f"{target.ref} was raised by its owner at {changed}, and lowered again",
        )
        self._must(not self.seen(action.rule).paused, "P6", "lowered while paused")

    def _silent(self, action: Action) -> None:
        """Paused or contested, with serving back: nothing of the cluster is written any more."""
        stored = self.objects.rules.get(getattr(action, "rule", ""))
        # Who deletes a rule wants its last writes, paused or not.
        if stored is None or stored.rule is None or stored.deleting or self.stale() or self.lagging:
            return
        status = self._status(stored.name)
        paused = self.seen(stored.name).paused and stored.rule.paused
        quiet = bool(self.seen(stored.name).contested and status.contested_by) or paused
        self._must(
            not quiet or status.phase != Phase.SERVING,
            "P6",
            f"{type(action).__name__} while serving and paused, or contested by "
            f"{status.contested_by or 'nobody'}",
        )

    def _restored(self, action: ScaleBack) -> None:
        target = self.objects.deployments[action.target]
        self._must(
            self.before.at_our_zero, "P6", f"{target.ref} was raised, but not from a zero of ours"
        )
        self._must(
            action.replicas == target.owner_wants,
            "P1",
            f"{target.ref} restored to {action.replicas}, its owner had {target.owner_wants}",
        )
        if target.claims == 0:
            seen = self.seen(target.pool).batch & self._truth(target.pool).batch
            self._must(not seen, "P2", f"{target.ref} raised beside batch pods {sorted(seen)}")

    def _opened(self, action: SetStopPolicy) -> None:
        pool = self.objects.queues[action.queue].pool
        seen = self.seen(pool).serving & self._truth(pool).serving
        self._must(not seen, "P2", f"{action.queue} opened beside serving pods {sorted(seen)}")
        phase, window = self._status(pool).phase, self._status(pool).window
        # A leader that was frozen may be quicker than the fence of who has just begun to give back.
        fenced = window is None or self.before.epoch >= window.give_back_epoch
        early = self.stale() and phase == Phase.RECLAIMING and not fenced
        self._must(phase == Phase.HARVESTING or early, "P2", f"{action.queue} opened in {phase}")
        stored = self.objects.rules.get(pool)
        resumed = stored.resume_at if stored else None
        closed, left = self.before.wrote_at, self.before.left
        by_person = left is not None and left is not self.before.policy
        self._must(
            not by_person or (resumed is not None and closed is not None and resumed >= closed),
            "P6",
            f"{action.queue} opened, which {self.before.writer} had closed at {closed}",
        )

    def _closed(self, action: SetStopPolicy) -> None:
        self._silent(action)
        queue = self.objects.queues[action.queue]
        window = self._status(action.rule).window
        theirs = window is not None and queue.uid in [entry.uid for entry in window.queues]
        self._must(
            theirs or queue.adopted_by == action.rule or self.stale() or self.lagging,
            "P6",
            f"{queue.name} written, which is adopted by {queue.adopted_by or 'nobody'}",
        )

    def _remembered(self, action: Remember) -> None:
        before, after = self.before.status.phase, action.status.phase
        older = self.objects.rules.get(action.rule.removesuffix("-newer"))
        fights = older is not None and older.name != action.rule
        self._must(not fights or after == Phase.SERVING, "P9", f"{action.rule} became {after}")
        if (before, after) != (Phase.SERVING, Phase.YIELDING):
            return
        self.opened_at[action.rule] = self.world.clock.now()
        against = self.seen(action.rule).demand
        self._must(not against, "P5", f"a window opened though {against}")
        clock = self.world.acting.machine.clock if self.world.acting else None
        doubt = clock.doubt() if isinstance(clock, ServerClock) else ""
        self._must(not doubt or self.stale(), "P5", f"a window opened though {doubt}")

    def _records(self) -> None:
        """Whatever is at our zero is on record, and is not left so."""
        for target in self.objects.deployments.values():
            if not target.at_our_zero or target.pool in self.lost:
                continue
            status = self._status(target.pool)
            entries = status.window.targets if status.window else ()
            kept = [t.replicas for t in entries if t.uid == target.uid]
            kept += [target.record.replicas] if target.record else []
            self._must(kept, "P1", f"{target.ref} is at our zero and on no record")
            self._must(
                all(number == target.owner_wants for number in kept),
                "P1",
                f"{target.ref} is on record as {kept}, its owner had {target.owner_wants}",
            )

    # -- evictions

    def evicted(self, work: Work, cause: str) -> None:
        queue = self.objects.queues.get(work.cluster_queue)
        local = self.objects.local_queue_of(work)
        ours = (cause == "ClusterQueueStopped" and queue and queue.writer == MANAGER) or (
            cause == "LocalQueueStopped" and local.writer == MANAGER
        )
        if ours:
            self._may_evict(work, cause)

    def _may_evict(self, work: Work, cause: str) -> None:
        stored = self.objects.rules.get(work.pool)
        status = self._status(work.pool)
        window = status.window
        # A rule that cannot be read now has drained its queues by what it said before; so has one
        # whose status is lost, of a queue that was taken from it meanwhile.
        written = stored.rule if stored else None
        before = next(setup.rule for setup in self.world.setups if setup.name == work.pool)
        specs = [q.spec for q in window.queues] if window else []
        specs += before.batch.queues if window and window.give_back == Reason.RECORD_FOUND else ()
        spec = next((q for q in specs if q.cluster_queue == work.cluster_queue), None)
        evict = window.on_return if window else (written or before).batch.on_return
        agreed = work.contract and spec is not None and spec.contract is Contract.CHECKPOINT
        agreed = agreed and work.grace >= spec.grace
        bound = work.admitted_at + work.max_runtime - work.used if (
            work.admitted_at and work.max_runtime
        ) else None  # fmt: skip
        past = bound is not None and self.world.clock.now() >= bound + PAST_BOUND - CLOCK
        self._must(
            agreed or past or evict is OnReturn.EVICT or (window is None and work.contract),
            "P4",
            f"{work.name} of {work.cluster_queue} evicted by {cause}; it never agreed to that",
        )

    # -- every cycle

    def cycle(self, name: str, decision: Decision | None) -> None:
        if decision is None:
            self.lagging = self.world.cluster.interference.lagging()
            self.injected = self.faults()
            self.truth_at_start[name] = self._must_give_back(name)
            self._truths[self.world.acting, name] = self._truth(name)
            self.started_at[name] = self.world.clock.now()
            return
        clean = not self.lagging and self.injected == self.faults()
        if not clean or self.started_at.get(name) != self.world.clock.now():
            return
        stored = self.objects.rules.get(name)
        phase = self._status(name).phase
        if self.truth_at_start.get(name) and stored:
            why = ", ".join(self.truth_at_start[name])
            self._must(phase not in LENT, "P3", f"still {phase}, though {why}")
        self._kept_open(name)

    def _must_give_back(self, name: str) -> list[str]:
        stored, now = self.objects.rules.get(name), self.world.clock.now()
        if stored is None or self._status(name).phase not in LENT:
            return []
        rule = stored.rule
        refs = [serving.ref for serving in rule.serving] if rule else []
        metrics = self.world.metrics
        dark = [since for ref in refs if (since := metrics.unknown_since(ref))]
        # The controller may have begun its count at the first look after demand went dark.
        late = timedelta(seconds=self.world.reads_every + 30)
        blind = bool(dark and rule and now >= max(dark) + rule.stale_after + late)
        causes = {
            "demand is there": any(
                metrics.shown(ref) for ref in refs if not metrics.unknown_since(ref)
            ),
            "a claim is in force": bool(stored.wake_until and stored.wake_until > now + CLOCK),
            "it is paused": bool(rule and rule.paused),
            "it is being deleted": stored.deleting,
            "it only observes": bool(rule and rule.mode is Mode.OBSERVE),
            "it cannot be read": rule is None,
            "demand is unknown": blind,
        }  # fmt: skip
        return [cause for cause, holds in causes.items() if holds]

    def _kept_open(self, name: str) -> None:
        """With serving on its cards no queue of a window may stay open, where it can be closed."""
        window = self._status(name).window
        if window is None or not self.world.kueue.up:
            return
        # A pod of what the rule had let go before is another's, as any that comes in a window.
        lent = {target.ref for target in window.targets}
        owners = {p.uid: p.owner for p in self.objects.pods.values()}
        there = self.seen(name).serving & self._truth(name).serving
        if not any(isinstance(o := owners[uid], Deployment) and o.ref in lent for uid in there):
            return
        for entry in window.queues:
            queue = self.objects.queues.get(entry.spec.cluster_queue)
            if queue and queue.uid == entry.uid and not queue.terminating:
                self._must(
                    queue.stop_policy is not StopPolicy.NONE or self.shut_below(queue.name),
                    "P2",
                    f"{queue.name} stays open beside a serving pod",
                )

    def shut_below(self, queue: str) -> bool:
        """Whether all LocalQueues of a queue are closed: nothing comes in, whatever it is at."""
        below = self.objects.local_queues_of(queue)
        return bool(below) and all(one.stop_policy is not StopPolicy.NONE for one in below)

    # -- at the end

    def came_back(self, name: str) -> None:
        """Faults are over and time has passed: everything is back with its owner."""
        stored = self.objects.rules.get(name)
        if stored is not None:
            status = self._status(name)
            self._must(not stored.deleting, "P3", "is deleted, and does not go")
            self._must(
                status.phase == Phase.SERVING,
                "P3",
                f"is {status.phase} ({status.reason}), not Serving",
            )
        for target in self.objects.deployments.values():
            if target.pool != name or name in self.lost:
                continue
            ready = sum(pod.ready for pod in self.objects.pods_of(target))
            wanted = target.owner_wants
            self._must(
                target.replicas == wanted and (ready >= wanted or self._open_by_others(name)),
                "P3",
                f"{target.ref} has {target.replicas}, {ready} ready; its owner wants {wanted}",
            )
            self._must(target.record is None, "P3", f"{target.ref} still carries our record")

    def _open_by_others(self, name: str) -> bool:
        """Whether a queue is open by another's will, where idlewin was told to keep out."""
        stored = self.objects.rules.get(name)
        spec = stored.rule if stored else None
        out = spec is None or spec.paused or spec.mode is Mode.OBSERVE
        out = out or bool(self._status(name).contested_by)
        return out and any(
            queue.pool == name and queue.stop_policy is StopPolicy.NONE is not queue.left
            for queue in self.objects.queues.values()
        )

    def _status(self, name: str) -> Status:
        stored: SimRule | None = self.objects.rules.get(name)
        return (stored.status if stored else None) or Status()

    def _must(self, holds: object, promise: str, text: str) -> None:
        if not holds:
            raise Violation(f"{promise} at {self.world.clock.now():%d %H:%M:%S.%f}: {text}")
