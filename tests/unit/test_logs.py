"""The log: what is told of decisions, and how a line looks."""

import json
import logging
from datetime import UTC, datetime, timedelta

from idlewin.adapters.logs import JsonLines, LogJournal
from idlewin.core.decision import Decision, HoldRule, Outcome, Verdict
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.status import Status

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def a_decision(after=Phase.SERVING, reason=Reason.LOAD_BUSY, alarms=()):
    return Decision(
        rule="b580", at=NOW, before=Phase.SERVING, after=after, reason=reason, checks=(),
        status=Status(), revisit_at=NOW + timedelta(minutes=1), alarms=alarms,
    )  # fmt: skip


def test_what_changes_nothing_is_not_told(caplog):
    caplog.set_level(logging.INFO)

    LogJournal().append(a_decision(), ())

    assert caplog.records == []


def test_a_change_of_phase_and_its_writes_are_told_refusals_louder(caplog):
    caplog.set_level(logging.INFO)
    refused = Outcome(HoldRule("b580", "1"), Verdict.REFUSED, "forbidden")

    LogJournal().append(a_decision(Phase.YIELDING, Reason.WINDOW_OPEN), (refused,))

    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told[0][1].startswith("b580: Serving to Yielding (WindowOpen)")
    assert told[1] == ("WARNING", "b580: put our finalizer on rule b580: Refused (forbidden)")


def test_an_alarm_is_told_once_and_again_after_it_was_over(caplog):
    journal = LogJournal()

    for alarms in (("stuck",), ("stuck",), (), ("stuck",)):
        journal.append(a_decision(alarms=alarms), ())

    assert [record.getMessage() for record in caplog.records] == ["b580: ALARM stuck"] * 2


def test_a_json_line_carries_the_decisions_fields_and_a_traceback(caplog):
    caplog.set_level(logging.INFO)
    LogJournal().append(a_decision(Phase.YIELDING, Reason.WINDOW_OPEN), ())
    try:
        int("odd")
    except ValueError:
        logging.getLogger("x").exception("line\nbreak")

    first, second = (json.loads(JsonLines().format(record)) for record in caplog.records)

    assert (first["rule"], first["after"], first["level"]) == ("b580", "Yielding", "info")
    assert second["message"] == "line\nbreak"
    assert "ValueError: invalid literal" in second["traceback"]
