"""What Kueue itself can do to a pool: neighbours in its cohort, LocalQueues on Hold, its limits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.sim.backlog import JobKind
from idlewin.sim.objects import SimLocalQueue, SimQueue
from idlewin.sim.ready import PodsReady
from tests.simulation.scenery import resumable_of, seconds

if TYPE_CHECKING:
    from tests.simulation.scenario import Story


def until(story: Story, least: float, most: float, undo: Callable[[], object]) -> None:
    """Undo something after so many seconds, or when faults stop."""
    due = story.world.clock.now() + seconds(story.random.uniform(least, most))
    story.world.clock.at(min(due, story.ends), undo)


def _theirs(story: Story) -> str:
    return f"theirs-{story.name}"


def neighbour(story: Story) -> None:
    """Another team's queue joins the cohort: what ours lend, stopped or not, it may use."""
    world, objects, theirs = story.world, story.world.objects, _theirs(story)
    if theirs in objects.queues or not world.kueue.up:
        return
    queue = SimQueue(
        name=theirs,
        uid=objects.uid(),
        pool=story.name,
        quota=0,
        cohort=story.name,
        stop_policy=StopPolicy.NONE,
        seen=StopPolicy.NONE,
    )
    local = SimLocalQueue(
        name=theirs,
        uid=objects.uid(),
        pool=story.name,
        namespace="team-9",
        cluster_queue=theirs,
    )
    objects.queues[theirs] = queue
    objects.local_queues[local.namespace, theirs] = local
    objects.touch(queue)
    kind = JobKind(
        queue=theirs,
        runtime=(seconds(5), seconds(story.random.choice((90, 900)))),
        grace=seconds(5),
        depth=1,
        total=story.random.randint(1, 6),
    )
    world.backlog.keep(kind)
    until(story, 60, 1200, lambda: _leave(story, kind))


def _leave(story: Story, kind: JobKind) -> None:
    world, theirs = story.world, _theirs(story)
    world.backlog.drop(kind)
    for work in world.objects.works_of(theirs):
        for pod in world.objects.pods_of(work):
            world.jobs.done(work, pod)
        work.left = timedelta()
        world.kueue.finish(work)
    story.people.delete_queue(theirs)


def hold_local(story: Story) -> None:
    """A LocalQueue is on Hold while its ClusterQueue is drained, and is resumed in the drain."""
    queue = story.queue()
    story.people.set_local_policy("team-0", queue, StopPolicy.HOLD)

    def resume() -> None:
        story.people.set_local_policy("team-0", queue, StopPolicy.NONE)

    def soon(story: Story) -> None:
        story.later(0.5, 25, resume)

    story.when_entered[Phase.RECLAIMING] = soon
    until(story, 600, 1200, resume)


def long_runners(story: Story) -> None:
    """Jobs that their maximum execution time ends in the middle; somebody wants them back."""
    kind = JobKind(
        queue=resumable_of(story.name),
        runtime=(timedelta(minutes=2), timedelta(minutes=5)),
        contract=True,
        grace=seconds(20),
        max_runtime=seconds(story.random.choice((15, 40, 90))),
    )
    works = [story.world.backlog.submit(kind) for _ in range(story.random.randint(1, 2))]

    def again() -> None:
        for work in works:
            if work is not None and not work.active and not work.finished:
                story.people.activate(work, active=True)

    story.later(60, 900, again)


def fragile(story: Story) -> None:
    """A job that is lost with its pod, under contract as it is."""
    kind = JobKind(
        queue=resumable_of(story.name),
        runtime=(seconds(30), timedelta(minutes=5)),
        contract=True,
        grace=seconds(20),
        retries=False,
    )
    story.world.backlog.submit(kind)


def wait_for_pods(story: Story) -> None:
    """Kueue is started anew with waitForPodsReady, which ends what gets no card in time."""
    kueue = story.world.kueue
    if not kueue.up:
        return
    random = story.random
    policy = PodsReady(
        timeout=seconds(random.choice((4, 15, 60))),
        base=seconds(random.choice((2, 30))),
        limit=random.choice((None, 0, 2)),
        block_admission=random.random() < 0.5,
    )

    def start(ready: PodsReady | None) -> None:
        if not kueue.up:
            kueue.ready.policy = ready
            kueue.come_back()

    def stop() -> None:
        if kueue.up:
            kueue.go_down()
            story.later(5, 30, lambda: start(None))

    kueue.go_down()
    story.later(5, 30, lambda: start(policy))
    until(story, 300, 5400, stop)


def serving_first(story: Story) -> None:
    """Serving has a PriorityClass from now on: its pods end those of batch."""
    target = story.world.objects.deployments.get(story.ref())
    if target is not None:
        target.priority = 1


EVENTS: tuple[Callable[[Story], None], ...] = (
    neighbour,
    hold_local,
    long_runners,
    fragile,
    wait_for_pods,
    serving_first,
)
AMBUSHES: dict[Phase, tuple[Callable[[Story], None], ...]] = {
    Phase.SERVING: (neighbour, wait_for_pods),
    Phase.YIELDING: (neighbour, neighbour),
    Phase.HARVESTING: (neighbour, hold_local, long_runners, wait_for_pods),
    Phase.RECLAIMING: (neighbour, hold_local),
    Phase.RESTORING: (neighbour, serving_first),
}
