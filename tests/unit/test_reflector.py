"""The reflector against what no real API server does on request; the real one: controlplane."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from queue import Empty, Queue
from threading import Event

import pytest

from idlewin.adapters.api import ApiError, SilenceError
from idlewin.adapters.reflector import Reflector, Timing
from idlewin.adapters.store import Store
from idlewin.adapters.watched import Watched

QUICK = Timing(
    first_retry=timedelta(milliseconds=1),
    longest_retry=timedelta(milliseconds=20),
    blind=timedelta(milliseconds=30),
)
PATIENCE_S = 5
FAR = timedelta(hours=1)


def until(fact):
    end = time.monotonic() + PATIENCE_S
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.001)


def an_object(name="a", version=1, uid=None, **spec):
    meta = {"name": name, "namespace": "n", "uid": uid or name, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": spec}


def event(kind, name="a", version=2, **spec):
    return {"type": kind, "object": an_object(name, version, **spec)}


def expired():
    return {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}


class Scripted:
    """A source that answers as written, then lets a watch wait for its end."""

    def __init__(self, lists, *watches):
        self._lists, self._watches = list(lists), list(watches)
        self.asked: Queue[str] = Queue()
        self.waiting, self.refused = Event(), Event()
        self.refuses = False
        self._closed = Event()

    def pages(self, _path):
        self.asked.put("list")
        answer = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if isinstance(answer, ApiError):
            raise answer
        yield answer

    @contextmanager
    def watch(self, _path, version, **_limits):
        self.asked.put(f"watch {version}")
        if self.refuses:
            self.refused.set()
            raise ApiError(0, "refused")
        yield self
        self._closed.clear()

    def __iter__(self) -> Iterator[dict]:
        for step in self._watches.pop(0) if self._watches else [None]:
            if isinstance(step, Exception):
                raise step
            if step is None:
                self.waiting.set()
                self._closed.wait(PATIENCE_S)
                return
            yield step

    def close(self):
        self._closed.set()

    def calls(self):
        found = []
        while True:
            try:
                found.append(self.asked.get_nowait())
            except Empty:
                return found


@pytest.fixture
def run():
    started = []

    def start(source, timing=QUICK, **indexes):
        store = Store(lambda raw: raw, indexes)
        reflector = Reflector(source, "/path", store, timing)
        started.append(reflector)
        reflector.start()
        return reflector, store

    yield start
    for reflector in started:
        reflector.join()


def test_a_broken_watch_is_taken_up_where_it_was(run):
    source = Scripted([([an_object()], "5")], [event("MODIFIED", version=7, x=1), ApiError(0, "")])
    reflector, store = run(source)

    assert source.waiting.wait(PATIENCE_S)
    assert source.calls() == ["list", "watch 5", "watch 7"]
    assert store.get("n", "a")["spec"] == {"x": 1}
    assert (reflector.counts.lists, reflector.counts.failures) == (1, 1)


@pytest.mark.parametrize("gone", [expired(), ApiError(410, "too old")])
def test_410_lists_again_and_drops_what_is_gone(run, gone):
    lists = [([an_object("a"), an_object("b")], "5"), ([an_object("b")], "9")]
    source = Scripted(lists, [gone])
    _, store = run(source)

    assert source.waiting.wait(PATIENCE_S)
    assert source.calls() == ["list", "watch 5", "list", "watch 9"]
    assert [one["metadata"]["name"] for one in store.all()] == ["b"]


def test_410_after_failures_lists_again_without_their_wait(run, caplog):
    # The API server was away for long: what it says first is that it has forgotten the version.
    slow = Timing(first_retry=timedelta(milliseconds=1), longest_retry=timedelta(minutes=1))
    away = [[ApiError(0, "refused")]] * 10
    caplog.set_level("INFO")
    source = Scripted([([], "5"), ([], "9")], *away, [expired()])
    run(source, slow)

    assert source.waiting.wait(PATIENCE_S)
    assert source.calls()[-3:] == ["watch 5", "list", "watch 9"]
    waits = [line.rpartition("at most ")[2] for line in caplog.messages]
    assert waits[-2:] == ["0.5 s", "0.0 s"]


def test_a_server_that_is_back_and_not_yet_ready_is_asked_again_soon(run, caplog):
    # After an outage a watch is told 429 (storage is initializing), or 503 and 403 before that.
    slow = Timing(first_retry=timedelta(milliseconds=1), longest_retry=timedelta(minutes=1))
    away = [[ApiError(0, "refused")]] * 10
    caplog.set_level("INFO")
    source = Scripted([([], "5")], *away, [ApiError(429, "storage is initializing")])
    run(source, slow)

    assert source.waiting.wait(PATIENCE_S)
    waits = [line.rpartition("at most ")[2] for line in caplog.messages]
    assert waits[-2:] == ["0.5 s", "0.0 s"]


def test_410_again_and_again_is_asked_less_and_less(run):
    source = Scripted([([], "5")], *[[expired()]] * 30)
    run(source, Timing(first_retry=timedelta(milliseconds=10)))

    assert not source.waiting.wait(0.5)
    assert len(source.calls()) < 20


def test_who_is_in_touch_again_says_so(run):
    source, told = Scripted([([], "5")]), Event()
    reflector, _ = run(source)
    assert source.waiting.wait(PATIENCE_S)
    reflector.in_sight = told.set

    source.refuses = True
    source.close()
    assert source.refused.wait(PATIENCE_S)
    assert not told.is_set()
    source.refuses = False

    assert told.wait(PATIENCE_S)


def test_a_bookmark_moves_the_version_and_nothing_else(run):
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "40"}}}
    source = Scripted([([], "5")], [bookmark])
    _, store = run(source)

    assert source.waiting.wait(PATIENCE_S)
    assert source.calls() == ["list", "watch 5", "watch 40"]
    assert len(store) == 0


def test_silence_is_no_failure_and_connects_anew(run):
    source = Scripted([([], "5")], [SilenceError(0, "silent")])
    reflector, _ = run(source)

    assert source.waiting.wait(PATIENCE_S)
    assert (reflector.counts.silences, reflector.counts.failures) == (1, 0)
    assert reflector.in_touch


def test_a_watch_that_ends_at_once_without_a_word_is_a_failure(run):
    source = Scripted([([], "5")], [], [])
    reflector, _ = run(source)

    assert source.waiting.wait(PATIENCE_S)
    assert reflector.counts.failures == 2


def test_out_of_touch_for_long_is_not_the_truth(run):
    source = Scripted([([], "5")])
    source.refuses = True
    reflector, _ = run(source)

    assert source.refused.wait(PATIENCE_S)
    for _ in range(200):
        if not reflector.in_touch:
            break
        Event().wait(0.01)
    assert not reflector.in_touch
    assert "refused" in reflector.trouble


def test_what_was_blind_stays_so_until_it_is_listed_after_a_410(run):
    source = Scripted([([], "5"), ApiError(0, "no list")], [expired()])
    source.refuses = True
    reflector, _ = run(source)
    until(lambda: reflector.synced.is_set() and not reflector.in_touch)
    source.calls()

    source.refuses = False
    until(lambda: "list" in source.calls())

    assert not reflector.in_touch


def test_back_in_sight_is_told_and_who_waits_may_be_hurried():
    found, patient = Event(), replace(QUICK, first_retry=FAR, longest_retry=FAR)
    source = Scripted([([], "5")], [ApiError(0, "broken")])
    reflector = Reflector(source, "/path", Store(lambda raw: raw, {}), patient)
    reflector.back = found.set
    reflector.start()
    until(lambda: reflector.counts.failures and not reflector.in_touch)
    early = found.is_set()

    reflector.hurry()

    assert found.wait(PATIENCE_S)
    assert (early, reflector.in_touch) == (False, True)
    reflector.join()


def test_one_kind_that_is_back_hurries_the_others():
    watched = Watched(None)

    watched._reflectors[0].back()

    assert all(one._again.is_set() for one in watched._reflectors)


def test_a_kind_that_does_not_exist_is_known_to_be_empty(run):
    source = Scripted([ApiError(404, "no such kind"), ([an_object()], "5")])
    reflector, store = run(source)

    assert reflector.synced.wait(PATIENCE_S)
    assert source.waiting.wait(PATIENCE_S), "it is asked for again"
    assert len(store) == 1
    assert not reflector.absent, "it has come"


def test_an_object_that_breaks_the_trimming_does_not_end_the_watch(run):
    source = Scripted([([an_object()], "5")], [{"type": "MODIFIED", "object": {}}])
    _, store = run(source)

    assert source.waiting.wait(PATIENCE_S)
    assert source.calls() == ["list", "watch 5", "list", "watch 5"]
    assert len(store) == 1


# -- the store


def a_store(*objects, **indexes):
    store, told = Store(lambda raw: raw if raw["spec"].get("keep", True) else None, indexes), []
    for one in objects:
        store.upsert(one)
    store.subscribe(lambda change, shown: told.append((change, shown["metadata"]["name"])))
    return store, told


def test_an_older_version_never_replaces_a_newer_one():
    store, told = a_store(an_object(version=9, x="new"))

    store.upsert(an_object(version=8, x="old"))
    store.remove(("n", "a"), 8)
    assert store.get("n", "a")["spec"] == {"x": "new"}
    assert told == []


def test_a_change_of_version_alone_is_told_to_nobody():
    store, told = a_store(an_object(version=1, x=1))

    store.upsert(an_object(version=2, x=1))
    assert told == []
    store.upsert(an_object(version=3, x=2))
    assert told == [("MODIFIED", "a")]


def test_a_late_answer_does_not_revive_what_was_deleted():
    store, told = a_store(an_object(version=1))

    store.remove(("n", "a"), 5)
    store.upsert(an_object(version=4))
    assert store.all() == []
    store.upsert(an_object(version=6, uid="another"))
    assert told == [("DELETED", "a"), ("ADDED", "a")]


def test_a_list_keeps_what_is_newer_than_it():
    store, _ = a_store(an_object("old", version=3), an_object("new", version=12))

    store.replace([([], "10")])
    assert [one["metadata"]["name"] for one in store.all()] == ["new"]


def test_a_selection_drops_only_what_it_could_have_held():
    store, _ = a_store(an_object("in", version=3), an_object("out", version=3))

    store.replace([([], "10")], among=[store.get("n", "in")])
    assert [one["metadata"]["name"] for one in store.all()] == ["out"]
    store.upsert(an_object("in", version=11))
    assert len(store) == 2, "it had left the selection only"


def test_indexes_follow_changes():
    store, _ = a_store(an_object(version=1, node="x"), node=lambda one: [one["spec"]["node"]])

    store.upsert(an_object(version=2, node="y"))
    assert (store.by("node", "x"), len(store.by("node", "y"))) == ([], 1)
    store.remove(("n", "a"))
    assert store.by("node", "y") == []


def test_what_is_trimmed_away_later_is_dropped():
    store, told = a_store(an_object(version=1))

    store.upsert(an_object(version=2, keep=False))
    assert store.all() == []
    assert told == [("DELETED", "a")]
