"""What a person says of a rule, over a bad line."""

from __future__ import annotations

import pytest

from idlewin.adapters.api import ApiError
from idlewin.adapters.edits import Edits
from idlewin.core.pool import RuleObject
from idlewin.errors import IdlewinError

RULE = RuleObject(name="b580", uid="u", generation=1, resource_version="1", rule=None)


class Line:
    """An API server that answers so, one call after another; None: it takes the write."""

    clock = None

    def __init__(self, *answers: ApiError | None) -> None:
        self._answers, self.calls = list(answers), 0

    def merge(self, _path, _patch):
        self.calls += 1
        if error := self._answers.pop(0):
            raise error
        return {}


def test_a_word_whose_answer_did_not_come_is_said_once_more():
    line = Line(ApiError(0, "connection aborted"), None)

    Edits(line).pause(RULE)

    assert line.calls == 2


@pytest.mark.parametrize(
    ("answers", "calls"),
    [
        ((ApiError(0, "aborted"), ApiError(0, "aborted")), 2),
        ((ApiError(403, "forbidden"),), 1),
    ],
    ids=["no answer twice", "a no"],
)
def test_a_line_that_stays_bad_and_a_no_are_told(answers, calls):
    line = Line(*answers)

    with pytest.raises(IdlewinError):
        Edits(line).pause(RULE)

    assert line.calls == calls
