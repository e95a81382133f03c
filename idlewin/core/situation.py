"""Situation: everything that deciding may look at, at one instant, frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from idlewin.core.decision import Outcome
from idlewin.core.forecast import Outlook
from idlewin.core.lint import Refusal
from idlewin.core.load import Load
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, RuleObject
from idlewin.core.rule import Rule
from idlewin.core.status import VERSION, Status, Window

#: A dry run of a handover's patches is asked for at most so often,
REHEARSE_EVERY = timedelta(minutes=5)
#: and after this where it had no final answer: the API server was away, say.
REHEARSE_AGAIN = timedelta(seconds=15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """The API server's answer to a dry run of a handover's patches."""

    at: datetime
    refused: str = ""
    """Empty: it would take them all."""
    final: bool = True
    """False: something was not answered, or had just changed; it says nothing of next time."""

    @property
    def again_at(self) -> datetime:
        """When it may be asked for again."""
        return self.at + (REHEARSE_EVERY if self.final else REHEARSE_AGAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All inputs of one decision, and nothing else."""

    now: datetime
    object: RuleObject
    pool: Pool
    load: Load
    outlook: Outlook | None = None
    refusals: tuple[Refusal, ...] = ()
    """Why the cluster, or another rule, does not agree with this rule."""
    rehearsal: Rehearsal | None = None
    batch_seen_at: datetime | None = None
    """When batch pods or admitted work were last seen on the cards, in this window."""
    harvested: timedelta = timedelta()
    """Card-time in which batch pods ran since the status was written."""
    refused: tuple[Outcome, ...] = field(default=())
    """Writes of this cycle that did not get through; the next rung of the ladder reads them."""
    target_refused: Mapping[str, str] = field(default_factory=dict)
    """Targets that could not be lowered, or given back, when that was tried last; what was said."""
    serving_ready_at: datetime | None = None
    """When serving was first seen ready again, in this return."""
    down_since: Mapping[str, datetime] = field(default_factory=dict)
    """Targets that have no ready pod outside a window, and since when, as far as was looked."""
    taken: frozenset[str] = frozenset()
    """UIDs of queues that were seen at another stop policy since we wrote ours, or at an older
    epoch, as far as was looked: what they are at now is somebody's, even where we wrote it once."""
    told_since: Mapping[str, datetime] = field(default_factory=dict)
    """UIDs of admitted work that was told to end, and since when, as far as was looked."""
    stopped: frozenset[tuple[str, int]] = frozenset()
    """Queues that a stop or a fence was written to, or a stop below them, with its epoch, as far
    as was looked; whether it is still there is another question."""
    unsure: bool = False
    """A look made now was asked for, and not to be had: what came in since does not show."""
    forced: bool = False
    """A person said so: drain_overdue holds though serving requests no card."""

    @property
    def rule(self) -> Rule | None:
        """The spec, where it can be read."""
        return self.object.rule

    @property
    def status(self) -> Status:
        """The status; an absent one is that of a pool that has never moved."""
        return self.object.status or Status()

    @property
    def window(self) -> Window | None:
        """The frozen contract, while there is one."""
        return self.status.window

    @property
    def since(self) -> datetime:
        """Since when the phase holds."""
        return self.status.since or self.object.created_at or self.now

    @property
    def phase(self) -> Phase | None:
        """Where the pool stands; None: a newer version has written the status."""
        status = self.status
        known = status.version <= VERSION and status.phase in list(Phase)
        return Phase(status.phase) if known else None
