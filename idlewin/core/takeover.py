"""Taking over: the window of a status that has none, though something is lent or was left so."""

from __future__ import annotations

from dataclasses import replace

from idlewin.core import whose
from idlewin.core.pool import MANAGER, Queue, StopPolicy, Target
from idlewin.core.reason import Reason
from idlewin.core.rule import QueueClass
from idlewin.core.situation import Situation
from idlewin.core.status import (
    Owed,
    OwedQueue,
    OwedWorkload,
    Remembered,
    Status,
    Window,
    WindowQueue,
)


def window(s: Situation, status: Status, reason: Reason) -> Status:
    """The status with a window made of what is found: records, and the queues that are ours."""
    found = (
        *(_from_record(t) for t in s.pool.targets if t.record and t.record.rule == s.object.name),
        *(
            replace(target, lowered=True, restored=False, overdue=False)
            for target in whose.lowered_late(s)
        ),
    )
    adopted = [queue for queue in s.pool.queues if queue.adopted_by == s.object.name]
    specs = {spec.cluster_queue: spec for spec in s.rule.batch.queues} if s.rule else {}
    counters = status.counters
    if reason is Reason.OPEN_WITH_BATCH and any(whose.opened_by_other(s, q) for q in adopted):
        counters = replace(counters, corrections=counters.corrections + 1)
    made = Window(
        epoch=status.epoch,
        generation=s.object.generation,
        opened_at=s.now,
        resource="",
        node_selector={},
        count=0,
        targets=found,
        queues=tuple(_unknown_class(queue, specs.get(queue.name)) for queue in adopted),
        give_back=reason.value,
        give_back_epoch=status.epoch,
    )
    if s.rule:
        made = replace(
            made,
            on_return=s.rule.batch.on_return,
            drain_timeout=s.rule.batch.drain_timeout,
            resource=s.rule.cards.resource,
            node_selector=s.rule.cards.node_selector,
            count=s.rule.cards.count,
            device_nodes=s.rule.cards.device_nodes,
            exempt_namespaces=s.rule.cards.exempt_namespaces,
        )
    return replace(status, window=_as_recorded(s, made), counters=counters, until=None)


def owed(s: Situation) -> Owed:
    """What we closed on the way and nobody has opened since, as it shows where the status is lost.

    What a LocalQueue was before does not show; that its tenant had held it too is rare.
    """
    mine = [queue for queue in s.pool.queues if queue.adopted_by == s.object.name]
    return Owed(
        local_queues=tuple(
            OwedQueue(
                namespace=local.namespace,
                name=local.name,
                uid=local.uid,
                cluster_queue=queue.name,
                was=StopPolicy.NONE.value,
                wrote=local.stop_policy.value,
                at=local.stop_written_at or s.now,
            )
            for queue in mine
            for local in queue.local_queues
            if local.stop_policy is not StopPolicy.NONE and local.stop_writer == MANAGER
        ),
        workloads=tuple(
            OwedWorkload(namespace=work.namespace, name=work.name, uid=work.uid)
            for queue in mine
            for work in queue.workloads
            if not work.active and work.active_writer == MANAGER
        ),
    )


def _as_recorded(s: Situation, made: Window) -> Window:
    """The window on the cards that were lent, where a record tells; else on those of the rule."""
    records = (t.record for t in s.pool.targets if t.record and t.record.rule == s.object.name)
    record = next((one for one in records if one.resource), None)
    if record is None:
        return made
    made = replace(made, resource=record.resource, node_selector=record.nodes)
    if not record.devices:
        # Those of the rule then: to see somebody too many on the cards only takes longer.
        return made
    return replace(made, device_nodes=record.devices, exempt_namespaces=record.exempt)


def _from_record(target: Target) -> Remembered:
    assert target.record is not None  # noqa: S101 - the caller has looked
    return Remembered(
        ref=target.ref,
        uid=target.uid,
        replicas=target.record.replicas,
        claims=target.claims,
        settings=target.record.settings,
        scaled=target.record.scaled,
        lowered=target.replicas == 0,
    )


def _unknown_class(queue: Queue, spec: QueueClass | None) -> WindowQueue:
    """A queue whose class is lost is held, not drained: nobody knows what its work agreed to."""
    return WindowQueue(spec=spec or QueueClass(cluster_queue=queue.name), uid=queue.uid)
