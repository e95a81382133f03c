"""The reflector against the real API server: restart, compaction, a frozen server, bookmarks."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from queue import Queue
from typing import Any

import pytest

from idlewin.adapters.api import connect
from idlewin.adapters.reflector import Reflector, Timing
from idlewin.adapters.store import Store
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
PLANE = {"with_kueue": False}
MAPS = "/api/v1/namespaces/serving/configmaps"
QUICK = Timing(
    first_retry=timedelta(milliseconds=20),
    longest_retry=timedelta(milliseconds=500),
    blind=timedelta(milliseconds=200),
)
PATIENCE_S = 30
Started = tuple[Reflector, Store, Queue[tuple[str, str]]]


@pytest.fixture
def watching(plane: ControlPlane) -> Iterator[Callable[..., Started]]:
    reflectors = []
    api = connect(plane.kubeconfig)

    def start(timing: Timing = QUICK) -> Started:
        store, told = Store(lambda raw: {**raw, "metadata": raw["metadata"]}), Queue()
        store.subscribe(lambda change, shown: told.put((change, shown["metadata"]["name"])))
        reflector = Reflector(api, MAPS, store, timing)
        reflectors.append(reflector)
        reflector.start()
        assert reflector.synced.wait(PATIENCE_S)
        return reflector, store, told

    yield start
    for reflector in reflectors:
        reflector.join()
        assert not reflector._thread.is_alive()
    api.close()


def make(plane: ControlPlane, name: str, **data: str) -> Any:
    return plane.api.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "data": data,
         "metadata": {"name": name, "namespace": "serving"}}
    )  # fmt: skip


def until(told: Queue[tuple[str, str]], wanted: tuple[str, str]) -> None:
    while told.get(timeout=PATIENCE_S) != wanted:
        pass


def test_what_is_there_and_what_comes_changes_and_goes_is_told(
    plane: ControlPlane, watching: Callable[..., Started]
) -> None:
    make(plane, "old")
    reflector, store, told = watching()
    until(told, ("ADDED", "old"))

    make(plane, "new", a="1")
    until(told, ("ADDED", "new"))
    make(plane, "new", a="2")
    until(told, ("MODIFIED", "new"))
    plane.api.delete(f"{MAPS}/new")
    until(told, ("DELETED", "new"))
    assert store.get("serving", "new") is None
    assert (reflector.counts.lists, reflector.counts.watches) == (1, 1)


def test_lists_of_more_than_a_page_are_whole(
    plane: ControlPlane, watching: Callable[..., Started]
) -> None:
    for number in range(510):
        body = {"metadata": {"name": f"many-{number}"}}
        plane.api.post(MAPS, body)

    _, store, _ = watching()
    names = {one["metadata"]["name"] for one in store.all()}
    assert {f"many-{number}" for number in range(510)} <= names


def test_an_answer_to_our_own_write_is_seen_and_not_told_twice(
    plane: ControlPlane, watching: Callable[..., Started]
) -> None:
    make(plane, "ours", a="1")
    _, store, told = watching()
    until(told, ("ADDED", "ours"))

    store.upsert(make(plane, "ours", a="2"))
    assert store.get("serving", "ours")["data"] == {"a": "2"}
    make(plane, "after")
    seen = []
    while not seen or seen[-1] != ("ADDED", "after"):
        seen.append(told.get(timeout=PATIENCE_S))
    assert seen.count(("MODIFIED", "ours")) == 1


def test_watches_that_end_go_on_without_a_list(
    plane: ControlPlane, watching: Callable[..., Started]
) -> None:
    quick = Timing(lasts=timedelta(seconds=2))
    reflector, _, told = watching(quick)
    wait_for("third watch", lambda: reflector.counts.watches >= 3)

    make(plane, "later")
    until(told, ("ADDED", "later"))
    assert (reflector.counts.lists, reflector.counts.failures) == (1, 0)


def test_after_compaction_a_lost_version_lists_again(
    plane: ControlPlane, watching: Callable[..., Started]
) -> None:
    reflector, store, told = watching()
    make(plane, "kept")
    until(told, ("ADDED", "kept"))
    # A version from before the cluster's first object: long compacted away from the watch cache.
    reflector._version = "1"
    plane.kill("kube-apiserver")
    plane.run("kube-apiserver")
    plane.wait_ready("kube-apiserver")

    wait_for("another list", lambda: reflector.counts.lists >= 2)
    make(plane, "fresh")
    until(told, ("ADDED", "fresh"))
    assert store.get("serving", "kept") is not None


def test_a_restart_of_the_api_server_is_survived_without_losing_events(
    plane: ControlPlane, watching: Callable[..., Started]
) -> None:
    reflector, _, told = watching()
    plane.kill("kube-apiserver", signal.SIGKILL)
    wait_for("out of touch", lambda: not reflector.in_touch)
    assert reflector.trouble

    plane.run("kube-apiserver")
    plane.wait_ready("kube-apiserver")
    make(plane, "survivor")
    until(told, ("ADDED", "survivor"))
    assert reflector.in_touch


def test_a_frozen_connection_is_found_and_left(
    plane: ControlPlane, watching: Callable[..., Started]
) -> None:
    silent = Timing(
        silence=timedelta(seconds=1),
        first_retry=QUICK.first_retry,
        longest_retry=QUICK.longest_retry,
        blind=timedelta(seconds=1),
    )
    reflector, _, told = watching(silent)
    make(plane, "before")
    until(told, ("ADDED", "before"))
    server = plane.pids()["kube-apiserver"]

    os.kill(server, signal.SIGSTOP)
    try:
        wait_for("out of touch", lambda: not reflector.in_touch)
    finally:
        os.kill(server, signal.SIGCONT)
    wait_for("in touch", lambda: reflector.in_touch)
    make(plane, "thawed")
    until(told, ("ADDED", "thawed"))
    assert reflector.counts.silences
