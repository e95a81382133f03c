"""Which claims a message of Alertmanager asks for."""

from datetime import timedelta

import pytest

from idlewin.adapters.alertmanager import wanted_claims


def alert(status="firing", labels=None, annotations=None):
    labels = {"alertname": "QueueAtFrontDoor"} | (labels or {"idlewin_rule": "b580"})
    return {"status": status, "labels": labels, "annotations": annotations or {}}


def message(*alerts, **more):
    return {"version": "4", "alerts": list(alerts)} | more


def minutes(count):
    return timedelta(minutes=count)


def test_a_firing_alert_claims_each_rule_that_it_names():
    wanted, passed = wanted_claims(message(alert(labels={"idlewin_rule": "b580, a770,"})))

    assert wanted == {"b580": minutes(15), "a770": minutes(15)}
    assert passed == ()


def test_annotations_name_rule_and_length_too_and_labels_win():
    told = {"idlewin_rule": "a770", "idlewin_for": "1h"}
    by_annotation = {"status": "firing", "labels": {"alertname": "x"}, "annotations": told}
    both = alert(labels={"idlewin_rule": "b580", "idlewin_for": "5m"}, annotations=told)

    wanted, _ = wanted_claims(message(by_annotation, both))

    assert wanted == {"a770": minutes(60), "b580": minutes(5)}


def test_the_longest_claim_on_a_rule_counts():
    several = [alert(labels={"idlewin_rule": "b580", "idlewin_for": f"{n}m"}) for n in (5, 40, 10)]

    assert wanted_claims(message(*several))[0] == {"b580": minutes(40)}


def test_a_resolved_alert_claims_nothing_even_beside_a_firing_one():
    resolved = alert("resolved", {"idlewin_rule": "a770", "idlewin_for": "2h"})

    wanted, passed = wanted_claims(message(resolved, alert()))

    assert wanted == {"b580": minutes(15)}
    assert "resolved" in passed[0]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([], "no list of 'alerts'"),
        ("text", "no list of 'alerts'"),
        ({"version": "4"}, "no list of 'alerts'"),
        ({"version": "3", "alerts": []}, "understood is '4'"),
        ({"alerts": []}, "understood is '4'"),
        (message(1), "neither 'firing' nor 'resolved'"),
        (message({"status": "firing", "labels": [], "annotations": None}), "names no rule"),
        (message(alert(labels={"idlewin_rule": " , "})), "label idlewin_rule"),
        (message(alert(labels={"idlewin_rule": "b580", "idlewin_for": "long"})), "idlewin_for"),
        (message(alert(labels={"idlewin_rule": "b580", "idlewin_for": "9w"})), "pause the rule"),
    ],
)
def test_what_asks_for_nothing_that_is_understood_is_an_error(wrong, said):
    with pytest.raises(ValueError, match=said):
        wanted_claims(wrong)


def test_a_mistake_in_one_alert_harms_no_other():
    wrong = alert(labels={"idlewin_rule": "a770", "idlewin_for": "long"})

    wanted, passed = wanted_claims(message(wrong, alert(), truncatedAlerts=3))

    assert wanted == {"b580": minutes(15)}
    assert "'long'" in passed[0]
    assert "3 alerts were cut off" in passed[1]
