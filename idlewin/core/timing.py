"""When giving back has to start, and what still fits before: the arithmetic of a window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from idlewin.core.pool import Queue, StopPolicy, Workload
from idlewin.core.rule import OnReturn, QueueClass, Rule
from idlewin.core.situation import Situation
from idlewin.core.status import LeadTimes, Status, WindowQueue
from idlewin.core.target import Ref

#: From an opened queue to a running pod: Kueue's cycle, the Job controller, the scheduler.
START = timedelta(seconds=2)
#: After a visible stop Kueue still admits what it had in hand; measured at most 0.5 s, once 2.5 s
#: after the patch. What is sealed counts only after this.
SETTLE = timedelta(seconds=5)
#: A stop that is not seen by then is sealed by the next rung of the ladder.
STOP_SEEN_WITHIN = timedelta(seconds=15)
#: Work that a drain should have evicted by then is stopped one by one.
DRAIN_SEEN_WITHIN = timedelta(seconds=20)
#: Kueue drains about one job a second.
DRAIN_PER_JOB = timedelta(seconds=1)
#: A pod past its agreed bound by this may be evicted: it agreed to that bound.
PAST_BOUND = timedelta(seconds=30)
#: Until a start-up was measured.
LEAD_UNMEASURED = timedelta(minutes=5)
LEAD_QUANTILE = 0.9
#: The same for giving the cards away.
OPENING_UNMEASURED = timedelta(minutes=2)
#: So many of the last handovers are kept.
KEPT = 20
MARGIN_MAX = timedelta(minutes=1)
BACK_OFF_FIRST = timedelta(minutes=5)
BACK_OFF_MAX = timedelta(hours=6)
#: A queue closed for fit reopens at most so often in a window, and only with room to spare.
REOPENINGS = 2
ROOM_TO_REOPEN = 1.25


def lead_time(rule: Rule, status: Status) -> timedelta:
    """How long a return takes until all targets are ready: the slowest one's."""
    return max(
        _lead_of(serving.ref, serving.lead_time, status.lead_times) for serving in rule.serving
    )


def _lead_of(ref: Ref, written: timedelta | str, measured: Sequence[LeadTimes]) -> timedelta:
    if isinstance(written, timedelta):
        return written
    seconds = next((lead.seconds for lead in measured if lead.target == str(ref)), ())
    if not seconds:
        return LEAD_UNMEASURED
    rank = min(len(seconds), math.ceil(LEAD_QUANTILE * (len(seconds) + 1)))
    return timedelta(seconds=sorted(seconds)[rank - 1])


def opening_time(status: Status) -> timedelta:
    """From the wish to lend until batch runs: as long as it mostly took."""
    took = sorted(status.opening_seconds)
    return timedelta(seconds=took[len(took) // 2]) + START if took else OPENING_UNMEASURED


def drain_time(rule: Rule, cards: int) -> timedelta:
    """How long the queues that are drained take: their longest grace, and a second a job.

    Where not all work agreed to it, a queue is held before it is drained, till that has settled.
    """
    evict = rule.batch.on_return is OnReturn.EVICT
    graces = [queue.grace for queue in rule.batch.queues if queue.contract or evict]
    held = timedelta() if evict else SETTLE
    return held + max(graces) + cards * DRAIN_PER_JOB if graces else timedelta()


def margin(rule: Rule) -> timedelta:
    """What a plan keeps in hand: a tenth of the shortest window, at most a minute."""
    return min(rule.window.min / 10, MARGIN_MAX)


def wanted_back(s: Situation, opened_at: datetime) -> datetime | None:
    """When serving is wanted ready: forecast, calendar or window.max, whichever is first.

    None: the calendar is closed, or there is no forecast that is ready.
    """
    rule, outlook = s.rule, s.outlook
    if rule is None or outlook is None or not outlook.forecast.ready:
        return None
    closes = rule.window.calendar.open_until(s.now)
    if closes is None:
        return None
    return min(outlook.back, closes, opened_at + rule.window.max)


def before_return(rule: Rule, status: Status) -> timedelta:
    """How long before serving is wanted ready giving back has to start."""
    return lead_time(rule, status) + drain_time(rule, rule.cards.count) + margin(rule)


def reclaim_at(s: Situation, opened_at: datetime) -> datetime | None:
    """When giving back has to start, by what is known now."""
    back = wanted_back(s, opened_at)
    return back - before_return(s.rule, s.status) if back and s.rule else None


def need(spec: QueueClass, work: Workload | None = None) -> timedelta:
    """The time that work of a queue needs to be worth starting, its grace and all.

    Under a contract, or where no bound is known of work that may be evicted, its shortest slice;
    else its bound, its own where shorter.
    """
    agreed = spec.contract is not None and (work is None or work.contract)
    own = work.max_runtime if work else None
    bounds = [bound for bound in (spec.max_runtime, own) if bound is not None and not agreed]
    return START + min(bounds, default=spec.min_slice) + spec.grace + SETTLE


def need_of(spec: QueueClass, queue: Queue) -> timedelta:
    """The time that whatever an open queue may let in needs: the longest of what waits there."""
    waiting = [work for work in queue.workloads if work.active and not work.admitted]
    odd = [work for work in waiting if spec.contract is not None and not work.contract]
    return max([need(spec), *(need(spec, work) for work in odd)])


def kept_out(queue: Queue, work: Workload, now: datetime) -> bool:
    """Whether Kueue would not let it in even with its ClusterQueue open."""
    gate = queue.gate_of(work)
    if gate is not None and gate.stop_policy is not StopPolicy.NONE:
        return True
    return work.kept_out_until is not None and now < work.kept_out_until


def may_open(entry: WindowQueue, queue: Queue, until: datetime, now: datetime) -> bool:
    """Whether a queue of an open window may be open now; reopening asks for more room."""
    time = need_of(entry.spec, queue)
    if entry.closed_for_fit == 0:
        return now + time <= until
    return entry.closed_for_fit <= REOPENINGS and now + time * ROOM_TO_REOPEN <= until


def bound_of(work: Workload, spec: QueueClass, queue: Queue) -> datetime | None:
    """When an admitted workload ends at the latest, as agreed; None: it never agreed to an end.

    Its class's bound is one where a policy ends what runs longer: Kueue knows only its own.
    """
    of_class = spec.max_runtime if queue.bound_enforced else None
    bounds = [bound for bound in (of_class, work.max_runtime) if bound is not None]
    if work.admitted_at is None or not bounds:
        return None
    return work.admitted_at + min(bounds)


def last_bound(queues: Sequence[tuple[WindowQueue, Queue]]) -> datetime | None:
    """The last instant at which admitted work of queues that wait has to end."""
    bounds = [
        bound
        for entry, queue in queues
        for work in queue.workloads
        if work.admitted and (bound := bound_of(work, entry.spec, queue))
    ]
    return max(bounds, default=None)


def back_off(failures: int) -> timedelta:
    """How long the next handover waits after so many failed in a row."""
    return min(BACK_OFF_MAX, BACK_OFF_FIRST * (1 << min(max(0, failures - 1), 10)))
