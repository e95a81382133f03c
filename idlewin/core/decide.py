"""Deciding: the first transition whose guard passes, and what to write for the phase that follows.

Total and pure: the same situation gives the same decision, whoever asks, in whichever mode.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from idlewin.core import account, failure, follow, opening, takeover, tallying, timing, whose
from idlewin.core.batch import may_open
from idlewin.core.condition import alarming, conditions
from idlewin.core.decision import Action, Check, Checks, Decision, HoldRule, Remember
from idlewin.core.guard import GUARDS
from idlewin.core.note import owed_by
from idlewin.core.phase import GIVING_BACK, Phase, Row, leaving
from idlewin.core.plan import plan
from idlewin.core.pool import Queue
from idlewin.core.reason import Reason
from idlewin.core.sealing import entries
from idlewin.core.situation import Situation
from idlewin.core.status import Status

#: A moved plan is written only if it moved by so much, or by a tenth of the time left: one that is
#: as far ahead as a forecast sees moves with the clock.
UNTIL_STEP = timedelta(minutes=5)
UNTIL_PART = 10
#: With nothing to wait for, a pool is looked at again after this.
FAR = timedelta(hours=1)
#: While giving back, look again at least so often: the ladder has rungs that are due by time.
LADDER_STEP = timedelta(seconds=5)


def decide(s: Situation) -> Decision:
    """What to do now, and why; "nothing" has a reason too."""
    stored = s.object.status
    if stored:
        s = replace(s, object=replace(s.object, status=follow.taken_in(s)))
    phase = s.phase
    if phase is None or (phase is not Phase.SERVING and s.window is None):
        return _move(s, Row(Phase.HARVESTING, Phase.RECLAIMING, Reason.UNKNOWN_PHASE), (), stored)
    asked: list[Check] = []
    for row in leaving(phase):
        checks = GUARDS[row.reason](s)
        asked += checks
        if all(check.passed for check in checks):
            return _move(s, row, checks, stored)
    return _stay(s, phase, tuple(asked), stored)


def _move(s: Situation, row: Row, checks: Checks, stored: Status | None) -> Decision:
    status = follow.moved(s, row)
    return _decision(s, row, (stored, status), checks, revisit=s.now)


def _stay(s: Situation, phase: Phase, checks: Checks, stored: Status | None) -> Decision:
    reason = next((c.otherwise for c in checks if not c.passed and c.otherwise), Reason.HARVESTING)
    status = s.status
    if reason is not Reason.REHEARSAL_DUE:
        message = reason.meaning
        if s.rehearsal and reason is Reason.REHEARSAL_REFUSED:
            # What to do about it only who refused can tell.
            message = f"{message} It says: {s.rehearsal.refused}"
        status = replace(status, reason=reason.value, message=message)
    status = _contest(s, phase, status)
    if phase is Phase.RESTORING:
        status = failure.marked(s, status)
    if phase is Phase.HARVESTING and (due := opening.due(s)):
        status = _moved_until(status, due, s.now)
    turns = [c.turns_at for c in checks if c.turns_at and c.turns_at > s.now]
    revisit = min([s.now + FAR, *turns, *_rungs(s, phase)])
    return _decision(s, Row(phase, phase, reason), (stored, status), checks, revisit)


def _contest(s: Situation, phase: Phase, status: Status) -> Status:
    """An opening by somebody else is corrected a few times, then the rule is Contested."""
    opened = [queue for queue in _kept_shut(s, phase) if whose.opened_by_other(s, queue)]
    if not opened or status.contested_by or status.counters.corrections < follow.CORRECTIONS:
        return status
    writer = opened[0].stop_writer or "somebody"
    return replace(status, contested_by=writer, contested_since=s.now)


def _kept_shut(s: Situation, phase: Phase) -> list[Queue]:
    """The queues that are to be shut now: all of them, or in a window those that do not fit."""
    if phase is Phase.SERVING:
        return list(whose.ours(s))
    if phase is Phase.YIELDING:
        return [queue for _, queue in entries(s)]
    if phase is Phase.HARVESTING and (until := opening.due(s)):
        return [queue for entry, queue in entries(s) if not may_open(s, entry, queue, until)]
    return []


def _moved_until(status: Status, due: datetime, now: datetime) -> Status:
    until = status.until
    # Of the nearer one: a plan that comes near is not left standing far away.
    if until and abs(due - until) < max(UNTIL_STEP, (min(due, until) - now) / UNTIL_PART):
        return status
    window = replace(status.window, reclaim_at=due) if status.window else None
    return replace(status, until=due, window=window)


def _rungs(s: Situation, phase: Phase) -> list[datetime]:
    """Instants at which a plan or an alarm changes by time alone."""
    if phase is Phase.SERVING:
        return [at for at in failure.down(s).values() if at > s.now]
    if phase in GIVING_BACK:
        due = (timing.STOP_SEEN_WITHIN, timing.DRAIN_SEEN_WITHIN)
        rungs = [s.since + wait for wait in due]
        return [at for at in rungs if at > s.now] + [s.now + LADDER_STEP]
    if phase is Phase.HARVESTING and (until := opening.due(s)):
        ends = [until - timing.need_of(entry.spec, queue) for entry, queue in entries(s)]
        return [end + timedelta(milliseconds=1) for end in ends if end >= s.now]
    return []


def _decision(
    s: Situation,
    row: Row,
    statuses: tuple[Status | None, Status],
    checks: Checks,
    revisit: datetime,
) -> Decision:
    """A decision; ``statuses``: the one that is stored, and the one that follows."""
    stored, status = statuses
    status = replace(
        account.settled(s, status),
        owed=status.owed if stored else takeover.owed(s),
        conditions=conditions(s, status, row.target),
        observed_generation=s.object.generation,
        since=status.since or s.since,
    )
    after = replace(s, object=replace(s.object, status=status))
    actions = plan(after, row.target)
    status = owed_by(after, actions)
    status = tallying.counted(s, row, stored, status)
    first = tuple(action for action in actions if isinstance(action, HoldRule))
    rest: tuple[Action, ...] = tuple(a for a in actions if not isinstance(a, HoldRule))
    if status != stored:
        write = Remember(s.object.name, s.object.resource_version, stored, status)
        rest = (write, *rest)
    return Decision(
        rule=s.object.name,
        at=s.now,
        before=row.source,
        after=row.target,
        reason=row.reason,
        checks=checks,
        status=status,
        actions=first + rest,
        revisit_at=min([revisit, *tallying.due(s, status.tallies)]),
        load=s.load,
        alarms=tuple(c.message for c in status.conditions if c.type in alarming(status)),
    )
