"""Probes of serving, sent to a real server on this machine."""

import json
import threading
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

import pytest

from idlewin.adapters.probe import AGAIN_AFTER, BELIEVED_FOR, Probes, Probing
from idlewin.adapters.question import LARGEST_ANSWER
from idlewin.core.pool import Pool, RuleObject, Scope, Target
from idlewin.core.rule import Batch, Cards, QueueClass, Rule
from idlewin.core.status import Status
from idlewin.core.target import CompletionProbe, HttpProbe, Probe, Ref, Serving

LIMIT = 10
SERVER = Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name="qwen")
SCOPE = Scope(rule="b580", targets=(SERVER,), queues=(), resource="gpu.intel.com/xe")


class Answers:
    """A server whose status is set by the test, and a clock that the test moves."""

    def __init__(self):
        self.status, self.asked, self.changed, self.now = 503, 0, Queue(), 100.0
        self.held = threading.Event()
        self.held.set()
        self.body, self.path, self.got = b"", "", {}
        self.write = lambda handler, body: handler.wfile.write(body)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked += 1
                outer.held.wait(LIMIT)
                self.send_response(outer.status)
                self.send_header("location", "/elsewhere")
                self.end_headers()

            def do_POST(self):
                length = int(self.headers["content-length"])
                outer.path, outer.got = self.path, json.loads(self.rfile.read(length))
                self.do_GET()
                outer.write(self, outer.body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/models"
        self.probes = Probes(lambda: self.now)
        self.probes.subscribe(self.changed.put)

    def probe(self, **changes):
        return HttpProbe(**{"url": self.url, "timeout": timedelta(seconds=LIMIT), **changes})

    def completion(self, path="chat/completions"):
        url = self.url.replace("models", path)
        return CompletionProbe(url=url, model="qwen3-8b", timeout=timedelta(seconds=LIMIT))

    def ask(self, probe=None):
        return self.probes.answer("b580", probe or self.probe())

    def ask_and_wait(self, probe=None):
        self.ask(probe)
        assert self.changed.get(timeout=LIMIT) == "b580"
        return self.ask(probe)


@pytest.fixture
def answers():
    answers = Answers()
    yield answers
    answers.held.set()
    answers.probes.close()
    answers.server.shutdown()
    answers.server.server_close()


def test_the_first_answer_is_unknown_and_the_rule_is_woken_when_it_is_there(answers):
    answers.status = 200

    assert answers.ask() is None
    assert answers.changed.get(timeout=LIMIT) == "b580"
    assert answers.ask() is True


def test_a_question_never_waits_and_is_sent_once_at_a_time(answers):
    answers.held.clear()
    first = answers.ask()
    answers.now += 10 * AGAIN_AFTER.total_seconds()

    second = answers.ask()
    answers.held.set()
    answers.changed.get(timeout=LIMIT)

    assert (first, second, answers.asked) == (None, None, 1)


@pytest.mark.parametrize(
    ("status", "good"), [(200, True), (204, False), (302, False), (503, False)]
)
def test_only_the_expected_status_is_an_answer(answers, status, good):
    answers.status = status

    assert answers.ask_and_wait() is good


def test_another_status_may_be_expected(answers):
    answers.status = 401

    assert answers.ask_and_wait(answers.probe(expect=401)) is True


def test_nobody_there_is_no_answer(answers):
    answers.server.shutdown()
    answers.server.server_close()

    assert answers.ask_and_wait() is False


def test_an_old_answer_says_nothing(answers):
    answers.status = 200
    assert answers.ask_and_wait() is True

    answers.held.clear()
    answers.now += BELIEVED_FOR.total_seconds() + 1

    assert answers.ask() is None


def test_answers_are_asked_for_again_and_wake_only_when_they_change(answers):
    answers.ask_and_wait()
    answers.status = 200

    answers.now += AGAIN_AFTER.total_seconds()
    answers.ask()

    assert answers.changed.get(timeout=LIMIT) == "b580"
    assert answers.ask() is True
    assert answers.asked == 2
    assert answers.changed.empty()


CHAT = {"model": "qwen3-8b", "max_tokens": 1, "stream": False,
        "messages": [{"role": "user", "content": "Hi"}]}  # fmt: skip
TEXT = {"model": "qwen3-8b", "max_tokens": 1, "stream": False, "prompt": "Hi"}


@pytest.mark.parametrize(
    ("path", "asked"), [("chat/completions", CHAT), ("completions", TEXT)]
)  # fmt: skip
def test_a_completion_asks_for_one_token_in_the_words_of_its_address(answers, path, asked):
    answers.status, answers.body = 200, b'{"choices": [{"text": "!"}]}'

    assert answers.ask_and_wait(answers.completion(path)) is True
    assert (answers.path, answers.got) == (f"/v1/{path}", asked)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, b'{"choices": [{}]}'),
        (201, b'{"choices": [{}]}'),
        (200, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"[" * 100_000),
        (200, b'{"error": {"message": "no such model"}}'),
        (200, b'{"choices": []}'),
        (200, b'{"choices": [{}]}' + b" " * LARGEST_ANSWER),
    ],
)
def test_a_completion_without_choices_or_with_another_status_is_no_answer(answers, status, body):
    answers.status, answers.body = status, body

    assert answers.ask_and_wait(answers.completion()) is False


def test_a_completion_that_trickles_has_an_end(answers):
    answers.status, done = 200, threading.Event()

    def trickle(handler, _):
        handler.wfile.write(b"{")
        while not done.wait(0.01):
            handler.wfile.write(b" ")

    answers.write = trickle
    probe = replace(answers.completion(), timeout=timedelta(milliseconds=200))
    try:
        assert answers.ask_and_wait(probe) is False
    finally:
        done.set()


class Shown:
    """A cluster with one target, which is ready."""

    def __init__(self, phase, probe, ready=1):
        if probe is not None:
            kind = "http" if isinstance(probe, HttpProbe) else "completion"
            probe = Probe(**{kind: probe})
        serving = Serving(
            api_version="apps/v1", kind="Deployment", namespace="ai", name="qwen",
            demand="CalendarOnly", probe=probe,
        )  # fmt: skip
        cards = Cards(resource="gpu.intel.com/xe", count=1, node_selector={"a": "b"})
        queue = QueueClass(cluster_queue="q", max_runtime=timedelta(minutes=5))
        rule = Rule(cards=cards, serving=(serving,), batch=Batch(queues=(queue,)))
        self.stored = RuleObject(
            name="b580", uid="u", generation=1, resource_version="1", rule=rule,
            status=Status(phase=phase),
        )  # fmt: skip
        target = Target(ref=SERVER, uid="t", resource_version="1", replicas=1, ready=ready)
        self.pool = Pool(targets=(target,))

    def rule(self, _name):
        return self.stored

    def look(self, _scope, *, fresh=False):
        return replace(self.pool, allocatable=int(fresh))


def ready(answers, shown):
    return Probing(shown, answers.probes).look(SCOPE).targets[0].ready


def test_a_target_on_its_way_back_is_ready_only_once_it_answers(answers):
    shown = Shown("Restoring", answers.probe())
    answers.status = 200
    before = ready(answers, shown)

    answers.changed.get(timeout=LIMIT)

    assert (before, ready(answers, shown)) == (0, 1)


def test_a_target_on_its_way_back_is_ready_only_once_it_completes(answers):
    shown = Shown("Restoring", answers.completion())
    answers.status, answers.body = 200, b'{"choices": [{}]}'
    before = ready(answers, shown)

    answers.changed.get(timeout=LIMIT)

    assert (before, ready(answers, shown)) == (0, 1)


@pytest.mark.parametrize("phase", ["Serving", "Harvesting", "Reclaiming"])
def test_serving_is_not_probed_in_other_phases(answers, phase):
    assert ready(answers, Shown(phase, answers.probe())) == 1
    assert answers.asked == 0


def test_a_target_without_a_probe_or_without_a_ready_pod_is_not_probed(answers):
    assert ready(answers, Shown("Restoring", None)) == 1
    assert ready(answers, Shown("Restoring", answers.probe(), ready=0)) == 0
    assert answers.asked == 0


def test_an_answer_of_one_return_says_nothing_of_the_next(answers):
    answers.status = 200
    answers.ask_and_wait()

    ready(answers, Shown("Serving", answers.probe()))
    answers.held.clear()

    assert answers.ask() is None
