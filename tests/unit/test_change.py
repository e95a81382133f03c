"""One guarded write: what an answer means, and when it is tried again."""

from __future__ import annotations

import pytest

from idlewin.adapters.api import ApiError
from idlewin.adapters.change import TRIES, AbsentError, Changes, patiently, same, verdict_of
from idlewin.adapters.store import Store
from idlewin.core.decision import Verdict

BUDGET = {"details": {"causes": [{"reason": "DisruptionBudget"}], "retryAfterSeconds": 0}}


@pytest.mark.parametrize(
    ("status", "message", "verdict"),
    [
        (404, "not found", Verdict.GONE),
        (409, "the object has been modified", Verdict.CONFLICT),
        (409, "the UID in the precondition (a) does not match the UID in record (b)", Verdict.GONE),
        (403, "forbidden", Verdict.REFUSED),
        (422, "invalid", Verdict.REFUSED),
        (429, "too many requests", Verdict.FAILED),
        (500, 'Internal error: failed calling webhook "v.kb.io": refused', Verdict.REFUSED),
        (500, "This pod has more than one PodDisruptionBudget, which", Verdict.REFUSED),
        (500, "etcdserver: request timed out", Verdict.FAILED),
        (503, "unavailable", Verdict.FAILED),
        (0, "no answer", Verdict.FAILED),
    ],
)
def test_an_answer_means(status, message, verdict):
    assert verdict_of(ApiError(status, message)) is verdict


def test_a_disruption_budget_refuses_and_is_not_waited_for():
    def evicted():
        asked.append(1)
        raise ApiError(429, "budget", answer=BUDGET)

    asked = []
    with pytest.raises(ApiError) as error:
        patiently(evicted)
    assert verdict_of(error.value) is Verdict.REFUSED
    assert len(asked) == 1


@pytest.mark.parametrize(("asked_to_wait", "calls"), [(0, 2), (60, 1), (None, 1)])
def test_a_busy_server_is_waited_for_once_if_it_asks_for_little(asked_to_wait, calls):
    def write():
        made.append(1)
        raise ApiError(429, "busy", answer={"details": {"retryAfterSeconds": asked_to_wait}})

    made = []
    with pytest.raises(ApiError):
        patiently(write)
    assert len(made) == calls


class Moving:
    """An API whose object changes under the first writes."""

    def __init__(self, conflicts):
        self.conflicts, self.version, self.sent = conflicts, 1, []

    def get(self, _path):
        meta = {"name": "a", "uid": "u", "resourceVersion": str(self.version)}
        return {"metadata": meta, "spec": {}}

    def merge(self, _path, patch):
        self.sent.append(patch["metadata"]["resourceVersion"])
        if self.conflicts:
            self.conflicts -= 1
            self.version += 1
            raise ApiError(409, "modified")
        self.version += 1
        return {**self.get(""), "spec": patch["spec"]}


def change(api, patch_of, *, tries=TRIES, keeps=True):
    store = Store(lambda raw: raw)
    Changes(api, keeps=keeps).change(store, "/a", patch_of, tries=tries)
    return store


def test_a_write_is_made_anew_for_each_version_it_meets():
    api = Moving(conflicts=2)

    store = change(api, lambda _: {"spec": {"x": 1}})
    assert api.sent == ["1", "2", "3"]
    assert store.get("", "a")["spec"] == {"x": 1}


def test_a_write_gives_up_after_its_tries_with_the_conflict():
    api = Moving(conflicts=9)

    with pytest.raises(ApiError) as error:
        change(api, lambda _: {"spec": {}}, tries=2)
    assert (error.value.status, len(api.sent)) == (409, 2)


def test_what_was_read_before_a_write_is_there_for_the_next_look():
    store = change(Moving(conflicts=0), lambda _: None)

    assert store.get("", "a")["metadata"]["resourceVersion"] == "1"


def test_nothing_to_write_asks_for_nothing_and_a_rehearsal_keeps_nothing():
    api = Moving(conflicts=0)

    change(api, lambda _: None)
    assert api.sent == []
    assert len(change(api, lambda _: {"spec": {}}, keeps=False)) == 0


def test_an_object_of_another_uid_is_not_written():
    api = Moving(conflicts=0)

    with pytest.raises(AbsentError):
        change(api, same("other", lambda _: {"spec": {}}))
    assert api.sent == []
