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
#: The distinct causes behind one reason, by how the check's observed text begins.
CAUSES = {
    Reason.RULE_CHANGED: {
        "the rule is being deleted": "deleted",
        "the rule cannot be read": "unreadable",
        "mode is": "mode",
        "cards": "cards",
        "serving": "serving",
        "batch.queues": "queues",
        "batch.onReturn": "onReturn",
        "ClusterQueue": "a queue is gone or not ours",
    },
    Reason.RECORD_FOUND: {"Deployment": "on a target", "b580-": "on a queue"},
}
Cause = tuple[Row, str]


def cause_of(decision: Decision) -> Cause | None:
    """Which cause of its row a decision names; None: the row has only one."""
    reason = decision.reason
    told = " ".join(check.observed for check in decision.checks if check.passed)
    for begins, cause in CAUSES.get(reason, {}).items():
        if begins in told:
            return Row(decision.before, decision.after, reason), cause
    return None


def all_causes() -> list[Cause]:
    """Every cause of every row that has more than one."""
    return [(row, cause) for row in TRANSITIONS for cause in CAUSES.get(row.reason, {}).values()]


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
