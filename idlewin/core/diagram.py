"""The machine as a picture and as tables, made from the tables that the machine runs on."""

from __future__ import annotations

from collections import defaultdict

from idlewin.core.phase import TRANSITIONS, WANTED, Phase
from idlewin.core.reason import Reason


def mermaid() -> str:
    """A state diagram; an arrow for each pair of phases, with its reasons."""
    ways: dict[tuple[Phase, Phase], list[Reason]] = defaultdict(list)
    for row in TRANSITIONS:
        ways[row.source, row.target].append(row.reason)
    lines = ["stateDiagram-v2", f"    [*] --> {Phase.SERVING}"]
    for (source, target), reasons in ways.items():
        lines.append(f"    {source} --> {target}: {_label(reasons)}")
    return "\n".join(lines)


def _label(reasons: list[Reason]) -> str:
    """A few reasons by name; many are the give-back reasons, which the table below lists."""
    if len(reasons) <= 3:
        return " or ".join(reasons)
    return f"any of {len(reasons)} reasons"


def wanted_table() -> str:
    """What each phase wants, as a Markdown table."""
    lines = ["| phase | serving | each queue of the window |", "|---|---|---|"]
    lines += [
        f"| {phase} | {row.serving.value} | {row.queues.value} |" for phase, row in WANTED.items()
    ]
    return "\n".join(lines)


def transition_table() -> str:
    """Every row of the machine with its reason, as a Markdown table."""
    lines = ["| from | to | reason | it means |", "|---|---|---|---|"]
    lines += [
        f"| {row.source} | {row.target} | `{row.reason}` | {row.reason.meaning} |"
        for row in TRANSITIONS
    ]
    return "\n".join(lines)


def staying_table() -> str:
    """The reasons for staying, as a Markdown table."""
    moving = {row.reason for row in TRANSITIONS}
    lines = ["| reason | it means |", "|---|---|"]
    lines += [f"| `{reason}` | {reason.meaning} |" for reason in Reason if reason not in moving]
    return "\n".join(lines)
