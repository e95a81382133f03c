"""The HTTP endpoint, asked over a real socket: what it answers, and when a claim is on record."""

import urllib.request
from datetime import timedelta

import pytest

from idlewin.adapters.http import LARGEST_BODY, Endpoint
from idlewin.errors import UsageError
from tests.unit.asking import NOW, Asked


@pytest.fixture(scope="module")
def endpoint():
    asked = Asked()
    yield asked
    asked.endpoint.stop()


@pytest.fixture
def ask(endpoint):
    endpoint.fresh()
    return endpoint


def alert(status="firing", labels=None, annotations=None):
    labels = {"alertname": "QueueAtFrontDoor", **({"idlewin_rule": "b580"} | (labels or {}))}
    return {"status": status, "labels": labels, "annotations": annotations or {}}


def minutes(count):
    return NOW + timedelta(minutes=count)


def test_health_tells_what_is_wrong_in_words(ask):
    assert ask("/healthz") == (200, "ok\n")

    ask.trouble = ("the cycle of rule b580 has run for 300 s",)

    assert ask("/healthz") == (500, "the cycle of rule b580 has run for 300 s\n")


def test_readiness_tells_what_is_missing(ask):
    assert ask("/readyz") == (200, "ok\n")

    ask.missing = ("not synced: pods, workloads", "no tick yet")

    assert ask("/readyz") == (503, "not synced: pods, workloads\nno tick yet\n")


def test_metrics_are_served_with_their_type(ask):
    url = f"http://127.0.0.1:{ask.endpoint.port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["content-type"] == "text/plain; version=1.0.0"
        assert answer.read() == b"idlewin_up 1\n"


@pytest.mark.parametrize(
    ("path", "body", "until"),
    [
        ("/wake/b580?for=30m", b"", 30),
        ("/wake/b580", {"for": "1h"}, 60),
        ("/wake/b580?for=5m", {"for": "45m"}, 45),
        ("/wake/b580", b"", 15),
    ],
)
def test_a_wake_call_is_on_record_when_it_is_answered(ask, path, body, until):
    status, told = ask.post(path, body)

    assert (status, told["claims"][0]["answer"]) == (200, "Claimed")
    assert ask.store.claims["b580"] == minutes(until)


def test_a_claim_in_force_is_never_shortened(ask):
    ask.post("/wake/b580?for=2h")

    status, told = ask.post("/wake/b580?for=30m")

    assert (status, told["claims"][0]["answer"]) == (200, "Covered")
    assert told["claims"][0]["until"] == "2026-03-02T14:00:00Z"
    assert ask.store.claims["b580"] == minutes(120)


def test_an_unknown_rule_is_not_found(ask):
    status, told = ask.post("/wake/none?for=30m")

    assert status == 404
    assert "kubectl get idlerules" in told["claims"][0]["message"]


@pytest.mark.parametrize("wrong", ["30", "soon", "0s", "-5m", "52w", ""])
def test_a_bad_duration_is_refused_with_a_remedy(ask, wrong):
    status, told = ask.post(f"/wake/b580?for={wrong}")

    assert status == 400
    assert "write" in told["error"] or "pause the rule" in told["error"]
    assert ask.store.claims["b580"] is None


@pytest.mark.parametrize("body", [b"{", [1], {"for": 30}, {"until": "x"}, b"[" * 100_000])
def test_a_body_that_is_not_understood_is_refused(ask, body):
    status, _ = ask.post("/wake/b580", body)

    assert status == 400
    assert ask.store.claims["b580"] is None


def test_no_2xx_while_the_api_server_is_away(ask):
    ask.store.down = True

    status, told = ask.post("/wake/b580?for=30m")

    assert (status, told["claims"][0]["answer"]) == (503, "Away")
    assert "connection refused" in told["claims"][0]["message"]


def test_a_refusal_of_the_api_server_is_not_to_be_retried(ask):
    ask.store.refuses = "idlerules is forbidden"

    status, told = ask.post("/wake/b580?for=30m")

    assert (status, told["claims"][0]["answer"]) == (403, "Refused")


def test_a_rule_that_changed_meanwhile_is_read_again(ask):
    ask.store.conflicts = 2

    status, _ = ask.post("/wake/b580?for=30m")

    assert status == 200
    assert ask.store.claims["b580"] == minutes(30)


def test_a_rule_that_keeps_changing_gives_up_with_503(ask):
    ask.store.conflicts = 99

    assert ask.post("/wake/b580?for=30m")[0] == 503


def test_a_firing_alert_claims_the_rules_that_it_names(ask):
    status, told = ask.alerts(alert(labels={"idlewin_rule": "b580, a770", "idlewin_for": "20m"}))

    assert (status, len(told["claims"])) == (200, 2)
    assert ask.store.claims == {"b580": minutes(20), "a770": minutes(20)}


def test_a_resolved_alert_neither_claims_nor_shortens(ask):
    ask.alerts(alert())

    status, told = ask.alerts(alert(status="resolved", labels={"idlewin_for": "1m"}))

    assert (status, told["claims"]) == (200, [])
    assert ask.store.claims["b580"] == minutes(15)


def test_a_message_that_comes_twice_is_the_same_claim(ask):
    answers = [ask.alerts(alert()) for _ in range(2)]

    assert [status for status, _ in answers] == [200, 200]
    assert ask.store.claims["b580"] == minutes(15)


def test_an_unknown_rule_beside_a_known_one_is_told_and_not_retried(ask):
    status, told = ask.alerts(alert(), alert(labels={"idlewin_rule": "none"}))

    assert status == 200
    assert {c["rule"]: c["answer"] for c in told["claims"]} == {
        "b580": "Claimed",
        "none": "UnknownRule",
    }
    assert ask.alerts(alert(labels={"idlewin_rule": "none"}))[0] == 404


def test_alertmanager_retries_while_the_api_server_is_away(ask):
    ask.store.down = True

    assert ask.alerts(alert())[0] == 503


def test_an_alert_without_a_rule_is_told_and_harms_no_other(ask):
    nameless = {"status": "firing", "labels": {"alertname": "Lost"}, "annotations": {}}

    assert ask.alerts(nameless)[0] == 400
    assert ask.post("/alertmanager", {"version": "4"})[0] == 400
    status, told = ask.alerts(nameless, alert(), truncatedAlerts=3)

    assert (status, told["claims"][0]["rule"]) == (200, "b580")
    assert "'Lost' names no rule" in told["passed"][0]
    assert "3 alerts were cut off" in told["passed"][1]


def test_a_body_without_bound_is_refused(ask):
    status, told = ask.post("/alertmanager", b" " * (LARGEST_BODY + 1))

    assert status == 413
    assert str(LARGEST_BODY) in told["error"]


def test_posts_need_the_token_and_reads_do_not():
    ask = Asked(token="s3cret")
    try:
        wrong = {"authorization": "Bearer other"}
        assert ask.post("/wake/b580")[0] == 401
        assert ask.post("/alertmanager", {}, wrong)[0] == 401
        assert ask("/healthz")[0] == 200
        assert ask.store.claims["b580"] is None

        assert ask.post("/wake/b580", b"", {"authorization": "Bearer s3cret"})[0] == 200
    finally:
        ask.endpoint.stop()


def test_a_get_claims_nothing(ask):
    assert ask("/wake/b580")[0] == 405
    assert ask.store.claims["b580"] is None


def test_a_taken_address_is_named_with_a_remedy(ask):
    with pytest.raises(UsageError, match=rf"127.0.0.1:{ask.endpoint.port}.*--listen"):
        Endpoint(None, "127.0.0.1", ask.endpoint.port)


def test_a_stopped_endpoint_answers_no_more():
    ask = Asked()
    assert ask("/healthz")[0] == 200

    ask.endpoint.stop()

    with pytest.raises(OSError, match="refused"):
        ask("/healthz")
