"""What machines do in a story: processes end, nodes die, pods stick, metrics go dark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from idlewin.core.decision import ForgetRecord, Remember, ScaleBack, ScaleToZero, SetStopPolicy
from idlewin.core.phase import Phase
from idlewin.sim.objects import Deployment, Work
from tests.simulation.scenery import seconds

if TYPE_CHECKING:
    from tests.simulation.scenario import Story


def kueue_down(story: Story) -> None:
    world = story.world
    if world.kueue.up:
        world.kueue.go_down()
        story.later(5, 900, lambda: _kueue_up(story))


def _kueue_up(story: Story) -> None:
    if not story.world.kueue.up:
        story.world.kueue.come_back()


def blind(story: Story) -> None:
    story.world.blind(seconds(story.random.choice((10, 120, 400))))


def lag(story: Story) -> None:
    story.trouble.lag(seconds(story.random.choice((2, 10, 60))))


def crash(story: Story) -> None:
    story.world.stop_controller()
    story.later(1, 120, lambda: _restart(story))


def _restart(story: Story) -> None:
    if story.world.controller is None:
        story.world.start_controller()


def card_gone(story: Story) -> None:
    count = story.cast.setup.rule.cards.count
    story.people.cards(story.name, count - 1)
    story.later(20, 300, lambda: story.people.cards(story.name, count))


def node_dies(story: Story) -> None:
    story.people.node_dead(story.name, dead=True)
    story.later(20, 400, lambda: story.people.node_dead(story.name, dead=False))


def stuck_pod(story: Story) -> None:
    pods = [pod for pod in story.world.objects.pods.values() if pod.node is not None]
    if pods:
        pod = story.random.choice(pods)
        pod.stuck = True
        story.later(20, 900, lambda: story.let_go(pod.uid))


def stuck_batch(story: Story) -> None:
    for pod in story.world.objects.pods.values():
        if isinstance(pod.owner, Work) and pod.node is not None:
            pod.stuck = True
            story.later(60, 900, lambda uid=pod.uid: story.let_go(uid))


def refuse(story: Story) -> None:
    kind = story.random.choice((ScaleToZero, ScaleBack, SetStopPolicy, ForgetRecord, Remember))
    story.trouble.refuse(kind, seconds(story.random.uniform(5, 120)))


def stuck_serving(story: Story) -> None:
    """A pod of serving takes long to go."""
    for pod in list(story.world.objects.pods.values()):
        if isinstance(pod.owner, Deployment) and pod.node is not None:
            pod.stuck = True
            story.later(20, 900, lambda uid=pod.uid: story.let_go(uid))


def mute_serving(story: Story) -> None:
    """Servers that were just started do not get ready for long, unless they are made anew."""
    world = story.world
    for pod in list(world.objects.pods.values()):
        if isinstance(pod.owner, Deployment) and not pod.ready:
            pod.mute = True
            story.later(30, 900, lambda pod=pod: world.serving.speak(pod))


EVENTS = (kueue_down, blind, lag, crash, card_gone, node_dies, stuck_pod, refuse)
#: Each of these is a reason to give back, or a way to lose what giving back needs.
_BACK = (*(card_gone, blind) * 3, blind, blind, lag, crash, kueue_down)
AMBUSHES = {
    Phase.SERVING: (crash,),
    Phase.YIELDING: (*_BACK, stuck_serving, stuck_serving, stuck_serving, refuse),
    Phase.HARVESTING: (*_BACK, node_dies, card_gone, card_gone),
    Phase.RECLAIMING: (*(stuck_batch,) * 3, kueue_down, node_dies, crash, refuse),
    Phase.RESTORING: (kueue_down, crash, mute_serving),
}
