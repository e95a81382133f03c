"""A seed's story: which rule, which cluster, which days, and what goes wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random

from idlewin.core.calendar import Calendar
from idlewin.core.phase import Phase
from idlewin.core.rule import Batch, Contract, OnReturn, QueueClass, Rule, WindowPolicy
from idlewin.core.target import HttpProbe, OnOverdue, Probe, Ref, Serving
from idlewin.sim.backlog import JobKind
from idlewin.sim.clock import Timer
from idlewin.sim.demand import day_rhythm
from idlewin.sim.faults import Rates, Trouble
from idlewin.sim.furnish import Server
from idlewin.sim.kinds import FaultKind
from idlewin.sim.objects import SimPod
from idlewin.sim.people import People
from idlewin.sim.rivals import Rival
from idlewin.sim.world import Setup, World
from tests.simulation.machine_mishaps import LASTING, refuse, stuck_serving
from tests.simulation.mishaps import AMBUSHES, EVENTS
from tests.simulation.people_mishaps import newer_rule, resume, transcode
from tests.simulation.scenery import (
    DEMAND,
    DEVICE,
    NAME,
    START,
    a_rule,
    resumable_of,
    seconds,
    short_of,
    third_of,
)
from tests.simulation.themes import THEMES, Theme
from tests.simulation.zones import a_calendar

#: Hours of a world's life before its faults stop, and how short its days are.
HOURS, SCALE = 11, 0.1
#: How likely a window has a theme, and no other end lies in wait; how likely it has a fault, too.
THEMED, HARDER = 0.9, 0.25
CALM: Rates = {}
#: How often the cards' device node is named, and a pod of nobody's has it open from time to time.
EXCLUSIVE = 0.25
#: Worlds from this seed on are rich: two rules, more cards and queues, calm stretches in between.
RICH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """What a seed has drawn."""

    seed: str
    setup: Setup
    start: datetime
    rich: bool = False
    ends: tuple[datetime, ...] = ()
    """When faults stop; they begin again after all but the last."""
    rates: Rates
    events_per_hour: float
    ambush: float
    """How likely something happens in a phase that was just entered."""


def draw(number: int) -> list[Cast]:
    """The rules of a world and their surroundings: one rule, and in rich worlds often a second."""
    random = Random(f"{number} rules")
    rich = number >= RICH
    casts = [_cast(f"{number}", NAME, *_when(number), rich=rich)]
    if rich and random.random() < 0.5:
        casts.append(_cast(f"{number} second", f"{NAME}-2", casts[0].start, Calendar(), rich=rich))
    # Two rules live for half as long.
    length = timedelta(hours=HOURS) / len(casts)
    rests = random.choice((0, 1, 3)) if rich else 0
    ends = tuple(casts[0].start + length * (n + 1) / (rests + 1) for n in range(rests + 1))
    return [replace(cast, ends=ends, rich=rich) for cast in casts]


def _cast(seed: str, name: str, start: datetime, calendar: Calendar, *, rich: bool) -> Cast:
    random = Random(f"{seed} cast")
    count = random.choice((1, 1, 2, 3))
    large = Random(f"{seed} size")
    if rich and large.random() < 0.3:
        count = large.randint(4, 8)
    claims = random.choice((1, 0))
    names = ("qwen", "whisper") if count > 1 and random.random() < 0.5 else ("qwen",)
    space = "ai" if name == NAME else name
    refs = [Ref(api_version="apps/v1", kind="Deployment", namespace=space, name=n) for n in names]
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
            Random(f"{seed} {ref.name}"), start, int(HOURS / 24 / SCALE) + 2, scale=SCALE
        )
        for ref in refs
    }
    calm = random.random() < 0.15
    rule = _rule(random, name, refs, count)
    if rich and large.random() < 0.3:
        rule = replace(rule, batch=replace(rule.batch, queues=_third(large, name, rule.batch)))
    if Random(f"{seed} device").random() < EXCLUSIVE:
        rule = replace(rule, cards=replace(rule.cards, device_nodes=(DEVICE,)))
    setup = Setup(
        name=name,
        rule=replace(rule, window=replace(rule.window, calendar=calendar)),
        demand=demand,
        servers=servers,
        jobs=_jobs(random, name),
        local_queues=random.choice((1, 2)),
    )
    return Cast(
        seed=seed,
        setup=setup,
        start=start,
        rates=CALM if calm else _rates(random),
        events_per_hour=0 if calm else random.choice((0.5, 2, 5)),
        ambush=0 if calm else random.choice((0.4, 0.7, 0.95)),
    )


def _when(seed: int) -> tuple[datetime, Calendar]:
    """When a story begins, and in which hours it may lend: in some, over a clock change."""
    random = Random(f"{seed} when")
    return a_calendar(random) if random.random() < 0.2 else (START, Calendar())


def _third(random: Random, name: str, batch: Batch) -> tuple[QueueClass, ...]:
    """The queues of a rule, and one more of either kind somewhere among them."""
    more = random.choice(
        (
            QueueClass(cluster_queue=third_of(name), max_runtime=timedelta(minutes=2)),
            QueueClass(
                cluster_queue=third_of(name),
                contract=Contract.CHECKPOINT,
                grace=seconds(10),
                min_slice=seconds(45),
            ),
        )
    )
    at = random.randint(0, len(batch.queues))
    return (*batch.queues[:at], more, *batch.queues[at:])


def _rule(random: Random, name: str, refs: list[Ref], count: int) -> Rule:
    lead = random.choice(("Auto", seconds(60), seconds(10)))
    # In a simulated cluster ready is ready: the probe only says that somebody has looked.
    probe = random.choice((None, Probe(http=HttpProbe(url="http://qwen/health"))))
    overdue = random.choice(list(OnOverdue))
    serving = tuple(
        Serving(
            api_version=ref.api_version,
            kind=ref.kind,
            namespace=ref.namespace,
            name=ref.name,
            demand=DEMAND,
            lead_time=lead,  # type: ignore[arg-type]
            ready_timeout=timedelta(minutes=3),
            probe=probe,
            on_overdue=overdue,
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
    base = a_rule(count=count)
    return replace(
        base,
        cards=replace(base.cards, node_selector={"host": name}),
        serving=serving,
        batch=_batch(random, name),
        window=window,
        stale_after=seconds(random.choice((5, 20, 90))),
    )


def _batch(random: Random, name: str) -> Batch:
    return Batch(
        queues=(
            QueueClass(
                cluster_queue=short_of(name), max_runtime=timedelta(minutes=random.choice((1, 3)))
            ),
            QueueClass(
                cluster_queue=resumable_of(name),
                contract=Contract.CHECKPOINT,
                grace=seconds(random.choice((5, 20))),
                min_slice=seconds(30),
            ),
        )[:: random.choice((1, -1))][: random.choice((1, 2, 2))],
        on_return=random.choice((OnReturn.WAIT, OnReturn.WAIT, OnReturn.EVICT)),
        drain_timeout=seconds(random.choice((20, 60, 120))),
        dry_after=seconds(random.choice((30, 120))),
    )


def _jobs(random: Random, name: str) -> tuple[JobKind, ...]:
    endless = random.random() < 0.6
    short = JobKind(
        queue=short_of(name),
        runtime=(seconds(20), seconds(random.choice((55, 150)))),
        max_runtime=timedelta(minutes=1),
        grace=seconds(5),
        depth=2,
        total=None if endless else random.randint(3, 30),
    )
    resumable = JobKind(
        queue=resumable_of(name),
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
    third = replace(resumable, queue=third_of(name), max_runtime=timedelta(minutes=1), depth=1)
    return (short, resumable, lacking, third)


def _rates(random: Random) -> Rates:
    def some(most: float) -> float:
        return random.choice((0.0, 0.0, random.uniform(0, most)))

    return {
        FaultKind.CONFLICT: some(0.1),
        FaultKind.BUSY: some(0.1),
        FaultKind.ERROR: some(0.1),
        FaultKind.UNHEARD: some(0.1),
        FaultKind.LOST: some(0.1),
        FaultKind.KILL_BEFORE: some(0.05),
        FaultKind.KILL_AFTER: some(0.05),
        FaultKind.FROZEN: some(0.03),
        FaultKind.TWO_LEADERS: some(0.03),
        FaultKind.LOOK: some(0.05),
    }


class Story:
    """Lets things go wrong in a world, at random and just when they hurt."""

    def __init__(self, world: World, cast: Cast, trouble: Trouble) -> None:
        self.world, self.cast, self.trouble = world, cast, trouble
        self.random = Random(f"{cast.seed} story")
        self.people = People(world)
        self.name = cast.setup.name
        self.refs = list(cast.setup.servers)
        self.over = False
        self.told: list[str] = []
        self.lost: set[str] = set()
        self.rivals: list[Rival] = []
        self._known = self._windows = 0
        self._theme: Theme | None = None
        """How the window that is open ends, if nothing else ends it."""
        self._timer: Timer | None = None
        self.when_entered: dict[Phase, Callable[[Story], None]] = {}
        """What waits for a phase to be entered."""
        self._openers = Random(f"{cast.seed} openers")
        world.on_cycle.append(lambda _name, _decision: self._ambushes())
        self._next()
        if cast.setup.rule.cards.device_nodes:
            self._open()

    @property
    def ends(self) -> datetime:
        """When faults stop next."""
        now = self.world.clock.now()
        return next((end for end in self.cast.ends if end > now), now)

    def go_on(self) -> None:
        """Faults begin again."""
        self.over, self.trouble.rates = False, self.cast.rates
        if self._timer:
            self._timer.cancel()
        self._next()

    def end(self) -> None:
        """Faults stop: what is broken works again. What people decided stays."""
        self.over = True
        self.trouble.quiet()
        for rival in self.rivals:
            rival.end()
        world = self.world
        if not world.kueue.up:
            world.kueue.come_back()
        self.people.node_dead(self.name, dead=False)
        rule = self.cast.setup.rule
        self.people.cards(self.name, rule.cards.count)
        for pod in self.pods():
            self.let_go(pod.uid)
            if pod.mute:
                world.serving.speak(pod)
        if world.process is None:
            world.start_controller()

    # -- when

    def _next(self) -> None:
        if self.cast.events_per_hour:
            gap = self.random.expovariate(self.cast.events_per_hour / 3600)
            self._timer = self.world.clock.after(gap, self._happen)

    def _open(self) -> None:
        """Some while later somebody has the device node open."""

        def then() -> None:
            if not self.over:
                self._do(transcode)
            self._open()

        self.world.clock.after(self._openers.expovariate(1 / 3600), then)

    def _happen(self) -> None:
        if not self.over:
            self._do(
                self.random.choice((*EVENTS, *(newer_rule,) * 4) if self.cast.rich else EVENTS)
            )
            self._next()

    def _ambushes(self) -> None:
        changes = self.world.chronicle.changes
        fresh, self._known = changes[self._known :], len(changes)
        for change in fresh:
            if self.over or change.rule != self.name:
                continue
            phase = change.after
            if phase is Phase.YIELDING:
                self._theme = self._next_theme()
            elif self._theme and phase is Phase.SERVING:
                # What one window came to must not keep the next one shut.
                self.when_entered.setdefault(phase, resume)
                self._theme = None
            if waiting := self.when_entered.pop(phase, None):
                self._do(waiting)
            elif self._theme and phase in (Phase.YIELDING, Phase.HARVESTING):
                self._end(phase, self._theme)
            elif self.random.random() < self.cast.ambush:
                self._lie_in_wait(phase, self.random.choice(AMBUSHES[phase]))

    def _next_theme(self) -> Theme | None:
        """Each in its turn: by how many windows there were, and another first one in each world."""
        if self.cast.ambush == 0 or self.random.random() >= THEMED:
            return None
        self._windows += 1
        return THEMES[(self.world.seed * 11 + self._windows) % len(THEMES)]

    def _end(self, phase: Phase, theme: Theme) -> None:
        """A window with a theme: that, and perhaps something that makes it harder to see or do."""
        if theme.phase is phase:
            self._lie_in_wait(phase, theme.mishap, slow=1.0, most=5.0)
        if self.random.random() < HARDER:
            among = AMBUSHES[phase] if theme.phase is phase else (*LASTING, refuse)
            self._lie_in_wait(phase, self.random.choice(among), slow=0.0)

    def _lie_in_wait(
        self,
        phase: Phase,
        what: Callable[[Story], None],
        *,
        slow: float = 0.6,
        most: float = 15.0,
    ) -> None:
        if phase is Phase.YIELDING and self.random.random() < slow:
            # A handover that takes long, so that there is time for something to happen in it.
            self._do(stuck_serving)
        delay = self.random.choice((0.0, 0.5, most / 5, most)) * self.random.random()
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

    def pods(self) -> list[SimPod]:
        """The pods of the rule, of serving and of batch."""
        return [pod for pod in self.world.objects.pods.values() if pod.pool == self.name]

    def queue(self) -> str:
        """One of the queues."""
        return self.random.choice(self.cast.setup.rule.batch.queues).cluster_queue

    def let_go(self, uid: str) -> None:
        """A stuck pod is let go."""
        pod = self.world.objects.pods.get(uid)
        if pod is not None and pod.stuck:
            pod.stuck = False
            if pod.terminating:
                self.world.nodes.end(pod)
