"""The status that follows a decision: what a transition remembers, opens, counts and forgets."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from idlewin.core import account, failure, frozen, measure, takeover, tallying, timing, whose
from idlewin.core.load import Level
from idlewin.core.phase import Phase, Row
from idlewin.core.reason import Reason
from idlewin.core.rule import Rule
from idlewin.core.situation import Situation
from idlewin.core.status import (
    VERSION,
    Remembered,
    Status,
    Window,
    WindowQueue,
)

#: Foreign changes of what is ours that are corrected in a row; then the rule is Contested.
CORRECTIONS = 3
#: No leader is frozen over so many changes of phase.
LOST = 1000
#: Reasons that say nothing of the next handover: they do not clear what went wrong before.
UNTRIED = frozenset(
    {
        Reason.SERVING_RAISED,
        Reason.OPEN_WITH_BATCH,
        Reason.RECORD_FOUND,
        Reason.UNKNOWN_PHASE,
    }
)


def moved(s: Situation, row: Row) -> Status:
    """The status after a transition, before its actions."""
    status = replace(
        s.status,
        version=VERSION,
        phase=row.target.value,
        since=s.now,
        epoch=next_epoch(s),
        reason=row.reason.value,
        message=row.reason.meaning,
        observed_generation=s.object.generation,
    )
    match row.source, row.target:
        case Phase.SERVING, Phase.YIELDING:
            return _opened(s, status)
        case Phase.YIELDING, Phase.HARVESTING:
            return replace(status, opening_seconds=measure.openings(s))
        case Phase.SERVING, Phase.RECLAIMING:
            return takeover.window(s, status, row.reason)
        case ((Phase.YIELDING | Phase.HARVESTING), Phase.RECLAIMING):
            if s.window is None:
                return takeover.window(s, status, row.reason)
            return _given_back(s, status, row.reason)
        case Phase.RECLAIMING, Phase.RESTORING:
            since = s.window.restoring_since if s.window else None
            return _in_window(_failing(s, status, row.reason), restoring_since=since or s.now)
        case Phase.RESTORING, Phase.SERVING:
            return _closed(s, status)
        case _:
            return status


def next_epoch(s: Situation) -> int:
    """One more than any epoch that we know of: a lost status must not fall behind its queues.

    Where one is newer than the status, that is lost, or of an older time: how far it had come,
    and what a leader that froze since then may hold, shows nowhere.
    """
    seen = [queue.epoch for queue in s.pool.queues if queue.epoch is not None]
    seen += [q.epoch for queue in s.pool.queues for q in queue.local_queues if q.epoch is not None]
    seen += [w.epoch for queue in s.pool.queues for w in queue.workloads if w.epoch is not None]
    seen += [target.record.epoch for target in s.pool.targets if target.record]
    newest = max(seen, default=0)
    return newest + LOST if newest > s.status.epoch else s.status.epoch + 1


def _in_window(status: Status, **changes: object) -> Status:
    window = status.window
    return replace(status, window=replace(window, **changes)) if window else status  # type: ignore[arg-type]


def _opened(s: Situation, status: Status) -> Status:
    rule = s.rule
    assert rule is not None  # noqa: S101 - the window guard has read it
    today = rule.window.calendar.day_of(s.now).isoformat()
    counters = status.counters
    same_day = counters.windows_today if counters.day == today else 0
    until = timing.reclaim_at(s, s.now)
    return replace(
        status,
        until=until,
        not_lowered=(),
        window=_window(s, status, rule, _remember(s, rule), until),
        counters=replace(
            counters, windows=counters.windows + 1, windows_today=same_day + 1, day=today
        ),
    )


def _window(
    s: Situation,
    status: Status,
    rule: Rule,
    targets: tuple[Remembered, ...],
    until: datetime | None = None,
) -> Window:
    return Window(
        epoch=status.epoch,
        generation=s.object.generation,
        opened_at=s.now,
        resource=rule.cards.resource,
        node_selector=rule.cards.node_selector,
        device_nodes=rule.cards.device_nodes,
        exempt_namespaces=rule.cards.exempt_namespaces,
        nodes=s.pool.nodes,
        count=rule.cards.count,
        targets=targets,
        queues=tuple(
            WindowQueue(spec=spec, uid=queue.uid)
            for spec in rule.batch.queues
            if (queue := s.pool.queue(spec.cluster_queue)) is not None
        ),
        on_return=rule.batch.on_return,
        drain_timeout=rule.batch.drain_timeout,
        reclaim_at=until,
    )


def _remember(s: Situation, rule: Rule) -> tuple[Remembered, ...]:
    return tuple(
        Remembered(
            ref=target.ref,
            uid=target.uid,
            replicas=target.replicas,
            claims=target.claims,
            generation=target.generation,
            template=target.template,
            settings=target.settings,
            scaled=target.scaled,
            ready_timeout=serving.ready_timeout,
            on_overdue=serving.on_overdue,
        )
        for serving in rule.serving
        if (target := s.pool.target(serving.ref)) is not None
    )


def _given_back(s: Situation, status: Status, reason: Reason) -> Status:
    counters = replace(status.counters, returns=status.counters.returns + 1)
    undone_by = frozen.undone_by(s, reason)
    if undone_by:
        counters = replace(counters, corrections=counters.corrections + 1)
    status = _failing(s, replace(status, counters=counters, until=None), reason)
    if undone_by and counters.corrections >= CORRECTIONS:
        status = replace(status, contested_by=undone_by, contested_since=s.now)
    return _in_window(status, give_back=reason.value, give_back_epoch=status.epoch)


def _failing(s: Situation, status: Status, reason: Reason) -> Status:
    """The first thing that went wrong in a handover is what is told of it."""
    told = failure.of_move(s, reason)
    known = status.window.failure if status.window else ""
    return _in_window(status, failure=told) if told and not known else status


def _closed(s: Situation, status: Status) -> Status:
    window = s.window
    assert window is not None  # noqa: S101 - RESTORING has a window
    began = window.give_back
    late = (began in tallying.LATE or s.load.level is Level.BUSY) and bool(window.targets)
    counters = status.counters
    failed = failure.of_return(window) or window.failure
    good = not failed and began not in UNTRIED
    harvested = counters.harvested_card_seconds + int(s.harvested.total_seconds())
    counters = replace(
        counters,
        late_returns=counters.late_returns + int(late),
        # A dry window does not show that nobody undoes what we write.
        corrections=0 if good and began != Reason.QUEUE_DRY else counters.corrections,
        failures=0 if good else counters.failures + bool(failed),
        harvested_card_seconds=harvested,
    )
    status = replace(
        status,
        window=None,
        until=None,
        not_lowered=_not_lowered(status, window),
        counters=counters,
        lead_times=measure.start_ups(s, window),
    )
    if late:
        status = account.charged(s, status)
    if good:
        return replace(status, back_off_until=None, failure="", unproven=False)
    if not failed:
        return status
    return replace(
        status,
        back_off_until=s.now + timing.back_off(counters.failures),
        failure=failed,
        unproven=failure.unproven(s, window),
    )


def _not_lowered(status: Status, window: Window) -> tuple[Remembered, ...]:
    """What this window did not lower; and the one before, where this one was only taken over."""
    known = {target.uid for target in window.targets}
    before = (target for target in status.not_lowered if target.uid not in known)
    return (*before, *(t for t in window.targets if t.replicas and not t.lowered))


def taken_in(s: Situation) -> Status:
    """The status that knows what people said, which targets are up, and which may yet fall."""
    status = _resumed(s)
    if s.phase is not Phase.SERVING:
        found = (one for t in whose.remembered(s) for one in whose.inherited(s, t))
        return _in_window(status, targets=tuple(found))
    return _seen(s, replace(status, not_lowered=whose.to_come(s)))


def _resumed(s: Situation) -> Status:
    """The status after ``idlewin resume``: nobody is contested, nothing backs off or is told."""
    status, said = s.status, s.object.resume_at
    since = status.contested_since or status.since
    if said is None or since is None or said < since:
        return status
    if not (status.contested_by or status.failure or status.counters.failures):
        return status
    return replace(
        status,
        contested_by="",
        contested_since=None,
        back_off_until=None,
        failure="",
        unproven=False,
        counters=replace(status.counters, corrections=0, failures=0),
    )


def _seen(s: Situation, status: Status) -> Status:
    """The status that knows which targets were up, so that a fall is told after a restart too.

    What a person has seen down, and said resume to, is meant to be down.
    """
    said = s.object.resume_at
    names = []
    for serving in s.rule.serving if s.rule else ():
        now, name = s.pool.target(serving.ref), str(serving.ref)
        fell = s.down_since.get(name)
        known = name in status.seen_up and not (said and fell and said >= fell)
        if now and (now.ready > 0 or known):
            names.append(name)
    return replace(status, seen_up=tuple(names)) if s.rule else status
