"""What a window needs before it is opened, and when it has to be given back.

Giving cards away asks for everything in the list of ``window_open``; each item that fails is a
reason for staying, and the first one is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from idlewin.core import timing, whose
from idlewin.core.decision import Check, Checks
from idlewin.core.lint import CONSENT
from idlewin.core.load import Level
from idlewin.core.pool import Queue, Workload
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode, QueueClass, Rule
from idlewin.core.situation import Situation
from idlewin.core.text import format_duration, format_instant


def due(s: Situation) -> datetime | None:
    """When giving back has to start in the open window; the last plan where there is no new one."""
    assert s.window is not None  # noqa: S101 - asked in a window only
    return timing.reclaim_at(s, s.window.opened_at) or s.window.reclaim_at


def waiting(s: Situation) -> Iterator[tuple[QueueClass, Workload]]:
    """Work that an opening would let in, with its class; what we put to sleep counts."""
    asleep = {work.uid for work in s.status.owed.workloads}
    for spec, queue, work in _not_admitted(s):
        awake = work.active or work.uid in asleep
        if awake and not timing.kept_out(queue, work, s.now):
            yield spec, work


def _not_admitted(s: Situation) -> Iterator[tuple[QueueClass, Queue, Workload]]:
    for spec in s.rule.batch.queues if s.rule else ():
        queue = s.pool.queue(spec.cluster_queue)
        if queue is not None:
            yield from ((spec, queue, work) for work in queue.workloads if not work.admitted)


def window_open(s: Situation) -> Checks:
    """Everything that a window needs, the most basic first."""
    rule = s.rule
    if rule is None:
        return (Check("rule", bool(rule), s.object.error, "readable", Reason.RULE_INVALID),)
    return (
        *_consent(s, rule),
        *_idleness(s, rule),
        *_pace(s, rule),
        *_time(s, rule),
        *_work(s),
        *_cards(s, rule),
        *_permission(s, rule),
    )


def _consent(s: Situation, rule: Rule) -> Checks:
    consent = [r.text for r in s.refusals if r.fault in CONSENT]
    faults = [r.text for r in s.refusals if r.fault not in CONSENT]
    until = s.object.wake_until
    claimed = until is not None and until > s.now
    lost = [str(target.ref) for target in whose.lost(s)]
    closed = [whose.stopped_by(q) for q in whose.ours(s) if whose.closed_by_other(s, q)]
    deleting = "being deleted" if s.object.deleting else ""
    return (
        Check("deleted", not deleting, deleting or "no", "", Reason.RULE_CHANGED),
        Check("paused", not rule.paused, str(rule.paused), "", Reason.PAUSED),
        Check("queues are ours", not consent, _first(consent), "", Reason.NOT_ADOPTED),
        Check("rule and cluster agree", not faults, _first(faults), "", Reason.RULE_INVALID),
        Check("contested by", not s.status.contested_by, s.status.contested_by or "nobody", "",
              Reason.CONTESTED),
        Check("at our zero without a record", not lost, ", ".join(lost) or "none", "none",
              Reason.RECORD_LOST),
        Check("queues closed by others", not closed, ", ".join(closed) or "none", "none",
              Reason.QUEUE_CLOSED_BY_OTHER),
        Check("claim until", not claimed, format_instant(until) if until else "none", "",
              Reason.WAKE_CLAIMED, until if claimed else None),
    )  # fmt: skip


def _idleness(s: Situation, rule: Rule) -> Checks:
    unready = [
        f"{target.ref} {target.ready}/{target.replicas}"
        for target in (s.pool.target(serving.ref) for serving in rule.serving)
        # One that was up and has fallen is looked at by somebody before its cards are lent.
        if target and target.ready < max(target.replicas, str(target.ref) in s.status.seen_up)
    ]
    # More pods than its count: a surge that waits or starts. Whoever made it wants serving, and
    # after a return only the newest template comes back, which has not been seen ready yet.
    unready += [
        f"pod {pod}"
        for pod in s.pool.pods
        if pod.owner in _serving(rule) and not pod.ready and not pod.terminating
    ]
    known = s.load.level is not Level.UNKNOWN
    idle = s.load.level is Level.IDLE
    turns = s.load.since + rule.window.idle_for
    length = format_duration(s.now - s.load.since) if idle else "not idle"
    return (
        Check("demand is known", known, s.load.why, "", Reason.LOAD_UNKNOWN),
        Check("no demand", s.load.level is not Level.BUSY, s.load.why, "", Reason.LOAD_BUSY),
        Check("serving not ready", not unready, ", ".join(unready) or "none", "none",
              Reason.SERVING_NOT_READY),
        Check("idle for", idle and s.now >= turns, length, format_duration(rule.window.idle_for),
              Reason.IDLE_TOO_SHORT, turns if idle else None),
    )  # fmt: skip


def _pace(s: Situation, rule: Rule) -> Checks:
    """Against flapping: the shortest stay, the back-off, the day's windows."""
    counters = s.status.counters
    # By the epoch, which a lost status takes up again from records and queues; counters do not.
    stay = s.since + rule.window.min_serving if s.status.epoch else s.now
    off = s.status.back_off_until
    today = s.status.counters.day == rule.window.calendar.day_of(s.now).isoformat()
    opened = counters.windows_today if today else 0
    return (
        Check("with serving since", s.now >= stay, format_instant(s.since),
              f"for {format_duration(rule.window.min_serving)}", Reason.MIN_SERVING, stay),
        Check("last return", not s.status.unproven, s.status.failure or "in time", "in time",
              Reason.RETURN_UNPROVEN),
        Check("back-off until", off is None or s.now >= off, format_instant(off) if off else "none",
              "", Reason.BACKING_OFF, off),
        Check("windows today", opened < rule.window.max_per_day, str(opened),
              f"below {rule.window.max_per_day}", Reason.HANDOVERS_SPENT),
    )  # fmt: skip


def _time(s: Situation, rule: Rule) -> Checks:
    calendar, outlook = rule.window.calendar, s.outlook
    closes, opens = calendar.open_until(s.now), calendar.opens_at(s.now)
    ready = outlook is not None and outlook.forecast.ready
    back = timing.wanted_back(s, s.now)
    length = max(back - s.now, timedelta()) if back else timedelta()
    whole = timedelta(seconds=int(length.total_seconds()))
    price = f"a late return costs {outlook.forecast.price:.3g} min" if outlook else "no forecast"
    return (
        Check("calendar", closes is not None,
              f"until {format_instant(closes)}" if closes else
              f"opens {format_instant(opens)}" if opens else "closed", calendar.time_zone,
              Reason.CALENDAR_CLOSED, closes or opens),
        Check("forecast", ready, outlook.forecast.rests_on if outlook else "none", "",
              Reason.FORECAST_NOT_READY),
        Check("worth lending", outlook is not None and outlook.opens, price, "",
              Reason.WINDOW_TOO_SHORT),
        Check("likely idle for", length >= rule.window.min, format_duration(whole),
              format_duration(rule.window.min), Reason.WINDOW_TOO_SHORT),
    )  # fmt: skip


def _work(s: Situation) -> Checks:
    found = list(waiting(s))
    out = [work for _, _, work in _not_admitted(s) if work not in [w for _, w in found]]
    seen = f"{len(found)}, and {len(out)} that Kueue keeps out" if out else str(len(found))
    until = timing.reclaim_at(s, s.now)
    fitting = [work for spec, work in found if until and s.now + timing.need(spec, work) <= until]
    return (
        Check("work waiting", bool(found), seen, "at least 1", Reason.NO_WORK_WAITING),
        Check(
            "work that fits", bool(fitting), str(len(fitting)), "at least 1", Reason.NOTHING_FITS
        ),
    )


def _serving(rule: Rule) -> list[str]:
    return [str(serving.ref) for serving in rule.serving]


def _cards(s: Situation, rule: Rule) -> Checks:
    # A target of the last window, that the rule names no more, is not lowered by this one.
    held = [str(pod) for pod in s.pool.pods if pod.on_cards and pod.owner not in _serving(rule)]
    owed = [f"{local.namespace}/{local.name}" for local in s.status.owed.local_queues]
    return (
        Check("local queues to reopen", not owed, ", ".join(owed) or "none", "none",
              Reason.LOCAL_QUEUES_CLOSED),
        Check("others on the cards", not held, ", ".join(held) or "none", "none",
              Reason.CARDS_HELD),
    )  # fmt: skip


def _permission(s: Situation, rule: Rule) -> Checks:
    """Last, so that Observe says what Act would do."""
    asked = s.rehearsal if s.rehearsal and s.now < s.rehearsal.again_at else None
    again = asked.again_at if asked else None
    return (
        Check("mode", rule.mode is Mode.ACT, rule.mode.value, "Act", Reason.OBSERVE_ONLY),
        Check("dry run", asked is not None, "asked" if asked else "not asked", "asked",
              Reason.REHEARSAL_DUE),
        Check("dry run accepted", asked is not None and not asked.refused,
              asked.refused or "yes" if asked else "not asked", "yes", Reason.REHEARSAL_REFUSED,
              again),
    )  # fmt: skip


def _first(texts: list[str]) -> str:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return texts[0] + more if texts else "yes"
