"""Why a rule and its cluster do not agree, where a real cluster is not needed to see it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from idlewin.core import frozen, whose
from idlewin.core.lint import NO_KUEUE, Fault, refusals
from idlewin.core.opening import window_open
from idlewin.core.reason import Reason
from idlewin.core.rule import Cards, OnReturn
from tests.builders import (
    NODES,
    NOW,
    XE,
    a_pool,
    a_queue,
    a_rule,
    a_situation,
    a_target,
    a_workload,
)

THIS = a_situation().object
OLDER = replace(
    THIS,
    name="older",
    created_at=NOW - timedelta(days=9),
    rule=replace(
        a_rule(),
        serving=(replace(a_rule().serving[0], name="other"),),
        batch=replace(
            a_rule().batch,
            queues=tuple(
                replace(q, cluster_queue=f"{q.cluster_queue}-b") for q in a_rule().batch.queues
            ),
        ),
    ),
)
LABELS = {"node-1": {**NODES, "gpu": "b580"}}


def faults(pool, rule=THIS, others=()):
    return {refusal.fault for refusal in refusals(rule, pool, others)}


def test_what_is_not_seen_cannot_be_checked_and_opens_no_window():
    seen = a_situation()
    targets = (a_target(replicas=1, ready=1),)
    pool = replace(seen.pool, targets=targets, unseen=("/api/v1/namespaces: 403 forbidden",))
    found = refusals(seen.object, pool)
    blind = replace(seen, pool=pool, refusals=found)

    assert [refusal.fault for refusal in found] == [Fault.NOT_CHECKED]
    (failed,) = [check for check in window_open(blind) if check.name == "rule and cluster agree"]
    assert (failed.passed, failed.otherwise) == (False, Reason.RULE_INVALID)
    assert "403 forbidden" in failed.observed
    assert whose.may_act(blind), "its queues are still ours"
    assert not frozen.change_since(blind), "nothing is given back for it"


def test_a_cluster_without_kueue_is_told_once_and_no_queue_is_blamed():
    pool = a_pool(targets=(a_target(replicas=1, ready=1),), queues=(), no_kueue=True)

    (found,) = refusals(THIS, pool)

    assert (found.fault, found.text) == (Fault.QUEUE_MISSING, NO_KUEUE)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ((), f"no node that matches nodeSelector has {XE};"),
        (("node-1",), f"no node that matches nodeSelector (node-1) has {XE};"),
    ],
)
def test_where_there_is_no_card_the_sentence_says_no_number(nodes, told):
    pool = a_pool(targets=(a_target(replicas=1, ready=1),), nodes=nodes, allocatable=0)

    (found,) = refusals(THIS, pool)

    assert found.fault is Fault.CARDS_MISMATCH
    assert found.text.startswith(told)


def test_a_rule_and_its_cluster_can_agree():
    assert faults(a_pool(targets=(a_target(replicas=1, ready=1),))) == set()


@pytest.mark.parametrize(
    ("selector", "conflict"),
    [
        ({"gpu": "b580"}, True),
        ({"kubernetes.io/hostname": "node-1"}, True),
        ({"gpu": "b60"}, False),
        ({"kubernetes.io/hostname": "node-2"}, False),
    ],
)
def test_two_rules_conflict_on_a_node_that_both_select_and_on_no_other(selector, conflict):
    cards = Cards(resource=XE, count=1, node_selector=selector)
    other = replace(OLDER, rule=replace(OLDER.rule, cards=cards))

    found = faults(a_pool(labels=LABELS), others=[other])

    assert (Fault.RULE_CONFLICT in found) is conflict


def test_the_older_of_two_rules_goes_on():
    other = replace(OLDER, rule=THIS.rule)

    assert Fault.RULE_CONFLICT in faults(a_pool(labels=LABELS), others=[other])
    assert Fault.RULE_CONFLICT not in faults(a_pool(labels=LABELS), rule=other, others=[THIS])


@pytest.mark.parametrize(
    ("work", "refused"),
    [
        (a_workload("w", "resumable"), False),
        (a_workload("w", "resumable", contract=False), True),
        (a_workload("w", "resumable", contract=False, max_runtime=timedelta(hours=1)), False),
    ],
)
def test_work_without_a_contract_needs_a_bound_of_its_own_in_a_contract_queue_too(work, refused):
    pool = a_pool(queues=(a_queue(), a_queue("resumable", workloads=(work,), bound_enforced=False)))

    assert (Fault.BOUND_NOT_ENFORCED in faults(pool)) is refused


def test_evict_asks_for_no_bound():
    rule = replace(THIS, rule=a_rule(batch=replace(a_rule().batch, on_return=OnReturn.EVICT)))
    work = a_workload(max_runtime=None)
    pool = a_pool(queues=(a_queue(workloads=(work,), bound_enforced=False), a_queue("resumable")))

    assert Fault.BOUND_NOT_ENFORCED in faults(pool)
    assert Fault.BOUND_NOT_ENFORCED not in faults(pool, rule=rule)


def test_serving_that_claims_more_cards_than_there_are_names_the_ways_out():
    pool = a_pool(targets=(a_target(replicas=2, claims=1),))

    (refusal,) = [r for r in refusals(THIS, pool) if r.fault is Fault.SERVING_TOO_LARGE]

    assert "co-tenancy" in refusal.text
