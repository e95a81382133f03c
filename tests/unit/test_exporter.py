"""Our own metrics: what a scrape tells after decisions, and that the documentation lists it."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from idlewin.adapters.exporter import METRICS, Exporter
from idlewin.core.decision import Decision, HoldRule, Outcome, Remember, Verdict
from idlewin.core.load import Level, Load
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.status import Account, Condition, Counters, Status, Truth
from idlewin.core.tally import Tallies, Tally

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
DOCS, ALERTS = ROOT / "docs" / "metrics.md", ROOT / "deploy" / "alerts.yaml"


def a_decision(rule="b580", before=Phase.SERVING, after=None, reason=Reason.LOAD_BUSY, **status):
    return Decision(
        rule=rule,
        at=NOW,
        before=before,
        after=after or before,
        reason=reason,
        checks=(),
        status=Status(**status),
        revisit_at=NOW + timedelta(minutes=1),
        load=Load(level=Level.BUSY, since=NOW, why="3 in flight"),
    )


@pytest.fixture
def exporter():
    return Exporter(lambda: NOW)


def scraped(exporter):
    lines = exporter.text()[0].decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_the_phase_and_the_load_are_one_hot(exporter):
    exporter.append(a_decision(before=Phase.HARVESTING), ())

    told = scraped(exporter)

    phases = {p: told[f'idlewin_phase{{phase="{p}",rule="b580"}}'] for p in Phase}
    assert phases == {p: "1.0" if p is Phase.HARVESTING else "0.0" for p in Phase}
    assert told['idlewin_load{level="Busy",rule="b580"}'] == "1.0"
    assert told['idlewin_load{level="Idle",rule="b580"}'] == "0.0"


def test_decisions_count_by_reason_and_only_moves_are_transitions(exporter):
    exporter.append(a_decision(), ())
    exporter.append(a_decision(), ())
    exporter.append(a_decision(after=Phase.YIELDING, reason=Reason.WINDOW_OPEN), ())

    told = scraped(exporter)

    assert told['idlewin_decisions_total{reason="LoadBusy",rule="b580"}'] == "2.0"
    ways = {key: n for key, n in told.items() if key.startswith("idlewin_transitions_total")}
    labels = 'from="Serving",reason="WindowOpen",rule="b580",to="Yielding"'
    assert ways == {f"idlewin_transitions_total{{{labels}}}": "1.0"}


def test_a_move_whose_status_was_not_written_is_none(exporter):
    status = Status(phase="Yielding")
    refused = Outcome(Remember("b580", "1", None, status), Verdict.CONFLICT)
    exporter.append(a_decision(after=Phase.YIELDING, reason=Reason.WINDOW_OPEN), (refused,))

    told = scraped(exporter)

    assert told['idlewin_phase{phase="Serving",rule="b580"}'] == "1.0"
    assert not [key for key in told if key.startswith("idlewin_transitions_total{")]


def test_counters_of_the_status_are_told_as_they_are(exporter):
    counters = Counters(windows=7, returns=6, late_returns=2, harvested_card_seconds=3600)
    exporter.append(a_decision(counters=counters), ())

    told = scraped(exporter)

    assert told['idlewin_windows_total{rule="b580"}'] == "7.0"
    assert told['idlewin_returns_total{rule="b580"}'] == "6.0"
    assert told['idlewin_late_returns_total{rule="b580"}'] == "2.0"
    assert told['idlewin_harvested_card_seconds_total{rule="b580"}'] == "3600.0"


def test_the_budget_is_told_once_a_price_is_known(exporter):
    exporter.append(a_decision(), ())
    assert not [key for key in scraped(exporter) if key.startswith("idlewin_budget_")]

    exporter.append(a_decision(budget=Account(allowed=4.0, spent=1, price=320.0)), ())

    told = scraped(exporter)
    assert told['idlewin_budget_allowed{rule="b580"}'] == "4.0"
    assert told['idlewin_budget_spent{rule="b580"}'] == "1.0"
    assert told['idlewin_late_return_price_minutes{rule="b580"}'] == "320.0"


def test_what_would_have_been_stands_beside_what_was(exporter):
    exporter.append(a_decision(), ())
    assert not [key for key in scraped(exporter) if key.startswith("idlewin_tally_")]
    told = Tally(since=NOW, windows=3, lent_card_seconds=7200, late_returns=1, waited_seconds=90)
    exporter.append(a_decision(tallies=Tallies(observe=told, act=Tally(since=NOW))), ())

    values = {key: n for key, n in scraped(exporter).items() if key.startswith("idlewin_tally_")}

    def of(mode):
        return [n for key, n in sorted(values.items()) if f'mode="{mode}"' in key]

    assert of("Observe") == ["1.0", "7200.0", "1.7724528e+09", "90.0", "3.0"]
    assert of("Act") == ["0.0", "0.0", "1.7724528e+09", "0.0", "0.0"]


def test_the_end_of_a_window_is_told_only_while_there_is_one(exporter):
    name = 'idlewin_window_until_timestamp_seconds{rule="b580"}'
    exporter.append(a_decision(until=NOW), ())
    during = scraped(exporter)[name]

    exporter.append(a_decision(), ())

    assert float(during) == NOW.timestamp()
    assert name not in scraped(exporter)


def test_conditions_are_told_in_three_values(exporter):
    conditions = tuple(
        Condition(type=str(t), status=t, reason="x", message="", last_transition_time=NOW)
        for t in Truth
    )
    exporter.append(a_decision(conditions=conditions), ())

    told = scraped(exporter)

    values = [told[f'idlewin_condition{{rule="b580",type="{t}"}}'] for t in Truth]
    assert values == ["1.0", "0.0", "-1.0"]


def test_writes_count_by_action_and_verdict(exporter):
    done = Outcome(HoldRule("b580", "1"), Verdict.DONE)
    exporter.append(a_decision(), (done, done, Outcome(HoldRule("b580", "1"), Verdict.CONFLICT)))

    told = scraped(exporter)

    assert told['idlewin_writes_total{action="HoldRule",verdict="Done"}'] == "2.0"
    assert told['idlewin_writes_total{action="HoldRule",verdict="Conflict"}'] == "1.0"


def test_cycles_are_timed_and_failures_counted(exporter):
    exporter.cycle_done("b580", 0.02)
    exporter.cycle_failed("a770", 0.2)

    told = scraped(exporter)

    assert told["idlewin_cycle_seconds_count"] == "2.0"
    assert told['idlewin_cycle_failures_total{rule="a770"}'] == "1.0"
    success = told['idlewin_last_success_timestamp_seconds{rule="b580"}']
    assert float(success) == NOW.timestamp()


def test_what_is_measured_elsewhere_is_asked_at_the_scrape(exporter):
    depth = [3]
    exporter.ask("idlewin_queue_depth", lambda: depth[0])
    first = scraped(exporter)["idlewin_queue_depth"]

    depth[0] = 5

    assert (first, scraped(exporter)["idlewin_queue_depth"]) == ("3.0", "5.0")
    with pytest.raises(KeyError):
        exporter.ask("idlewin_phase", lambda: 1)


def test_a_deleted_rules_series_go_away_and_the_others_stay(exporter):
    for rule in ("b580", "a770"):
        exporter.append(a_decision(rule=rule, after=Phase.YIELDING), ())
        exporter.cycle_done(rule, 0.1)

    exporter.gone("b580")

    assert not [key for key in scraped(exporter) if "b580" in key]
    assert [key for key in scraped(exporter) if "a770" in key]


def test_the_documentation_lists_every_metric_as_it_is():
    rows = re.findall(r"^\| `(idlewin_\w+)` \| (.*?) ?\| (.*) \|$", DOCS.read_text(), re.MULTILINE)
    documented = {name: (tuple(re.findall(r"`(\w+)`", keys)), says) for name, keys, says in rows}

    assert documented.pop("idlewin_cycle_seconds") == (("le",), "How long a cycle took.")
    assert documented == dict(METRICS)


def test_alerts_name_only_metrics_that_exist():
    named = set(re.findall(r"\bidlewin_\w+", ALERTS.read_text()))

    assert named
    assert named <= set(METRICS)
