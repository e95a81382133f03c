"""The log: one line for each thing that changed, as text for people or JSON for machines.

Set up once by the command line. Decisions come in as to a journal, with the same words.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from idlewin.adapters.journal import moved
from idlewin.core.decision import Decision, Outcome, Verdict
from idlewin.core.explain import headline, wish

log = logging.getLogger("idlewin.decisions")


class LogFormat(StrEnum):
    """How a line of the log looks."""

    TEXT = "text"
    JSON = "json"


def set_up(form: LogFormat) -> None:
    """Send the log to standard error, in a form."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s")
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # One line a wake is its idea of information, and none of ours.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """A record as JSON: its fields, then what came with it under ``fields``."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class LogJournal:
    """Tells changes of phase, writes and new alarms; what changes nothing is not told."""

    def __init__(self) -> None:
        self._alarms: dict[str, tuple[str, ...]] = {}

    def append(self, decision: Decision, outcomes: Sequence[Outcome]) -> None:
        """Tell one decision."""
        fields = {
            "rule": decision.rule,
            "before": decision.before.value,
            "after": decision.after.value,
            "reason": decision.reason.value,
        }
        if moved(decision, outcomes):
            log.info("%s", headline(decision), extra={"fields": fields})
        for outcome in outcomes:
            done = outcome.verdict in (Verdict.DONE, Verdict.GONE)
            told = {**fields, "action": type(outcome.action).__name__, "verdict": outcome.verdict}
            log.log(
                logging.INFO if done else logging.WARNING,
                "%s: %s: %s%s",
                decision.rule,
                wish(outcome.action),
                outcome.verdict.value,
                f" ({outcome.message})" if outcome.message else "",
                extra={"fields": told},
            )
        if decision.alarms != self._alarms.get(decision.rule, ()):
            self._alarms[decision.rule] = decision.alarms
            for alarm in decision.alarms:
                log.error("%s: ALARM %s", decision.rule, alarm, extra={"fields": fields})

    def gone(self, rule: str) -> None:
        """Forget a rule that is deleted."""
        self._alarms.pop(rule, None)
