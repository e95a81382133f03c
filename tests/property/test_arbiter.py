"""Laws of a target with an arbiter, whatever its users do in between and however it answers."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings, strategies as st

from idlewin.adapters.arbiter import Arbiters, Mediated
from idlewin.core.decision import Outcome, ScaleBack, ScaleToZero, Verdict
from idlewin.core.pool import RuleObject
from idlewin.core.target import Arbiter, Demand, LlamaSwap
from tests.builders import QWEN, a_rule

LOWER = ScaleToZero(QWEN, "u", 1, "7", "b580", 3)
BACK = ScaleBack(QWEN, "u", 1, "b580", 3)
#: What happens right before a question is answered, or a wish carried out.
HAPPENS = st.sampled_from(
    [
        "",
        "",
        "begins",
        "begins",
        "ends",
        "preloads",
        "stops",
        "fails",
        "is lost",
        "kill",
        "nonsense",
    ]
)
some = settings(max_examples=200, deadline=None)


class KillError(BaseException):
    """The controller ends here."""


class World:
    """A llama-swap, its users, and a cluster that takes writes; each step is noted."""

    def __init__(self, story):
        self.story, self.steps = list(story), []
        self.flying, self.models, self.cut = [], {"qwen": "ready"}, []
        self.replicas = 1
        rule = a_rule()
        (serving,) = rule.serving
        demand = (*serving.demand, Demand(llama_swap=LlamaSwap(url="http://swap:8080")))
        serving = replace(serving, demand=demand, arbiter=Arbiter.LLAMA_SWAP)
        self.stored = RuleObject(
            name="b580",
            uid="r",
            generation=1,
            resource_version="1",
            rule=replace(rule, serving=(serving,)),
        )

    def cluster(self):
        """What a new process makes of it."""
        return Mediated(self, Arbiters(lambda *_: self))

    def happens(self):
        """One step of the story; whether the answer to this step is lost."""
        what = self.story.pop(0) if self.story else ""
        match what:
            case "begins":
                self.flying.append(len(self.steps))
                self.models["qwen"] = "ready"
            case "ends" if self.flying:
                self.flying.pop()
            case "preloads":
                self.models["big"] = "starting"
            case "stops":
                self.models = dict.fromkeys(self.models, "stopping")
            case "kill":
                raise KillError
            case "fails" | "nonsense":
                self.steps.append((what, None))
                raise OSError("refused") if what == "fails" else KeyError("running")
        return what == "is lost"

    def answers(self, step, answer):
        if self.happens():
            self.steps.append(("is lost", None))
            raise TimeoutError
        self.steps.append((step, answer()))
        return self.steps[-1][1]

    # -- the llama-swap

    def running(self):
        return self.answers("running", lambda: dict(self.models))

    def in_flight(self):
        return self.answers("in flight", lambda: {"qwen": len(self.flying)} if self.flying else {})

    def unload(self):
        lost = self.happens()
        self.steps.append(("unload", None))
        # When each began that the unload meets, and when that was.
        self.cut += [(began, len(self.steps) - 1) for began in self.flying]
        self.flying, self.models = [], {}
        if lost:
            raise TimeoutError

    # -- the cluster

    def rule(self, _name):
        return self.stored

    def apply(self, action):
        lost = self.happens()
        self.steps.append((type(action).__name__, None))
        self.replicas = 0 if isinstance(action, ScaleToZero) else 1
        return Outcome(action, Verdict.FAILED if lost else Verdict.DONE)

    def rehearse(self, actions):
        return tuple(Outcome(action, Verdict.DONE) for action in actions)


def lived(story, cluster_does):
    """A world at the end of its story: each process does it until the story, or it, ends."""
    world = World(story)
    while world.story:
        cluster, before = world.cluster(), len(world.story)
        try:
            while world.story:
                cluster_does(cluster)
                assert len(world.story) < before or not world.story
                before = len(world.story)
        except (KillError, OSError, KeyError):
            pass  # the cluster's own story: its process is started anew
    return world


def lower(cluster):
    cluster.apply(LOWER)


@some
@given(st.lists(HAPPENS, min_size=1, max_size=40))
@example(["", "begins"])
@example(["", "", "is lost"])
@example(["", "", "kill"])
@example(["", "", "", "", "kill"])
@example(["", "", "", "begins"])
@example(["preloads"])
def test_in_flight_comes_before_unload_and_both_before_zero(story):
    """Right before each write, and each unload, it was said that nothing is in flight.

    So an unload meets only what began after the last word: between two questions, at most.
    """
    world = lived(story, lower)
    steps = world.steps

    for at, (step, _) in enumerate(steps):
        if step == "ScaleToZero":
            assert steps[at - 2 : at] == [("running", {}), ("in flight", {})]
        if step == "unload":
            (first, loaded), second = steps[at - 2 : at]
            assert (first, second) == ("running", ("in flight", {}))
            assert set(loaded.values()) == {"ready"}
    assert all(began == at for began, at in world.cut)


@some
@given(st.lists(HAPPENS, min_size=1, max_size=40))
def test_whatever_happened_a_quiet_arbiter_lets_go_at_the_first_try(story):
    """A kill between unload and zero, an answer that was lost: nothing of it has to be undone."""
    world = lived(story, lower)
    world.flying, world.models = [], dict.fromkeys(world.models, "ready")

    assert world.cluster().apply(LOWER).verdict is Verdict.DONE
    assert (world.replicas, world.models, world.flying) == (0, {}, [])


@some
@given(st.lists(HAPPENS, min_size=1, max_size=40))
def test_a_return_and_a_dry_run_unload_nothing_and_a_return_never_asks(story):
    rehearsed = lived(story, lambda cluster: cluster.rehearse([LOWER]))
    returned = lived(story, lambda cluster: cluster.apply(BACK))

    asks, wishes = {"running", "in flight"}, {"unload", "ScaleToZero", "ScaleBack"}
    assert {step for step, _ in rehearsed.steps} & wishes == set()
    assert {step for step, _ in returned.steps} & (asks | {"unload"}) == set()


@some
@given(st.lists(HAPPENS, min_size=1, max_size=10))
def test_a_target_that_is_not_lowered_is_told_as_a_conflict_and_none_is_lowered_in_silence(story):
    world = World(story)
    try:
        outcome = world.cluster().apply(LOWER)
    except (KillError, OSError, KeyError):
        return

    wrote = "ScaleToZero" in [step for step, _ in world.steps]
    assert wrote is (outcome.verdict is not Verdict.CONFLICT)
    assert wrote or "llama-swap http://swap:8080" in outcome.message
