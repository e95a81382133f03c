"""What has to be looked at for one rule."""

from __future__ import annotations

from idlewin.core.pool import RuleObject, Scope
from idlewin.core.rule import Cards
from idlewin.core.status import Window


def scope_of(rule: RuleObject) -> Scope:
    """What the spec names, and what its window named: an edited rule must not hide its past."""
    spec, window = rule.rule, rule.status.window if rule.status else None
    owed = rule.status.owed.local_queues if rule.status else ()
    targets = [target.ref for target in spec.serving] if spec else []
    queues = [queue.cluster_queue for queue in spec.batch.queues] if spec else []
    known = window.targets if window else ()
    heirs = [target.scaled.ref for target in known if target.scaled]
    # One that is inherited is ours only as long as nothing scales it anew.
    heirs += [target.ref for target in known if target.scaled_by]
    cards: Cards | Window | None = spec.cards if spec else None
    if window:
        targets += [target.ref for target in known if not target.scaled_by]
        queues += [queue.spec.cluster_queue for queue in window.queues]
        cards = window
    elif rule.status:
        # One that is lowered late is ours to bring back, though the rule names it no more.
        targets += [target.ref for target in rule.status.not_lowered]
    queues += [queue.cluster_queue for queue in owed]
    return Scope(
        rule=rule.name,
        targets=tuple(dict.fromkeys(targets)),
        queues=tuple(dict.fromkeys(queues)),
        resource=cards.resource if cards else "",
        node_selector=cards.node_selector if cards else {},
        nodes=window.nodes if window else (),
        device_nodes=cards.device_nodes if cards else (),
        exempt_namespaces=cards.exempt_namespaces if cards else (),
        heirs=tuple(heirs),
    )
