"""A seed's story: which rule, which cluster, which days, and what goes wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from idlewin.core.decision import (
    FenceQueue,
    ForgetRecord,
    Remember,
    ScaleBack,
    ScaleToZero,
    SetStopPolicy,
    StopLocalQueue,
)
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.rule import Batch, Contract, Mode, OnReturn, QueueClass, Rule, WindowPolicy
from idlewin.core.target import Ref, Serving
from idlewin.sim.backlog import JobKind
from idlewin.sim.chronicle import Change
from idlewin.sim.demand import day_rhythm
from idlewin.sim.faults import Rates, Trouble
from idlewin.sim.furnish import Server
from idlewin.sim.objects import Deployment, Work
from idlewin.sim.people import People
from idlewin.sim.world import Setup, World
from tests.simulation.scenery import DEMAND, NAME, RESUMABLE, SHORT, START, a_rule, seconds

#: Hours of a world's life before its faults stop, and how short its days are.
HOURS, SCALE = 8, 0.1
CALM = Rates()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """What a seed has drawn."""

    setup: Setup
    rates: Rates
    events_per_hour: float
    ambush: float
    """How likely something happens in a phase that was just entered."""


def draw(seed: int) -> Cast:
    """The rule and its surroundings."""
    random = Random(f"{seed} cast")
    count = random.choice((1, 1, 2, 3))
    claims = random.choice((1, 0))
    names = ("qwen", "whisper") if count > 1 and random.random() < 0.5 else ("qwen",)
    refs = [Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name=n) for n in names]
    replicas = count // len(names) if claims else 1
    inside = random.random() < 0.2
    servers = {
        ref: Server(
            replicas=replicas if random.random() < 0.95 or len(refs) == 1 else 0,
            claims=claims,
            grace=seconds(random.choice((2, 5, 45, 120))),
            start_up=(random.choice((5.0, 20.0, 60.0)), 0.2),
            inside_kueue=inside,
        )
        for ref in refs
    }
    demand = {
        ref: day_rhythm(
            Random(f"{seed} {ref.name}"), START, int(HOURS / 24 / SCALE) + 2, scale=SCALE
        )
        for ref in refs
    }
    calm = random.random() < 0.15
    setup = Setup(
        name=NAME,
        rule=_rule(random, refs, count),
        demand=demand,
        servers=servers,
        jobs=_jobs(random),
        local_queues=random.choice((1, 2)),
    )
    return Cast(
        setup=setup,
        rates=CALM if calm else _rates(random),
        events_per_hour=0 if calm else random.choice((0.5, 2, 5)),
        ambush=0 if calm else random.choice((0.4, 0.7, 0.95)),
    )


def _rule(random: Random, refs: list[Ref], count: int) -> Rule:
    lead = random.choice(("Auto", seconds(60), seconds(10)))
    serving = tuple(
        Serving(
            api_version=ref.api_version,
            kind=ref.kind,
            namespace=ref.namespace,
            name=ref.name,
            demand=DEMAND,
            lead_time=lead,  # type: ignore[arg-type]
            ready_timeout=timedelta(minutes=3),
        )
        for ref in refs
    )
    shortest = timedelta(minutes=random.choice((3, 8, 15)))
    window = WindowPolicy(
        idle_for=seconds(random.choice((10, 60, 240))),
        min=shortest,
        max=shortest * random.choice((1.2, 2, 10)),
        max_per_day=random.choice((20, 100)),
        min_serving=seconds(random.choice((0, 30, 200))),
        yield_timeout=seconds(random.choice((60, 300, 900))),
    )
    batch = Batch(
        queues=(
            QueueClass(cluster_queue=SHORT, max_runtime=timedelta(minutes=random.choice((1, 3)))),
            QueueClass(
                cluster_queue=RESUMABLE,
                contract=Contract.CHECKPOINT,
                grace=seconds(random.choice((5, 20))),
                min_slice=seconds(30),
            ),
        )[:: random.choice((1, -1))][: random.choice((1, 2, 2))],
        on_return=random.choice((OnReturn.WAIT, OnReturn.WAIT, OnReturn.EVICT)),
        drain_timeout=seconds(random.choice((20, 60, 120))),
        dry_after=seconds(random.choice((30, 120))),
    )
    base = a_rule(count=count)
    return replace(
        base,
        serving=serving,
        batch=batch,
        window=window,
        stale_after=seconds(random.choice((5, 20, 90))),
    )


def _jobs(random: Random) -> tuple[JobKind, ...]:
    endless = random.random() < 0.6
    short = JobKind(
        queue=SHORT,
        runtime=(seconds(20), seconds(random.choice((55, 150)))),
        max_runtime=timedelta(minutes=1),
        grace=seconds(5),
        depth=2,
        total=None if endless else random.randint(3, 30),
    )
    resumable = JobKind(
        queue=RESUMABLE,
        runtime=(timedelta(minutes=1), timedelta(minutes=20)),
        contract=True,
        grace=seconds(20),
        depth=2,
        total=None if endless else random.randint(2, 10),
    )
    lacking = replace(
        resumable,
        contract=False,
        max_runtime=timedelta(minutes=2),
        depth=1,
        total=random.choice((0, 5)),
    )
    return (short, resumable, lacking)


def _rates(random: Random) -> Rates:
    def some(most: float) -> float:
        return random.choice((0.0, 0.0, random.uniform(0, most)))

    return Rates(
        conflict=some(0.1),
        busy=some(0.1),
        error=some(0.1),
        unheard=some(0.1),
        crash_before=some(0.05),
        crash_after=some(0.05),
        freeze=some(0.03),
        look=some(0.05),
    )


class Story:
    """Lets things go wrong in a world, at random and just when they hurt."""

    def __init__(self, world: World, cast: Cast, trouble: Trouble) -> None:
        self.world, self.cast, self.trouble = world, cast, trouble
        self.random = Random(f"{world.seed} story")
        self.people = People(world)
        self.name = cast.setup.name
        self.refs = list(cast.setup.servers)
        self.over = False
        self.told: list[str] = []
        self.lost: set[str] = set()
        self._known = 0
        self.when_entered: dict[Phase, Callable[[Story], None]] = {}
        """What waits for a phase to be entered."""
        world.on_cycle.append(lambda _name, _decision: self._ambushes())
        self._next()

    def end(self) -> None:
        """Faults stop: what is broken works again. What people decided stays."""
        self.over = True
        self.trouble.quiet()
        world = self.world
        if not world.kueue.up:
            world.kueue.come_back()
        self.people.node_dead(self.name, dead=False)
        rule = self.cast.setup.rule
        self.people.cards(self.name, rule.cards.count)
        for pod in list(world.objects.pods.values()):
            self._let_go(pod.uid)
        if world.controller is None:
            world.start_controller()

    # -- when

    def _next(self) -> None:
        if self.cast.events_per_hour:
            gap = self.random.expovariate(self.cast.events_per_hour / 3600)
            self.world.clock.after(gap, self._happen)

    def _happen(self) -> None:
        if not self.over:
            self._do(self.random.choice(EVENTS))
            self._next()

    def _ambushes(self) -> None:
        changes = self.world.chronicle.changes
        fresh, self._known = changes[self._known :], len(changes)
        for change in fresh:
            if not self.over and (waiting := self.when_entered.pop(change.after, None)):
                self._do(waiting)
            elif not self.over and self.random.random() < self.cast.ambush:
                self._lie_in_wait(change)

    def _lie_in_wait(self, change: Change) -> None:
        what = self.random.choice(AMBUSHES[change.after])
        if change.after is Phase.YIELDING and self.random.random() < 0.5:
            # A handover that takes long, so that there is time for something to happen in it.
            self._do(stuck_serving)
        delay = self.random.choice((0.0, 0.5, 3.0, 15.0)) * self.random.random()
        self.world.clock.after(delay, lambda: None if self.over else self._do(what))

    def _do(self, what: Callable[[Story], None]) -> None:
        self.told.append(f"{self.world.clock.now():%d %H:%M:%S} {what.__name__}")
        what(self)

    def later(self, least: float, most: float, undo: Callable[[], object]) -> None:
        """Undo something after so many seconds; at the end of faults it is undone as well."""
        self.world.clock.after(self.random.uniform(least, most), undo)

    def ref(self) -> Ref:
        """One of the targets."""
        return self.random.choice(self.refs)

    def queue(self) -> str:
        """One of the queues."""
        return self.random.choice(self.cast.setup.rule.batch.queues).cluster_queue

    def _let_go(self, uid: str) -> None:
        pod = self.world.objects.pods.get(uid)
        if pod is not None and pod.stuck:
            pod.stuck = False
            if pod.terminating:
                self.world.nodes.end(pod)


# -- what: people


def users_come(story: Story) -> None:
    length = timedelta(seconds=story.random.uniform(5, 600))
    story.world.users_come(story.cast.setup, length)


def claim(story: Story) -> None:
    story.people.claim(story.name, seconds(story.random.uniform(10, 600)))


def pause(story: Story) -> None:
    story.people.pause(story.name, paused=True)
    story.later(5, 900, lambda: story.people.pause(story.name, paused=False))


def observe(story: Story) -> None:
    story.people.set_mode(story.name, Mode.OBSERVE)
    story.later(5, 900, lambda: story.people.set_mode(story.name, Mode.ACT))


def break_rule(story: Story) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored is not None and stored.rule is not None:
        rule = stored.rule
        story.people.edit(story.name, None, "window.min: 'soon' is not a duration; write 30m")
        story.later(5, 600, lambda: story.people.edit(story.name, rule))


def edit_batch(story: Story) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored is not None and stored.rule is not None:
        batch = replace(stored.rule.batch, queues=stored.rule.batch.queues[::-1])
        story.people.edit(story.name, replace(stored.rule, batch=batch))


def edit_window(story: Story) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored is not None and stored.rule is not None:
        window = replace(stored.rule.window, max=stored.rule.window.max * 1.1)
        story.people.edit(story.name, replace(stored.rule, window=window))


def delete_rule(story: Story) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored is not None:
        story.people.delete_rule(story.name)
        story.later(60, 900, lambda: recreate_rule(story))


def recreate_rule(story: Story) -> None:
    if story.name not in story.world.objects.rules:
        from idlewin.sim.furnish import add_rule

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


# -- what: machines


def kueue_down(story: Story) -> None:
    world = story.world
    if world.kueue.up:
        world.kueue.go_down()
        story.later(5, 900, lambda: _kueue_up(story))


def _kueue_up(story: Story) -> None:
    if not story.world.kueue.up:
        story.world.kueue.come_back()


def blind(story: Story) -> None:
    story.world.blind(seconds(story.random.choice((10, 60, 400))))


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
        story.later(20, 900, lambda: story._let_go(pod.uid))


def stuck_batch(story: Story) -> None:
    for pod in story.world.objects.pods.values():
        if isinstance(pod.owner, Work) and pod.node is not None:
            pod.stuck = True
            story.later(60, 900, lambda uid=pod.uid: story._let_go(uid))


def refuse(story: Story) -> None:
    kind = story.random.choice((ScaleToZero, ScaleBack, SetStopPolicy, ForgetRecord, Remember))
    story.trouble.refuse(kind, seconds(story.random.uniform(5, 120)))


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


def stuck_serving(story: Story) -> None:
    """A pod of serving takes long to go."""
    for pod in list(story.world.objects.pods.values()):
        if isinstance(pod.owner, Deployment) and pod.node is not None:
            pod.stuck = True
            story.later(20, 900, lambda uid=pod.uid: story._let_go(uid))


EVENTS: tuple[Callable[[Story], None], ...] = (
    users_come,
    claim,
    pause,
    observe,
    break_rule,
    edit_batch,
    edit_window,
    delete_rule,
    lose_status,
    lose_record,
    raise_serving,
    rival,
    delete_target,
    recreate_target,
    restart_server,
    open_queue,
    open_while_observing,
    close_queue,
    close_local_queue,
    delete_queue,
    unadopt,
    kueue_down,
    blind,
    lag,
    crash,
    card_gone,
    node_dies,
    stuck_pod,
    refuse,
)
#: Each of these is a reason to give back, or a way to lose what giving back needs.
_BACK = (
    *(users_come, claim, pause, card_gone, blind, raise_serving, delete_target) * 3,
    *(observe, break_rule, edit_batch, delete_rule, recreate_target),
    *(lag, crash, kueue_down, lose_status, lose_record, rival, unadopt),
)
#: What hurts most in each phase.
AMBUSHES: dict[Phase, tuple[Callable[[Story], None], ...]] = {
    Phase.SERVING: (
        *(open_while_observing, open_queue) * 2,
        *(close_queue, lose_status, crash, users_come),
    ),
    Phase.YIELDING: (
        *_BACK,
        *(stuck_serving, stuck_serving, stuck_serving, refuse, restart_server),
    ),
    Phase.HARVESTING: (
        *_BACK,
        *(close_queue, delete_queue, node_dies, close_local_queue, open_before_serving_is_back),
    ),
    Phase.RECLAIMING: (
        *(stuck_batch, open_before_serving_is_back, open_before_serving_is_back) * 3,
        *(kueue_down, node_dies, open_queue, raise_serving, delete_rule, lose_status),
        *(close_local_queue, crash, refuse),
    ),
    Phase.RESTORING: (
        *(open_queue, raise_serving, delete_target, recreate_target, kueue_down, crash),
        *(lose_status, delete_rule, restart_server),
    ),
}
