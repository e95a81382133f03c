"""Second writers in a story: each is at work for a while, and reacts to every change meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.target import Ref
from idlewin.sim.rivals import Autoscaler, GitOps, Keda, Operator, QueueReplacer, Rival

if TYPE_CHECKING:
    from tests.simulation.scenario import Story


def _for_a_while(story: Story, rival: Rival) -> None:
    """It ends before faults do, and a person says resume some time after."""
    story.rivals.append(rival)
    story.later(60, 1800, rival.end)
    if story.random.random() < 0.7:
        story.later(1800, 3600, lambda: story.over or story.people.resume(story.name))


def _wanted(story: Story) -> dict[Ref, int]:
    targets = story.world.objects.deployments.values()
    return {t.ref: t.owner_wants for t in targets if t.pool == story.name}


def autoscaler(story: Story) -> None:
    ref = story.ref()
    most = max(1, story.cast.setup.servers[ref].replicas)
    bounds = (1, most)
    _for_a_while(story, Autoscaler(story.world, story.name, story.random, ref, bounds))


def gitops_heals(story: Story) -> None:
    _for_a_while(story, GitOps(story.world, story.name, story.random, _wanted(story)))


def gitops_prunes(story: Story) -> None:
    """It leaves replicas to others."""
    _for_a_while(story, GitOps(story.world, story.name, story.random, {}, prunes=True))


def gitops_replaces(story: Story) -> None:
    """Replicas and marks."""
    wanted = _wanted(story)
    _for_a_while(story, GitOps(story.world, story.name, story.random, wanted, prunes=True))


def operator_owns(story: Story) -> None:
    wanted = _wanted(story)
    _for_a_while(story, Operator(story.world, story.name, story.random, wanted, prunes=True))


def keda(story: Story) -> None:
    _for_a_while(story, Keda(story.world, story.name, story.random, story.ref()))


def queue_replaced(story: Story) -> None:
    policy = story.random.choice(tuple(StopPolicy))
    _for_a_while(story, QueueReplacer(story.world, story.name, story.random, policy))


def deploy(story: Story) -> None:
    story.people.deploy(story.ref())


EVENTS = (
    autoscaler,
    gitops_heals,
    gitops_prunes,
    gitops_replaces,
    operator_owns,
    keda,
    queue_replaced,
    deploy,
)
AMBUSHES = {
    Phase.SERVING: (gitops_heals, operator_owns, queue_replaced),
    Phase.YIELDING: (gitops_replaces, operator_owns, keda, gitops_prunes, deploy),
    Phase.HARVESTING: (gitops_heals, gitops_prunes, keda, queue_replaced, deploy),
    Phase.RECLAIMING: (gitops_replaces, operator_owns, gitops_prunes, queue_replaced, deploy),
    Phase.RESTORING: (gitops_replaces, autoscaler, gitops_prunes, deploy),
}
