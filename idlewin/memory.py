"""Memory: what was found of a pool so far, between its cycles.

Only what would be found again: losing it, as at a restart, delays a window and never a return.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from idlewin.core.forecast import Outlook
from idlewin.core.lint import Refusal
from idlewin.core.load import Load
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, Workload
from idlewin.core.situation import Rehearsal, Situation


@dataclass(slots=True)
class Memory:
    """What was found of one pool so far, and would be found again."""

    load: Load | None = None
    busy_at: datetime | None = None
    """When demand was last seen; where no history tells of it, also when it last could not be, for
    long or not yet. Of the cards' own activity that history knows nothing."""
    outlook: Outlook | None = None
    rehearsal: Rehearsal | None = None
    batch_seen_at: datetime | None = None
    faults: tuple[int, tuple[Refusal, ...]] | None = None
    """Those that the rule has by itself, with the generation that was judged."""
    batch_there: bool = False
    ready_at: datetime | None = None
    target_refused: dict[str, str] = field(default_factory=dict)
    stopped: frozenset[tuple[str, int]] = frozenset()
    """Queues that were written in order to stop them, or below them, and at which epoch."""
    wrote: dict[str, int] = field(default_factory=dict)
    """The newest epoch that was written to a ClusterQueue itself, by its name."""
    written_at: datetime | None = None
    looked_at: datetime | None = None
    down_since: dict[str, datetime] = field(default_factory=dict)
    told_since: dict[str, datetime] = field(default_factory=dict)
    taken: dict[str, tuple[object, object]] = field(default_factory=dict)
    """Queues that were seen at another stop policy than we left, with the mark and epoch then."""
    first_seen: dict[tuple[str, datetime], datetime] = field(default_factory=dict)
    """When an instant that Kueue has stamped on something was first seen, where it was ahead."""
    waited: dict[str, datetime] = field(default_factory=dict)
    """When work was last seen to wait."""
    running: int = 0
    harvested: timedelta = field(default_factory=timedelta)


def by_our_clock(pool: Pool, memory: Memory, now: datetime) -> Pool:
    """What Kueue has stamped by a clock that is ahead of ours counts from when it was first seen.

    Else a stop would settle, and a bound end, as much too late as that clock is ahead. And work
    that was seen to wait was not let in before that, whatever a clock says that is behind.
    """
    seen: dict[tuple[str, datetime], datetime] = {}
    works = [work for queue in pool.queues for work in queue.workloads]
    memory.waited = {
        work.uid: memory.waited.get(work.uid, now) if work.admitted else now
        for work in works
        if not work.admitted or work.uid in memory.waited
    }

    def ours(uid: str, stamp: datetime | None) -> datetime | None:
        known = memory.first_seen.get((uid, stamp)) if stamp else None
        if stamp is None or (known is None and stamp <= now):
            return stamp
        seen[uid, stamp] = known or now
        return seen[uid, stamp]

    def let_in(work: Workload) -> datetime | None:
        stamp = ours(work.uid, work.admitted_at)
        return stamp and max(stamp, memory.waited.get(work.uid, stamp))

    queues = tuple(
        replace(
            queue,
            stopped_since=ours(queue.uid, queue.stopped_since),
            workloads=tuple(replace(work, admitted_at=let_in(work)) for work in queue.workloads),
        )
        for queue in pool.queues
    )
    memory.first_seen = seen
    return replace(pool, queues=queues)


def note_down(s: Situation, memory: Memory) -> None:
    """Since when a target has no ready pod, outside windows."""
    found = [s.pool.target(serving.ref) for serving in s.rule.serving] if s.rule else []
    down = {str(t.ref) for t in found if t and not t.ready and s.phase is Phase.SERVING}
    memory.down_since = {name: memory.down_since.get(name, s.now) for name in sorted(down)}


def note_told(s: Situation, memory: Memory) -> None:
    """Since when work that is on the cards yet was told to end."""
    works = [work for queue in s.pool.queues for work in queue.workloads]
    told = [work.uid for work in works if work.evicted or (work.admitted and not work.active)]
    memory.told_since = {uid: memory.told_since.get(uid, s.now) for uid in told}


def note_taken(s: Situation, memory: Memory) -> None:
    """Queues that somebody else has written since we did; after a restart they count as ours."""
    taken: dict[str, tuple[object, object]] = {}
    for queue in s.pool.queues:
        mark = queue.left, queue.epoch
        # Nobody but another writes an older epoch of ours: who puts back what was exported once.
        older = queue.epoch is not None and queue.epoch < memory.wrote.get(queue.name, 0)
        theirs = older or (queue.left is not None and queue.stop_policy is not queue.left)
        if theirs or memory.taken.get(queue.uid) == mark:
            taken[queue.uid] = mark
    memory.taken = taken
