"""What a window was opened on, and in what the rule, its queues and its targets differ from it."""

from __future__ import annotations

from idlewin.core.opening import remembered, same
from idlewin.core.rule import Mode
from idlewin.core.situation import Situation
from idlewin.core.status import Remembered


def change_since(s: Situation) -> str:
    """In what the rule differs from what the window was opened on; empty: in nothing."""
    window, rule = s.window, s.rule
    if s.object.deleting:
        return "the rule is being deleted"
    if rule is None:
        return f"the rule cannot be read: {s.object.error}"
    if rule.mode is not Mode.ACT:
        return f"mode is {rule.mode}"
    if window is None:
        return ""
    if (rule.cards.resource, rule.cards.count, rule.cards.node_selector) != (
        window.resource,
        window.count,
        window.node_selector,
    ):
        return "cards"
    if [serving.ref for serving in rule.serving] != [target.ref for target in window.targets]:
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


def targets_changed(s: Situation) -> list[str]:
    """The targets that are not those that the window was opened on, each with what is new."""
    return [why for target in remembered(s) if (why := _target_change(s, target))]


def _target_change(s: Situation, target: Remembered) -> str:
    now = same(s, target)
    if now is None:
        return f"{target.ref} is gone, or another of its name"
    if now.replicas != target.replicas and not target.lowered and now.record is None:
        return f"{target.ref} has {now.replicas} replicas by {now.replicas_writer or 'somebody'}"
    if target.template and now.template != target.template:
        return f"{target.ref} has another pod template"
    return ""
