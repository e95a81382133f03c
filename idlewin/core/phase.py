"""The machine: phases as rows of wanted settings, and every way from one to another.

All transitions live here, and nothing else does. A transition is named by its reason; guard.py
holds one function for each reason, and the first whose checks all pass is taken. The diagram in
the documentation is generated from these tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from idlewin.core.reason import Reason


class Phase(StrEnum):
    """Where a pool stands."""

    SERVING = "Serving"
    YIELDING = "Yielding"
    HARVESTING = "Harvesting"
    RECLAIMING = "Reclaiming"
    RESTORING = "Restoring"


class Replicas(StrEnum):
    """What a phase wants of serving."""

    LEAVE = "leave"
    ZERO = "zero, once"
    REMEMBERED = "what was remembered, on targets still at our zero"


class Gate(StrEnum):
    """What a phase wants of each queue of the window."""

    SHUT = "anything but None"
    HOLD = "Hold"
    OPEN = "None if it still fits, else Hold"
    SEALED = "sealed: Hold; contract queues drained once that has settled, Evict queues at once"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The settings of a phase."""

    serving: Replicas
    queues: Gate


WANTED = {
    Phase.SERVING: Wanted(Replicas.LEAVE, Gate.SHUT),
    Phase.YIELDING: Wanted(Replicas.ZERO, Gate.HOLD),
    Phase.HARVESTING: Wanted(Replicas.LEAVE, Gate.OPEN),
    Phase.RECLAIMING: Wanted(Replicas.LEAVE, Gate.SEALED),
    Phase.RESTORING: Wanted(Replicas.REMEMBERED, Gate.SEALED),
}

#: Any one of these is enough to give back, from YIELDING as from HARVESTING; the first that holds
#: is the reason that is told.
GIVE_BACK = (
    Reason.RULE_CHANGED,
    Reason.PAUSED,
    Reason.CONTESTED,
    Reason.TARGET_CHANGED,
    Reason.CARD_GONE,
    Reason.SERVING_RAISED,
    Reason.WAKE_CLAIMED,
    Reason.DEMAND_RETURNED,
    Reason.LOAD_UNKNOWN,
    Reason.WINDOW_MAX,
    Reason.RECLAIM_REACHED,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One transition: from a phase to another, when its reason's guard passes."""

    source: Phase
    target: Phase
    reason: Reason


def _rows(source: Phase, target: Phase, *reasons: Reason) -> tuple[Row, ...]:
    return tuple(Row(source, target, reason) for reason in reasons)


#: Asked in this order.
TRANSITIONS = (
    *_rows(Phase.SERVING, Phase.RECLAIMING, Reason.RECORD_FOUND, Reason.OPEN_WITH_BATCH),
    *_rows(Phase.SERVING, Phase.YIELDING, Reason.WINDOW_OPEN),
    *_rows(Phase.YIELDING, Phase.RECLAIMING, *GIVE_BACK),
    *_rows(Phase.YIELDING, Phase.HARVESTING, Reason.SERVING_GONE),
    *_rows(Phase.YIELDING, Phase.RECLAIMING, Reason.YIELD_OVERDUE),
    *_rows(Phase.HARVESTING, Phase.RECLAIMING, *GIVE_BACK, Reason.QUEUE_DRY),
    *_rows(Phase.RECLAIMING, Phase.RESTORING, Reason.BATCH_GONE, Reason.DRAIN_OVERDUE),
    *_rows(Phase.RESTORING, Phase.RECLAIMING, Reason.BATCH_SEEN),
    *_rows(Phase.RESTORING, Phase.SERVING, Reason.HANDOVER_COMPLETE),
)

#: Phases in which what was lent is taken back.
GIVING_BACK = frozenset({Phase.RECLAIMING, Phase.RESTORING})

#: Phases in which serving is away, or on its way back.
AWAY = frozenset(Phase) - {Phase.SERVING}


def leaving(phase: Phase) -> tuple[Row, ...]:
    """The ways out of a phase, in the order in which they are asked."""
    return tuple(row for row in TRANSITIONS if row.source is phase)
