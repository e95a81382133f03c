"""The real cluster, through our adapter, keeps what the ports promise; as an account of deploy/."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from idlewin.adapters.kubernetes import KubernetesCluster
from idlewin.core.decision import (
    EvictPod,
    FenceQueue,
    ForgetRecord,
    HoldRule,
    ReleaseRule,
    Remember,
    ReopenLocalQueue,
    ScaleBack,
    SetActive,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.pool import Role, StopPolicy
from idlewin.core.status import Status
from tests.controlplane.conftest import plane  # noqa: F401 - a fixture
from tests.controlplane.deployed import deploy
from tests.controlplane.place import Place, a_cluster, a_place
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def cluster(plane: ControlPlane) -> Iterator[KubernetesCluster]:  # noqa: F811
    deploy(plane)
    cluster = a_cluster(plane.service_account_kubeconfig("idlewin-system", "idlewin"))
    yield cluster
    cluster.stop()


@pytest.fixture
def place(plane: ControlPlane, cluster: KubernetesCluster) -> Iterator[Place]:  # noqa: F811
    with a_place(plane, cluster) as place:
        yield place


def verdict(place: Place, action) -> Verdict:
    outcome = place.apply(action)
    assert outcome.verdict is Verdict.DONE or outcome.message
    return outcome.verdict


# -- the rule


def test_a_status_is_written_only_over_the_version_that_was_read(place: Place) -> None:
    place.make_rule()
    version = place.cluster.rule(place.name).resource_version
    write = Remember(place.name, version, None, Status(epoch=1))
    first, second = place.apply(write), place.apply(write)

    assert (first.verdict, second.verdict) == (Verdict.DONE, Verdict.CONFLICT)
    again = replace(write, resource_version=first.resource_version, status=Status(epoch=2))
    assert place.apply(again).verdict is Verdict.DONE
    assert place.cluster.rule(place.name).status.epoch == 2, "our own write is seen at once"


def test_a_deleted_rule_stays_until_its_finalizer_goes(place: Place) -> None:
    place.make_rule()
    looked = place.cluster.rule(place.name).resource_version
    assert verdict(place, HoldRule(place.name, looked)) is Verdict.DONE
    assert place.apply(HoldRule(place.name, looked)).verdict is Verdict.CONFLICT, "an older look"
    place.api.delete(place.rule_path)
    place.until("deletion", lambda: place.cluster.rule(place.name).deleting)

    assert place.apply(ReleaseRule(place.name, looked)).verdict is Verdict.CONFLICT
    now = place.cluster.rule(place.name).resource_version
    assert verdict(place, ReleaseRule(place.name, now)) is Verdict.DONE
    place.until("its end", lambda: place.cluster.rule(place.name) is None)
    assert place.apply(HoldRule(place.name, now)).verdict is Verdict.GONE


def test_names_are_oldest_first_and_a_rule_that_cannot_be_read_is_told(place: Place) -> None:
    place.make_rule(annotations={"idlewin.dev/wake-until": "soon"})

    stored = place.cluster.rule(place.name)
    assert place.name in place.cluster.names()
    assert (stored.wake_until, bool(stored.wake_error)) == (None, True)
    assert stored.rule is not None


# -- serving


def test_zero_and_back_leave_serving_as_it_was(place: Place) -> None:
    place.make_target()
    before = place.api.get(place.target_path)["spec"]

    assert verdict(place, place.to_zero(epoch=4)) is Verdict.DONE
    lowered = place.target()
    assert (lowered.replicas, lowered.replicas_writer) == (0, "idlewin")
    assert (lowered.record.replicas, lowered.record.epoch) == (1, 4)
    place.until_free()
    assert verdict(place, ScaleBack(place.ref, lowered.uid, 1, place.name, 9)) is Verdict.DONE
    place.until("ready serving", lambda: place.target().ready == 1)
    assert place.target().record is None
    assert place.api.get(place.target_path)["spec"] == before


@pytest.mark.parametrize("claims", [1, 0])
def test_a_stateful_set_is_served_too(place: Place, claims: int) -> None:
    place.make_target(kind="StatefulSet", claims=claims)
    (pod,) = place.look().on_cards(Role.SERVING)
    assert (pod.owner, pod.claims) == (str(place.ref), claims)

    assert verdict(place, place.to_zero()) is Verdict.DONE
    place.until_free()
    back = ScaleBack(place.ref, place.target().uid, 1, place.name, 9)
    assert verdict(place, back) is Verdict.DONE
    place.until("ready serving", lambda: place.target().ready == 1)


def test_to_zero_survives_a_change_of_version_but_not_of_replicas(place: Place) -> None:
    place.make_target()
    stale = place.to_zero()
    place.edit(place.target_path, metadata={"annotations": {"a": "b"}})
    place.until("the edit", lambda: place.target().resource_version != stale.resource_version)

    place.edit(place.target_path, spec={"replicas": 2})
    assert verdict(place, stale) is Verdict.CONFLICT
    place.edit(place.target_path, spec={"replicas": 1})
    # Its status moves while the second pod goes; that many conflicts are more than it tries.
    place.until("a taken zero", lambda: place.apply(stale).verdict is Verdict.DONE)
    assert verdict(place, stale) is Verdict.DONE, "carried out twice is the same as once"


def test_a_raise_by_its_owner_is_not_overwritten(place: Place) -> None:
    place.make_target()
    place.apply(place.to_zero())
    uid = place.target().uid
    place.edit(place.target_path, spec={"replicas": 3})

    assert verdict(place, ScaleBack(place.ref, uid, 1, place.name, 9)) is Verdict.REFUSED
    assert verdict(place, ForgetRecord(place.ref, uid, place.name, 9)) is Verdict.DONE
    assert (place.target().replicas, place.target().record) == (3, None)


def test_a_zero_of_its_owner_is_not_raised_by_a_return_that_comes_late(place: Place) -> None:
    place.make_target()
    uid = place.target().uid
    place.edit(place.target_path, spec={"replicas": 0})

    assert verdict(place, ScaleBack(place.ref, uid, 1, place.name, 9)) is Verdict.REFUSED
    assert place.api.get(place.target_path)["spec"]["replicas"] == 0


def test_a_zero_by_kubectl_scale_is_not_ours_though_nobody_owns_it(place: Place) -> None:
    place.make_target()
    uid = place.target().uid
    assert verdict(place, place.to_zero()) is Verdict.DONE
    for replicas in (2, 0):
        place.edit(f"{place.target_path}/scale", spec={"replicas": replicas})

    theirs = "somebody, through /scale"
    place.until("their zero", lambda: place.target().replicas_writer == theirs)
    assert (place.target().replicas, place.target().record is None) == (0, False)
    assert verdict(place, ScaleBack(place.ref, uid, 1, place.name, 9)) is Verdict.REFUSED


def test_a_return_of_an_earlier_window_does_not_end_a_later_one(place: Place) -> None:
    place.make_target()
    place.apply(place.to_zero(epoch=4))

    late = ScaleBack(place.ref, place.target().uid, 1, place.name, epoch=3)
    assert verdict(place, late) is Verdict.REFUSED
    assert place.target().replicas == 0


def test_the_record_of_another_rule_is_left_alone(place: Place) -> None:
    place.make_target()
    place.apply(replace(place.to_zero(), rule="other"))
    uid = place.target().uid

    assert verdict(place, ScaleBack(place.ref, uid, 1, place.name, 9)) is Verdict.REFUSED
    assert verdict(place, ForgetRecord(place.ref, uid, place.name, 9)) is Verdict.DONE
    assert place.target().record.rule == "other"
    assert verdict(place, ScaleBack(place.ref, uid, 1, "other", 9)) is Verdict.DONE


def test_a_target_of_another_uid_or_of_none_is_gone(place: Place) -> None:
    place.make_target()
    other = ScaleBack(place.ref, "another-uid", 1, place.name, 9)

    assert verdict(place, other) is Verdict.GONE
    place.api.delete(place.target_path)
    assert verdict(place, other) is Verdict.GONE
    assert place.look().targets == ()


# -- queues


def test_a_queue_is_opened_and_closed_with_our_epoch_and_shows_it(place: Place) -> None:
    place.make_queue()

    assert verdict(place, place.policy(StopPolicy.NONE, 3)) is Verdict.DONE
    queue = place.queue()
    assert (queue.stop_policy, queue.epoch, queue.stop_writer) == (StopPolicy.NONE, 3, "idlewin")
    assert queue.stopped_since is None
    assert verdict(place, place.policy(StopPolicy.HOLD_AND_DRAIN, 4)) is Verdict.DONE
    place.until("the stop", lambda: place.queue().stopped_since)
    assert place.queue().left is StopPolicy.HOLD_AND_DRAIN


def test_an_opening_is_refused_by_epoch_uid_and_adoption(place: Place) -> None:
    place.make_queue()
    opening = place.policy(StopPolicy.NONE, 5)

    assert verdict(place, replace(opening, uid="another")) is Verdict.GONE
    assert verdict(place, replace(opening, rule="another")) is Verdict.REFUSED
    fence = FenceQueue(place.name, opening.uid, 6, place.name)
    assert verdict(place, fence) is Verdict.DONE
    assert verdict(place, opening) is Verdict.REFUSED
    assert verdict(place, place.policy(StopPolicy.HOLD, 2)) is Verdict.DONE
    assert place.queue().epoch == 6, "a closing never takes the fence down"


def test_what_a_person_closed_is_not_reopened_until_resume(place: Place) -> None:
    place.make_rule()
    place.make_queue()
    place.apply(place.policy(StopPolicy.NONE))
    place.edit(place.queue_path, spec={"stopPolicy": "HoldAndDrain"})
    place.until("their stop", lambda: place.queue().stop_policy is StopPolicy.HOLD_AND_DRAIN)

    refused = place.apply(place.policy(StopPolicy.NONE, 2))
    assert (refused.verdict, "kubectl" in refused.message) == (Verdict.REFUSED, True)
    resume = {"idlewin.dev/resume": "2999-01-01T00:00:00Z"}
    place.edit(place.rule_path, metadata={"annotations": resume})
    place.until("the resume", lambda: place.cluster.rule(place.name).resume_at)
    assert verdict(place, place.policy(StopPolicy.NONE, 3)) is Verdict.DONE


def test_a_local_queue_is_given_back_unless_its_owner_changed_it(place: Place) -> None:
    place.make_queue()
    (local,) = place.queue().local_queues
    stop = StopLocalQueue(local, place.name, StopPolicy.HOLD_AND_DRAIN, 1)
    give = ReopenLocalQueue(
        local.namespace, local.name, local.uid, "HoldAndDrain", "None", 1, "b580"
    )
    assert verdict(place, stop) is Verdict.DONE
    assert verdict(place, give) is Verdict.DONE
    assert place.queue().local_queues[0].stop_policy is StopPolicy.NONE
    place.apply(stop)
    assert place.queue().local_queues[0].stop_writer == "idlewin"
    place.edit(place.local_path, spec={"stopPolicy": "Hold"})
    assert verdict(place, give) is Verdict.DONE
    (theirs,) = place.look().queue(place.name).local_queues
    assert (theirs.stop_policy, theirs.stop_writer) == (StopPolicy.HOLD, "kubectl")
    # Looked at before: what stands there now is on nobody's record.
    assert verdict(place, stop) is Verdict.CONFLICT
    assert verdict(place, replace(stop, queue=theirs)) is Verdict.DONE


# -- work


def test_work_is_seen_stopped_woken_and_evicted(place: Place) -> None:
    place.make_queue("None")
    place.make_job()
    place.until_batch()
    (pod,), (work,) = place.look().on_cards(Role.BATCH), place.queue().workloads
    assert (pod.owner, pod.claims) == (f"{work.namespace}/{work.name}", 1)
    assert (work.admitted, work.contract, work.grace.total_seconds()) == (True, True, 2)

    asleep = SetActive(work.namespace, work.name, work.uid, active=False, epoch=1)
    assert verdict(place, asleep) is Verdict.DONE
    place.until_free()
    assert verdict(place, replace(asleep, active=True)) is Verdict.DONE
    place.until_batch()
    (again,) = place.look().on_cards(Role.BATCH)
    assert verdict(place, EvictPod(pod)) is Verdict.GONE
    assert verdict(place, EvictPod(replace(again, uid="another"))) is Verdict.GONE
    assert verdict(place, EvictPod(again, delete=True)) is Verdict.DONE
    assert verdict(place, SetActive("default", "none", "x", active=True, epoch=1)) is Verdict.GONE


def test_batch_is_seen_on_a_node_that_the_window_names_and_no_label_selects(place: Place) -> None:
    place.make_queue("None")
    place.make_job()
    place.until_batch()
    scope = replace(place.scope, node_selector={"taken": "off"}, nodes=("node-1", "never-was"))

    for fresh in (True, False):
        pool = place.cluster.look(scope, fresh=fresh)

        assert [pod.node_dead for pod in pool.on_cards(Role.BATCH)] == [False]
        assert (pool.allocatable, pool.nodes) == (0, ())


def test_an_eviction_that_a_budget_forbids_is_refused_and_a_deletion_is_not(place: Place) -> None:
    place.make_queue("None")
    job = place.make_job()
    place.until_batch()
    (pod,) = place.look().on_cards(Role.BATCH)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"job-name": job}}}
    names = (place.name, f"{place.name}-too")
    for name in names:
        # Of two the API server says that it cannot tell, as an error of its own.
        place.api.post(budgets, {"metadata": {"name": name}, "spec": spec})
        assert verdict(place, EvictPod(pod)) is Verdict.REFUSED

    assert verdict(place, EvictPod(pod, delete=True)) is Verdict.DONE
    for name in names:
        place.api.delete(f"{budgets}/{name}")
