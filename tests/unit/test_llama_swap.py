"""Demand by a llama-swap's event stream: what it tells, and what no stream can make idle."""

from __future__ import annotations

import contextlib
import queue
import time
from dataclasses import replace

import pytest

from idlewin.adapters import llama_swap
from idlewin.adapters.in_flight import LINGER, PROBE, FormatError, InFlight
from idlewin.adapters.llama_swap import ANEW, BELIEVED, FORGOTTEN, Stream
from idlewin.adapters.streamed import WithStreams
from idlewin.core.load import History, Level, Reading, level_of
from idlewin.core.pool import RuleObject
from idlewin.core.target import Demand, LlamaSwap as Spec
from idlewin.core.window import Span
from tests.builders import MINUTE, NOW, a_rule
from tests.labs.llama_swap import LlamaSwap, entry, in_flight, line

LIMIT = 10


def lines(*messages: bytes) -> list[bytes]:
    return [one + b"\n" for message in messages for one in message.split(b"\n")]


def upsert(number: int, **of: str) -> bytes:
    return in_flight({"operation": "upsert", "request": entry(number, **of)})


def remove(number: int) -> bytes:
    return in_flight({"operation": "remove", "id": str(number)})


def snapshot(*entries: dict[str, object]) -> bytes:
    return in_flight({"operation": "snapshot", **({"requests": entries} if entries else {})})


def told(*messages: bytes, now: float = 0.0) -> InFlight:
    flight = InFlight()
    for one in lines(*messages):
        flight.heard(one, now)
    return flight


# -- what the messages mean


def test_nothing_is_known_before_a_snapshot_and_one_without_requests_is_none_in_flight():
    assert not told(line("modelStatus", "[]"), upsert(1)).known
    assert told(snapshot()).known
    assert told(snapshot()).most(None, 0.0) == 0


@pytest.mark.parametrize(
    ("messages", "qwen", "all_of_them"),
    [
        ((snapshot(entry(1), entry(2, "whisper")),), 1, 2),
        ((snapshot(), upsert(1), upsert(1), upsert(2)), 2, 2),
        ((snapshot(), upsert(1, model="whisper")), 0, 1),
        ((snapshot(entry(1)), snapshot(entry(2), entry(3))), 2, 2),
        ((snapshot(), remove(7)), 0, 0),
        ((snapshot(), upsert(1, agent=PROBE)), 0, 0),
        ((snapshot(entry(1, agent=PROBE)),), 0, 0),
        # It began while the snapshot was made.
        ((upsert(1), snapshot()), 1, 1),
        ((upsert(1), remove(1), snapshot()), 0, 0),
    ],
)
def test_requests_are_counted_once_each_by_model_and_our_own_not(messages, qwen, all_of_them):
    flight = told(*messages)

    assert (flight.most("qwen", 0.0), flight.most(None, 0.0)) == (qwen, all_of_them)


def test_a_request_that_has_ended_is_told_for_a_while_and_then_not():
    flight = told(snapshot(), upsert(1), upsert(2), remove(1), remove(2), now=100.0)

    assert [flight.most(None, 100.0 + after) for after in (0, LINGER, LINGER + 1)] == [2, 2, 0]
    assert flight.busy(100.0 + LINGER + 1) == frozenset()


def test_what_a_broken_stream_told_is_not_known_any_more():
    flight = told(snapshot(entry(1)))
    flight.lost()

    assert not flight.known


@pytest.mark.parametrize(
    "data",
    [
        '{"requests": []}',  # before v240
        '{"total": 0}',
        '{"operation": "reset"}',
        '{"operation": "upsert"}',
        '{"operation": "snapshot", "requests": [{}]}',
        '{"operation": "snapshot", "requests": 3}',
        "[]",
        "null",
        "",
    ],
)
def test_another_format_is_not_understood_and_not_idle(data):
    with pytest.raises(FormatError, match="v240"):
        told(line("inflight", data))


@pytest.mark.parametrize("other", [b"", b":", b"event:message", b'data:{"type":"inflight', b"data"])
def test_what_is_no_whole_message_of_requests_is_passed_over_or_refused(other):
    flight = InFlight()
    with contextlib.suppress(FormatError):
        assert not flight.heard(other + b"\n", 0.0)
    assert not flight.known


# -- the stream


class Followed:
    """A stream of the stand-in, on a clock that the test moves."""

    def __init__(self, swap: LlamaSwap):
        self.now, self.changes = 1000.0, queue.Queue()
        self.swap = swap
        self.stream = Stream(swap.url, lambda: self.now, self.changes.put)

    def start(self):
        self.stream.start()
        self.stream.wait(LIMIT)
        return self

    def until(self, wanted):
        """Wait for a count; changes tell when to look."""
        end = time.monotonic() + LIMIT
        while (seen := self.stream.most(None))[0] != wanted:
            assert time.monotonic() < end, seen
            time.sleep(0.002)
        return seen[1]


@pytest.fixture
def swap(monkeypatch):
    monkeypatch.setattr(llama_swap, "FIRST_RETRY", 0.01)
    with LlamaSwap() as swap:
        yield swap


@pytest.fixture
def followed(swap):
    followed = Followed(swap)
    yield followed
    followed.stream.stop()


def test_the_first_word_is_known_at_once_and_a_request_is_told_as_it_begins(swap, followed):
    followed.start()
    assert followed.stream.most("qwen") == (0, "")
    assert followed.changes.get(timeout=LIMIT) == swap.url

    swap.begin(1)

    assert followed.changes.get(timeout=LIMIT) == swap.url
    assert followed.stream.most("qwen") == (1, "")


def test_more_of_the_same_wakes_nobody(swap, followed):
    followed.start()
    followed.changes.get(timeout=LIMIT)
    swap.begin(1)
    followed.changes.get(timeout=LIMIT)

    for number in range(2, 50):
        swap.begin(number)
    followed.until(49)

    assert followed.changes.empty()


def test_a_stream_that_ends_is_unknown_with_its_reason_and_begun_again(swap, followed):
    followed.start()
    followed.changes.get(timeout=LIMIT)
    swap.status = 503
    swap.cut()

    why = followed.until(None)
    assert followed.changes.get(timeout=LIMIT) == swap.url
    assert "is broken: it " in why
    swap.begin(1)
    swap.status = 200
    assert followed.until(1) == ""


@pytest.mark.parametrize("status", [401, 404, 302, 500])
def test_another_status_is_unknown_and_named(swap, followed, status):
    swap.status = status

    followed.start()

    count, why = followed.stream.most(None)
    assert count is None
    assert f"it answers {status} to /api/events" in why


def test_a_stream_without_a_snapshot_is_unknown(swap, followed, monkeypatch):
    monkeypatch.setattr(llama_swap, "ANSWER", 0.05)
    swap.mute = True

    followed.start()

    assert followed.stream.most(None)[0] is None


def test_nobody_there_is_unknown(swap, followed):
    swap.shutdown()
    swap.server_close()

    followed.start()

    count, why = followed.stream.most(None)
    assert (count, "refused" in why) == (None, True)


def test_a_format_that_is_not_understood_is_unknown(swap, followed):
    followed.start()
    swap.mute = True

    swap.say(line("inflight", '{"requests":[]}'))

    assert "v240" in followed.until(None)


def test_a_stream_that_says_nothing_for_long_is_not_believed(followed):
    followed.start()

    followed.now += BELIEVED + 1

    count, why = followed.stream.most(None)
    assert count is None
    assert "last word" in why


def test_it_is_asked_anew_from_time_to_time_and_what_was_dropped_is_made_good(swap, followed):
    swap.begin(1)
    followed.start()
    swap.end(1, told=False)
    assert followed.stream.most(None) == (1, "")

    end, seen = time.monotonic() + LIMIT, set()
    while len(swap.asked) == 1 or followed.stream.most(None)[0]:
        assert time.monotonic() < end
        followed.now += 1
        swap.say(line("logData", "{}"))
        seen.add(followed.stream.most(None)[1])
        time.sleep(0.01)

    assert followed.now >= 1000 + ANEW
    assert seen == {""}


def test_nothing_is_asked_but_its_events(swap, followed):
    followed.start()
    swap.cut()
    followed.until(None)
    followed.until(0)

    assert set(swap.asked) == {"/api/events"}


def test_a_llama_swap_that_nobody_reads_is_followed_no_more(swap, followed):
    followed.start()

    followed.now += FORGOTTEN + 1
    swap.say(line("logData", "{}"))

    assert followed.stream._stopped.wait(LIMIT)


# -- as the controller sees it


class Prometheus:
    def read(self, _rule):
        return (Reading(target="t", name="router", value=0.0, busy_above=0, visible_at_zero=True),)

    def history(self, _rule, past, _step):
        return History(covers=Span(NOW - past, NOW))


class Stored:
    def __init__(self, **rules):
        self.rules = rules

    def names(self):
        return list(self.rules)

    def rule(self, name):
        return RuleObject(
            name=name, uid=name, generation=1, resource_version="1", rule=self.rules[name]
        )


def by_llama_swap(url, **changes):
    rule = a_rule()
    demand = Demand(llama_swap=Spec(url=url, **changes), visible_at_zero=True)
    serving = replace(rule.serving[0], demand=(*rule.serving[0].demand, demand))
    return replace(rule, serving=(serving,))


def test_it_is_read_beside_prometheus_and_wakes_the_rules_that_follow_it(swap):
    woken = queue.Queue()
    qwen = by_llama_swap(swap.url, model="qwen")
    rules = Stored(one=qwen, two=by_llama_swap("http://other:1"), three=a_rule(), broken=None)
    metrics = WithStreams(Prometheus(), rules, time.monotonic)
    metrics.subscribe(woken.put)

    router, idle = metrics.read(qwen)
    assert woken.get(timeout=LIMIT) == "one"
    swap.begin(1)
    assert woken.get(timeout=LIMIT) == "one"
    _, busy = metrics.read(qwen)
    metrics.close()

    assert (router.name, idle.name) == ("router", f"llamaSwap {swap.url}{{model=qwen}}")
    assert [level_of(one) for one in (idle, busy)] == [Level.IDLE, Level.BUSY]
    assert (idle.target, idle.visible_at_zero) == (str(qwen.serving[0].ref), True)
    assert woken.empty()
    assert len(swap.asked) == 1


def test_one_that_does_not_answer_is_unknown_in_words():
    rule = by_llama_swap("http://127.0.0.1:1")
    metrics = WithStreams(Prometheus(), Stored(one=rule), time.monotonic)

    _, unknown = metrics.read(rule)
    metrics.close()

    assert level_of(unknown) is Level.UNKNOWN
    assert "http://127.0.0.1:1 is broken: " in unknown.why
    assert metrics.history(rule, MINUTE, MINUTE).covers.start == NOW - MINUTE
