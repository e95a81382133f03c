"""What there is to give back, and whether anybody leads who will do it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from idlewin.adapters import leader
from idlewin.adapters.api import ApiError
from idlewin.adapters.leader import Vacancy
from idlewin.adapters.stranded import stranded
from idlewin.adapters.watched import QUEUES, RULES

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
LIMIT = timedelta(minutes=15)
DEPLOYMENTS = "/apis/apps/v1/deployments"


def meta(name, **rest):
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **rest}


def a_rule(name, phase="Serving", status=None, **rest):
    stored = {"phase": phase, "epoch": 1} if status is None else status
    return {"metadata": meta(name, **rest), "spec": {}, "status": stored}


def a_target(record):
    text = record if isinstance(record, str) else json.dumps(record)
    return a_deployment(annotations={"idlewin.dev/record": text})


def a_deployment(replicas=0, writer="idlewin", **rest):
    fields = {"f:spec": {"f:replicas": {}}}
    wrote = {"manager": writer, "operation": "Update", "fieldsV1": fields, "time": "t"}
    metadata = meta("t", namespace="ai", managedFields=[wrote], **rest)
    return {"metadata": metadata, "spec": {"replicas": replicas}}


def a_queue(rule, policy="None", left="None", epoch="3"):
    marks = {"rule": rule, "epoch": epoch, "stop-policy": left}
    notes = {f"idlewin.dev/{key}": text for key, text in marks.items() if text}
    return {"metadata": meta("q", annotations=notes), "spec": {"stopPolicy": policy}}


class Stored:
    """An API server that has these lists, and no other kind."""

    def __init__(self, lists):
        self.lists = lists

    def listed(self, path):
        if path not in self.lists:
            raise ApiError(404, "no such kind")
        return self.lists[path], "1"


def found(rules=(), targets=(), queues=()):
    return stranded(Stored({RULES: list(rules), DEPLOYMENTS: list(targets), QUEUES: list(queues)}))


@pytest.mark.parametrize(
    ("rule", "away"),
    [
        (a_rule("r"), False),
        (a_rule("r", "Harvesting"), True),
        (a_rule("r", "Tomorrow"), True),
        (a_rule("r", status={}), False),
        (a_rule("r", status={"phase": 7}), True),
        (a_rule("r", deletionTimestamp="x", finalizers=["idlewin.dev/give-back"]), True),
        (a_rule("r", deletionTimestamp="x", finalizers=["another"]), False),
    ],
)
def test_a_rule_is_away_unless_it_serves_and_is_kept(rule, away):
    assert [one.name for one in found([rule]).away] == ["r"] * away


@pytest.mark.parametrize(
    "marks",
    [
        {"targets": [a_target({"rule": "r", "uid": "u", "replicas": 1, "epoch": 1})]},
        {"targets": [a_target({"rule": "r", "of a": "newer version"})]},
        {"queues": [a_queue("r")]},
        {"queues": [a_queue("r", left="")]},
    ],
)
def test_a_mark_makes_a_rule_away_and_one_that_is_not_there_gone(marks):
    assert [one.name for one in found([a_rule("r")], **marks).away] == ["r"]
    assert found([a_rule("other")], **marks).gone == ("r",)


@pytest.mark.parametrize(
    "marks",
    [
        {"targets": [a_target("no JSON")]},
        {"queues": [a_queue("r", policy="Hold", left="Hold")]},
        {"queues": [a_queue("r", left="Hold")]},
        {"queues": [a_queue("r", epoch="")]},
        {"queues": [a_queue("")]},
    ],
)
def test_what_is_closed_or_somebody_elses_is_nobodys_mark(marks):
    assert found(**marks).gone == ()


@pytest.mark.parametrize(
    ("target", "away"),
    [
        (a_deployment(), True),
        (a_deployment(replicas=1), False),
        (a_deployment(writer="kubectl"), False),
    ],
    ids=["at our zero", "up", "at another's zero"],
)
def test_a_rule_is_away_while_its_status_alone_tells_of_a_target_that_was_lowered_late(
    target, away
):
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "ai", "name": "t"}
    status = {"phase": "Serving", "epoch": 5}
    status["notLowered"] = [{"ref": ref, "uid": "uid-t", "replicas": 1}]
    rules = [a_rule("r", status=status), a_rule("other")]

    assert [one.name for one in found(rules, [target]).away] == ["r"] * away


def test_with_the_crd_gone_the_marks_are_found_all_the_same():
    targets = [a_target({"rule": "r", "uid": "u", "replicas": 1, "epoch": 1})]

    assert stranded(Stored({DEPLOYMENTS: targets})).gone == ("r",)


# -- who leads


class Time:
    """Seconds that pass while one waits for them."""

    def __init__(self):
        self.passed = 0.0

    def wait(self, seconds):
        self.passed += seconds


class Leases:
    """An API server whose Lease looks as a test says at each second."""

    def __init__(self, time, look):
        self.time, self.look, self.clock = time, look, self

    def doubt(self):
        return ""

    def now(self):
        return NOW + timedelta(seconds=self.time.passed)

    def get(self, _path):
        found = self.look(self.time.passed)
        if found is None:
            raise ApiError(404, "no such Lease")
        return found


class Taking:
    """Takes the Lease when it was asked for so often."""

    def __init__(self, after=3):
        self.left = after

    def renew(self):
        self.left -= 1

    def held(self):
        return self.left <= 0


def a_lease(holder, silent, **spec):
    """Of a holder whose last write the API server stored so long ago."""
    stored = f"{NOW - silent:%Y-%m-%dT%H:%M:%SZ}"
    fields = {"f:spec": {"f:renewTime": {}}}
    entry = {"manager": "idlewin", "time": stored, "fieldsV1": fields}
    return {
        "metadata": {"name": "idlewin", "managedFields": [entry]},
        "spec": {"holderIdentity": holder, **spec},
    }


@pytest.fixture
def time(monkeypatch):
    time = Time()
    monkeypatch.setattr(leader, "monotonic", lambda: time.passed)
    monkeypatch.setattr(leader, "Event", lambda: time)
    return time


def taken(time, look, lease):
    return Vacancy(Leases(time, look), ("ns", "idlewin"), LIMIT).taken(lease)


@pytest.mark.parametrize("holder", ["idlewin-1", None])
def test_a_lease_is_taken_after_a_long_silence_and_not_before(time, holder):
    for silent, vacant in ((LIMIT, True), (LIMIT - timedelta(seconds=1), False)):
        lease, time.passed = Taking(), 0.0

        assert taken(time, lambda _at, silent=silent: a_lease(holder, silent), lease) is vacant
        assert lease.held() is vacant


@pytest.mark.parametrize("years", [-10, 10])
def test_the_holders_own_clock_says_nothing_where_the_api_servers_is_on_record(time, years):
    wrong = f"{2026 + years}-01-01T00:00:00.000000Z"
    look = lambda silent: lambda _at: a_lease("one", silent, renewTime=wrong)  # noqa: E731

    assert taken(time, look(LIMIT), Taking())
    assert not taken(time, look(timedelta(seconds=5)), Taking())


def test_without_that_record_the_holders_clock_counts_and_without_both_the_look(time):
    bare = {"metadata": {"name": "idlewin"}, "spec": {"holderIdentity": "one"}}
    fresh = {**bare, "spec": {**bare["spec"], "renewTime": "2026-03-02T11:59:00.000000Z"}}

    assert not taken(time, lambda _at: fresh, Taking())
    assert taken(time, lambda _at: bare, Taking())


def test_a_leader_that_comes_back_while_it_is_looked_at_is_left_alone(time):
    lease = Taking(after=10)

    back = lambda at: a_lease("one", LIMIT if at < 5 else timedelta())  # noqa: E731

    assert not taken(time, back, lease)
    assert not lease.held()


def test_one_that_stands_in_already_is_followed_at_once_or_left_to_it(time):
    def look(_at):
        return a_lease("give-back_job_1", timedelta())

    assert taken(time, look, Taking())
    assert not taken(time, look, Taking(after=1000))
    assert time.passed < 60


def test_where_there_is_no_lease_nobody_leads_if_nobody_makes_one(time):
    lease = Taking()

    assert taken(time, lambda _at: None, lease)
    assert (lease.left, time.passed >= 15) == (3, True)
    time.passed = 0
    made = lambda at: None if at < 5 else a_lease("one", timedelta())  # noqa: E731
    assert not taken(time, made, lease)
