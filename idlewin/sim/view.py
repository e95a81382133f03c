"""What a look at the simulated cluster shows: its objects as the facts that a decision reads."""

from __future__ import annotations

from datetime import timedelta

from idlewin.core.pool import (
    LocalQueue,
    Pod,
    Pool,
    Queue,
    Role,
    RuleObject,
    Scope,
    Target,
    Workload,
)
from idlewin.sim.objects import Deployment, Objects, SimNode, SimPod, SimQueue, SimRule, Work
from idlewin.sim.quota import leaks


def rule_object(rule: SimRule) -> RuleObject:
    """A rule as it is stored."""
    return RuleObject(
        name=rule.name,
        uid=rule.uid,
        generation=rule.generation,
        resource_version=str(rule.version),
        rule=rule.rule,
        error=rule.error,
        status=rule.status,
        status_error=rule.status_error,
        deleting=rule.deleting,
        finalizer=rule.finalizer,
        wake_until=rule.wake_until,
        wake_error=rule.wake_error,
        resume_at=rule.resume_at,
        created_at=rule.created_at,
    )


def pool_of(objects: Objects, scope: Scope) -> Pool:
    """Everything that a scope names, as it is now."""
    nodes = [node for node in objects.nodes.values() if selected(node, scope)]
    targets = [objects.deployments[ref] for ref in scope.targets if ref in objects.deployments]
    queues = [objects.queues[name] for name in scope.queues if name in objects.queues]
    held = [*nodes, *(node for node in objects.nodes.values() if node.name in scope.nodes)]
    owned = [pod for pod in objects.pods.values() if pod.node in held or pod.owner in targets]
    return Pool(
        targets=tuple(_target(objects, target) for target in targets),
        queues=tuple(_queue(objects, queue, frozenset(scope.queues)) for queue in queues),
        pods=tuple(_pod(pod, targets, held) for pod in owned if _seen(pod, scope)),
        allocatable=sum(node.allocatable for node in nodes),
        nodes=tuple(node.name for node in nodes),
        labels={node.name: dict(node.labels) for node in nodes},
    )


def selected(node: SimNode, scope: Scope) -> bool:
    """Whether a node has cards of the pool."""
    wanted = scope.node_selector.items()
    return node.resource == scope.resource and wanted <= node.labels.items()


def _seen(pod: SimPod, scope: Scope) -> bool:
    """Whether a look shows a pod: nobody's only where it claims a card or has its node open."""
    return pod.owner is not None or pod.claims > 0 or pod.device in scope.device_nodes


def _target(objects: Objects, target: Deployment) -> Target:
    return Target(
        ref=target.ref,
        uid=target.uid,
        resource_version=str(target.version),
        replicas=target.replicas,
        ready=sum(pod.ready for pod in objects.pods_of(target)),
        claims=target.claims,
        record=target.record,
        replicas_writer=target.writer,
        generation=target.generation,
        template=target.template,
        trouble=target.trouble,
        inside_kueue=target.inside_kueue,
    )


def _queue(objects: Objects, queue: SimQueue, ours: frozenset[str]) -> Queue:
    return Queue(
        name=queue.name,
        uid=queue.uid,
        resource_version=str(queue.version),
        stop_policy=queue.stop_policy,
        stop_writer=queue.writer,
        stop_written_at=queue.wrote_at,
        stopped_since=queue.stopped_since if queue.observed == queue.generation else None,
        terminating=queue.terminating,
        adopted_by=queue.adopted_by,
        epoch=queue.epoch,
        left=queue.left,
        local_queues=tuple(
            LocalQueue(
                namespace=local.namespace,
                name=local.name,
                uid=local.uid,
                stop_policy=local.stop_policy,
                stop_writer=local.writer,
                stop_written_at=local.wrote_at,
                epoch=local.epoch,
            )
            for local in objects.local_queues_of(queue.name)
        ),
        workloads=tuple(_workload(work) for work in objects.works_of(queue.name)),
        leaks=tuple(leaks(objects, queue, ours)),
        bound_enforced=queue.bound_enforced,
    )


def _workload(work: Work) -> Workload:
    return Workload(
        namespace=work.namespace,
        name=work.name,
        uid=work.uid,
        cluster_queue=work.cluster_queue,
        local_queue=work.local_queue,
        admitted=work.admitted,
        active=work.active,
        evicted=work.evicted,
        contract=work.contract,
        grace=work.grace,
        max_runtime=_remaining(work),
        admitted_at=work.admitted_at,
        claims=work.claims,
        kept_out_until=work.kept_out_until,
        timed_out=work.timed_out,
        epoch=work.epoch,
        generation=work.generation,
        active_writer=work.active_writer,
    )


def _remaining(work: Work) -> timedelta | None:
    return None if work.max_runtime is None else max(timedelta(), work.max_runtime - work.used)


def _pod(pod: SimPod, targets: list[Deployment], nodes: list[SimNode]) -> Pod:
    owner = pod.owner
    if isinstance(owner, Work):
        role, name = Role.BATCH, f"{owner.namespace}/{owner.name}"
    elif owner in targets and owner is not None:
        role, name = Role.SERVING, str(owner.ref)
    else:
        role, name = Role.OTHER, str(owner.ref) if owner else f"Pod {pod.namespace}/{pod.name}"
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        role=role,
        owner=name,
        claims=pod.claims,
        on_cards=pod.node in nodes,
        running=pod.running,
        ready=pod.ready,
        created_at=pod.created_at,
        terminating=pod.terminating,
        node_dead=pod.node is not None and pod.node.dead,
        grace=pod.grace,
    )
