"""What machines do in a story: processes end, nodes die, pods stick, metrics go dark."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from idlewin.codec import read_status, write_status
from idlewin.core.decision import ForgetRecord, Remember, ScaleBack, ScaleToZero, SetStopPolicy
from idlewin.core.phase import Phase
from idlewin.sim.kinds import FaultKind
from idlewin.sim.metrics import BELIEVED
from idlewin.sim.objects import Deployment, Work
from tests.simulation.scenery import seconds
from tests.simulation.versions import VERSIONS

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


_DARK = (
    *(FaultKind.EMPTY, FaultKind.IMPOSSIBLE, FaultKind.SILENT),
    *(FaultKind.OLD, FaultKind.OLD, FaultKind.ONE_MISSING),
)


def blind(story: Story) -> None:
    """What Prometheus shows cannot be believed, in one of the ways that there are."""
    kind = story.random.choice(_DARK)
    length = story.random.choice((10, 120, 400))
    if kind is FaultKind.OLD:
        length += BELIEVED.total_seconds()
    only = story.ref() if kind is FaultKind.ONE_MISSING else None
    story.world.blind(seconds(length), kind, only)


def lag(story: Story) -> None:
    story.trouble.begin(FaultKind.LAG, seconds(story.random.choice((2, 10, 60))))


def drop_watch(story: Story) -> None:
    story.trouble.begin(FaultKind.DROPPED, seconds(story.random.uniform(1, 1.1) * 90))


def relist(story: Story) -> None:
    story.trouble.begin(FaultKind.GONE, seconds(story.random.uniform(0.5, 3)))


def half_open(story: Story) -> None:
    story.trouble.begin(FaultKind.HALF_OPEN, seconds(story.random.choice((20, 60, 100))))


def starve(story: Story) -> None:
    story.trouble.begin(FaultKind.STARVED, seconds(story.random.choice((60, 300, 600))))


def step_clock(story: Story) -> None:
    """The wall clock of a controller's machine is set otherwise, and put right some time later."""
    processes = story.world.processes()
    if not processes:
        return
    machine = story.random.choice(processes).machine
    by = seconds(story.random.choice((5, 40, 300, 3600, 21600)) * story.random.choice((1, -1)))

    def step(by: timedelta) -> None:
        machine.stepped += by

    step(by)
    story.later(5, 900, lambda: step(-by))


def clocks_apart(story: Story) -> None:
    story.trouble.begin(FaultKind.CLOCKS_APART, seconds(story.random.choice((5, 40, 300))))


def crash(story: Story) -> None:
    story.world.stop_controller()
    story.later(1, 120, lambda: _restart(story))


def _restart(story: Story) -> None:
    if story.world.process is None:
        story.world.start_controller()


def other_version(story: Story) -> None:
    """Another version of idlewin was at work, has written the status, and is replaced by us."""
    stored = story.world.objects.rules.get(story.name)
    if stored is None or stored.status is None:
        return
    kind = story.random.choice(tuple(VERSIONS))
    story.world.stop_controller()
    story.trouble.hit(kind, story.name)
    data = write_status(stored.status)
    VERSIONS[kind](data)
    stored.status, stored.status_error = read_status(data)
    story.world.objects.touch(stored)
    story.later(1, 10, lambda: _restart(story))


def card_gone(story: Story) -> None:
    count = story.cast.setup.rule.cards.count
    story.people.cards(story.name, count - 1)
    story.later(20, 300, lambda: story.people.cards(story.name, count))


def node_dies(story: Story) -> None:
    story.people.node_dead(story.name, dead=True)
    story.later(20, 400, lambda: story.people.node_dead(story.name, dead=False))


def stuck_pod(story: Story) -> None:
    pods = [pod for pod in story.pods() if pod.node is not None]
    if pods:
        pod = story.random.choice(pods)
        pod.stuck = True
        story.later(20, 900, lambda: story.let_go(pod.uid))


def stuck_batch(story: Story) -> None:
    for pod in story.pods():
        if isinstance(pod.owner, Work) and pod.node is not None:
            pod.stuck = True
            story.later(60, 900, lambda uid=pod.uid: story.let_go(uid))


def refuse(story: Story) -> None:
    kind = story.random.choice((ScaleToZero, ScaleBack, SetStopPolicy, ForgetRecord, Remember))
    story.trouble.refuse(kind, seconds(story.random.uniform(5, 120)))


def stuck_serving(story: Story) -> None:
    """A pod of serving takes long to go."""
    for pod in story.pods():
        if isinstance(pod.owner, Deployment) and pod.node is not None:
            pod.stuck = True
            story.later(20, 900, lambda uid=pod.uid: story.let_go(uid))


def mute_serving(story: Story) -> None:
    """Servers that were just started do not get ready for long, unless they are made anew."""
    world = story.world
    for pod in story.pods():
        if isinstance(pod.owner, Deployment) and not pod.ready:
            pod.mute = True
            story.later(30, 900, lambda pod=pod: world.serving.speak(pod))


EVENTS = (
    *(kueue_down, blind, lag, drop_watch, relist, half_open, starve, other_version),
    *(crash, card_gone, node_dies, stuck_pod, refuse, step_clock, clocks_apart),
)
LASTING = (
    *(lag, drop_watch, relist, relist, half_open, starve, other_version, crash),
    *(step_clock, step_clock, clocks_apart),
)
#: Each of these is a reason to give back, or a way to lose what giving back needs.
_BACK = (*(card_gone, blind) * 3, blind, blind, blind, kueue_down, *LASTING)
AMBUSHES = {
    Phase.SERVING: LASTING,
    Phase.YIELDING: (*_BACK, stuck_serving, stuck_serving, stuck_serving, refuse),
    Phase.HARVESTING: (*_BACK, node_dies, refuse, refuse, refuse, *(card_gone, other_version) * 3),
    Phase.RECLAIMING: (*(stuck_batch,) * 3, kueue_down, node_dies, refuse, *LASTING, blind),
    Phase.RESTORING: (kueue_down, *LASTING, blind, mute_serving),
}
