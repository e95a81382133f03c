"""A rule test is the real controller over what is given: unknown is not idle there, either."""

from __future__ import annotations

import pytest

from idlewin.ruletest.read import read_trials
from idlewin.wiring import tried

RULE = """\
apiVersion: idlewin.dev/v1alpha1
kind: IdleRule
metadata: {{name: pool}}
spec:
  cards:
    resource: nvidia.com/gpu
    count: 1
    nodeSelector: {{pool: mine}}
    {activity}
  serving:
    - apiVersion: serving.kserve.io/v1beta1
      kind: InferenceService
      namespace: ai
      name: model
      demand:
        - {{source: vllm-requests, match: {{namespace: ai}}, busyAbove: 2}}
        - {{query: door_requests, up: up, visibleAtZero: true}}
      leadTime: 2m
  batch: {{queues: [{{clusterQueue: night, contract: Checkpoint}}]}}
  window: {{calendar: {{timeZone: Europe/Vienna}}}}
  forecast: {{budget: {{share: {share}}}}}
"""


@pytest.fixture
def seen(tmp_path):
    """What a test with these series sees at some minutes: phase and reason of each."""

    def look(*minutes, demand, more="", activity="", share="100%"):
        (tmp_path / "pool.yaml").write_text(RULE.format(activity=activity, share=share))
        checks = "".join(f"      - {{at: {at}m, expect: {{serving: 1}}}}\n" for at in minutes)
        (tmp_path / "pool.test.yaml").write_text(
            f"tests:\n  - name: a\n    start: 2026-01-05T18:00Z\n    demand: {demand}\n"
            f"{more}    checks:\n{checks}"
        )
        found = read_trials(tmp_path / "pool.test.yaml")
        assert found.findings == ()
        return [f"{one.phase} {one.reason}" for one in tried(found.trials[0])]

    return look


BOTH = "{{model: {{vllm-requests: '{}', query: '{}'}}}}"


def test_idle_series_are_lent_and_demand_has_serving_back(seen):
    assert seen(5, 30, 60, 70, demand="{model: '0x59 5x60'}") == [
        "Serving IdleTooShort",
        "Harvesting Harvesting",
        "Reclaiming DemandReturned",
        "Serving LoadBusy",
    ]


def test_what_is_not_above_busy_above_is_idle(seen):
    assert seen(30, demand=BOTH.format("2x60", "0x60")) == ["Harvesting Harvesting"]
    assert seen(30, demand=BOTH.format("3x60", "0x60")) == ["Serving LoadBusy"]


@pytest.mark.parametrize("sample", ["_", "stale", "NaN", "-1", "Inf"])
def test_a_sample_that_is_not_there_or_cannot_be_is_unknown_and_no_window_opens(seen, sample):
    series = f"{sample} " * 60

    assert seen(30, demand=BOTH.format("0x60", series)) == ["Serving LoadUnknown"]
    assert seen(30, demand=BOTH.format(series, "0x60")) == ["Serving LoadUnknown"]


def test_unknown_gives_an_open_window_back_after_stale_after(seen):
    demand = BOTH.format("0x120", "0x29 _x60")

    assert seen(29, 33, 45, demand=demand) == [
        "Harvesting Harvesting",
        "Harvesting Harvesting",
        "Serving LoadUnknown",
    ]


def test_while_the_target_has_no_pod_running_work_says_nothing(seen):
    # Its exporter is gone with it: busy or unknown, nobody could see it.
    assert seen(50, demand=BOTH.format("0x29 _x60", "0x120")) == ["Harvesting Harvesting"]
    assert seen(50, demand=BOTH.format("0x29 9x60", "0x120")) == ["Harvesting Harvesting"]


def test_the_cards_own_activity_keeps_a_window_shut_and_ends_none(seen):
    rule = "activity: {source: nvidia-dcgm, match: {hostname: a}}"

    def at(*minutes, activity):
        more = f"    activity: '{activity}'\n"
        return seen(*minutes, demand="{model: '0x60'}", more=more, activity=rule)

    assert at(30, activity="0.6x60") == ["Serving LoadBusy"]
    assert at(30, activity="_x60") == ["Serving LoadUnknown"]
    assert at(30, activity="0x20 0.6x60") == ["Harvesting Harvesting"]


def test_without_a_history_no_forecast_is_ready_and_with_one_it_is(seen):
    more = "    history: {days: 28, busy: ['Mon-Fri 08:00-18:00']}\n"

    assert seen(30, demand="{model: '0x60'}", share="5%") == ["Serving ForecastNotReady"]
    assert seen(30, demand="{model: '0x60'}", share="5%", more=more) == ["Harvesting Harvesting"]


def test_idle_counts_from_the_last_demand_before_the_start(seen):
    # 19:00 in Vienna is the start; users were there until then, or had gone an hour before.
    for end, wanted in (("19:00", "Serving IdleTooShort"), ("18:00", "Harvesting Harvesting")):
        more = f"    history: {{days: 2, busy: ['Mon-Sun 08:00-{end}']}}\n"

        assert seen(5, demand="{model: '0x60'}", more=more) == [wanted]


def test_jobs_are_as_many_as_the_test_says(seen):
    def waits(work: str) -> list[str]:
        return seen(30, demand="{model: '0x60'}", more=f"    work: {work}\n")

    assert waits("{}") == waits("{night: 0}") == ["Serving NoWorkWaiting"]
    assert waits("{night: 1}") == ["Harvesting Harvesting"]


def test_in_observe_nothing_is_done(seen):
    more = "    mode: Observe\n"

    assert seen(30, demand="{model: '0x60'}", more=more) == ["Serving ObserveOnly"]


@pytest.mark.parametrize(
    ("event", "then", "later"),
    [
        ("wake: 30m", "Serving WakeClaimed", "Harvesting Harvesting"),
        ("prometheusDown: 30m", "Serving LoadUnknown", "Harvesting Harvesting"),
        ("pause: true", "Serving Paused", "Serving Paused"),
        ("kueueDown: 30m", "Harvesting Harvesting", "Harvesting Harvesting"),
    ],
)
def test_an_event_happens_when_it_is_due(seen, event, then, later):
    more = f"    events: [{{at: 30m, {event}}}]\n"

    assert seen(29, 50, 110, demand="{model: '0x200'}", more=more) == [
        "Harvesting Harvesting",
        then,
        later,
    ]


def test_a_rule_that_was_paused_goes_on_by_resume(seen):
    more = "    events: [{at: 30m, pause: true}, {at: 50m, pause: false}]\n"

    found = seen(45, 110, demand="{model: '0x200'}", more=more)

    assert found == ["Serving Paused", "Harvesting Harvesting"]


def test_with_kueue_away_no_window_opens(seen):
    more = "    events: [{at: 1m, kueueDown: 40m}]\n"

    (refused, opened) = seen(30, 90, demand="{model: '0x200'}", more=more)

    assert (refused, opened) == ("Serving RehearsalRefused", "Harvesting Harvesting")


def test_one_more_look_changes_nothing(seen):
    demand = "{model: '0x19 7x9 0x60 1x20 0x80'}"
    few = (15, 40, 88, 100, 150)

    alone = seen(*few, demand=demand)
    among = seen(*range(151), demand=demand)

    assert alone == [among[minute] for minute in few]
