"""Puts the objects of one rule into a world: nodes, serving, queues, and the rule itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from idlewin.core.pool import StopPolicy
from idlewin.core.rule import Rule
from idlewin.core.target import Ref
from idlewin.sim.objects import (
    Deployment,
    Objects,
    SimCohort,
    SimLocalQueue,
    SimNode,
    SimQueue,
    SimRule,
)

if TYPE_CHECKING:
    from idlewin.sim.world import Setup, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A serving target: its size, and how it comes and goes."""

    replicas: int = 1
    claims: int = 1
    grace: timedelta = timedelta(seconds=30)
    start_up: tuple[float, float] = (60.0, 0.2)
    """Median seconds until a pod is ready, and the spread of their logarithm."""
    inside_kueue: bool = False
    priority: int = 0


def furnish(world: World, setup: Setup) -> None:
    """Create what a rule names; its queues are adopted and on Hold."""
    objects, rule = world.objects, setup.rule
    _node(objects, setup.name, rule)
    for serving in rule.serving:
        add_target(world, setup.name, serving.ref, setup.servers.get(serving.ref, Server()))
    for spec in rule.batch.queues:
        add_queue(world, setup.name, spec.cluster_queue, setup.local_queues)
    add_rule(world, setup)


def add_rule(world: World, setup: Setup) -> SimRule:
    """The IdleRule as it is first written."""
    stored = SimRule(
        name=setup.name,
        uid=world.objects.uid(),
        pool=setup.name,
        rule=setup.rule,
        created_at=world.clock.now(),
    )
    world.objects.rules[setup.name] = stored
    world.objects.touch(stored)
    return stored


def _node(objects: Objects, pool: str, rule: Rule) -> None:
    node = SimNode(
        name=f"node-{pool}",
        uid=objects.uid(),
        pool=pool,
        labels=dict(rule.cards.node_selector),
        resource=rule.cards.resource,
        cards=rule.cards.count,
        allocatable=rule.cards.count,
    )
    objects.nodes[node.name] = node
    objects.touch(node)


def add_target(world: World, pool: str, ref: Ref, server: Server) -> Deployment:
    """A Deployment as its owner makes it."""
    target = Deployment(
        name=ref.name,
        uid=world.objects.uid(),
        pool=pool,
        ref=ref,
        replicas=server.replicas,
        claims=server.claims,
        grace=server.grace,
        start_up=server.start_up,
        inside_kueue=server.inside_kueue,
        priority=server.priority,
        owner_wants=server.replicas,
    )
    world.objects.deployments[ref] = target
    world.objects.touch(target)
    world.serving.changed(target)
    return target


def add_queue(world: World, pool: str, name: str, local_queues: int) -> SimQueue:
    """A ClusterQueue, adopted and on Hold, with open LocalQueues; all cards are its Cohort's."""
    objects = world.objects
    if pool not in objects.cohorts:
        cards = sum(node.cards for node in objects.nodes.values() if node.pool == pool)
        objects.cohorts[pool] = SimCohort(name=pool, uid=objects.uid(), pool=pool, quota=cards)
    queue = SimQueue(
        name=name,
        uid=objects.uid(),
        pool=pool,
        quota=0,
        cohort=pool,
        adopted_by=pool,
        stop_policy=StopPolicy.HOLD,
        stopped_since=None,
    )
    objects.queues[name] = queue
    objects.touch(queue)
    world.kueue.queue_written(queue)
    for number in range(local_queues):
        key = (f"team-{number}", name)
        if key not in objects.local_queues:
            local = SimLocalQueue(
                name=name, uid=objects.uid(), pool=pool, namespace=key[0], cluster_queue=name
            )
            objects.local_queues[key] = local
            objects.touch(local)
    return queue
