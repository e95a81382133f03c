"""Claims: demand that is pushed to us, kept on the rule itself, so that it outlives any process.

A claim is the annotation ``idlewin.dev/wake-until``. It can only give cards back or keep them:
a new one never shortens the one in force. Where claims come from is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from idlewin.core.decision import Verdict
from idlewin.core.pool import WAKE_UNTIL, RuleObject
from idlewin.core.text import format_duration, format_instant, parse_duration, to_second
from idlewin.ports import Clock, LookError

#: What a claim lasts where nobody says how long.
USUAL = timedelta(minutes=15)
#: Who wants serving for longer pauses the rule.
LONGEST = timedelta(days=7)
#: How often a claim is tried again when the rule changed under it.
TRIES = 4


class Answer(StrEnum):
    """What became of a claim."""

    CLAIMED = "Claimed"
    COVERED = "Covered"
    """A claim that ends later, or at the same time, is in force already."""
    UNKNOWN_RULE = "UnknownRule"
    REFUSED = "Refused"
    """The API server does not let us write it; trying again does not help."""
    AWAY = "Away"
    """The API server did not answer; trying again may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The answer to one claim."""

    rule: str
    answer: Answer
    until: datetime | None = None
    """The end of the claim that is in force now."""
    message: str

    @property
    def holds(self) -> bool:
        """Whether demand is on record up to the time that was asked for."""
        return self.answer in (Answer.CLAIMED, Answer.COVERED)


class RuleStore(Protocol):
    """Rules as they are stored now, and their annotations."""

    def stored_rule(self, name: str) -> RuleObject | None:
        """A rule by a read made now; None: there is none. Raises LookError."""
        ...

    def annotate_rule(
        self, name: str, annotations: Mapping[str, str | None], resource_version: str
    ) -> tuple[Verdict, str]:
        """Write annotations if the rule is still as it was read; None takes one off."""
        ...


def claim_length(text: str | None) -> timedelta:
    """How long a claim is to last; None: as usual. Raises ValueError with a remedy."""
    length = USUAL if text is None else parse_duration(text)
    if length <= timedelta():
        raise ValueError(f"a claim for {text!r} would end at once; write for=30m or longer")
    if length > LONGEST:
        raise ValueError(
            f"a claim for {text!r} is longer than {format_duration(LONGEST)}; to keep serving on, "
            "pause the rule: idlewin pause RULE"
        )
    return length


class Claims:
    """Puts claims on rules."""

    def __init__(self, store: RuleStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def claim(self, rule: str, length: timedelta) -> Claim:
        """Have serving kept or brought back from now for so long; written when this returns."""
        for _ in range(TRIES):
            if (claim := self._try(rule, length)) is not None:
                return claim
        return _away(rule, "the rule kept changing")

    def _try(self, rule: str, length: timedelta) -> Claim | None:
        """One try; None: the rule changed between reading and writing."""
        try:
            stored = self._store.stored_rule(rule)
        except LookError as error:
            return _away(rule, str(error))
        if stored is None:
            return Claim(rule=rule, answer=Answer.UNKNOWN_RULE, message=_unknown(rule))
        # After the read, which tells the clock the time. No claim is shorter than was asked.
        until = to_second(self._clock.now() + length)
        if stored.wake_until is not None and stored.wake_until >= until:
            return _in_force(rule, Answer.COVERED, stored.wake_until)
        verdict, trouble = self._store.annotate_rule(
            rule, {WAKE_UNTIL: format_instant(until)}, stored.resource_version
        )
        if verdict is Verdict.DONE:
            return _in_force(rule, Answer.CLAIMED, until)
        if verdict is Verdict.REFUSED:
            message = f"the API server refused the claim on rule {rule}: {trouble}"
            return Claim(rule=rule, answer=Answer.REFUSED, message=message)
        return _away(rule, trouble) if verdict is Verdict.FAILED else None


def no_claims(rule: str, _length: timedelta) -> Claim:
    """The answer where nothing may be written."""
    message = f"no claim on rule {rule}: this controller runs dry and writes nothing"
    return Claim(rule=rule, answer=Answer.REFUSED, message=message)


def _in_force(rule: str, answer: Answer, until: datetime) -> Claim:
    already = " already" if answer is Answer.COVERED else ""
    message = f"rule {rule} is claimed until {format_instant(until)}{already}"
    return Claim(rule=rule, answer=answer, until=until, message=message)


def _away(rule: str, why: str) -> Claim:
    message = f"the claim on rule {rule} is not written: {why}; try again"
    return Claim(rule=rule, answer=Answer.AWAY, message=message)


def _unknown(rule: str) -> str:
    return f"there is no rule {rule!r}; kubectl get idlerules lists those that there are"
