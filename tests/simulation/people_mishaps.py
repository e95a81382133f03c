"""What people and other controllers do in a story."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from idlewin.core.decision import FenceQueue, ScaleBack, SetStopPolicy, StopLocalQueue
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.rule import Mode, QueueClass
from idlewin.core.status import WindowQueue
from idlewin.core.target import Ref
from idlewin.sim.backlog import JobKind
from idlewin.sim.furnish import Server, add_rule
from idlewin.sim.objects import SimRule
from tests.simulation.scenery import DEVICE, seconds

if TYPE_CHECKING:
    from tests.simulation.scenario import Story


def users_come(story: Story) -> None:
    length = timedelta(seconds=story.random.uniform(5, 600))
    story.world.users_come(story.cast.setup, length)


def transcode(story: Story) -> None:
    """Somebody has the cards' device node open for a while, and claims none."""
    pod = story.people.open_device(story.name, DEVICE)
    story.later(5, 300, lambda: story.world.nodes.delete(pod))


def claim(story: Story) -> None:
    story.people.claim(story.name, seconds(story.random.uniform(10, 600)))


def pause(story: Story) -> None:
    story.people.pause(story.name, paused=True)
    story.later(5, 900, lambda: story.people.pause(story.name, paused=False))


def observe(story: Story) -> None:
    story.people.set_mode(story.name, Mode.OBSERVE)
    story.later(5, 900, lambda: story.people.set_mode(story.name, Mode.ACT))


def newer_rule(story: Story) -> None:
    """Somebody else's rule names what is this one's, with work of its own, or all of it."""
    world, name = story.world, newer_of(story.name)
    stored = world.objects.rules.get(story.name)
    if stored is None or stored.rule is None or stored.deleting or name in world.objects.rules:
        return
    rule = replace(stored.rule, paused=False, mode=Mode.ACT)
    kind = JobKind(queue=name, runtime=(seconds(20), seconds(40)), max_runtime=seconds(60))
    if story.random.random() < 0.8:
        queue = QueueClass(cluster_queue=name, max_runtime=seconds(60))
        rule = replace(rule, batch=replace(rule.batch, queues=(queue,)))
        story.people.create_queue(name, name)
        world.backlog.keep(kind)
    newer = SimRule(
        name=name,
        uid=world.objects.uid(),
        pool=name,
        rule=rule,
        created_at=world.clock.now(),
    )
    world.objects.rules[name] = newer
    world.objects.touch(newer)
    story.later(60, 1800, lambda: _newer_goes(story))


def newer_of(name: str) -> str:
    return f"{name}-newer"


def _newer_goes(story: Story) -> None:
    world, name = story.world, newer_of(story.name)
    story.people.delete_rule(name)
    for kind in world.backlog.kept(name):
        world.backlog.drop(kind)
    story.people.delete_queue(name)


def break_rule(story: Story) -> None:
    # A rule that names what nobody else does any more may lend it: not the story of this one.
    _newer_goes(story)
    stored = story.world.objects.rules.get(story.name)
    if stored is not None and stored.rule is not None:
        rule = stored.rule
        story.people.edit(story.name, None, "window.min: 'soon' is not a duration; write 30m")
        story.later(5, 600, lambda: story.people.edit(story.name, rule))


def edit_window(story: Story) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored is not None and stored.rule is not None:
        window = replace(stored.rule.window, max=stored.rule.window.max * 1.1)
        story.people.edit(story.name, replace(stored.rule, window=window))


def delete_rule(story: Story) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored is not None:
        _newer_goes(story)
        story.people.delete_rule(story.name)
        story.later(60, 900, lambda: recreate_rule(story))


def recreate_rule(story: Story) -> None:
    if story.name not in story.world.objects.rules:
        add_rule(story.world, story.cast.setup)


def lose_status(story: Story) -> None:
    # Both copies gone is beyond any promise: only one is lost at a time.
    targets = story.world.objects.deployments.values()
    if all(target.record for target in targets if target.at_our_zero):
        story.people.lose_status(story.name)


def lose_record(story: Story) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored and stored.status and stored.status.window:
        story.people.lose_record(story.ref())


def raise_serving(story: Story) -> None:
    ref = story.ref()
    target = story.world.objects.deployments.get(ref)
    if target is not None:
        wanted = story.random.choice((target.owner_wants, 1, 0))
        story.people.scale(ref, wanted)


def rival(story: Story) -> None:
    """Another controller resets replicas for a while."""
    ref, times = story.ref(), story.random.randint(2, 8)

    def again(left: int) -> None:
        target = story.world.objects.deployments.get(ref)
        if left and target is not None and not story.over:
            if target.replicas == 0 and target.owner_wants:
                story.people.scale(ref, target.owner_wants, writer="argocd-controller")
            story.later(20, 120, lambda: again(left - 1))

    again(times)
    if story.random.random() < 0.7:
        story.later(900, 1800, lambda: story.people.resume(story.name))


def delete_target(story: Story) -> None:
    ref = story.ref()
    story.people.delete_target(ref)
    server = story.cast.setup.servers[ref]
    story.later(20, 300, lambda: _create_target(story, ref, server))


def _create_target(story: Story, ref: Ref, server: Server) -> None:
    if ref not in story.world.objects.deployments:
        story.people.recreate_target(ref, story.name, server)


def recreate_target(story: Story) -> None:
    ref = story.ref()
    story.people.recreate_target(ref, story.name, story.cast.setup.servers[ref])


def restart_server(story: Story) -> None:
    story.people.restart_server(story.ref())


def open_queue(story: Story) -> None:
    story.people.set_policy(story.queue(), StopPolicy.NONE)


def rival_opens(story: Story) -> None:
    """Another controller turns a queue's stop policy round for a while, whatever it is."""
    queue, times = story.queue(), story.random.randint(4, 10)

    def again(left: int) -> None:
        stored = story.world.objects.queues.get(queue)
        if left and stored is not None and not story.over:
            shut = stored.stop_policy is not StopPolicy.NONE
            story.people.set_policy(queue, StopPolicy.NONE if shut else StopPolicy.HOLD)
            story.later(1, 10, lambda: again(left - 1))

    def resumes() -> None:
        # Said at the very end it would leave no time for what it sets off.
        if not story.over:
            story.people.resume(story.name)

    again(times)
    story.later(300, 900, resumes)


def rival_reopens(story: Story) -> None:
    """Another controller opens a queue whenever idlewin closed it because the end came near."""
    world = story.world

    def again(left: int) -> None:
        stored = world.objects.rules.get(story.name)
        if not left or stored is None or stored.status is None or story.over:
            return
        queues = [world.objects.queues.get(q.spec.cluster_queue) for q in _window_queues(stored)]
        for queue in queues:
            if queue and queue.left is queue.stop_policy is StopPolicy.HOLD:
                story.people.set_policy(queue.name, StopPolicy.NONE)
        story.later(5, 15, lambda: again(left - 1))

    again(600)
    story.later(7200, 9000, lambda: story.people.resume(story.name))


def _window_queues(stored: SimRule) -> tuple[WindowQueue, ...]:
    status = stored.status
    harvesting = status is not None and status.phase == Phase.HARVESTING and status.window
    return status.window.queues if status and harvesting and status.window else ()


def close_queue(story: Story) -> None:
    policy = story.random.choice((StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN))
    story.people.set_policy(story.queue(), policy)
    story.later(60, 900, lambda: story.people.resume(story.name))


def close_local_queue(story: Story) -> None:
    policy = story.random.choice((StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN))
    queue = story.queue()
    story.people.set_local_policy("team-0", queue, policy)
    story.later(30, 600, lambda: story.people.set_local_policy("team-0", queue, StopPolicy.NONE))


def delete_queue(story: Story) -> None:
    queue = story.queue()
    story.people.delete_queue(queue)
    local_queues = story.cast.setup.local_queues
    story.later(30, 600, lambda: story.people.create_queue(story.name, queue, local_queues))


def open_before_serving_is_back(story: Story) -> None:
    """Somebody's webhooks refuse all that we write, and a person opens a queue meanwhile."""
    story.trouble.refuse(ScaleBack, seconds(240))

    def opened(story: Story) -> None:
        for kind in (ScaleBack, SetStopPolicy, FenceQueue, StopLocalQueue):
            story.trouble.refuse(kind, seconds(story.random.uniform(5, 20)))
        open_queue(story)

    story.when_entered[Phase.RESTORING] = opened


def open_while_observing(story: Story) -> None:
    """A person opens a queue of a rule that observes; then it is to act."""
    story.people.set_mode(story.name, Mode.OBSERVE)
    story.world.clock.after(2, lambda: open_queue(story))
    story.later(10, 60, lambda: story.people.set_mode(story.name, Mode.ACT))


def unadopt(story: Story) -> None:
    queue = story.queue()
    story.people.adopt(queue, "")
    story.later(10, 600, lambda: story.people.adopt(queue, story.name))


def resume(story: Story) -> None:
    story.people.resume(story.name)


EVENTS = (
    *(
        users_come,
        claim,
        pause,
        observe,
        break_rule,
        edit_window,
        delete_rule,
    ),
    *(lose_status, lose_record, raise_serving, rival, rival_opens, rival_reopens),
    *(delete_target, recreate_target, restart_server, open_queue, open_while_observing),
    *(close_queue, close_local_queue, delete_queue, unadopt, resume),
)
#: Each of these is a reason to give back, or a way to lose what giving back needs.
_BACK = (
    *(users_come, claim, pause, raise_serving, delete_target) * 3,
    *(claim, claim, rival_opens, rival_opens, rival_opens),
    *(observe, break_rule, delete_rule, recreate_target),
    *(lose_status, lose_record, rival, unadopt),
)
AMBUSHES = {
    Phase.SERVING: (
        *(open_while_observing, open_queue) * 2,
        *(close_queue, lose_status, users_come),
        *(resume,) * 6,
    ),
    Phase.YIELDING: (*_BACK, restart_server),
    Phase.HARVESTING: (
        *_BACK,
        *(close_queue, delete_queue, close_local_queue, open_before_serving_is_back),
        *(rival_reopens,) * 10,
        *(raise_serving, pause, delete_target, recreate_target) * 3,
    ),
    Phase.RECLAIMING: (
        *(open_before_serving_is_back,) * 6,
        *(open_queue, raise_serving, delete_rule, lose_status, close_local_queue),
    ),
    Phase.RESTORING: (
        *(open_queue, raise_serving, delete_target, recreate_target),
        *(lose_status, delete_rule, restart_server),
    ),
}
