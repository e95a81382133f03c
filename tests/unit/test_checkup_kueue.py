"""What the doctor says of Kueue's own configuration, of versions, and of priorities."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from idlewin.adapters.api import ApiError
from idlewin.adapters.checkup_kueue import of_kueue
from idlewin.adapters.checkup_priority import of_priorities
from idlewin.core.rule import OnReturn
from idlewin.core.status import Status
from tests.builders import a_rule, a_situation

HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
TARGET = "/apis/apps/v1/namespaces/ai/deployments/qwen"
Json = dict[str, Any]


class Server:
    """An API server by its answers; lists that are not named are empty."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def listed(self, path: str) -> tuple[list[Json], str]:
        found = self.answers.get(path, [])
        if isinstance(found, ApiError):
            raise found
        return found, "1"

    def get(self, path: str) -> Json:
        if path not in self.answers:
            raise ApiError(404, "no such thing")
        found: Json = self.answers[path]
        return found


def configured(text: str | None, namespace: str = "kueue-system", image: str = "") -> Server:
    """A Kueue with this configuration; None: with none."""
    data = {} if text is None else {"controller_manager_config.yaml": text}
    pod = {"spec": {"containers": [{"name": "manager", "image": image}]}}
    service = {"name": "kueue-webhook-service", "namespace": namespace}
    return Server({
        HOOKS: [{"webhooks": [{"clientConfig": {"service": service}}]}],
        f"/api/v1/namespaces/{namespace}/configmaps": [{"data": None}, {"data": data}],
        f"/apis/apps/v1/namespaces/{namespace}/deployments": [{"spec": {"template": pod}}],
    })  # fmt: skip


def told(server: Server, about: str) -> list[tuple[str, str]]:
    return [(str(d.severity), d.seen) for d in of_kueue(server, ()) if d.about == about]


READY = "waitForPodsReady"


@pytest.mark.parametrize(
    ("text", "severity", "seen"),
    [
        ("kind: Configuration", "ok", "it is off"),
        ("waitForPodsReady: {enable: false, timeout: 1s}", "ok", "it is off"),
        ("waitForPodsReady: {timeout: 5m0s}", "ok", "work has 5m0s to get its pods ready"),
        ("waitForPodsReady: {timeout: 30s}", "warning", "timeout is 30s, and from the wish"),
        ("waitForPodsReady: {timeout: 5m, recoveryTimeout: 1m}", "warning", "recoveryTimeout is"),
        ("waitForPodsReady: {timeout: 5m, recoveryTimeout: 0s}", "ok", "work has 5m"),
        ("waitForPodsReady: {timeout: 5m, blockAdmission: true}", "warning", "with blockAdmission"),
        ("waitForPodsReady: {timeout: 5m, requeuingStrategy: {backoffLimitCount: 3}}", "warning",
         "work that gets no card in time is deactivated for good after 3 tries"),
        ("waitForPodsReady: {timeout: soon}", "error", "timeout 'soon' is no duration"),
        ("a: [", "unknown", "no ConfigMap in kueue-system has a readable"),
        ("- a list", "unknown", "no ConfigMap in kueue-system has a readable"),
        (None, "unknown", "no ConfigMap in kueue-system has a readable"),
    ],
)  # fmt: skip
def test_what_kueue_does_to_work_whose_pods_are_not_ready(text, severity, seen):
    ((said, what),) = told(configured(text), READY)

    assert (said, what.startswith(seen)) == (severity, True), what


def test_a_timeout_that_is_not_written_is_kueues_own():
    rule = a_situation(status=Status(opening_seconds=(600,))).object

    (found,) = (d for d in of_kueue(configured("waitForPodsReady: {}"), [rule]) if d.about == READY)

    assert (found.severity, found.seen.partition(",")[0]) == ("warning", "timeout is 5m")


def test_kueue_is_looked_for_where_its_webhooks_say():
    server = configured("waitForPodsReady: {timeout: 1s}", "batch-system", "x/kueue:v0.18.4")

    assert told(server, READY)[0][0] == "warning"
    assert told(server, "Kueue's version") == [("ok", "image kueue:v0.18.4")]


@pytest.mark.parametrize(
    ("image", "severity", "seen"),
    [
        ("registry.k8s.io/kueue/kueue:v0.18.3", "ok", "image kueue:v0.18.3"),
        ("mirror.example:5000/kueue:v0.17.0", "warning", "all tests ran on 0.18"),
        ("registry.k8s.io/kueue/kueue@sha256:0", "unknown", "no Deployment in kueue-system"),
    ],
)
def test_the_version_is_that_of_its_image(image, severity, seen):
    ((said, what),) = told(configured(None, image=image), "Kueue's version")

    assert (said, seen in what) == (severity, True), what


def test_what_may_not_be_read_is_unknown_and_says_whom_to_ask():
    server = configured("")
    server.answers["/api/v1/namespaces/kueue-system/configmaps"] = ApiError(403, "forbidden")

    (found,) = (one for one in of_kueue(server, ()) if one.about == READY)

    assert (found.severity, found.seen) == ("unknown", "forbidden")
    assert "account that may" in found.remedy


# -- priorities


def priorities(
    work_pods: Json, serving: Json, *, preempt: str = "Never", **rule: Any
) -> list[tuple[str, str]]:
    """What is said where batch's and serving's pods have these specs."""
    meta = {"namespace": "batch", "name": "job"}
    work = {
        "metadata": meta,
        "spec": {"queueName": "q", "podSets": [{"template": {"spec": work_pods}}]},
    }
    local = {"metadata": {**meta, "name": "q"}, "spec": {"clusterQueue": "short"}}
    classes = [
        {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
        for name, value, policy in [
            ("high", 100, "PreemptLowerPriority"), ("polite", 100, "Never"),
            ("low", -5, "PreemptLowerPriority"),
        ]
    ]  # fmt: skip
    server = Server({
        CLASSES: classes,
        f"{KUEUE}/localqueues": [local],
        f"{KUEUE}/workloads": [work],
        f"{KUEUE}/clusterqueues": [{
            "metadata": {"name": "short"}, "spec": {"preemption": {"withinClusterQueue": preempt}},
        }],
        TARGET: {"metadata": {"namespace": "ai", "name": "qwen"},
                 "spec": {"template": {"spec": serving}}},
    })  # fmt: skip
    one = a_situation(rule=a_rule(**rule)).object
    return [(str(d.severity), d.seen) for d in of_priorities(server, [one])]


HIGH, LOW, POLITE = ({"priorityClassName": name} for name in ("high", "low", "polite"))


def test_batch_of_a_higher_priority_would_take_the_card_from_serving():
    (found,) = priorities(HIGH, {})

    assert found[0] == "error"
    assert (
        "pods of batch/job (priority 100) would take the card from Deployment ai/qwen (0)"
        in found[1]
    )
    assert priorities(POLITE, {}) == priorities({}, {}) == priorities({}, POLITE)


def test_serving_of_a_higher_priority_ends_work_that_agreed_to_no_end():
    (found,) = priorities({}, HIGH)

    assert found[0] == "warning"
    assert "would end pods of batch/job (0) in ClusterQueue short" in found[1]
    evict = replace(a_rule().batch, on_return=OnReturn.EVICT)
    assert priorities({}, HIGH, batch=evict)[0][0] == "ok"


def test_work_below_the_usual_priority_is_below_serving_without_a_class():
    assert priorities(LOW, {})[0][0] == "warning"


def test_a_queue_whose_work_kueue_preempts_is_doubted_where_work_agreed_to_no_end():
    (found,) = priorities({}, {}, preempt="LowerPriority")

    assert (found[0], "withinClusterQueue: LowerPriority" in found[1]) == ("warning", True)


def test_where_the_classes_cannot_be_read_it_says_so():
    server = Server({CLASSES: ApiError(403, "forbidden")})

    (found,) = of_priorities(server, [a_situation(rule=a_rule()).object])

    assert (found.about, found.severity) == ("priorities", "unknown")
