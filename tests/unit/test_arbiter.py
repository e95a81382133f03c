"""A target with an arbiter, lowered over a real connection: in flight first, unload, to zero."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from idlewin.adapters import arbiter
from idlewin.adapters.arbiter import LARGEST_ANSWER, Arbiters, LlamaSwapApi, Mediated
from idlewin.adapters.in_flight import PROBE
from idlewin.core.decision import Outcome, ScaleBack, ScaleToZero, Verdict
from idlewin.core.pool import RuleObject
from idlewin.core.target import Arbiter, Demand, LlamaSwap as Spec
from tests.builders import QWEN, a_rule
from tests.labs.llama_swap import LlamaSwap, line

LIMIT = 10
ASK, UNLOAD = ["/running", "/api/events"], "POST /api/models/unload"
LOWER = ScaleToZero(QWEN, "u", 1, "7", "b580", 3)


def with_arbiter(url: str):
    rule = a_rule()
    (serving,) = rule.serving
    own = Demand(llama_swap=Spec(url=url))
    serving = replace(serving, demand=(*serving.demand, own), arbiter=Arbiter.LLAMA_SWAP)
    return replace(rule, serving=(serving,))


class Shown:
    """A cluster with one rule, that takes every write."""

    def __init__(self, rule):
        self.stored = RuleObject(
            name="b580", uid="r", generation=1, resource_version="1", rule=rule
        )
        self.written, self.verdict, self.before = [], Verdict.DONE, lambda: None

    def rule(self, _name):
        return self.stored

    def apply(self, action):
        self.before()
        self.written.append(action)
        return Outcome(action, self.verdict)

    def rehearse(self, actions):
        return tuple(Outcome(action, self.verdict) for action in actions)


class Place:
    def __init__(self, swap):
        self.swap, self.shown = swap, Shown(with_arbiter(swap.url))
        self.arbiters = Arbiters()
        self.cluster = Mediated(self.shown, self.arbiters)

    def lower(self, action=LOWER):
        return self.cluster.apply(action)

    def stays(self, *words):
        """It is not lowered, which is told as a conflict with these words in it."""
        outcome = self.lower()
        assert (outcome.action, outcome.verdict) == (LOWER, Verdict.CONFLICT)
        assert self.shown.written == []
        assert [word for word in words if word not in outcome.message] == [], outcome.message
        assert self.swap.url in outcome.message
        return outcome


@pytest.fixture
def swap():
    with LlamaSwap() as swap:
        yield swap


@pytest.fixture
def place(swap):
    return Place(swap)


def test_a_machine_that_has_no_thread_left_for_the_question_is_no_idle_and_asked_again(
    place, monkeypatch
):
    def start(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", start)
        place.stays("cannot be asked: can't start new thread")

    assert place.lower().verdict is Verdict.DONE


def test_where_nothing_is_loaded_it_is_asked_and_the_target_lowered(place):
    place.shown.before = lambda: place.swap.asked.append("to zero")

    assert place.lower() == Outcome(LOWER, Verdict.DONE)
    assert place.swap.asked == [*ASK, "to zero"]


def test_what_is_loaded_is_unloaded_between_the_question_and_the_write(place):
    place.swap.models = {"whisper": "ready", "qwen": "ready"}
    place.shown.before = lambda: place.swap.asked.append("to zero")

    outcome = place.lower()

    assert outcome.verdict is Verdict.DONE
    assert outcome.message == "its arbiter unloaded qwen, whisper before"
    assert place.swap.asked == [*ASK, UNLOAD, *ASK, "to zero"]


def test_with_a_request_in_flight_nothing_is_unloaded_nor_lowered_and_it_is_named(place):
    place.swap.models = {"qwen": "ready"}
    place.swap.begin(1)
    place.swap.begin(2)
    place.swap.begin(3, model="whisper")

    place.stays("has requests in flight: 1 for whisper, 2 for qwen")

    assert UNLOAD not in place.swap.asked
    for number in (1, 2, 3):
        place.swap.end(number)
    assert place.lower().verdict is Verdict.DONE


@pytest.mark.parametrize("question", ASK)
def test_a_request_that_begins_while_it_is_asked_is_seen(place, question):
    place.swap.models = {"qwen": "ready"}
    place.swap.first[question] = lambda: place.swap.begin(1)

    place.stays("1 for qwen")

    assert place.swap.cut_off == []


def test_a_request_that_comes_after_the_unload_has_its_answer(place):
    def another():
        place.swap.first = {"/running": lambda: place.swap.begin(1)}

    place.swap.models, place.swap.first = {"qwen": "ready"}, {"/api/models/unload": another}

    place.stays("1 for qwen")

    assert place.swap.cut_off == []


def test_a_model_that_is_loaded_again_at_once_is_told(place):
    def again():
        place.swap.first = {"/running": lambda: place.swap.models.update(qwen="ready")}

    place.swap.models, place.swap.first = {"qwen": "ready"}, {"/api/models/unload": again}

    place.stays("has loaded qwen again")


@pytest.mark.parametrize("state", ["starting", "stopping", "of another kind"])
def test_what_is_half_way_is_waited_for(place, state):
    place.swap.models = {"qwen": state, "whisper": "ready"}

    place.stays(f"has qwen {state}")

    assert UNLOAD not in place.swap.asked


def test_our_own_probe_is_no_users_request(place):
    place.swap.begin(1, agent=PROBE)

    assert place.lower().verdict is Verdict.DONE


# -- no answer is not idle


@pytest.mark.parametrize("status", [204, 302, 401, 404, 500, 503])
@pytest.mark.parametrize("path", ["/running", "/api/events", "/api/models/unload"])
def test_another_status_is_not_idle(place, path, status):
    place.swap.models = {"qwen": "ready"}
    place.swap.answers[path] = (status, b"")

    place.stays(f"it answers {status} to", path)

    assert "/elsewhere" not in place.swap.asked


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"{}",
        b'{"running": null}',
        b'{"running": {"qwen": "ready"}}',
        b'{"running": [{"model": "qwen"}]}',
        b'{"running": ["qwen"]}',
        b"[" * 100_000,
        b'{"running": []}' + b" " * LARGEST_ANSWER,
    ],
)
def test_an_answer_that_is_not_understood_is_not_idle(place, body):
    place.swap.answers["/running"] = (200, body)

    place.stays("cannot be asked")


def test_a_stream_of_another_version_is_not_idle(place):
    place.swap.mute = True
    old = line("inflight", '{"total":0}')
    place.swap.first["/api/events"] = lambda: threading.Timer(0.05, place.swap.say, [old]).start()

    place.stays("v240")


def test_nobody_there_is_not_idle(place):
    place.swap.shutdown()
    place.swap.server_close()

    place.stays("refused")


# -- slow


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(arbiter, "ANSWER", 0.2)
    monkeypatch.setattr(arbiter, "LONGEST", 0.6)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("path", ["/running", "/api/events", "/api/models/unload"])
def test_whoever_is_slow_is_not_waited_for(place, path):
    held = threading.Event()
    place.swap.models = {"qwen": "ready"}
    place.swap.first[path] = lambda: held.wait(LIMIT)
    began = time.monotonic()

    place.stays("still unloads qwen" if "unload" in path else "in time")

    assert time.monotonic() - began < 2
    held.set()


@pytest.mark.usefixtures("quick")
def test_a_stream_without_a_snapshot_has_an_end(place):
    place.swap.mute = True

    place.stays("in time")


@pytest.mark.usefixtures("quick")
def test_what_no_time_out_of_a_socket_ends_has_an_end_and_nothing_is_asked_beside_it(place):
    held = threading.Event()

    class Hanging:
        def __init__(self, *_):
            pass

        def running(self):
            held.wait(LIMIT)
            raise OSError("gone")

    place.arbiters._api = Hanging
    place.stays("gave no answer in time")

    place.stays("has not answered what it was asked before")

    held.set()
    end = time.monotonic() + LIMIT
    while place.arbiters._asked and time.monotonic() < end:
        time.sleep(0.01)
    place.stays("gone")


def test_an_unload_that_is_late_in_coming_through_is_not_sent(swap, monkeypatch):
    times = iter([0.0, 1.0 + LIMIT])
    monkeypatch.setattr(arbiter, "time", SimpleNamespace(monotonic=lambda: next(times)))

    with pytest.raises(TimeoutError):
        LlamaSwapApi(swap.url, LIMIT).unload()

    assert swap.asked == []


# -- whom it concerns


def test_a_return_never_asks(place):
    back = ScaleBack(QWEN, "u", 1, "b580", 3)
    place.swap.begin(1)

    assert place.lower(back) == Outcome(back, Verdict.DONE)
    assert place.swap.asked == []


def test_a_target_without_an_arbiter_is_lowered_without_a_question(place):
    place.shown.stored = replace(place.shown.stored, rule=a_rule())
    place.swap.begin(1)

    assert place.lower().verdict is Verdict.DONE
    assert place.swap.asked == []


@pytest.mark.parametrize("gone", [True, False])
def test_where_the_rule_cannot_be_read_any_more_nothing_is_lowered(place, gone):
    place.shown.stored = None if gone else replace(place.shown.stored, rule=None)

    assert place.lower().verdict is Verdict.CONFLICT
    assert place.shown.written == []


def test_of_several_replicas_behind_one_address_none_is_lowered(place):
    outcome = place.lower(replace(LOWER, replicas=2))

    assert (outcome.verdict, place.shown.written) == (Verdict.CONFLICT, [])
    assert "2 replicas" in outcome.message
    assert place.swap.asked == []


def test_what_the_cluster_says_to_the_write_is_told_on(place):
    place.swap.models = {"qwen": "ready"}
    place.shown.verdict = Verdict.FAILED

    assert place.lower().verdict is Verdict.FAILED
    place.shown.verdict = Verdict.DONE
    assert place.lower() == Outcome(LOWER, Verdict.DONE)
    assert place.swap.asked.count(UNLOAD) == 1


# -- before a window, and for people


def test_a_dry_run_asks_and_unloads_nothing(place):
    place.swap.models = {"qwen": "ready"}

    assert place.cluster.rehearse([LOWER]) == (Outcome(LOWER, Verdict.DONE),)
    assert place.swap.asked == ASK


def test_a_dry_run_finds_an_arbiter_that_would_not_let_go_before_a_window(place):
    place.swap.begin(1)

    (outcome,) = place.cluster.rehearse([LOWER])

    assert outcome.verdict is Verdict.CONFLICT
    assert "1 for qwen" in outcome.message


def test_a_dry_run_that_the_api_server_refuses_asks_nobody(place):
    place.shown.verdict = Verdict.REFUSED

    assert place.cluster.rehearse([LOWER]) == (Outcome(LOWER, Verdict.REFUSED),)
    assert place.swap.asked == []


def test_who_is_in_flight_is_told_in_words_and_nothing_is_unloaded(place):
    rule = place.shown.stored.rule
    place.swap.models = {"qwen": "ready"}
    begin = f"arbiter of {QWEN}: llama-swap {place.swap.url}"

    assert list(place.arbiters.told(rule)) == [f"{begin}: idle, with qwen loaded"]
    place.swap.begin(1)
    assert list(place.arbiters.told(rule)) == [f"{begin} has requests in flight: 1 for qwen"]
    place.swap.end(1)
    place.swap.models = {}
    assert list(place.arbiters.told(rule)) == [f"{begin}: idle, with nothing loaded"]
    assert list(place.arbiters.told(a_rule())) == []
    assert UNLOAD not in place.swap.asked


# -- llama-swap's own words


def test_the_stand_in_cuts_off_what_an_unload_meets(swap):
    swap.models = {"qwen": "ready"}
    swap.begin(1)
    api = LlamaSwapApi(swap.url, time.monotonic() + LIMIT)
    assert (api.running(), api.in_flight()) == ({"qwen": "ready"}, {"qwen": 1})

    api.unload()

    assert (api.running(), api.in_flight(), swap.cut_off) == ({}, {}, ["1"])


# -- which llama-swap it is


@pytest.mark.parametrize(
    "demand",
    [
        "CalendarOnly",
        (Demand(query="q", up="u"),),
        (Demand(query="q", up="u"), Demand(llama_swap=Spec(url="http://a", model="qwen"))),
        (Demand(query="q", up="u"), Demand(llama_swap=Spec(url="http://a"), busy_above=1)),
        (Demand(query="q", up="u"), Demand(llama_swap=Spec(url="http://a"), visible_at_zero=True)),
        (
            Demand(query="q", up="u"),
            Demand(llama_swap=Spec(url="http://a")),
            Demand(llama_swap=Spec(url="http://b")),
        ),
    ],
)
def test_an_arbiter_is_the_one_llama_swap_that_goes_down_with_the_target(demand):
    (serving,) = a_rule().serving

    with pytest.raises(ValueError, match="one llamaSwap there with its url alone"):
        replace(serving, demand=demand, arbiter=Arbiter.LLAMA_SWAP)


def test_another_llama_swap_that_stays_up_may_stand_beside_it():
    (serving,) = with_arbiter("http://own:8080").serving
    before = Demand(llama_swap=Spec(url="http://front:8080", model="qwen"), visible_at_zero=True)

    assert replace(serving, demand=(before, *serving.demand)).arbiter_url == "http://own:8080"
    assert a_rule().serving[0].arbiter_url == ""
