"""Guards: one small function a reason. Each says what was compared; none writes anything.

A guard passes when all of its checks do. Those that give cards away ask for everything; those
that take them back name a single fact, and any of them is enough.
"""

from __future__ import annotations

from collections.abc import Callable

from idlewin.core import batch, frozen, opening, sealing, timing, whose
from idlewin.core.decision import Check, Checks
from idlewin.core.load import Level
from idlewin.core.pool import Role, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.situation import Situation
from idlewin.core.text import format_duration, format_instant

Guard = Callable[[Situation], Checks]


def fact(name: str, holds: object, observed: object = "", limit: str = "") -> Checks:
    """A guard's verdict that rests on one comparison."""
    return (Check(name, bool(holds), str(observed), limit),)


# -- SERVING to RECLAIMING


def record_found(s: Situation) -> Checks:
    """Something carries our record though no window is open here: another began, we finish."""
    targets = [str(t.ref) for t in s.pool.targets if t.record and t.record.rule == s.object.name]
    targets += [f"{t.ref} (status)" for t in whose.lowered_late(s)]
    lost = s.object.status is None or bool(s.object.status_error)
    found = whose.left_open(s)
    if whose.may_act(s):
        # Who opened it meanwhile is corrected, as in SERVING; else it is that person's.
        found += [q for q in whose.ours(s) if q.epoch is not None and whose.opened_by_other(s, q)]
    queues = [queue.name for queue in found] if lost else []
    return fact("our record on", targets or queues or s.window, ", ".join(targets + queues))


def open_with_batch(s: Situation) -> Checks:
    """The rule acts, its queue is open outside a window, and batch has used that."""
    using = [
        queue.name
        for queue in whose.ours(s)
        if queue.stop_policy is StopPolicy.NONE and sealing.sealed_by_local_queues(s, queue) is None
    ]
    batch = s.pool.on_cards(Role.BATCH) or [
        work
        for queue in whose.ours(s)
        if queue.name in using
        for work in queue.workloads
        if work.admitted
    ]
    return fact("open with batch", using and batch, ", ".join(using), "closed while serving")


# -- giving back: any one is enough


def rule_changed(s: Situation) -> Checks:
    """What the window was opened on is not what the rule says now."""
    change = frozen.change_since(s)
    return fact("changed", change, change or "nothing", "as when the window opened")


def paused(s: Situation) -> Checks:
    """A person has paused the rule."""
    return fact("paused", s.rule and s.rule.paused, bool(s.rule and s.rule.paused))


def contested(s: Situation) -> Checks:
    """Another writer keeps changing what is ours."""
    return fact("contested by", s.status.contested_by, s.status.contested_by or "nobody")


def target_changed(s: Situation) -> Checks:
    """A remembered target is gone, another of its name, deployed anew, or scaled before us."""
    changed = frozen.targets_changed(s)
    return fact("targets changed", changed, ", ".join(changed) or "none")


def card_gone(s: Situation) -> Checks:
    """The nodes have fewer cards than the window was opened on."""
    count = s.window.count if s.window else 0
    return fact("cards", s.pool.allocatable < count, s.pool.allocatable, f"at least {count}")


def serving_raised(s: Situation) -> Checks:
    """A target is not at our zero any more, or a pod of serving appeared in the window."""
    raised = [
        f"{t.ref} by {now.replicas_writer or 'somebody'}"
        for t in whose.remembered(s)
        if (now := whose.same(s, t)) and now.replicas > 0 and (t.lowered or now.record)
    ]
    if s.status.phase == "Harvesting":
        raised += [f"pod {p}" for p in s.pool.pods if p.role is Role.SERVING]
    return fact("raised", raised, ", ".join(raised) or "none")


def wake_claimed(s: Situation) -> Checks:
    """A claim is in force, or there is one that cannot be read: then demand is assumed."""
    until = s.object.wake_until
    claimed = bool(s.object.wake_error) or (until is not None and until > s.now)
    seen = s.object.wake_error or (format_instant(until) if until else "none")
    return (Check("claim until", claimed, seen, turns_at=until if claimed else None),)


def demand_returned(s: Situation) -> Checks:
    """Users are there."""
    return fact("demand", s.load.level is Level.BUSY, s.load.why)


def load_unknown(s: Situation) -> Checks:
    """Demand has not been known for staleAfter."""
    if s.load.level is not Level.UNKNOWN or s.rule is None:
        return fact("demand is known", s.load.level is Level.UNKNOWN, s.load.why)
    due = s.load.since + s.rule.stale_after
    age = f"unknown for {format_duration(s.now - s.load.since)}: {s.load.why}"
    limit = format_duration(s.rule.stale_after)
    return (Check("demand is known", s.now >= due, age, limit, turns_at=due),)


def window_max(s: Situation) -> Checks:
    """window.max, less the time that the return takes, is reached."""
    if s.window is None or s.rule is None:
        return fact("window.max", holds=False)
    due = batch.useful_until(
        s, s.window.opened_at + s.rule.window.max - timing.before_return(s.rule, s.status)
    )
    limit = format_duration(s.rule.window.max)
    return (
        Check("window.max", s.now >= due, f"give back {format_instant(due)}", limit, turns_at=due),
    )


def reclaim_reached(s: Situation) -> Checks:
    """Demand is expected, or the calendar closes, so soon that giving back starts now."""
    if s.window is None or s.rule is None:
        return fact("reclaim at", holds=False)
    if s.rule.window.calendar.open_until(s.now) is None:
        return fact("calendar", True, "closed", "open")  # noqa: FBT003 - a fact's verdict
    due = opening.due(s)
    if due is None:
        return fact("reclaim at", holds=False, observed="no forecast")
    due = batch.useful_until(s, due)
    return (Check("reclaim at", s.now >= due, format_instant(due), turns_at=due),)


def queue_dry(s: Situation) -> Checks:
    """No work ran for dryAfter."""
    if s.rule is None or batch.batch_pods(s) or batch.admitted(s):
        return fact("work runs", holds=False, observed="yes")
    seen = batch.without_work_since(s)
    due, limit = seen + s.rule.batch.dry_after, format_duration(s.rule.batch.dry_after)
    idle = format_duration(s.now - seen)
    return (Check("no work for", s.now >= due, idle, limit, turns_at=due),)


# -- forward, and out of the ladder


def serving_gone(s: Situation) -> Checks:
    """Serving's pods are gone and the cards free, by a look; the queues are shut as wanted."""
    up = [str(t.ref) for t in whose.remembered(s) if (now := whose.same(s, t)) and now.replicas > 0]
    pods = [str(p) for p in s.pool.pods if p.role is Role.SERVING]
    held = [str(pod) for pod in s.pool.others_on_cards()]
    open_ = [
        entry.spec.cluster_queue
        for entry in (s.window.queues if s.window else ())
        if (queue := s.pool.queue(entry.spec.cluster_queue)) is None
        or sealing.sealed_since(queue) is None
        or (queue.left is None and not whose.closed_by_other(s, queue))
    ]
    return (
        Check("targets above zero", not up, _listed(up), "none", Reason.SERVING_LEAVING),
        Check("serving pods", not pods, _listed(pods), "none", Reason.SERVING_LEAVING),
        Check(
            "queues not stopped and marked",
            not open_,
            _listed(open_),
            "none",
            Reason.QUEUES_NOT_SETTLED,
        ),
        Check("others on the cards", not held, _listed(held), "none", Reason.CARDS_HELD),
    )


def yield_overdue(s: Situation) -> Checks:
    """Serving did not leave in time."""
    if s.rule is None:
        return fact("yieldTimeout", holds=False)
    due = s.since + s.rule.window.yield_timeout
    holders = _listed([str(p) for p in s.pool.pods])
    return (Check("yieldTimeout", s.now >= due, f"held by {holders}", turns_at=due),)


def batch_gone(s: Situation) -> Checks:
    """The queues are sealed and settled, no batch pod holds a card, nothing admitted is left."""
    assert s.window is not None  # noqa: S101 - phases away from SERVING have a window
    overdue = sealing.overdue_at(s, s.window)
    settled = {queue.name: sealing.settled_at(s, queue) for _, queue in sealing.entries(s)}
    unsealed = [name for name, at in settled.items() if at is None]
    last = max((at for at in settled.values() if at), default=s.now)
    pods = [str(p) for p in batch.batch_pods(s)]
    work = [str(w) for w in batch.admitted(s)]
    # With Kueue dead nobody ends a workload whose pod is gone; it counts till drainTimeout, unless
    # it is one that nobody ends in any case.
    counts = bool(work) and not (s.now >= overdue and not pods and not batch.endless(s))
    return (
        Check("queues not sealed", not unsealed, _listed(unsealed), "none", Reason.SEALING),
        Check("settled at", s.now >= last, format_instant(last), "", Reason.SEALING, last),
        Check("batch pods", not pods, _listed(pods), "none", Reason.BATCH_LEAVING),
        Check("admitted work", not counts, _listed(work), "none", Reason.BATCH_LEAVING, overdue),
    )


def drain_overdue(s: Situation) -> Checks:
    """Batch had its time, and a claim on the cards keeps the two apart, or a person says so."""
    assert s.window is not None  # noqa: S101 - phases away from SERVING have a window
    due = sealing.overdue_at(s, s.window)
    bare = [str(t.ref) for t in whose.to_restore(s) if t.claims == 0]
    gone = not batch.batch_pods(s) and not batch.endless(s)
    apart = not bare or gone or s.forced
    loose = sealing.loose(s)
    return (
        Check(
            "drainTimeout", s.now >= due or s.forced, f"until {format_instant(due)}", turns_at=due
        ),
        Check("queues that a late leader may open", not loose, _listed(loose), "none"),
        Check("targets that request no card", apart, _listed(bare), "none while batch runs"),
    )


def batch_seen(s: Situation) -> Checks:
    """Batch is on the cards though a target that opens the device node is due."""
    bare = [str(t.ref) for t in whose.to_restore(s) if t.claims == 0]
    pods = [str(p) for p in batch.batch_pods(s)]
    return fact(
        "batch beside the device node", bare and pods and not s.forced, _listed(pods), "none"
    )


def handover_complete(s: Situation) -> Checks:
    """Each remembered target that exists is as its owner wants it, batch is gone and shut out."""
    away = [str(t.ref) for t in whose.to_restore(s)]
    starting = [
        f"{now.ref} {now.ready}/{now.replicas}"
        for t in whose.remembered(s)
        if (now := whose.same(s, t)) and now.ready < now.replicas
    ]
    settling = [
        str(now.ref) for t in whose.remembered(s) if (now := whose.same(s, t)) and now.settling
    ]
    pods, kept = [str(p) for p in batch.ours_still_there(s)], list(whose.kept(s))
    open_ = [queue.name for _, queue in sealing.entries(s) if sealing.stands_open(s, queue)]
    return (
        Check("targets to restore", not away, _listed(away), "none", Reason.SERVING_STARTING),
        Check("not ready", not starting, _listed(starting), "none", Reason.SERVING_STARTING),
        Check("held by us", not settling, _listed(settling), "none", Reason.SERVING_STARTING),
        Check("batch pods", not pods, _listed(pods), "none", Reason.BATCH_LEAVING),
        Check("queues open", not open_, _listed(open_), "none", Reason.QUEUES_NOT_SETTLED),
        Check("kept as others scaled them", passed=True, observed=_listed(kept)),
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "none"


GUARDS: dict[Reason, Guard] = {
    Reason.RECORD_FOUND: record_found,
    Reason.OPEN_WITH_BATCH: open_with_batch,
    Reason.WINDOW_OPEN: opening.window_open,
    Reason.RULE_CHANGED: rule_changed,
    Reason.PAUSED: paused,
    Reason.CONTESTED: contested,
    Reason.TARGET_CHANGED: target_changed,
    Reason.CARD_GONE: card_gone,
    Reason.SERVING_RAISED: serving_raised,
    Reason.WAKE_CLAIMED: wake_claimed,
    Reason.DEMAND_RETURNED: demand_returned,
    Reason.LOAD_UNKNOWN: load_unknown,
    Reason.WINDOW_MAX: window_max,
    Reason.RECLAIM_REACHED: reclaim_reached,
    Reason.QUEUE_DRY: queue_dry,
    Reason.SERVING_GONE: serving_gone,
    Reason.YIELD_OVERDUE: yield_overdue,
    Reason.BATCH_GONE: batch_gone,
    Reason.DRAIN_OVERDUE: drain_overdue,
    Reason.BATCH_SEEN: batch_seen,
    Reason.HANDOVER_COMPLETE: handover_complete,
}
