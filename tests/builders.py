"""One valid default each; a test changes what it is about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from idlewin.core.forecast import Forecast, Outlook, outlook
from idlewin.core.load import Level, Load
from idlewin.core.phase import Phase
from idlewin.core.pool import (
    LocalQueue,
    Pod,
    Pool,
    Queue,
    Record,
    Role,
    RuleObject,
    StopPolicy,
    Target,
    Workload,
)
from idlewin.core.rule import (
    Batch,
    Budget,
    Cards,
    ForecastPolicy,
    Mode,
    QueueClass,
    Rule,
    WindowPolicy,
)
from idlewin.core.situation import Rehearsal, Situation
from idlewin.core.status import Remembered, Status, Window, WindowQueue
from idlewin.core.target import Demand, Ref, Serving
from idlewin.core.timing import before_return

NOW = datetime(2026, 3, 4, 1, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
QWEN = Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name="qwen")
NODES = {"kubernetes.io/hostname": "node-1"}
XE = "gpu.intel.com/xe"


def a_rule(**changes) -> Rule:
    rule = Rule(
        mode=Mode.ACT,
        cards=Cards(resource=XE, count=1, node_selector=NODES),
        serving=(
            Serving(
                api_version="apps/v1",
                kind="Deployment",
                namespace="ai",
                name="qwen",
                demand=(Demand(query="sum(waiting)", up="up", visible_at_zero=True),),
                lead_time=2 * MINUTE,
            ),
        ),
        batch=Batch(
            queues=(
                QueueClass(cluster_queue="short", max_runtime=30 * MINUTE),
                QueueClass(
                    cluster_queue="resumable",
                    contract="Checkpoint",
                    grace=MINUTE,
                    min_slice=5 * MINUTE,
                ),
            )
        ),
        window=WindowPolicy(idle_for=10 * MINUTE, min=30 * MINUTE, max=12 * HOUR),
        forecast=ForecastPolicy(budget=Budget(per_week=1.0)),
    )
    return replace(rule, **changes)


def a_target(**changes) -> Target:
    target = Target(
        ref=QWEN,
        uid="t1",
        resource_version="10",
        replicas=2,
        ready=2,
        claims=1,
        replicas_writer="kubectl",
    )
    return replace(target, **changes)


def a_lowered_target(**changes) -> Target:
    record = Record(rule="b580", uid="t1", replicas=2, epoch=1)
    return replace(
        a_target(replicas=0, ready=0, record=record, replicas_writer="idlewin"), **changes
    )


def a_queue(name="short", **changes) -> Queue:
    queue = Queue(
        name=name,
        uid=f"q-{name}",
        resource_version="20",
        stop_policy=StopPolicy.HOLD,
        stop_writer="idlewin",
        left=StopPolicy.HOLD,
        stopped_since=NOW - HOUR,
        adopted_by="b580",
        epoch=1,
        local_queues=(
            LocalQueue(
                namespace="batch", name=f"lq-{name}", uid=f"l-{name}", stop_policy=StopPolicy.NONE
            ),
        ),
    )
    return replace(queue, **changes)


def a_workload(name="job", queue="short", **changes) -> Workload:
    work = Workload(
        namespace="batch",
        name=name,
        uid=f"w-{name}",
        cluster_queue=queue,
        local_queue=f"lq-{queue}",
        admitted=False,
        contract=queue == "resumable",
        grace=2 * MINUTE,
        max_runtime=20 * MINUTE if queue == "short" else None,
    )
    return replace(work, **changes)


def a_batch_pod(owner="batch/job", **changes) -> Pod:
    pod = Pod(namespace="batch", name="job-x", uid="p1", role=Role.BATCH, owner=owner, claims=1)
    return replace(pod, **changes)


def a_serving_pod(**changes) -> Pod:
    pod = Pod(namespace="ai", name="qwen-x", uid="p2", role=Role.SERVING, owner=str(QWEN), claims=1)
    return replace(pod, **changes)


def a_pool(**changes) -> Pool:
    pool = Pool(
        targets=(a_target(),),
        queues=(a_queue(workloads=(a_workload(),)), a_queue("resumable")),
        pods=(a_serving_pod(),),
        allocatable=1,
        nodes=("node-1",),
    )
    return replace(pool, **changes)


def a_window(**changes) -> Window:
    rule = a_rule()
    window = Window(
        epoch=1,
        generation=1,
        opened_at=NOW - HOUR,
        resource=XE,
        node_selector=NODES,
        count=1,
        targets=(Remembered(ref=QWEN, uid="t1", replicas=2, claims=1, lowered=True),),
        queues=tuple(
            WindowQueue(spec=spec, uid=f"q-{spec.cluster_queue}") for spec in rule.batch.queues
        ),
        reclaim_at=NOW + 3 * HOUR,
    )
    return replace(window, **changes)


def a_status(phase=Phase.SERVING, **changes) -> Status:
    status = Status(phase=phase.value, since=NOW - HOUR, epoch=1)
    if phase is not Phase.SERVING:
        status = replace(status, window=a_window())
    return replace(status, **changes)


def a_forecast(idle=8 * HOUR, **changes) -> Forecast:
    forecast = Forecast(
        method="hazard",
        made_at=NOW,
        chances=((idle, 0.9999),),
        rests_on="28 d",
        price=1000.0,
    )
    return replace(forecast, **changes)


def an_outlook(idle=8 * HOUR, **changes) -> Outlook:
    """What is best by a forecast, for the rule and the status of these builders."""
    back = before_return(a_rule(), a_status())
    return outlook(a_forecast(idle, **changes), opening=2 * MINUTE, back=back, least=30 * MINUTE)


def a_situation(phase=Phase.SERVING, *, rule=None, status=None, pool=None, **changes) -> Situation:
    away = phase is not Phase.SERVING
    pools = {
        Phase.SERVING: a_pool(),
        Phase.YIELDING: a_pool(targets=(a_lowered_target(),)),
    }
    gone = a_pool(targets=(a_lowered_target(),), pods=())
    stored = RuleObject(
        name="b580",
        uid="r1",
        generation=1,
        resource_version="5",
        rule=rule or a_rule(),
        status=status or a_status(phase),
        finalizer=True,
        created_at=NOW - 48 * HOUR,
    )
    situation = Situation(
        now=NOW,
        object=stored,
        pool=pool or pools.get(phase, gone),
        load=Load(
            level=Level.IDLE, since=NOW - (2 * HOUR if away else 11 * MINUTE), why="no demand"
        ),
        outlook=an_outlook(),
        rehearsal=Rehearsal(at=NOW - MINUTE),
    )
    return replace(situation, **changes)


def with_rule(situation: Situation, **changes) -> Situation:
    """The same situation, with the stored rule changed."""
    return replace(situation, object=replace(situation.object, **changes))


BUSY = Load(level=Level.BUSY, since=NOW, why="waiting is 3, busy above 0")
UNKNOWN = Load(level=Level.UNKNOWN, since=NOW - MINUTE, why="no answer")


def window(**changes):
    return a_rule(window=replace(a_rule().window, **changes))


def gone(**changes):
    """A pool in which serving has left."""
    return a_pool(**{"targets": (a_lowered_target(),), "pods": (), **changes})


def away(phase, **changes):
    """Away from serving for a minute only, so that nothing is overdue."""
    status = replace(a_status(phase), since=NOW - MINUTE)
    return a_situation(phase, **{"status": status, **changes})
