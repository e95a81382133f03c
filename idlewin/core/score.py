"""Score: what lending brought and what it cost, against a truth that is known afterwards.

Pure arithmetic over spans. The same function scores the controller, the reactive rule and the
oracle, each by its timeline. Nothing here decides, and nothing live depends on it.

A *gap* is the idle time between two runs of demand. Idle time after the last run counts for
nobody: nobody knows when it would have ended.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from idlewin.core.phase import AWAY, Phase
from idlewin.core.window import Span, clipped, merged, total, without

NOTHING = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """What one window costs at both ends."""

    open: timedelta = timedelta(minutes=2)
    """From the wish to lend until batch runs."""
    back: timedelta = timedelta(minutes=5)
    """From the wish to give back until serving is ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened on one pool: each phase from its instant on, in order, and batch running."""

    phases: tuple[tuple[datetime, Phase], ...]
    batch: tuple[Span, ...] = ()

    def __post_init__(self) -> None:
        instants = [at for at, _ in self.phases]
        if instants != sorted(instants):
            raise ValueError("a timeline's phases are out of order; sort them by their instants")


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What lending one card, or several, brought and cost."""

    harvested: timedelta
    """Time in which batch ran and no demand was there."""
    oracle: timedelta
    """The same with the future known: per gap its length less both delays."""
    windows: int
    """Times that the card was lent: batch could run."""
    on_time: int
    """Windows that ended with serving back before demand came."""
    late_returns: int
    """Times that demand found serving away; several runs in one absence are one."""
    handovers: int
    """Times that the card changed its user, either way."""
    serving_away_while_demand: timedelta
    """The debt: time of demand in which serving was not ready."""

    @property
    def share(self) -> float:
        """Harvest as a share of the oracle's; 0 where there was nothing to harvest."""
        return self.harvested / self.oracle if self.oracle else 0.0

    def __add__(self, other: Score) -> Score:
        return Score(
            harvested=self.harvested + other.harvested,
            oracle=self.oracle + other.oracle,
            windows=self.windows + other.windows,
            on_time=self.on_time + other.on_time,
            late_returns=self.late_returns + other.late_returns,
            handovers=self.handovers + other.handovers,
            serving_away_while_demand=self.serving_away_while_demand
            + other.serving_away_while_demand,
        )


#: Where sums of scores begin.
NO_SCORE = Score(
    harvested=NOTHING,
    oracle=NOTHING,
    windows=0,
    on_time=0,
    late_returns=0,
    handovers=0,
    serving_away_while_demand=NOTHING,
)


@dataclass(frozen=True, slots=True)
class _Absence:
    """One stay of serving away: when, and whether it was lent, and is over."""

    span: Span
    lent: bool
    returned: bool


def score(
    busy: Iterable[Span], timeline: Timeline, over: Span, delays: Delays | None = None
) -> Score:
    """What a timeline brought and cost over a stretch, given the demand that was really there.

    Only time up to the last run of demand in the stretch counts, for the timeline and for the
    oracle alike; an absence counts if any of it lies there.
    """
    delays = delays or Delays()
    runs = clipped(merged(busy), over)
    if not runs:
        return NO_SCORE
    judged = Span(over.start, runs[-1].end)
    absences = _absences(timeline.phases, judged, over.end)
    met = [_met(runs, absence.span) for absence in absences]
    return Score(
        harvested=total(without(clipped(merged(timeline.batch), judged), runs)),
        oracle=sum((_best(gap, delays) for gap in gaps(runs, over)), NOTHING),
        windows=sum(absence.lent for absence in absences),
        on_time=sum(
            absence.lent and not missed for absence, missed in zip(absences, met, strict=True)
        ),
        late_returns=sum(bool(missed) for missed in met),
        handovers=len(absences) + sum(absence.returned for absence in absences),
        serving_away_while_demand=sum((total(missed) for missed in met), NOTHING),
    )


def waits(busy: Iterable[Span], timeline: Timeline, over: Span) -> tuple[Span, ...]:
    """From when demand first found serving away until it was back; as many as ``late_returns``."""
    runs = clipped(merged(busy), over)
    if not runs:
        return ()
    judged = Span(over.start, runs[-1].end)
    absences = _absences(timeline.phases, judged, over.end)
    met = ((_met(runs, absence.span), absence.span.end) for absence in absences)
    return tuple(Span(found[0].start, back) for found, back in met if found)


def gaps(busy: Iterable[Span], over: Span) -> tuple[Span, ...]:
    """Idle spans of a stretch, in order, each of which ends with demand."""
    runs = clipped(merged(busy), over)
    starts = [over.start, *(run.end for run in runs)]
    return tuple(
        Span(start, run.start)
        for start, run in zip(starts, runs, strict=False)
        if start < run.start
    )


def reactive(
    busy: Iterable[Span],
    over: Span,
    delays: Delays | None = None,
    *,
    idle_after: timedelta = timedelta(minutes=10),
) -> Timeline:
    """What the reactive rule does: lend after so much idle time, give back when demand comes."""
    delays = delays or Delays()
    windows: list[tuple[datetime, datetime]] = []
    ready_at = over.start
    for gap in gaps(busy, over):
        opens = max(gap.start + idle_after, ready_at)
        if opens < gap.end:
            windows.append((opens, gap.end))
            ready_at = gap.end + delays.back
    return _timeline(windows, over, delays)


def foreseen(busy: Iterable[Span], over: Span, delays: Delays | None = None) -> Timeline:
    """What the oracle does: lend each gap that is long enough, and be back as it ends."""
    delays = delays or Delays()
    return _timeline(
        [
            (gap.start, gap.end - delays.back)
            for gap in gaps(busy, over)
            if _best(gap, delays) > NOTHING
        ],
        over,
        delays,
    )


def _timeline(windows: Sequence[tuple[datetime, datetime]], over: Span, delays: Delays) -> Timeline:
    """A timeline of windows that open and give back at given instants."""
    phases: list[tuple[datetime, Phase]] = [(over.start, Phase.SERVING)]
    batch: list[Span] = []
    for opens, gives_back in windows:
        phases.append((opens, Phase.YIELDING))
        runs_at = opens + delays.open
        if runs_at < gives_back:
            phases.append((runs_at, Phase.HARVESTING))
            batch.append(Span(runs_at, gives_back))
        phases.append((gives_back, Phase.RESTORING))
        phases.append((gives_back + delays.back, Phase.SERVING))
    return Timeline(phases=tuple(phases), batch=tuple(batch))


def _absences(
    phases: Sequence[tuple[datetime, Phase]], judged: Span, end: datetime
) -> list[_Absence]:
    """The stays of serving away that reach into a stretch; the last may not be over by the end."""
    found: list[_Absence] = []
    since: datetime | None = None
    lent = False
    for at, phase in phases:
        if phase in AWAY and at < end:
            since = at if since is None else since
            lent = lent or phase is Phase.HARVESTING
        elif phase is Phase.SERVING and since is not None:
            if since < at:
                found.append(_Absence(Span(since, at), lent, returned=True))
            since, lent = None, False
    if since is not None:
        found.append(_Absence(Span(since, end), lent, returned=False))
    return [absence for absence in found if clipped((absence.span,), judged)]


def _met(runs: Sequence[Span], absence: Span) -> tuple[Span, ...]:
    """The demand in an absence, of runs that are in order; late if there is any."""
    first = bisect_right(runs, absence.start, key=lambda run: run.end)
    last = bisect_left(runs, absence.end, key=lambda run: run.start)
    return clipped(runs[first:last], absence)


def _best(gap: Span, delays: Delays) -> timedelta:
    return max(gap.length - delays.open - delays.back, NOTHING)
