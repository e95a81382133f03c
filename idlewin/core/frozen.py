"""What a window was opened on, in what the rule, its queues and its targets differ, and by whom."""

from __future__ import annotations

from idlewin.core.lint import Fault
from idlewin.core.reason import Reason
from idlewin.core.rule import Cards, Mode
from idlewin.core.sealing import entries
from idlewin.core.situation import Situation
from idlewin.core.status import Remembered, Window
from idlewin.core.whose import closed_by_other, moved, remembered, same


def change_since(s: Situation) -> str:
    """In what the rule differs from what the window was opened on; empty: in nothing."""
    window, rule = s.window, s.rule
    if s.object.deleting:
        return "the rule is being deleted"
    if rule is None:
        return f"the rule cannot be read: {s.object.error}"
    if rule.mode is not Mode.ACT:
        return f"mode is {rule.mode}"
    if taken := [refusal.text for refusal in s.refusals if refusal.fault is Fault.RULE_CONFLICT]:
        return taken[0]
    if window is None:
        return ""
    if _cards(rule.cards) != _cards(window):
        return "cards"
    lent = dict.fromkeys(target.scaled_by or target.ref for target in window.targets)
    if [serving.ref for serving in rule.serving] != list(lent):
        return "serving"
    if list(rule.batch.queues) != [entry.spec for entry in window.queues]:
        return "batch.queues"
    if rule.batch.on_return is not window.on_return:
        return "batch.onReturn"
    gone = [
        entry.spec.cluster_queue
        for entry in window.queues
        if (queue := s.pool.queue(entry.spec.cluster_queue)) is None
        or queue.uid != entry.uid
        or queue.terminating
        or queue.adopted_by != s.object.name
    ]
    return f"ClusterQueue {', '.join(gone)} is gone or no longer adopted" if gone else ""


def _cards(part: Cards | Window) -> tuple[object, ...]:
    devices = (part.device_nodes, part.exempt_namespaces)
    return (part.resource, part.count, part.node_selector, *devices)


def targets_changed(s: Situation) -> list[str]:
    """The targets that are not those that the window was opened on, each with what is new."""
    return [why for target in remembered(s) if (why := _target_change(s, target))]


def _target_change(s: Situation, target: Remembered) -> str:
    now = same(s, target)
    if now is None:
        return f"{target.ref} is gone, or another of its name"
    if target.scaled_by:
        return f"{target.scaled_by} is gone, or scales {target.ref} no more"
    if moved(target, now):
        return f"{target.ref} scales something else"
    untouched = not target.lowered and now.record is None
    if untouched and now.replicas != target.replicas:
        return f"{target.ref} has {now.replicas} replicas by {now.replicas_writer or 'somebody'}"
    if untouched and (
        target.generation not in (0, now.generation) or now.settings != target.settings
    ):
        # Perhaps we did lower it, and heard nothing: who raised it then took our record off.
        return f"{target.ref} was written, last by {now.replicas_writer or 'somebody'}"
    if target.template and now.template != target.template:
        return f"{target.ref} has another pod template"
    return ""


def undone_by(s: Situation, reason: Reason) -> str:
    """Who ends a window by undoing what we wrote; empty: nobody."""
    if reason is Reason.QUEUE_DRY:
        # One that left our mark on the queue keeps the next window shut by itself.
        closed = [q for _, q in entries(s) if q.left is None and closed_by_other(s, q)]
        return (closed[0].stop_writer or "somebody who closes queues") if closed else ""
    if reason is not Reason.SERVING_RAISED:
        return ""
    writers = [
        now.replicas_writer
        for target in remembered(s)
        if (now := same(s, target)) and now.replicas > 0 and now.replicas_writer
    ]
    return writers[0] if writers else "somebody who brings serving back"
