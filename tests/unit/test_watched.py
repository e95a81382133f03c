"""What a look needs, and what only its checks need: losing the second keeps no return waiting."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from threading import Event

import pytest

from idlewin.adapters.api import ApiError
from idlewin.adapters.clock import SystemClock
from idlewin.adapters.kubernetes import KubernetesCluster
from idlewin.adapters.reflector import Timing
from idlewin.core.lint import NO_KUEUE
from idlewin.core.pool import Scope
from idlewin.errors import NO_RULES
from idlewin.ports import LookError

SCOPE = Scope(rule="b580", targets=(), queues=(), resource="example.com/gpu")
PATIENCE = timedelta(seconds=30)
CHECKS = [
    "cohorts",
    "horizontalpodautoscalers",
    "namespaces",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
]


class Forbids:
    """An empty cluster in which some kinds may not be listed."""

    def __init__(self, *kinds, status=403):
        self.kinds, self.status, self._ended = kinds, status, Event()

    def pages(self, path):
        if path.endswith(self.kinds):
            raise ApiError(self.status, f"{path}: forbidden")
        yield [], "5"

    @contextmanager
    def watch(self, _path, _version, **_limits):
        yield self

    def __iter__(self):
        self._ended.wait(PATIENCE.total_seconds())
        return iter(())

    def rehearsing(self):
        return self

    def close(self):
        self._ended.set()


@contextmanager
def watching(*forbidden, status=403, own_rules=True):
    cluster = KubernetesCluster(
        Forbids(*forbidden, status=status),
        SystemClock(),
        timing=Timing(blind=timedelta()),
        own_rules=own_rules,
    )
    cluster.start()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.parametrize("kind", CHECKS)
def test_a_kind_that_only_checks_need_keeps_no_look_waiting_and_is_told(kind):
    with watching(f"/{kind}") as cluster:
        assert cluster.wait_synced(PATIENCE)

        for fresh in (False, True):
            (told,) = cluster.look(SCOPE, fresh=fresh).unseen

        assert told.endswith(f"/{kind}: forbidden")
        assert cluster.trouble() == ()


@pytest.mark.parametrize("kind", ["pods", "nodes", "clusterqueues", "workloads", "idlerules"])
def test_a_kind_that_a_return_rests_on_is_needed_for_each_look(kind):
    with watching(f"/{kind}") as cluster:
        assert not cluster.wait_synced(timedelta(milliseconds=200))

        for fresh in (False, True):
            with pytest.raises(LookError, match=f"/{kind}: forbidden"):
                cluster.look(SCOPE, fresh=fresh)


@pytest.mark.parametrize("kind", ["inferenceservices", "scaledobjects"])
def test_a_kind_that_no_rule_names_may_be_hidden_or_absent(kind):
    for status in (403, 404):
        with watching(f"/{kind}", status=status) as cluster:
            assert cluster.wait_synced(PATIENCE)
            assert cluster.look(SCOPE, fresh=True).unseen == ()
            assert cluster.trouble() == ()


@pytest.mark.parametrize(
    "rule",
    [
        {"spec": {"serving": [{"kind": "InferenceService"}]}},
        {"status": {"window": {"targets": [{"ref": {"kind": "InferenceService"}}]}}},
    ],
)
def test_a_kind_that_a_rule_rests_on_is_needed_for_each_look(rule):
    meta = {"name": "b580", "uid": "r", "generation": 1, "resourceVersion": "6"}
    with watching("/inferenceservices") as cluster:
        assert cluster.wait_synced(PATIENCE)
        cluster._stores.rules.upsert({"metadata": meta, **rule})

        with pytest.raises(LookError, match="/inferenceservices: forbidden"):
            cluster.look(SCOPE)


def test_where_all_is_seen_nothing_is_told():
    with watching("/none") as cluster:
        assert cluster.wait_synced(PATIENCE)
        assert cluster.look(SCOPE).unseen == ()


def test_kinds_that_the_cluster_does_not_know_are_told_and_keep_no_look_waiting():
    with watching("/idlerules", "/clusterqueues", status=404) as cluster:
        assert cluster.wait_synced(PATIENCE)

        assert cluster.missing() == (NO_RULES,)
        assert cluster.absent() == (NO_RULES, NO_KUEUE)
        assert cluster.look(SCOPE).no_kueue


def test_who_takes_rules_from_files_misses_no_kind_of_rules():
    with watching("/idlerules", status=404, own_rules=False) as cluster:
        assert cluster.wait_synced(PATIENCE)

        assert cluster.absent() == ()
        assert not cluster.look(SCOPE).no_kueue
