"""The closed list of reasons. Every decision has one, "no change" included.

The value is what status, Events, metrics and the journal show; the sentence beside it is what
``idlewin explain`` and the reference say. A reason for moving names the guard that fired; a
reason for staying names the first thing that stands in the way.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """Why a pool moved, or stayed."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> Self:
        """A member: what is shown, and the sentence that explains it."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    # SERVING to RECLAIMING
    RECORD_FOUND = (
        "RecordFound",
        "A target or queue carries our record though no window is open: another began, we finish.",
    )
    OPEN_WITH_BATCH = (
        "OpenWithBatch",
        "The rule came into Act while its queue was open and batch was on the cards.",
    )

    # SERVING to YIELDING, and what can stand in its way, in the order in which it is asked
    WINDOW_OPEN = "WindowOpen", "Everything that a window needs holds."
    RULE_INVALID = (
        "RuleInvalid",
        "The rule cannot be read, or the cluster does not agree with it; the condition says how.",
    )
    PAUSED = "Paused", "A person has paused the rule."
    CONTESTED = (
        "Contested",
        "Another writer keeps changing what idlewin owns; ``idlewin resume`` goes on.",
    )
    NOT_ADOPTED = (
        "NotAdopted",
        "A queue of the rule is missing, or does not carry the annotation that makes it ours.",
    )
    RECORD_LOST = (
        "RecordLost",
        "A target is at our zero, and nothing is left that says what it was; a person scales it.",
    )
    WAKE_CLAIMED = "WakeClaimed", "Somebody has said that demand is coming: a claim is in force."
    LOAD_UNKNOWN = "LoadUnknown", "Demand cannot be told; unknown is not idle."
    LOAD_BUSY = "LoadBusy", "Users are there."
    IDLE_TOO_SHORT = "IdleTooShort", "Idle, but not yet for idleFor."
    SERVING_NOT_READY = (
        "ServingNotReady",
        "A target is still starting, or not ready; idle is judged only of ready serving.",
    )
    MIN_SERVING = "MinServing", "Serving has been back for less than minServing."
    RETURN_UNPROVEN = (
        "ReturnUnproven",
        "Serving came back late and nobody has seen it answer; ``idlewin resume`` goes on.",
    )
    BACKING_OFF = "BackingOff", "The last handover failed; the next is tried later."
    HANDOVERS_SPENT = "HandoversSpent", "maxPerDay windows were opened today."
    CALENDAR_CLOSED = "CalendarClosed", "The calendar allows no window now."
    FORECAST_NOT_READY = "ForecastNotReady", "The forecaster has too little history."
    WINDOW_TOO_SHORT = (
        "WindowTooShort",
        "At the risk that the budget allows, the time that is likely idle is under window.min.",
    )
    NO_WORK_WAITING = "NoWorkWaiting", "No workload waits in the queues."
    NOTHING_FITS = (
        "NothingFits",
        "Work waits, but none of it can end before serving is wanted back.",
    )
    QUEUE_CLOSED_BY_OTHER = (
        "QueueClosedByOther",
        "A person closed a queue; idlewin does not reopen it until ``idlewin resume``.",
    )
    LOCAL_QUEUES_CLOSED = (
        "LocalQueuesClosed",
        "LocalQueues that we closed on the way are not open again yet.",
    )
    CARDS_HELD = "CardsHeld", "A pod that is not serving's holds a card."
    OBSERVE_ONLY = "ObserveOnly", "All else holds: in mode Act a window would open now."
    REHEARSAL_DUE = (
        "RehearsalDue",
        "All else holds; the API server has not been asked yet whether it would take our writes.",
    )
    REHEARSAL_REFUSED = (
        "RehearsalRefused",
        "A write of the handover would be refused: by the API server, or by a target's arbiter.",
    )

    # YIELDING to HARVESTING
    SERVING_GONE = (
        "ServingGone",
        "Serving's pods are gone, the cards are free, the queues are closed as wanted.",
    )
    SERVING_LEAVING = "ServingLeaving", "Serving is on its way out."
    QUEUES_NOT_SETTLED = (
        "QueuesNotSettled",
        "A queue does not show the stop policy that was written.",
    )
    YIELD_OVERDUE = "YieldOverdue", "Serving did not leave within yieldTimeout."

    # HARVESTING
    HARVESTING = "Harvesting", "The window is open."

    # giving back: YIELDING or HARVESTING to RECLAIMING
    RULE_CHANGED = (
        "RuleChanged",
        "Cards, serving, batch or mode changed; the rule is invalid, deleted, or in conflict.",
    )
    TARGET_CHANGED = (
        "TargetChanged",
        "A target was deleted, recreated, deployed anew, or changed while it was being lowered.",
    )
    CARD_GONE = "CardGone", "The nodes no longer have the cards of the rule."
    SERVING_RAISED = "ServingRaised", "Somebody brought serving back, or one of its pods appeared."
    DEMAND_RETURNED = "DemandReturned", "Demand is seen."
    WINDOW_MAX = "WindowMax", "The window has reached window.max."
    RECLAIM_REACHED = (
        "ReclaimReached",
        "Demand is expected, or the calendar closes, so soon that giving back starts now.",
    )
    QUEUE_DRY = "QueueDry", "No work ran for dryAfter."

    # RECLAIMING to RESTORING
    BATCH_GONE = (
        "BatchGone",
        "The queues are sealed and settled, no batch pod and no admitted workload is left.",
    )
    DRAIN_OVERDUE = (
        "DrainOverdue",
        "Batch did not leave in time; serving requests its cards: the scheduler keeps them apart.",
    )
    SEALING = "Sealing", "A queue is not sealed and settled yet."
    BATCH_LEAVING = "BatchLeaving", "Batch is on its way out, or runs up to its bound."

    # RESTORING
    BATCH_SEEN = (
        "BatchSeen",
        "Batch is on the cards though serving that opens the device node is due.",
    )
    HANDOVER_COMPLETE = (
        "HandoverComplete",
        "Serving is back as its owner wants it, and batch is gone.",
    )
    SERVING_STARTING = "ServingStarting", "Serving is on its way back."

    UNKNOWN_PHASE = (
        "UnknownPhase",
        "The status has a phase of a newer version, or its window is lost; it is given back.",
    )
