"""Targets that an arbiter owns, in the shipped controller: who is in flight is not lowered."""

from __future__ import annotations

from dataclasses import replace

from idlewin.adapters.arbiter import Arbiters, Mediated
from idlewin.core.decision import Outcome, ScaleToZero, Verdict
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.target import Arbiter, Demand as DemandSpec, LlamaSwap
from idlewin.core.window import Span
from idlewin.sim.cluster import Crash
from idlewin.sim.demand import Demand
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import NAME, REF, START, a_job, a_setup, minutes
from tests.simulation.swarm import controller
from tests.simulation.test_lending import FAR, ended, entered, with_window


class Swap:
    """A llama-swap with a model, whose users come and go as the test says."""

    def __init__(self):
        self.models, self.flying, self.asked = {"qwen": "ready"}, {}, []
        self.after = lambda: None

    def running(self):
        self.asked.append("running")
        return dict(self.models)

    def in_flight(self):
        self.asked.append("in flight")
        return dict(self.flying)

    def unload(self):
        self.asked.append("unload")
        self.models.clear()
        self.after()


class Told(Mediated):
    """What was said to each write to zero."""

    def __init__(self, cluster, swap):
        super().__init__(cluster, Arbiters(lambda *_: swap))
        self.lowered: list[Outcome] = swap.lowered

    def __getattr__(self, name):
        return getattr(self._cluster, name)

    def apply(self, action):
        outcome = super().apply(action)
        if isinstance(action, ScaleToZero):
            self.lowered.append(outcome)
        return outcome


def a_life(swap: Swap, **window: object) -> World:
    rule = with_window(**window)
    (serving,) = rule.serving
    demand = (*serving.demand, DemandSpec(llama_swap=LlamaSwap(url="http://swap:8080")))
    serving = replace(serving, demand=demand, arbiter=Arbiter.LLAMA_SWAP)
    setup = a_setup(
        replace(rule, serving=(serving,)),
        demand={REF: Demand([Span(FAR, FAR + minutes(60))])},
        jobs=(a_job(),),
    )
    swap.lowered = []

    def mediated(world, lease):
        made = controller(world, lease)
        ports = replace(made._ports, cluster=Told(made._cluster, swap))
        return type(made)(ports)

    world = World(seed=3, start=START, setups=[setup], controller=mediated)
    Conduct(Checks(world))
    return world


def test_models_are_unloaded_and_the_window_opens():
    swap = Swap()
    world = a_life(swap)

    world.run(START + minutes(60))

    assert len(entered(world, Phase.HARVESTING)) == 1
    assert [one.verdict for one in swap.lowered] == [Verdict.DONE]
    assert swap.asked[-5:] == ["running", "in flight", "unload", "running", "in flight"]


def test_who_stays_in_flight_is_not_lowered_and_named_when_it_takes_too_long():
    swap = Swap()
    world = a_life(swap, yield_timeout=minutes(5))
    first = swap.in_flight

    def begins():
        # Nobody was there when the rule was rehearsed.
        told = first()
        swap.flying = {"qwen": 2}
        return told

    swap.in_flight = begins
    world.run(START + minutes(60))

    assert {one.verdict for one in swap.lowered} == {Verdict.CONFLICT}
    assert "unload" not in swap.asked
    assert entered(world, Phase.HARVESTING) == []
    assert ended(world) == [Reason.YIELD_OVERDUE]
    failure = world.objects.rules[NAME].status.failure
    assert failure.endswith(
        f"{REF} was not lowered: llama-swap http://swap:8080 has requests in flight: 2 for qwen"
    )


def test_a_controller_that_ends_between_unload_and_zero_is_followed_by_one_that_goes_on():
    swap = Swap()
    world = a_life(swap)

    def ends():
        swap.after = lambda: None
        raise Crash

    swap.after = ends
    world.run(START + minutes(60))

    assert swap.asked.count("unload") == 1
    assert [one.verdict for one in swap.lowered] == [Verdict.DONE]
    assert len(entered(world, Phase.HARVESTING)) == 1
