"""What has to be looked at for one rule."""

from __future__ import annotations

from idlewin.core.pool import RuleObject, Scope


def scope_of(rule: RuleObject) -> Scope:
    """What the spec names, and what its window named: an edited rule must not hide its past."""
    spec, window = rule.rule, rule.status.window if rule.status else None
    owed = rule.status.owed.local_queues if rule.status else ()
    targets = [target.ref for target in spec.serving] if spec else []
    queues = [queue.cluster_queue for queue in spec.batch.queues] if spec else []
    resource, nodes = (spec.cards.resource, spec.cards.node_selector) if spec else ("", {})
    if window:
        targets += [target.ref for target in window.targets]
        queues += [queue.spec.cluster_queue for queue in window.queues]
        resource, nodes = window.resource, window.node_selector
    elif rule.status:
        # One that is lowered late is ours to bring back, though the rule names it no more.
        targets += [target.ref for target in rule.status.not_lowered]
    queues += [queue.cluster_queue for queue in owed]
    return Scope(
        rule=rule.name,
        targets=tuple(dict.fromkeys(targets)),
        queues=tuple(dict.fromkeys(queues)),
        resource=resource,
        node_selector=nodes,
        nodes=window.nodes if window else (),
    )
