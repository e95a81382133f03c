"""Rules and statuses to and from JSON: strict in one direction, lenient in the other."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta

import pytest

from idlewin.codec import (
    decision_json,
    outcome_json,
    read_record,
    read_rule,
    read_status,
    status_patch,
    write_record,
    write_rule,
    write_status,
)
from idlewin.core.decision import (
    Check,
    Decision,
    Outcome,
    Remember,
    ScaleToZero,
    SetStopPolicy,
    Verdict,
)
from idlewin.core.phase import Phase
from idlewin.core.pool import Record, StopPolicy
from idlewin.core.reason import Reason
from idlewin.core.rule import Mode, OnReturn, QueueClass
from idlewin.core.status import Condition, Counters, Remembered, Status, Truth, Window, WindowQueue
from idlewin.core.tally import Tallies
from idlewin.core.target import Ref
from idlewin.errors import RuleError

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
QWEN = Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name="qwen")
SPEC = {
    "cards": {"resource": "gpu.intel.com/xe", "count": 1, "nodeSelector": {"pool": "b580"}},
    "serving": [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": "ai",
            "name": "qwen",
            "demand": [{"source": "traefik-router"}],
        }
    ],
    "batch": {"queues": [{"clusterQueue": "short", "maxRuntime": "30m"}]},
}
WINDOW = Window(
    epoch=3,
    generation=2,
    opened_at=NOON,
    resource="gpu.intel.com/xe",
    node_selector={"pool": "b580"},
    count=1,
    targets=(Remembered(ref=QWEN, uid="u1", replicas=0), Remembered(ref=QWEN, uid="", replicas=4)),
    queues=(WindowQueue(spec=QueueClass(cluster_queue="short"), uid="q1"),),
    give_back=Reason.DEMAND_RETURNED,
)


def changed(path, value):
    spec = copy.deepcopy(SPEC)
    inner = spec
    for step in path[:-1]:
        inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return spec


def problems_of(spec):
    with pytest.raises(RuleError) as error:
        read_rule(spec)
    return [str(problem) for problem in error.value.problems]


DEMAND = ("serving", 0, "demand")
PROBE = ("serving", 0, "probe")
ARBITER = ("serving", 0, "arbiter")
SWAP = "http://swap:8080"
CHAT = "http://q/v1/chat/completions"
ALLOW = ("window", "calendar", "allow")


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        (("cards", "count"), "3", "cards.count: '3' is not a whole number; write 3 without quotes"),
        (("cards", "count"), True, "cards.count: true is not a whole number"),
        (("cards", "count"), 1.5, "cards.count: 1.5 is not a whole number"),
        (("cards", "count"), 0, "cards.count: is 0; write how many"),
        (("cards", "count"), ..., "cards.count: is missing: How many there are"),
        (("cards", "nodeSelector"), {"a": True}, "nodeSelector.a: true is not text; write it in"),
        (("cards", "nodeSelector"), {}, "is empty and would take every node; name labels"),
        (
            ("cards", "resource"),
            "nvidia/gpu",
            "is no extended resource, whose vendor is a domain; write nvidia.com/gpu,",
        ),
        (("replicaz",), 0, "replicaz: no such field; known here: batch, cards"),
        (("windwo",), {}, "windwo: no such field; did you mean 'window'?"),
        (("window", "idle_for"), "1m", "idle_for: no such field; did you mean 'idleFor'?"),
        (("mode",), "act", "mode: 'act' is none of Observe, Act; did you mean Act?"),
        (("mode",), None, "mode: has no value; write one, or leave the field out"),
        (("paused",), "yes", "paused: 'yes' is neither true nor false; write true or false"),
        (("serving",), {}, "serving: {} is not a list; start each entry"),
        (("serving",), [], "serving: is empty; name the workloads"),
        (DEMAND, "calendar", "serving[0].demand: 'calendar' is neither a list nor CalendarOnly"),
        (DEMAND, [], "serving[0].demand: is empty; name a source"),
        (DEMAND, [{"llamaSwap": {"url": SWAP}}], "demand: has llamaSwap alone, which tells of now"),
        (DEMAND, [{"llamaSwap": {}}], "demand[0].llamaSwap.url: is missing: Its address"),
        (
            DEMAND,
            [{"llamaSwap": {"url": f"{SWAP}/upstream/qwen"}}],
            "llamaSwap.url: 'http://swap:8080/upstream/qwen' must be llama-swap's own address",
        ),
        (
            DEMAND,
            [{"llamaSwap": {"url": f"{SWAP}/api/events"}}],
            "such as http://llama-swap.ai.svc:8080; /api/events is added to it",
        ),
        (DEMAND, [{"llamaSwap": {"url": SWAP, "model": ""}}], "llamaSwap.model: is empty; write"),
        (DEMAND, [{"llamaSwap": {"url": SWAP}, "query": "q"}], "a demand has either a source"),
        (DEMAND, [{"llamaSwap": {"url": SWAP}, "up": "q"}], "up: belongs to a query"),
        (
            DEMAND,
            [{"llamaSwap": {"url": SWAP}, "match": {"model": "q"}}],
            "match: belongs to a source; write llamaSwap.model",
        ),
        (ARBITER, "llama-swap", "arbiter: 'llama-swap' is not LlamaSwap"),
        (ARBITER, "LlamaSwap", "arbiter: LlamaSwap is that of the demand, which goes down with"),
        (PROBE, {}, "serving[0].probe: has either http or completion"),
        (PROBE, {"http": {"url": CHAT}, "completion": {"url": CHAT, "model": "q"}}, "has either"),
        (PROBE, {"completion": {"url": CHAT}}, "probe.completion.model: is missing: The model's"),
        (PROBE, {"completion": {"url": CHAT, "model": ""}}, "completion.model: is empty; write"),
        (PROBE, {"completion": {"url": "q/v1", "model": "q"}}, "completion.url: 'q/v1' must start"),
        (
            PROBE,
            {"completion": {"url": "http://q/v1", "model": "q"}},
            "completion.url: 'http://q/v1' must end in /chat/completions or /completions",
        ),
        (DEMAND, [{"sorce": "x"}], "demand[0].sorce: no such field; did you mean 'source'?"),
        (DEMAND, [{"query": "x", "source": "y"}], "demand[0]: a demand has either a source"),
        (DEMAND, [{"query": "x", "busyAbove": float("nan")}], "NaN is not a finite number"),
        (("serving", 0, "leadTime"), "5x", "'5x' is not a duration; write 90s, 10m"),
        (("serving", 0, "leadTime"), "auto", "or write Auto; did you mean Auto?"),
        (("batch", "queues", 0, "maxRuntime"), ..., "neither maxRuntime nor a contract"),
        (("batch", "queues", 0, "contract"), "checkpoint", "is not Checkpoint; did you mean"),
        (("batch", "queues"), [{"clusterQueue": "a", "contract": "Checkpoint"}] * 2, "a twice"),
        (("window", "idleFor"), "10 minutes", "window.idleFor: '10 minutes' is not a duration"),
        (("window", "idleFor"), 10, "window.idleFor: 10 is not a duration; write a number with"),
        (("window", "min"), "13h", "window.min: 13h is longer than window.max 12h"),
        (("window", "maxPerDay"), 0, "maxPerDay: must be at least 1; to stop a rule"),
        (
            ("window", "calendar", "timeZone"),
            "Mars/X",
            "timeZone: 'Mars/X' is no known zone; write one",
        ),
        (
            ("window", "calendar", "timeZone"),
            "berlin",
            "no known zone; did you mean Europe/Berlin?",
        ),
        (ALLOW, ["Sat", "Sun-Fry 1:00"], "calendar.allow[1]: calendar span 'Sun-Fry 1:00'"),
        (ALLOW, "Sat", "calendar.allow: 'Sat' is not a list"),
        (("window", "calendar", "deny"), ["Mon-Sun"], "window.calendar: never opens"),
        (("forecast", "budget"), {"perWeek": 1, "share": "5%"}, "budget: a budget is either"),
        (("forecast", "budget"), {"share": 0.05}, "share: 0.05 is not a share; write it as per"),
        (("window",), None, "window: has no value"),
    ],
)
def test_a_mistake_is_told_once_with_its_field_and_what_would_be_right(path, value, told):
    problems = problems_of(changed(path, value))

    assert len(problems) == 1
    assert problems[0].startswith("spec.")
    assert told in problems[0]


def test_every_mistake_of_a_rule_is_told_at_once():
    spec = changed(("staleAfter",), "soon") | {"mode": "Look", "more": 1}

    fields = {problem.split(":")[0] for problem in problems_of(spec)}

    assert fields == {"spec.staleAfter", "spec.mode", "spec.more"}


@pytest.mark.parametrize("spec", [None, [], "text", 3])
def test_a_spec_that_is_no_mapping_is_a_problem_of_the_spec(spec):
    assert all(problem.startswith("spec: ") for problem in problems_of(spec))


def test_a_spec_that_contains_itself_is_a_problem_and_no_crash():
    spec = dict(SPEC)
    spec["window"] = spec

    assert "is no JSON data" in problems_of(spec)[0]


def test_defaults_are_the_documented_ones():
    rule = read_rule(SPEC)

    assert rule.mode is Mode.OBSERVE
    assert rule.window.idle_for == timedelta(minutes=10)
    assert write_rule(rule)["forecast"] == {
        "method": "auto",
        "budget": {"perWeek": 1.0},
        "dayTypes": {},
    }


def test_a_status_says_numbers_and_leaves_out_what_is_empty():
    written = write_status(Status(window=WINDOW))

    assert written["window"]["targets"][0]["replicas"] == 0
    assert written["window"]["targets"][1]["uid"] == ""
    assert written["window"]["openedAt"] == "2026-06-01T12:00:00Z"
    assert {"owed", "message", "conditions", "until"}.isdisjoint(written)


def test_a_window_without_targets_keeps_its_empty_list():
    bare = Status(window=WINDOW)
    stored = json.loads(json.dumps(write_status(bare)))
    stored["window"]["targets"] = []

    status, error = read_status(stored)

    assert error == ""
    assert status is not None
    assert status.window is not None
    assert write_status(status)["window"]["targets"] == []


def test_what_a_newer_version_added_does_not_hide_the_record():
    stored = write_status(Status(phase="Harvesting", window=WINDOW))
    stored["novel"] = {"a": 1}
    stored["window"]["queues"][0]["spec"]["novel"] = 1
    stored["window"]["targets"][0]["ref"]["novel"] = 1
    stored["window"]["giveBack"] = "ReasonOfTomorrow"
    stored["window"]["onReturn"] = "PolicyOfTomorrow"

    status, error = read_status(stored)

    assert error == ""
    assert status is not None
    assert status.window is not None
    assert status.window.targets == WINDOW.targets
    assert status.window.give_back == "ReasonOfTomorrow"
    assert status.window.on_return is OnReturn.WAIT


def test_an_instant_of_a_tally_that_is_in_no_year_does_not_hide_the_record():
    stored = write_status(Status(phase="Harvesting", epoch=7, window=WINDOW))
    stored["tallies"] = {"act": {"since": "0001-01-01T00:00:00+14:00"}}

    status, error = read_status(stored)

    assert error == ""
    assert (status.epoch, status.window, status.tallies) == (7, WINDOW, Tallies())


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        ({"epoch": "three"}, "status.epoch: 'three' is not a whole number"),
        ({"window": {"epoch": 1}}, "status.window.targets: is missing"),
        ({"since": "2026-06-01T12:00:00"}, "without a zone"),
        ({"since": "0001-01-01T00:00:00+14:00"}, "in no year from 1000 to 9000"),
        ({"since": "9999-12-31T23:59:59Z"}, "in no year from 1000 to 9000"),
        ({"since": 1780315200}, "status.since"),
        ({"window": []}, "status.window: [] is not a mapping"),
    ],
)
def test_a_status_that_cannot_be_read_is_told_and_no_crash(damage, told):
    status, error = read_status({**write_status(Status()), **damage})

    assert status is None
    assert told in error


def test_a_condition_that_is_none_of_ours_does_not_hide_the_record():
    stored = write_status(Status(phase="Harvesting", epoch=7, window=WINDOW))
    stored["conditions"] = [{"type": "Ready", "status": "Maybe"}]

    status, error = read_status(stored)

    assert error == ""
    assert (status.epoch, status.window, status.conditions) == (7, WINDOW, ())


def test_no_status_is_neither_a_status_nor_an_error():
    assert read_status(None) == (None, "")
    assert read_status({}) == (None, "")


def test_a_patch_names_what_changed_and_clears_what_went_away():
    before = Status(phase="Restoring", reason="BatchGone", window=WINDOW, epoch=4)
    after = Status(phase="Serving", epoch=5, counters=Counters(returns=1))

    assert status_patch(before, after) == {
        "phase": "Serving",
        "reason": None,
        "window": None,
        "epoch": 5,
        "counters": {"returns": 1},
    }


def test_equal_statuses_need_no_patch():
    assert status_patch(Status(window=WINDOW), Status(window=WINDOW)) == {}


def test_a_patch_replaces_lists_whole():
    condition = Condition(
        type="Ready", status=Truth.TRUE, reason="Ok", message="", last_transition_time=NOON
    )
    before, after = Status(conditions=(condition,)), Status(conditions=(condition, condition))

    assert len(status_patch(before, after)["conditions"]) == 2


def test_a_patch_over_an_unreadable_status_leaves_nothing_of_it():
    stored = {"phase": 3, "window": {"epoch": "x"}, "junk": 1}

    patch = status_patch(stored, Status())

    assert patch["junk"] is None
    assert patch["window"] is None
    assert patch["phase"] == "Serving"


def test_a_patch_leaves_alone_what_a_newer_version_added():
    stored = {**write_status(Status(epoch=1)), "novel": 1}
    before, _ = read_status(stored)

    assert status_patch(before, Status(epoch=2)) == {"epoch": 2}


def test_a_record_is_the_same_text_each_time_and_comes_back():
    record = Record(rule="b580", uid="u1", replicas=0, epoch=3)

    assert write_record(record) == '{"rule":"b580","uid":"u1","replicas":0,"epoch":3}'
    assert read_record(write_record(record)) == (record, "")


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "{}", '{"rule":"a","uid":"u","replicas":"x"}']
)
def test_a_record_that_cannot_be_read_is_told(text):
    record, error = read_record(text)

    assert record is None
    assert "record" in error


def test_a_decision_is_kept_with_its_checks_and_the_kind_of_each_action():
    lower = ScaleToZero(
        target=QWEN, uid="u1", replicas=2, resource_version="7", rule="b580", epoch=3
    )
    decision = Decision(
        rule="b580",
        at=NOON,
        before=Phase.SERVING,
        after=Phase.YIELDING,
        reason=Reason.WINDOW_OPEN,
        checks=(Check("idle for", passed=True, observed="12m", limit="10m"),),
        status=Status(phase="Yielding", epoch=3),
        actions=(Remember("b580", "7", Status(), Status()), lower),
        revisit_at=NOON + timedelta(minutes=1),
    )

    kept = json.loads(json.dumps(decision_json(decision)))

    assert (kept["before"], kept["after"], kept["reason"]) == ("Serving", "Yielding", "WindowOpen")
    assert kept["checks"] == [
        {"name": "idle for", "passed": True, "observed": "12m", "limit": "10m"}
    ]
    assert [action["kind"] for action in kept["actions"]] == ["Remember", "ScaleToZero"]
    assert kept["actions"][1]["target"]["name"] == "qwen"
    assert kept["revisitAt"] == "2026-06-01T12:01:00Z"


def test_an_outcome_is_kept_with_its_action():
    action = SetStopPolicy(queue="short", uid="q1", policy=StopPolicy.HOLD, epoch=3, rule="b580")

    kept = outcome_json(Outcome(action, Verdict.REFUSED, "webhook says no"))

    assert kept["verdict"] == "Refused"
    assert kept["message"] == "webhook says no"
    assert (kept["action"]["kind"], kept["action"]["policy"]) == ("SetStopPolicy", "Hold")
