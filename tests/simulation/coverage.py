"""What a run of the swarm has to have seen: rows, their causes, and each fault in each phase."""

from __future__ import annotations

from collections import Counter

from idlewin.core.decision import Decision
from idlewin.core.phase import TRANSITIONS, Phase, Row
from idlewin.core.reason import Reason
from idlewin.sim.kinds import FaultKind

#: Each row of the transition table, and each cause of it, must fire at least so often in a run.
LEAST = 20
#: Faults that no story has yet, each with the reason.
OPEN: dict[FaultKind, str] = {}
#: The ways in which a reason comes about, where there are several: by what its checks tell, the
#: first that is told. What none of these tells is reported, so a new one cannot be left out.
CAUSES: dict[Reason, dict[str, str]] = {
    Reason.RECORD_FOUND: {
        "our record on: Deployment": "on a target",
        "our record on: b580-": "on a queue",
    },
    Reason.RULE_CHANGED: {
        "changed: the rule is being deleted": "deleted",
        "changed: the rule cannot be read": "unreadable",
        "changed: mode is": "mode",
        "changed: cards": "cards",
        "changed: serving": "serving",
        "changed: batch.queues": "queues",
        "changed: batch.onReturn": "onReturn",
        "changed: ClusterQueue": "a queue is gone or not ours",
    },
    Reason.TARGET_CHANGED: {
        "is gone, or another of its name": "gone, or another",
        "replicas by": "scaled before us",
        "was written, last by": "written before us",
        "has another pod template": "deployed",
    },
    Reason.SERVING_RAISED: {"raised: Deployment": "a target", "raised: pod": "a pod"},
    Reason.WAKE_CLAIMED: {
        "claim until: idlewin.dev": "cannot be read",
        "claim until: 2": "in force",
    },
    Reason.RECLAIM_REACHED: {"calendar: closed": "calendar", "reclaim at: 2": "forecast"},
}
#: Causes that a phase cannot have.
NEVER = {
    (Phase.YIELDING, "a pod"): "serving's pods are still leaving: they say nothing yet",
}
OTHER = "of a cause that coverage.py does not know"
Cause = tuple[Row, str]


def cause_of(decision: Decision) -> Cause | None:
    """Which cause of its row a decision names; None: the row has only one."""
    causes = CAUSES.get(decision.reason)
    if causes is None:
        return None
    told = "; ".join(f"{check.name}: {check.observed}" for check in decision.checks if check.passed)
    named = next((cause for text, cause in causes.items() if text in told), OTHER)
    return Row(decision.before, decision.after, decision.reason), named


def all_causes() -> list[Cause]:
    """Every cause of every row that has more than one."""
    return [
        (row, cause)
        for row in TRANSITIONS
        for cause in CAUSES.get(row.reason, {}).values()
        if (row.source, cause) not in NEVER
    ]


def missing_causes(causes: Counter[Cause]) -> list[str]:
    """Causes that fired too seldom, and such as are on no list."""
    seldom = [cause for cause in all_causes() if causes[cause] < LEAST]
    unknown = [cause for cause in causes if cause not in all_causes()]
    return [
        f"{row.source} -> {row.target} for {row.reason}, {cause}: {causes[row, cause]} times"
        for row, cause in (*seldom, *unknown)
    ]


def missing_rows(rows: Counter[Row]) -> list[str]:
    """Rows that fired too seldom."""
    return [
        f"{row.source} -> {row.target} for {row.reason}: {rows[row]} times"
        for row in TRANSITIONS
        if rows[row] < LEAST
    ]


def missing_faults(hits: Counter[tuple[FaultKind, str]]) -> list[str]:
    """Kinds of fault that did not hit a phase."""
    return [
        f"{kind} in {phase}: never"
        for kind in FaultKind
        for phase in Phase
        if kind not in OPEN and not hits[kind, phase]
    ]


def table(hits: Counter[tuple[FaultKind, str]], causes: Counter[Cause]) -> str:
    """How often each fault hit each phase, and each cause fired."""
    lines = [f"{'':26}" + "".join(f"{phase:>12}" for phase in Phase)]
    for kind in FaultKind:
        counts = "".join(f"{hits[kind, phase]:12}" for phase in Phase)
        lines.append(f"{kind:26}" + (f"  not played: {OPEN[kind]}" if kind in OPEN else counts))
    lines += [
        f"{causes[row, cause]:6}  {row.source:<11} {row.reason}: {cause}"
        for row, cause in all_causes()
    ]
    return "\n".join(lines)
