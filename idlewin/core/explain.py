"""A decision in words, for people."""

from __future__ import annotations

from collections.abc import Iterator

from idlewin.core import sealing, timing
from idlewin.core.decision import (
    Action,
    BatchAction,
    Check,
    Decision,
    EvictPod,
    FenceQueue,
    ForgetRecord,
    HoldRule,
    ReleaseRule,
    Remember,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
)
from idlewin.core.situation import Situation
from idlewin.core.text import format_instant


def headline(decision: Decision) -> str:
    """One line: the rule, where it stands or goes, and why."""
    way = (
        f"{decision.before} to {decision.after}" if decision.changes_phase else f"{decision.after}"
    )
    return f"{decision.rule}: {way} ({decision.reason}): {decision.reason.meaning}"


def explain(decision: Decision) -> str:
    """The whole decision: what was compared, what is written, when it is looked at again."""
    lines = [f"{format_instant(decision.at)} {headline(decision)}"]
    lines += [f"  {line(check)}" for check in decision.checks]
    lines += [f"  -> {wish(action)}" for action in decision.actions]
    lines += [f"  ALARM {alarm}" for alarm in decision.alarms]
    if decision.revisit_at > decision.at:
        lines.append(f"  looked at again by {format_instant(decision.revisit_at)}")
    return "\n".join(lines)


def ends(s: Situation) -> Iterator[str]:
    """How each admitted workload of the window ends; time that it had before counts already."""
    if s.window is None:
        return
    for entry, queue in sealing.present(s):
        for work in queue.workloads:
            if work.admitted:
                bound = timing.bound_of(work, entry.spec, queue)
                agreed = sealing.agreed(work, entry.spec, s.window.on_return)
                ways = ["leaves when asked"] if agreed else []
                ways += [f"has to end by {format_instant(bound)}"] if bound else []
                told = ", and ".join(ways) or "has no agreed end"
                yield f"work: {work} in queue {queue.name} {told}"


def line(check: Check) -> str:
    """One check: its verdict, what was seen and what was asked for."""
    asked = f", asked for: {check.limit}" if check.limit else ""
    return f"{'yes' if check.passed else 'no ':3} {check.name}: {check.observed or 'none'}{asked}"


def wish(action: Action) -> str:
    """An action in words."""
    match action:
        case Remember(status=status):
            return f"write status: phase {status.phase}, epoch {status.epoch}"
        case ScaleToZero(target, _, replicas):
            return f"scale {target} from {replicas} to 0, and put what it was on it"
        case ScaleBack(target, _, replicas):
            return f"scale {target} back to {replicas}"
        case ForgetRecord(target):
            return f"take our record off {target}, which its owner raised"
        case HoldRule(rule=rule):
            return f"put our finalizer on rule {rule}"
        case ReleaseRule(rule=rule):
            return f"take our finalizer off rule {rule}"
        case _:
            return _batch_wish(action)


def _batch_wish(action: BatchAction) -> str:
    match action:
        case SetStopPolicy(queue, _, policy, epoch):
            return f"set ClusterQueue {queue} to {policy}, epoch {epoch}"
        case FenceQueue(queue, _, epoch):
            return f"write epoch {epoch} on ClusterQueue {queue}"
        case StopLocalQueue(queue, cluster, policy):
            return f"set LocalQueue {queue.namespace}/{queue.name} of {cluster} to {policy}"
        case ReopenLocalQueue(namespace, name, was=was):
            return f"set LocalQueue {namespace}/{name} back to {was}"
        case SetActive(namespace, name, active=active):
            return f"{'wake' if active else 'stop'} workload {namespace}/{name}"
        case EvictPod(pod, delete):
            return f"{'delete' if delete else 'evict'} pod {pod}"
