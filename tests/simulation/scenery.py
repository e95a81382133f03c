"""One rule with its surroundings, valid as it stands: tests change what they are about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from idlewin.core.pool import Scope, StopPolicy
from idlewin.core.rule import Batch, Cards, Contract, Mode, OnReturn, QueueClass, Rule, WindowPolicy
from idlewin.core.target import Demand as DemandSpec, Ref, Serving
from idlewin.core.window import Span
from idlewin.sim.backlog import JobKind
from idlewin.sim.demand import Demand
from idlewin.sim.furnish import Server
from idlewin.sim.world import Setup, World

START = datetime(2026, 3, 2, tzinfo=UTC)
NAME = "b580"
REF = Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name="qwen")


def short_of(name: str) -> str:
    return f"{name}-short"


def resumable_of(name: str) -> str:
    return f"{name}-resumable"


def third_of(name: str) -> str:
    return f"{name}-third"


SHORT, RESUMABLE = short_of(NAME), resumable_of(NAME)
DEVICE = "/dev/dri"
DEMAND = (
    DemandSpec(query="waiting", up="up", visible_at_zero=True),
    DemandSpec(source="vllm-requests", match={"model_name": "qwen"}),
)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def a_rule(*, count: int = 1, window: WindowPolicy | None = None, **batch: object) -> Rule:
    return Rule(
        mode=Mode.ACT,
        cards=Cards(resource="gpu.intel.com/xe", count=count, node_selector={"host": "b580"}),
        serving=(
            Serving(
                api_version="apps/v1", kind="Deployment", namespace="ai", name="qwen", demand=DEMAND
            ),
        ),
        batch=Batch(
            queues=(
                QueueClass(cluster_queue=SHORT, max_runtime=minutes(10)),
                QueueClass(
                    cluster_queue=RESUMABLE,
                    contract=Contract.CHECKPOINT,
                    grace=seconds(30),
                    min_slice=minutes(2),
                ),
            ),
            on_return=OnReturn.WAIT,
            **batch,  # type: ignore[arg-type]
        ),
        window=window or WindowPolicy(idle_for=minutes(5), min=minutes(20), max_per_day=20),
    )


def a_job(queue: str = RESUMABLE, **changes: object) -> JobKind:
    contract = queue == RESUMABLE
    asked = {
        "queue": queue,
        "runtime": (minutes(3), minutes(9)),
        "contract": contract,
        "max_runtime": None if contract else minutes(10),
    }
    return JobKind(**(asked | changes))  # type: ignore[arg-type]


def a_setup(rule: Rule | None = None, **changes: object) -> Setup:
    asked = {
        "name": NAME,
        "rule": rule or a_rule(),
        "demand": {REF: Demand([Span(START + minutes(600), START + minutes(660))])},
        "servers": {REF: Server(start_up=(20.0, 0.1), grace=seconds(5))},
    }
    return Setup(**(asked | changes))  # type: ignore[arg-type]


def a_world(seed: int = 1, setup: Setup | None = None) -> World:
    """A world without a controller."""
    return World(seed=seed, start=START, setups=[setup or a_setup()])


def a_scope(world: World, name: str = NAME) -> Scope:
    rule = world.objects.rules[name].rule
    assert rule is not None
    return Scope(
        rule=name,
        targets=tuple(serving.ref for serving in rule.serving),
        queues=tuple(queue.cluster_queue for queue in rule.batch.queues),
        resource=rule.cards.resource,
        node_selector=rule.cards.node_selector,
        device_nodes=rule.cards.device_nodes,
    )


def write_policy(world: World, queue: str, policy: StopPolicy) -> None:
    """A ClusterQueue's stopPolicy, as kubectl writes it."""
    from idlewin.sim.people import People

    People(world).set_policy(queue, policy)
