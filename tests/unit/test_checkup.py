"""What stands between a cluster and a window, by the answers of an API server and a Prometheus."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from idlewin.adapters import checkup
from idlewin.adapters.api import ApiError
from idlewin.adapters.checkup_demand import of_prometheus
from idlewin.adapters.diagnosis import Severity
from idlewin.adapters.permissions import NEEDED, denied
from idlewin.catalogue import SHIPPED
from idlewin.core.load import History, Reading
from idlewin.core.pool import RuleObject
from idlewin.core.window import Span
from idlewin.crd import crd
from tests.builders import a_rule, a_situation
from tests.rbac import Verb, granted, objects

DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/idlerules.idlewin.dev"
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Server:
    """An API server by its answers; whatever else is asked for is not there."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.reviews = answers, []

    def get(self, path: str) -> Any:
        found = self.answers.get(path, ApiError(404, "no such thing"))
        if isinstance(found, ApiError):
            raise found
        return found

    def post(self, path: str, body: Any) -> Any:
        self.reviews.append((path, body["spec"]))
        return {"status": {"allowed": self.may(body["spec"]["resourceAttributes"])}}

    def may(self, asked: Any) -> bool:
        return asked["resource"] not in self.answers.get("denied", ())


def of(server: Server, about: str) -> Any:
    return next(one for one in checkup.of_cluster(server) if one.about == about)


def test_what_is_asked_for_is_what_the_role_grants():
    asked = {Verb(one.group, one.resource, verb) for one in NEEDED for verb in one.verbs}

    assert asked == granted(objects(), "idlewin")


def test_a_service_account_is_asked_about_as_the_api_server_counts_it_in():
    server = Server()

    assert list(denied(server, "system:serviceaccount:lend:idlewin", "lend")) == []
    path, spec = server.reviews[-1]
    assert path.endswith("/subjectaccessreviews")
    assert spec["user"] == "system:serviceaccount:lend:idlewin"
    assert "system:serviceaccounts:lend" in spec["groups"]
    assert spec["resourceAttributes"]["namespace"] == "lend", "its Lease"


def test_what_a_cluster_may_lack_is_denied_by_a_warning_only():
    server = Server(denied=("scaledobjects", "nodes"))

    told = {one.seen: one.severity for one in checkup.of_account(server, "", "x")}

    assert told == {
        "who asks may not get, list, watch nodes, by which cards are counted": Severity.ERROR,
        "who asks may not get, list, watch, patch scaledobjects.keda.sh, by which serving is "
        "paused and brought back": Severity.WARNING,
    }


def test_an_older_definition_is_told_by_a_field_that_it_lacks():
    stored = crd()
    properties = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert of(Server(**{DEFINITION: stored}), "CRD").severity is Severity.OK
    del properties["spec"]["properties"]["cards"]["properties"]["deviceNodes"]

    told = of(Server(**{DEFINITION: stored}), "CRD")

    assert (told.severity, "spec.cards.deviceNodes" in told.seen) == (Severity.WARNING, True)
    assert told.remedy == "kubectl apply -f deploy/base/crd.yaml"


@pytest.mark.parametrize(
    ("minor", "severity"),
    [("36", "ok"), ("30+", "ok"), ("29", "warning"), ("37", "warning"), ("", "ok")],
)
def test_an_api_server_that_nobody_tried_is_doubted(minor, severity):
    server = Server(**{"/version": {"gitVersion": "v1", "minor": minor}})

    assert of(server, "Kubernetes").severity == severity


def test_a_kueue_without_what_is_needed_is_an_error_as_none_is():
    path = "/apis/kueue.x-k8s.io/v1beta2"
    old = {"groupVersion": "kueue.x-k8s.io/v1beta2", "resources": [{"name": "clusterqueues"}]}

    assert "no cohorts, localqueues, workloads" in of(Server(**{path: old}), "Kueue").seen
    none = of(Server(), "Kueue")
    assert (none.severity, none.remedy.startswith("install Kueue")) == (Severity.ERROR, True)


def test_what_could_not_be_looked_at_is_neither_good_nor_bad():
    refused = ApiError(403, "GET /version: 403 forbidden")

    told = of(Server(**{"/version": refused}), "Kubernetes")

    assert (told.severity, told.seen) == (Severity.UNKNOWN, "GET /version: 403 forbidden")


class Metrics:
    """A Prometheus by what it says of any rule."""

    def __init__(self, *, why: str = "", value: float | None = 0.0, days: float = 27) -> None:
        self.why, self.value, self.days = why, value, days

    def answers(self) -> str:
        return self.why

    def read(self, rule: Any) -> tuple[Reading, ...]:
        why = "no series; look at the exporter" if self.value is None else ""
        return tuple(
            Reading(target="t", name="q", value=self.value, why=why, busy_above=0,
                    visible_at_zero=True)
            for serving in rule.serving
            for _ in serving.demand
        )  # fmt: skip

    def history(self, _rule: Any, past: timedelta, _step: timedelta) -> History:
        covers = Span(NOW - past, NOW)
        unknown = Span(NOW - past, NOW - self.days * timedelta(days=1))
        return History(covers=covers, unknown=(unknown,))


def told(**how: Any) -> list[tuple[str, Severity, str, str]]:
    rules: list[RuleObject] = [a_situation(rule=a_rule()).object]
    found = of_prometheus(Metrics(**how), SHIPPED, rules)
    return [(one.about, one.severity, one.seen, one.remedy) for one in found]


def test_a_prometheus_that_does_not_answer_is_all_that_is_told():
    assert told(why="it is not reached; look at its address") == [
        ("Prometheus", Severity.ERROR, "it is not reached", "look at its address")
    ]


def test_each_demand_and_how_far_back_it_is_known():
    (_, _, demand), (_, _, past) = (one[:3] for one in told()[1:])

    assert demand == "spec.serving[0].demand[0] (sum(waiting)): there: 0.0"
    assert past == "27.0 days of it are known"


def test_a_demand_that_is_missing_is_an_error_with_what_to_do():
    about, severity, seen, remedy = told(value=None)[1]

    assert (about, severity) == ("demand of b580", Severity.ERROR)
    assert seen.endswith(": no series")
    assert remedy == "look at the exporter"


def test_of_several_sources_the_one_that_is_short_is_named():
    demand = replace(a_rule().serving[0].demand[0], query="sum(young)")
    serving = a_rule().serving[0]
    both = replace(serving, demand=(*serving.demand, demand))
    metrics = Metrics()
    metrics.history = lambda rule, past, step: Metrics(
        days=2 if any(d.query == "sum(young)" for s in rule.serving for d in s.demand) else 27
    ).history(rule, past, step)

    found = of_prometheus(metrics, SHIPPED, [a_situation(rule=a_rule(serving=(both,))).object])

    assert [(one.severity, one.seen.split(" are ")[0]) for one in found if "days" in one.seen] == [
        ("ok", "27.0 days of spec.serving[0].demand[0]"),
        ("warning", "2.0 days of spec.serving[0].demand[1]"),
        ("warning", "2.0 days of all of it"),
    ]


def test_a_short_past_is_doubted():
    assert told(days=3)[-1][1:3] == (
        Severity.WARNING,
        "3.0 days of it are known, and a forecast wants a week at the least",
    )
