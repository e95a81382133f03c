"""When a window opens, when it ends, and what it costs whom: single stories, each one promise."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random

from idlewin.core.calendar import Calendar
from idlewin.core.condition import alarming
from idlewin.core.decision import ScaleBack
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode, OnReturn, Rule, WindowPolicy
from idlewin.core.window import Span
from idlewin.sim.chronicle import Change
from idlewin.sim.demand import Demand
from idlewin.sim.faults import Trouble
from idlewin.sim.furnish import Server
from idlewin.sim.objects import Deployment, SimPod, Work
from idlewin.sim.people import People
from idlewin.sim.world import World
from tests.simulation.checks import Checks
from tests.simulation.conduct import Conduct
from tests.simulation.scenery import (
    NAME,
    REF,
    RESUMABLE,
    SHORT,
    START,
    a_job,
    a_rule,
    a_setup,
    minutes,
    seconds,
)
from tests.simulation.swarm import controller

JOBS = (a_job(), a_job(SHORT))
LONG = a_job(runtime=(minutes(60), minutes(60)))
#: The users' day begins so late that no window ends because of them.
FAR = START + timedelta(hours=30)
# A world begins half an hour after START: until then serving came up.


def a_life(rule: Rule | None = None, *, calls: tuple[Span, ...] = (), **changes: object) -> World:
    demand = {REF: Demand([*calls, Span(FAR, FAR + minutes(60))])}
    setup = a_setup(rule, **({"demand": demand, "jobs": JOBS} | changes))
    world = World(seed=3, start=START, setups=[setup], controller=controller)
    Conduct(Checks(world))
    return world


def with_window(**changes: object) -> Rule:
    asked = {"idle_for": minutes(5), "min": minutes(20), "max_per_day": 20}
    return a_rule(window=WindowPolicy(**(asked | changes)))  # type: ignore[arg-type]


def entered(world: World, phase: Phase) -> list[Change]:
    return [change for change in world.chronicle.changes if change.after is phase]


def ended(world: World) -> list[Reason]:
    return [change.reason for change in entered(world, Phase.RECLAIMING)]


def stick(world: World, kind: type[Deployment | Work]) -> None:
    for pod in world.objects.pods.values():
        pod.stuck = pod.stuck or isinstance(pod.owner, kind)


def another_pod(world: World) -> SimPod:
    """What a surge, a canary or an autoscaler of another kind makes; it wants a whole card."""
    target = world.objects.deployments[REF]
    pod = SimPod(
        name="qwen-canary", uid="canary", pool=target.pool, namespace=REF.namespace, owner=target,
        claims=1, created_at=world.clock.now(), grace=seconds(5),
    )  # fmt: skip
    world.nodes.create(pod)
    return pod


def let_go(world: World) -> None:
    for pod in [pod for pod in world.objects.pods.values() if pod.stuck]:
        pod.stuck = False
        if pod.terminating:
            world.nodes.end(pod)


# -- when a window opens


def test_a_window_opens_only_while_its_calendar_does():
    world = a_life(with_window(calendar=Calendar(allow=("Mon-Sun 02:00-04:00",))))

    world.run(START + minutes(110))
    before = entered(world, Phase.YIELDING)
    world.run(START + minutes(170))

    assert before == []
    assert len(entered(world, Phase.HARVESTING)) == 1


def test_serving_is_ready_again_when_the_calendar_closes():
    world = a_life(with_window(calendar=Calendar(allow=("Mon-Sun 00:00-04:00",))))
    world.run(START + minutes(241))

    assert len(entered(world, Phase.SERVING)) == 1
    assert world.chronicle.served[-1][1].start <= START + minutes(240)


def test_a_calendar_that_is_closed_meanwhile_ends_the_window():
    world = a_life()
    world.run(START + minutes(60))
    rule = with_window(calendar=Calendar(deny=("Mon",)))

    People(world).edit(NAME, rule)
    world.run(START + minutes(65))

    assert ended(world) == [Reason.RECLAIM_REACHED]


def test_no_more_windows_are_opened_than_a_day_may_have():
    world = a_life(with_window(max_per_day=1, max=minutes(60), min_serving=minutes(1)))

    world.run(START + timedelta(hours=12))

    assert len(entered(world, Phase.YIELDING)) == 1
    world.run(START + timedelta(hours=26))
    assert len(entered(world, Phase.YIELDING)) == 2


def test_idleness_is_counted_from_the_end_of_a_long_request():
    request = Span(START + minutes(35), START + minutes(75))
    world = a_life(with_window(idle_for=minutes(15)), calls=(request,))

    world.run(START + minutes(100))

    assert entered(world, Phase.YIELDING)[0].at >= request.end + minutes(15)


def test_a_rule_that_observes_changes_nothing():
    world = a_life(replace(a_rule(), mode=Mode.OBSERVE))
    versions = [thing.version for thing in (*world.objects.queues.values(),)]

    world.run(START + minutes(120))

    assert entered(world, Phase.YIELDING) == []
    assert world.objects.deployments[REF].replicas == 1
    assert versions == [queue.version for queue in world.objects.queues.values()]


def test_queues_that_nobody_gave_us_are_not_touched():
    world = a_life()
    for queue in (SHORT, RESUMABLE):
        People(world).adopt(queue, "")
        People(world).set_policy(queue, StopPolicy.NONE)

    world.run(START + minutes(120))

    assert entered(world, Phase.YIELDING) == []
    assert {q.stop_policy for q in world.objects.queues.values()} == {StopPolicy.NONE}


def test_a_rule_with_other_cards_than_its_nodes_have_lends_nothing():
    world = a_life(a_rule(count=1))
    People(world).cards(NAME, 2)

    world.run(START + minutes(120))

    assert entered(world, Phase.YIELDING) == []


def test_nothing_is_begun_that_the_api_server_would_refuse():
    server = Server(start_up=(20.0, 0.1), grace=seconds(5), inside_kueue=True)
    world = a_life(servers={REF: server})
    world.kueue.go_down()

    world.run(START + minutes(60))

    assert entered(world, Phase.YIELDING) == []
    world.kueue.come_back()
    world.run(START + minutes(120))
    assert len(entered(world, Phase.HARVESTING)) == 1


def test_serving_is_not_stopped_where_no_work_waits():
    world = a_life(jobs=())

    world.run(START + minutes(120))

    assert entered(world, Phase.YIELDING) == []


def test_serving_is_not_stopped_for_work_that_does_not_fit():
    world = a_life(with_window(min=minutes(5), max=minutes(13)), jobs=(a_job(SHORT),))

    world.run(START + minutes(120))

    assert entered(world, Phase.YIELDING) == []


def test_serving_that_is_not_ready_is_not_lent():
    world = a_life()
    stick(world, Deployment)
    for pod in world.objects.pods.values():
        pod.ready = False

    world.run(START + minutes(60))

    assert entered(world, Phase.YIELDING) == []


def test_a_pod_of_serving_that_waits_for_a_card_keeps_a_window_shut():
    world = a_life()
    pod = another_pod(world)

    world.run(START + minutes(60))
    before = entered(world, Phase.YIELDING)
    world.nodes.vanish(pod)
    world.run(START + minutes(70))

    assert (pod.node, before) == (None, [])
    assert len(entered(world, Phase.YIELDING)) == 1


def test_a_zero_that_was_there_before_us_stays():
    world = a_life(servers={REF: Server(replicas=0)})

    world.run(START + minutes(180))
    world.users_come(world.setups[0], minutes(5))
    world.run(START + minutes(240))

    assert world.objects.deployments[REF].replicas == 0
    assert world.objects.deployments[REF].record is None


# -- when it ends


def test_a_pod_of_serving_that_waits_for_the_card_of_batch_ends_the_window_within_a_second():
    world = a_life(jobs=(LONG,))
    world.run(START + minutes(60))
    at = world.clock.now()
    pod = another_pod(world)

    world.run(at + seconds(1))

    assert (pod.node, ended(world)) == (None, [Reason.SERVING_RAISED])


def test_no_window_is_longer_than_its_maximum():
    world = a_life(with_window(max=minutes(60)))
    world.run(START + minutes(120))

    opened, back = entered(world, Phase.YIELDING)[0], entered(world, Phase.SERVING)[0]
    assert back.at - opened.at <= minutes(60)
    assert ended(world) == [Reason.WINDOW_MAX]


def test_serving_that_takes_for_ever_to_leave_is_given_back_by_the_window_s_maximum():
    world = a_life(with_window(max=minutes(30), yield_timeout=minutes(300)))
    stick(world, Deployment)

    world.run(START + minutes(60))

    assert ended(world) == [Reason.WINDOW_MAX]


def test_a_handover_that_takes_too_long_is_given_back_and_the_next_one_waits():
    world = a_life(with_window(yield_timeout=minutes(5), min_serving=seconds(1)))
    stick(world, Deployment)
    world.run(START + minutes(40))
    let_go(world)

    world.run(START + minutes(80))

    assert ended(world)[0] is Reason.YIELD_OVERDUE
    first, second = entered(world, Phase.YIELDING)[:2]
    back = entered(world, Phase.SERVING)[0]
    assert second.at - back.at >= minutes(5)
    assert second.at > first.at


def test_cards_that_nobody_uses_go_back():
    world = a_life(jobs=(a_job(total=1),))

    world.run(START + minutes(90))

    assert ended(world) == [Reason.QUEUE_DRY]
    assert world.objects.deployments[REF].replicas == 1


def test_a_target_that_is_deployed_anew_in_a_window_ends_it():
    world = a_life()
    world.run(START + minutes(60))
    world.objects.deployments[REF].template = "another"
    world.objects.touch(world.objects.deployments[REF])

    world.run(START + minutes(62))

    assert ended(world) == [Reason.TARGET_CHANGED]


def test_a_short_gap_in_the_metrics_ends_no_window():
    world = a_life()
    world.run(START + minutes(60))

    world.blind(seconds(60))
    world.run(START + minutes(80))

    assert ended(world) == []


def test_a_claim_that_is_over_ends_no_window():
    world = a_life()
    People(world).claim(NAME, minutes(1))

    world.run(START + minutes(60))

    assert ended(world) == []
    assert len(entered(world, Phase.HARVESTING)) == 1


# -- outside a window


def opened_by_a_person(world: World) -> None:
    """While idlewin is away for long enough that Kueue lets something in."""
    world.run(START + minutes(32))
    world.stop_controller()
    People(world).set_policy(RESUMABLE, StopPolicy.NONE)
    world.run(START + minutes(33))
    world.start_controller()


def busy(**changes: object) -> World:
    """A life in which users are there from the first."""
    return a_life(calls=(Span(START, START + minutes(600)),), **changes)


def test_work_that_a_person_s_opening_let_in_is_taken_off_before_it_has_a_pod():
    world = busy(jobs=(LONG,))
    opened_by_a_person(world)

    world.run(START + minutes(36))

    assert ended(world) == [Reason.OPEN_WITH_BATCH]
    assert not any(work.admitted for work in world.objects.works.values())


def test_a_batch_pod_beside_serving_is_taken_off():
    server = Server(claims=0, start_up=(20.0, 0.1), grace=seconds(5))
    world = busy(servers={REF: server}, jobs=(LONG,))
    opened_by_a_person(world)

    world.run(START + minutes(36))

    assert ended(world) == [Reason.OPEN_WITH_BATCH]
    assert not [pod for pod in world.objects.pods.values() if isinstance(pod.owner, Work)]


def test_an_opening_that_nobody_used_is_only_corrected():
    world = busy(jobs=())
    opened_by_a_person(world)

    world.run(START + minutes(36))

    assert world.chronicle.changes == []
    assert world.objects.queues[RESUMABLE].stop_policy is StopPolicy.HOLD


def test_a_rule_that_is_opened_again_and_again_is_contested_and_keeps_out():
    world = busy(jobs=())
    for minute in range(32, 60, 2):
        world.run(START + minutes(minute))
        People(world).set_policy(RESUMABLE, StopPolicy.NONE, "argocd")

    world.run(START + minutes(70))

    assert world.objects.rules[NAME].status.contested_by == "argocd"
    assert world.objects.queues[RESUMABLE].stop_policy is StopPolicy.NONE


def test_a_contest_ends_with_resume_and_not_before():
    world = busy(jobs=())
    People(world).resume(NAME)
    for minute in range(32, 60, 2):
        world.run(START + minutes(minute))
        People(world).set_policy(RESUMABLE, StopPolicy.NONE, "argocd")
    world.run(START + minutes(70))
    contested = world.objects.rules[NAME].status.contested_by

    People(world).resume(NAME)
    world.run(START + minutes(72))

    assert contested == "argocd"
    assert world.objects.rules[NAME].status.contested_by == ""
    assert world.objects.queues[RESUMABLE].stop_policy is StopPolicy.HOLD


def test_serving_that_is_raised_again_and_again_is_not_lowered_again():
    world = a_life(with_window(min_serving=seconds(1)))
    for minute in range(32, 200, 2):
        world.run(START + minutes(minute))
        People(world).scale(REF, 1, "keda")

    assert len(entered(world, Phase.YIELDING)) == 3
    assert world.objects.rules[NAME].status.contested_by == "keda"


def test_a_queue_that_a_person_closed_stays_so_until_resume():
    world = a_life()
    world.run(START + minutes(45))
    People(world).set_policy(RESUMABLE, StopPolicy.HOLD)
    world.run(START + minutes(80))
    closed = world.objects.queues[RESUMABLE].stop_policy

    People(world).resume(NAME)
    world.run(START + minutes(82))

    assert closed is StopPolicy.HOLD
    assert world.objects.queues[RESUMABLE].stop_policy is StopPolicy.NONE


def test_a_lost_status_leaves_no_queue_open():
    world = a_life(servers={REF: Server(replicas=0)})
    world.run(START + minutes(45))
    opened = {queue.stop_policy for queue in world.objects.queues.values()}

    People(world).lose_status(NAME)
    People(world).pause(NAME, paused=True)
    world.run(START + minutes(80))

    assert opened == {StopPolicy.NONE}
    assert StopPolicy.NONE not in {queue.stop_policy for queue in world.objects.queues.values()}


# -- who is waited for, and who is not


def test_serving_that_claims_its_cards_does_not_wait_for_a_stuck_pod():
    world = a_life(jobs=(LONG,))
    world.run(START + minutes(60))
    stick(world, Work)

    world.users_come(world.setups[0], minutes(60))
    world.run(START + minutes(85))

    assert entered(world, Phase.RESTORING)[0].reason is Reason.DRAIN_OVERDUE
    assert world.objects.deployments[REF].replicas == 1


def test_serving_that_opens_the_device_node_waits_for_a_stuck_pod():
    server = Server(claims=0, start_up=(20.0, 0.1), grace=seconds(5))
    world = a_life(servers={REF: server}, jobs=(LONG,))
    world.run(START + minutes(60))
    stick(world, Work)
    world.users_come(world.setups[0], minutes(60))
    world.run(START + minutes(85))
    waiting = world.objects.deployments[REF].replicas

    let_go(world)
    world.run(START + minutes(90))

    assert waiting == 0
    assert len(entered(world, Phase.SERVING)) == 1


def test_a_return_that_a_webhook_refuses_is_tried_until_it_may_be():
    world = refused_for(minutes(1))

    world.run(START + minutes(62.5))

    assert len(entered(world, Phase.SERVING)) == 1


def test_a_return_that_a_webhook_refuses_for_long_is_an_alarm():
    world = refused_for(minutes(17))

    world.run(START + minutes(76.5))

    assert world.objects.deployments[REF].replicas == 0
    assert alarms(world) == {"ReturnOverdue": "Refused"}
    conditions = world.objects.rules[NAME].status.conditions
    (told,) = [one.message for one in conditions if one.type == "ReturnOverdue"]
    assert f"{REF} 0/1 ready, and not let back: " in told
    assert "403 denied by somebody's webhook" in told


def refused_for(length: timedelta) -> World:
    """Users come after an hour, and what brings serving back is refused for so long."""
    world = a_life(jobs=(LONG,))
    world.run(START + minutes(60))
    trouble = world.cluster.interference = Trouble(world, Random(3), {})
    trouble.refuse(ScaleBack, length)
    world.users_come(world.setups[0], minutes(60))
    return world


def alarms(world: World) -> dict[str, str]:
    """The alarms of the rule, each with its reason."""
    status = world.objects.rules[NAME].status
    assert status is not None
    kinds = alarming(status)
    return {one.type: one.reason for one in status.conditions if one.type in kinds}


def test_with_kueue_dead_serving_does_not_wait_for_work_without_a_pod():
    world = a_life(jobs=(a_job(),))
    world.run(START + minutes(60))
    world.kueue.go_down()
    world.users_come(world.setups[0], minutes(60))

    world.run(START + minutes(75))

    assert len(entered(world, Phase.SERVING)) == 1


def test_work_past_its_bound_is_evicted_where_kueue_does_not():
    slow = a_job(SHORT, runtime=(minutes(50), minutes(50)))
    world = a_life(jobs=(slow,))
    world.run(START + minutes(40))
    world.kueue.go_down()
    world.users_come(world.setups[0], minutes(100))

    world.run(START + minutes(60))

    assert len(entered(world, Phase.SERVING)) == 1


def test_work_under_contract_is_drained_for_users_who_come():
    world = a_life(jobs=(a_job(runtime=(minutes(200), minutes(200))),))
    world.run(START + minutes(60))

    world.users_come(world.setups[0], minutes(30))
    world.run(START + minutes(63))

    assert len(entered(world, Phase.SERVING)) == 1


def test_work_of_a_queue_that_waits_has_the_time_that_it_was_promised():
    world = a_life(jobs=(a_job(SHORT, runtime=(minutes(9), minutes(9))),))
    cut = []
    world.kueue.on_evict.append(lambda work, cause: cut.append((work.name, cause)))
    world.run(START + minutes(60))

    world.users_come(world.setups[0], minutes(30))
    world.run(START + minutes(90))

    assert cut == []
    assert len(entered(world, Phase.SERVING)) == 1


def test_work_that_agreed_to_nothing_is_evicted_where_the_rule_says_so():
    rule = a_rule()
    rule = replace(rule, batch=replace(rule.batch, on_return=OnReturn.EVICT))
    world = a_life(rule, jobs=(a_job(SHORT, runtime=(minutes(9), minutes(9))),))
    world.run(START + minutes(60))

    world.users_come(world.setups[0], minutes(30))
    world.run(START + minutes(63))

    assert len(entered(world, Phase.SERVING)) == 1


def test_work_that_was_put_to_sleep_wakes_in_the_next_window():
    lacking = a_job(contract=False, max_runtime=minutes(30), runtime=(minutes(8), minutes(8)))
    agreed = a_job(runtime=(minutes(60), minutes(60)), depth=1)
    world = a_life(a_rule(count=2), jobs=(agreed, lacking))
    world.run(START + minutes(60))
    world.users_come(world.setups[0], minutes(30))
    # Its webhooks refuse to wake anything at the return.
    world.kueue.on_evict.append(lambda _work, _cause: world.clock.after(3, world.kueue.go_down))
    world.run(START + minutes(80))
    asleep = [work for work in world.objects.works.values() if not work.active]
    world.kueue.on_evict.clear()
    world.kueue.come_back()
    assert asleep

    world.run(START + minutes(300))

    assert all(work.active for work in world.objects.works.values())
