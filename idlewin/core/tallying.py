"""Tallying: what lending brought and cost in Act, and what it would have in Observe.

In Observe nothing moves, so a window is followed here as it would have been: it opens when all
else holds, ends when it would have been given back, and serving is back when a return takes as
long as it is planned to. Nothing that decides ever reads a tally.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from idlewin.core import timing
from idlewin.core.account import PERIOD
from idlewin.core.load import Level
from idlewin.core.phase import Phase, Row
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode, Rule
from idlewin.core.situation import Situation
from idlewin.core.status import Status
from idlewin.core.tally import Tallies, Tally, WouldBe
from idlewin.core.text import format_instant, to_second

#: Reasons to give back that a user is behind.
LATE = frozenset({Reason.DEMAND_RETURNED, Reason.WAKE_CLAIMED, Reason.SERVING_RAISED})


def counted(s: Situation, row: Row, stored: Status | None, status: Status) -> Status:
    """The status with what this decision adds to the tallies.

    That a tally begins is alone not worth a write: it comes with the next that is due.
    """
    if s.rule is None or s.phase is None:
        return status
    acts = s.phase is not Phase.SERVING or s.rule.mode is Mode.ACT
    before = _begun(status.tallies, s.now, acts=acts)
    after = _acted(s, row, status, before) if acts else _observed(s, s.rule, row, before)
    if after == before and status == stored:
        return status
    return replace(status, tallies=after)


def _begun(tallies: Tallies, now: datetime, *, acts: bool) -> Tallies:
    """The tallies with that of this mode going on: each is of the last stretch in its mode."""
    mine, other = (tallies.act, tallies.observe) if acts else (tallies.observe, tallies.act)
    if mine is None or mine.until is not None:
        mine = Tally(since=to_second(now))
    if other is not None and other.until is None:
        other = replace(other, until=to_second(now))
    if acts:
        return Tallies(act=mine, observe=other, wanted_at=tallies.wanted_at)
    return Tallies(observe=mine, act=other, would_be=_believed(tallies.would_be, now))


def _believed(would: WouldBe | None, now: datetime) -> WouldBe | None:
    """Nothing that a clock gone wrong, or a person, has put far away: no window is so long."""
    instants = (would.opened_at, would.back_at, would.wanted_at, would.again_at) if would else ()
    far = any(at is not None and abs(at - now) > PERIOD for at in instants)
    return None if far else would


# -- in Act: what was


def _acted(s: Situation, row: Row, status: Status, tallies: Tallies) -> Tallies:
    act = tallies.act or Tally()
    match row.source, row.target:
        case Phase.SERVING, Phase.YIELDING:
            return replace(tallies, act=replace(act, windows=act.windows + 1), wanted_at=None)
        case ((Phase.YIELDING | Phase.HARVESTING), Phase.RECLAIMING):
            if row.source is Phase.HARVESTING and s.window is not None:
                act = _lent(act, s.now - s.since, s.window.count)
            came = to_second(s.now) if row.reason in LATE else None
            return replace(tallies, act=act, wanted_at=came)
        case Phase.RESTORING, Phase.SERVING:
            if status.counters.late_returns > s.status.counters.late_returns:
                came = tallies.wanted_at or s.load.since
                act = _late(act, s.now - came)
            return replace(tallies, act=act, wanted_at=None)
        case _:
            return tallies


# -- in Observe: what would have been


def _observed(s: Situation, rule: Rule, row: Row, tallies: Tallies) -> Tallies:
    would = tallies.would_be or WouldBe()
    if would.back_at is not None:
        return _returning(s, rule, tallies, would)
    if would.opened_at is not None:
        return _lending(s, rule, tallies, would)
    if row.reason is Reason.OBSERVE_ONLY and _paced(s, rule, would):
        return _opened(s, rule, tallies, would)
    return tallies


def _paced(s: Situation, rule: Rule, would: WouldBe) -> bool:
    """MinServing and maxPerDay, held by the windows that would have been."""
    today = would.day == rule.window.calendar.day_of(s.now).isoformat()
    spent = today and would.windows_today >= rule.window.max_per_day
    return not spent and (would.again_at is None or s.now >= would.again_at)


def _opened(s: Situation, rule: Rule, tallies: Tallies, would: WouldBe) -> Tallies:
    day, observe = rule.window.calendar.day_of(s.now).isoformat(), tallies.observe or Tally()
    before = would.windows_today if would.day == day else 0
    observe = replace(observe, windows=observe.windows + 1)
    opened = WouldBe(opened_at=to_second(s.now), windows_today=before + 1, day=day)
    return replace(tallies, observe=observe, would_be=opened)


def _lending(s: Situation, rule: Rule, tallies: Tallies, would: WouldBe) -> Tallies:
    opened_at = would.opened_at or s.now
    ends, came = _end(s, rule, opened_at)
    if ends is None:
        return tallies
    ran = ends - opened_at - timing.opening_time(s.status)
    back = ends + timing.before_return(rule, s.status) - timing.margin(rule)
    return replace(
        tallies,
        observe=_lent(tallies.observe or Tally(), ran, rule.cards.count),
        would_be=replace(would, back_at=to_second(back), wanted_at=came),
    )


def _end(s: Situation, rule: Rule, opened_at: datetime) -> tuple[datetime | None, datetime | None]:
    """When it would have been given back, and since when a user is there; None: not yet, nobody."""
    until, load = s.object.wake_until, s.load
    if s.object.wake_error or (until is not None and until > s.now):
        return s.now, to_second(s.now)
    if load.level is Level.BUSY:
        return max(opened_at, load.since), to_second(max(opened_at, load.since))
    if rule.paused or s.object.deleting or rule.window.calendar.open_until(s.now) is None:
        return s.now, None
    planned = _planned(s, rule, opened_at)
    return (planned, None) if s.now >= planned else (None, None)


def _planned(s: Situation, rule: Rule, opened_at: datetime) -> datetime:
    """When giving it back would begin, if nobody comes."""
    most = opened_at + rule.window.max - timing.before_return(rule, s.status)
    if s.load.level is Level.UNKNOWN:
        ends = s.load.since + rule.stale_after
    else:
        ends = timing.reclaim_at(s, opened_at) or most
    return max(opened_at, min(ends, most))


def due(s: Situation, tallies: Tallies) -> tuple[datetime, ...]:
    """When a window that would be open, or the way back from it, is to be looked at again."""
    would, rule = _believed(tallies.would_be, s.now) or WouldBe(), s.rule
    found = [would.back_at, would.again_at]
    if would.opened_at and not would.back_at and rule and s.phase is Phase.SERVING:
        found.append(_planned(s, rule, would.opened_at))
    return tuple(at for at in found if at and at > s.now)


def _returning(s: Situation, rule: Rule, tallies: Tallies, would: WouldBe) -> Tallies:
    back_at = would.back_at or s.now
    if s.now < back_at:
        return tallies
    observe = tallies.observe or Tally()
    came = would.wanted_at
    if came is None and s.load.level is Level.BUSY and s.load.since < back_at:
        came = s.load.since
    if came is not None:
        observe = _late(observe, back_at - came)
    done = WouldBe(
        again_at=back_at + rule.window.min_serving,
        windows_today=would.windows_today,
        day=would.day,
    )
    return replace(tallies, observe=observe, would_be=done)


def _lent(tally: Tally, ran: timedelta, cards: int) -> Tally:
    seconds = max(0, round(ran.total_seconds())) * cards
    return replace(tally, lent_card_seconds=tally.lent_card_seconds + seconds)


def _late(tally: Tally, waited: timedelta) -> Tally:
    seconds = max(0, round(waited.total_seconds()))
    return replace(
        tally,
        late_returns=tally.late_returns + 1,
        waited_seconds=tally.waited_seconds + seconds,
        longest_wait_seconds=max(tally.longest_wait_seconds, seconds),
    )


# -- in words


def told(tallies: Tallies) -> tuple[str, ...]:
    """A sentence for each mode that there was."""
    lines = ((tallies.observe, "Observe", "would have lent"), (tallies.act, "Act", "lent"))
    return tuple(_sentence(tally, mode, did) for tally, mode, did in lines if tally)


def _sentence(tally: Tally, mode: str, did: str) -> str:
    until = f" until {format_instant(tally.until)}" if tally.until else ""
    windows = f"{tally.windows} window{'s' * (tally.windows != 1)}"
    times = "once" if tally.late_returns == 1 else f"{tally.late_returns} times"
    wait = f", by {tally.longest_wait_seconds / 60:.0f} min at most" if tally.late_returns else ""
    since = f", since {format_instant(tally.since)}" if tally.since else ""
    return (
        f"in {mode}{since}{until}: {did} "
        f"{tally.lent_card_seconds / 3600:.1f} card-h in {windows}, late {times}{wait}"
    )
