"""How idlewin behaves towards people and over time, beside what checks.py holds: its consent,
its pace, its fights, and what it has to give up. Nothing here knows of a fault's cause.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from idlewin.core.decision import (
    Action,
    Decision,
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
from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.pool import MANAGER, Pool, Scope, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode, Rule
from idlewin.core.status import Status, Window
from idlewin.sim.objects import Deployment, SimQueue, SimRule
from idlewin.sim.process import Process
from tests.simulation.checks import CLOCK, LENT, Checks
from tests.simulation.zones import open_at

#: Openings by others that are undone within FIGHT: more of them are a fight.
UNDONE, FIGHT = 10, timedelta(minutes=5)
#: Windows in a row that end because serving was raised: more of them are a fight.
RAISED = 6
#: The shortest back-off, and the most by which a plan may be off without being written.
BACK_OFF, STEP = timedelta(minutes=5), timedelta(minutes=5)
#: Demand is seen within a reading, so an idle stretch may seem longer by so much.
READING = timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Seen:
    """What the last look could have shown."""

    closed: frozenset[str] = frozenset()
    """Queues that a person had closed."""
    working: frozenset[str] = frozenset()
    """Admitted work, by UID, in queues of the rule."""
    waiting: frozenset[str] = frozenset()
    """Work, by UID, that an opening would let in; what we put to sleep counts."""
    held: frozenset[str] = frozenset()
    """Pods that hold a card and are not serving's."""
    against: frozenset[str] = frozenset()
    """Why the rule may not lend, by the rule itself and by the clock."""


class Conduct:
    """Watches a world; raises Violation at the first broken promise."""

    def __init__(self, checks: Checks) -> None:
        self.checks, self.world, self.objects = checks, checks.world, checks.objects
        self._looks: dict[tuple[Process | None, str], Seen] = {}
        """By who looked, and at which rule."""
        self.was: Status = Status()
        self.foreign = self.person = False
        """Whether somebody else had opened, or closed, the queue that is written."""
        self.undone: dict[str, deque[datetime]] = {}
        self.raised: dict[str, list[datetime]] = {}
        """When windows in a row ended because serving was raised."""
        self.back_at: dict[str, datetime] = {}
        """When a rule's last window was over."""
        self.failed_at: dict[str, datetime] = {}
        self.giving_since: dict[str, datetime] = {}
        self.written: set[str] = set()
        """Rules that have had a status."""
        self.forgot: set[str] = set()
        """Rules whose status was lost: what only it knew is gone."""
        self.local_before: dict[str, StopPolicy] = {}
        """What LocalQueues were before we closed them."""
        self.put_to_sleep: set[str] = set()
        """Work that we stopped one by one."""
        self.causes: dict[str, list[str]] = {}
        self.world.cluster.witnesses.append(self)
        self.world.on_cycle.append(self.cycle)

    # -- what is seen

    def looked(self, scope: Scope, pool: Pool, *, fresh: bool) -> None:  # noqa: ARG002
        self._looks[self.world.acting, scope.rule] = self._seen(scope.rule)

    def seen(self, name: str) -> Seen:
        """What the last look of whoever acts could have shown."""
        return self._looks.get((self.world.acting, name)) or self._seen(name)

    def _seen(self, name: str) -> Seen:
        queues = [q for q in self.objects.queues.values() if q.pool == name]
        ours = [q.name for q in queues if q.adopted_by == name]
        return Seen(
            closed=frozenset(q.uid for q in queues if self._closed_by_person(q)),
            working=frozenset(
                w.uid
                for w in self.objects.works.values()
                if w.admitted and not w.finished and w.cluster_queue in ours
            ),
            waiting=self._waiting(name),
            held=frozenset(
                p.uid
                for p in self.objects.pods.values()
                if p.pool == name and p.node and not isinstance(p.owner, Deployment)
                if p.owner or p.claims or p.device in self._devices(name)
            ),
            against=self._against(name),
        )

    def _devices(self, name: str) -> tuple[str, ...]:
        stored = self.objects.rules.get(name)
        return stored.rule.cards.device_nodes if stored and stored.rule else ()

    def _waiting(self, name: str) -> frozenset[str]:
        stored = self.objects.rules.get(name)
        specs = stored.rule.batch.queues if stored and stored.rule else ()
        names = [spec.cluster_queue for spec in specs]
        asleep = {work.uid for work in self._status(name).owed.workloads}
        return frozenset(
            w.uid
            for w in self.objects.works.values()
            if w.cluster_queue in names and not w.finished and (w.active or w.uid in asleep)
        )

    def _against(self, name: str) -> frozenset[str]:
        stored, now = self.objects.rules.get(name), self.world.clock.now()
        rule = stored.rule if stored else None
        sure = now + CLOCK
        if stored is None or rule is None:
            return frozenset({"P9: it cannot be read"})
        resumed = self._resumed(name)
        back, failed = self.back_at.get(name), self.failed_at.get(name)
        known = name not in self.forgot
        off = failed is not None and resumed < failed and sure < failed + BACK_OFF
        wrong = {
            "its calendar": not any(open_at(rule.window.calendar, at) for at in (now, sure)),
            "P6: paused": rule.paused,
            "P6: it observes": rule.mode is Mode.OBSERVE,
            "P3: it is being deleted": stored.deleting,
            "P3: a claim is in force": bool(stored.wake_until and stored.wake_until > sure),
            "minServing": known and back is not None and sure < back + rule.window.min_serving,
            "back-off": known and off,
            "P5: not idle for long": self._users_within(rule, rule.window.idle_for - READING),
        }
        return frozenset(what for what, holds in wrong.items() if holds)

    def _closed_by_person(self, queue: SimQueue) -> bool:
        stored = self.objects.rules.get(queue.pool)
        foreign = queue.left is not None and queue.left is not queue.stop_policy
        resumed = stored.resume_at if stored else None
        since = queue.wrote_at
        heard = resumed is not None and since is not None and resumed >= since
        return foreign and queue.stop_policy is not StopPolicy.NONE and not heard

    # -- around each write

    def writing(self, action: Action) -> None:
        match action:
            case Remember(rule=name):
                self.was = self._status(name)
            case SetStopPolicy(queue=name):
                queue = self.objects.queues.get(name)
                self.foreign = bool(
                    queue and queue.stop_policy is StopPolicy.NONE is not queue.left is not None
                )
                self.person = bool(queue and self._closed_by_person(queue))
            case StopLocalQueue(queue=local):
                now = self.objects.local_queues.get((local.namespace, local.name))
                known = now is None or (now.writer == MANAGER and now.uid in self.local_before)
                # What a person wrote since is what has to come back.
                if now is not None and not known:
                    seen = local if self.checks.lagging else now
                    self.local_before[now.uid] = seen.stop_policy

    def wrote(self, outcome: Outcome) -> None:
        if outcome.verdict is not Verdict.DONE:
            return
        match outcome.action:
            case Remember() as action:
                self._remembered(action)
                self.written.add(action.rule)
            case SetStopPolicy() as action:
                self._stopped(action)
            case ScaleToZero(rule=name):
                stored = self.objects.rules.get(name)
                kept = stored is None or stored.finalizer or self.checks.stale()
                self._must(kept, "P3", "lowered without a finalizer on the rule")
            case ScaleBack() as action:
                self._restored(action)
            case SetActive(uid=uid, active=False):
                self.put_to_sleep.add(uid)
            case ReleaseRule(rule=name):
                self._released(name)

    def _stopped(self, action: SetStopPolicy) -> None:
        queue, now = self.objects.queues[action.queue], self.world.clock.now()
        if self.checks.stale():
            return
        seen = self.seen(action.rule)
        self._must(
            not (self.person and queue.uid in seen.closed),
            "P6",
            f"{queue.name} written, which a person had closed",
        )
        # On the way back it has to be shut, whoever opens it: how often is up to them.
        back = self._status(action.rule).phase in GIVING_BACK
        if self.foreign and action.policy is not StopPolicy.NONE and not back:
            undone = self.undone.setdefault(queue.uid, deque(maxlen=UNDONE))
            since = max(now - FIGHT, self._resumed(action.rule))
            fights = len(undone) == UNDONE and undone[0] > since
            self._must(not fights, "P6", f"{queue.name} closed again and again: a fight")
            undone.append(now)

    def _restored(self, action: ScaleBack) -> None:
        target = self.objects.deployments[action.target]
        window = self._status(target.pool).window
        # A dead Kueue refuses the closing, and lets nothing in.
        refused = self.checks.injected != self.checks.faults() or not self.world.kueue.up
        if self.checks.stale() or window is None or self.checks.lagging or refused:
            return
        for entry in window.queues:
            queue = self.objects.queues.get(entry.spec.cluster_queue)
            if queue is None or queue.uid != entry.uid or queue.terminating:
                continue
            shut = self.checks.shut_below(queue.name)
            open_ = queue.stop_policy is StopPolicy.NONE is queue.left
            self._must(not open_ or shut, "P2", f"{target.ref} raised beside open {queue.name}")

    def _released(self, name: str) -> None:
        """A rule goes: nothing of what it did to the cluster is left."""
        for queue in self.objects.queues.values():
            open_ = queue.stop_policy is StopPolicy.NONE is queue.left
            ours = queue.pool == name == queue.adopted_by and not queue.terminating
            self._must(not (ours and open_), "P2", f"gone, and {queue.name} is left open")
        if name in self.forgot:
            return
        for local in self.objects.local_queues.values():
            if local.pool == name and local.writer == MANAGER:
                was = self.local_before.get(local.uid, StopPolicy.NONE)
                self._must(
                    local.stop_policy is was, "P1", f"gone, and {local.name} was {was} before us"
                )
        for work in (work for work in self.objects.works.values() if work.pool == name):
            self._must(
                work.uid not in self.put_to_sleep or work.active or work.expired,
                "P4",
                f"gone, and {work.name} sleeps",
            )

    # -- changes of phase

    def _remembered(self, action: Remember) -> None:
        before, after = self.was.phase, action.status.phase
        name, now = action.rule, self.world.clock.now()
        if self.was.contested_by and not action.status.contested_by:
            # A person said resume: what was a fight before is over.
            self.raised.pop(name, None)
        if before == after:
            return
        # A slow write counts from when it was decided.
        now = min(now, action.status.since or now)
        if (before, after) == (Phase.SERVING, Phase.YIELDING):
            self._may_lend(name, action.status)
        if after == Phase.RECLAIMING and before != Phase.RESTORING:
            self.giving_since[name] = now
        if after == Phase.SERVING:
            self.back_at[name] = now
        if action.status.reason == Reason.YIELD_OVERDUE:
            self.failed_at[name] = now
        if before in LENT and after == Phase.RECLAIMING:
            raised = action.status.reason == Reason.SERVING_RAISED
            self.raised[name] = [*self.raised.get(name, ()), now] if raised else []
        window = action.status.window
        if (before, after) == (Phase.YIELDING, Phase.HARVESTING):
            held = self.seen(name).held & self._seen(name).held
            self._must(not held, "P2", f"lent, and {sorted(held)} hold cards")
        if window and after == Phase.RESTORING:
            batch = self.checks.seen(name).batch & self.checks._truth(name).batch
            left = batch | (self.seen(name).working & self._seen(name).working)
            due = self.giving_since.get(name, now) + window.drain_timeout
            self._must(not left or now + CLOCK >= due, "P4", f"brought back beside {sorted(left)}")
        if window and after == Phase.SERVING:
            self._must(window is None, "P1", "a window is kept while serving")

    def _may_lend(self, name: str, status: Status) -> None:
        rule = self.objects.rules[name].rule
        seen, now = self.seen(name), self._seen(name)
        names = [spec.cluster_queue for spec in rule.batch.queues] if rule else []
        queues = [q for one in names if (q := self.objects.queues.get(one))]
        adopted = [q for q in queues if q.adopted_by == name and not q.terminating]
        waits = seen.waiting | now.waiting
        stale, lagging = self.checks.stale(), self.checks.lagging
        raised = [at for at in self.raised.get(name, ()) if at > self._resumed(name)]
        fights = name not in self.forgot and len(raised) >= RAISED
        wrong = {
            **dict.fromkeys(seen.against & now.against, True),
            "P6: it is contested": bool(status.contested_by),
            "P6: a person closed a queue": bool(seen.closed & now.closed) and not stale,
            "P2: others hold cards": bool(seen.held & now.held),
            "P6: a queue is not ours": not lagging and len(adopted) < len(names),
            "nothing waits": not waits and not lagging,
            "P1: local queues are owed": bool(self.was.owed.local_queues),
            "P6: a fight over serving": fights,
        }
        for what, holds in wrong.items():
            self._must(not holds, what.split(": ")[0], f"a window opened: {what}")

    def _resumed(self, name: str) -> datetime:
        """When a person last said resume: what is done since is for that person."""
        stored = self.objects.rules.get(name)
        return (stored.resume_at if stored else None) or self.world.began

    def _users_within(self, rule: Rule, length: timedelta) -> bool:
        now, demand = self.world.clock.now(), self.world.metrics.demand
        spans = [s for serving in rule.serving if serving.ref in demand
                 for s in demand[serving.ref].spans]  # fmt: skip
        return any(s.start <= now - READING and s.end > now - length for s in spans)

    # -- every cycle

    def cycle(self, name: str, decision: Decision | None) -> None:
        stored = self.objects.rules.get(name)
        if decision is None:
            if stored is not None and stored.status is None and name in self.written:
                self.forgot.add(name)
                # How often it was corrected is forgotten with the status.
                self.undone.clear()
            self.causes[name] = self._causes(name, stored)
            return
        clean = not self.checks.lagging and self.checks.injected == self.checks.faults()
        if (
            not clean
            or self.checks.started_at.get(name) != self.world.clock.now()
            or stored is None
        ):
            return
        status = self._status(name)
        if status.phase not in LENT:
            return
        why = ", ".join(self.causes[name])
        self._must(not why, "P3", f"still {status.phase}, though {why}")
        plan = status.window.reclaim_at if status.window else None
        late = plan is not None and self.world.clock.now() >= plan + STEP
        self._must(not late, "P3", f"still {status.phase}, though the plan was {plan}")

    def _causes(self, name: str, stored: SimRule | None) -> list[str]:
        """Why a window has to end, as the world is when a cycle begins."""
        status = self._status(name)
        window = status.window
        if stored is None or stored.rule is None or window is None or status.phase not in LENT:
            return []
        now, found = self.world.clock.now(), self._targets_changed(window)
        # Of what the rule had let go before, a pod is somebody else's.
        lent = {target.ref for target in window.targets}
        pods = [
            p.name
            for p in self.objects.pods.values()
            if p.pool == name and isinstance(p.owner, Deployment) and p.owner.ref in lent
        ]
        if pods and status.phase == Phase.HARVESTING:
            found.append(f"pods {pods} of serving are there")
        cards = sum(n.allocatable for n in self.objects.nodes.values() if n.pool == name)
        if cards < window.count:
            found.append("a card is gone")
        since, said = status.contested_since, stored.resume_at
        if status.contested_by and not (since and said and said >= since):
            found.append(f"it is contested by {status.contested_by}")
        calendar = stored.rule.window.calendar
        if not any(open_at(calendar, at) for at in (now - CLOCK, now, now + CLOCK)):
            found.append("its calendar is closed")
        if now >= window.opened_at + stored.rule.window.max + CLOCK:
            found.append("window.max is over")
        for spec in window.queues:
            queue = self.objects.queues.get(spec.spec.cluster_queue)
            if queue is None or queue.uid != spec.uid or queue.adopted_by != name:
                found.append(f"{spec.spec.cluster_queue} is not ours any more")
        if list(stored.rule.batch.queues) != [entry.spec for entry in window.queues]:
            found.append("batch.queues was edited")
        return found

    def _targets_changed(self, window: Window) -> list[str]:
        found = []
        for entry in window.targets:
            target = self.objects.deployments.get(entry.ref)
            if target is None or target.uid != entry.uid:
                found.append(f"{entry.ref} is gone")
            elif target.replicas and (entry.lowered or target.record):
                found.append(f"{entry.ref} was raised")
            elif target.replicas not in (0, entry.replicas):
                found.append(f"{entry.ref} was scaled")
        return found

    # -- at the end

    def came_back(self, name: str) -> None:
        """What was closed on the way is open again."""
        stored = self.objects.rules.get(name)
        if stored is None or name in self.forgot:
            return
        # What another holds open is kept shut below it, until a person says resume.
        if self.checks._open_by_others(name):
            return
        owed = self._status(name).owed.local_queues
        self._must(not owed, "P1", f"still owes {[one.name for one in owed]}")
        for local in self.objects.local_queues.values():
            if local.pool == name and local.writer == MANAGER:
                was = self.local_before.get(local.uid, StopPolicy.NONE)
                self._must(local.stop_policy is was, "P1", f"{local.name} was {was} before us")

    def _status(self, name: str) -> Status:
        stored = self.objects.rules.get(name)
        return (stored.status if stored else None) or Status()

    def _must(self, holds: object, promise: str, text: str) -> None:
        self.checks._must(holds, promise, text)
