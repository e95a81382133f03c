"""What doctor says of a source of running work that has no series now."""

from __future__ import annotations

import pytest

from idlewin.adapters.checkup_demand import _of_uses
from idlewin.adapters.diagnosis import Severity
from idlewin.adapters.survey import Found, Use

AWAY = Use(
    field="spec.serving[0].demand[0]", name="vllm", found=Found.AWAY, value=None, why="no series"
)


@pytest.mark.parametrize(("lent", "severity"), [(True, Severity.OK), (False, Severity.WARNING)])
def test_it_is_as_it_should_be_in_a_window_only(lent, severity):
    (told,) = _of_uses("demand of b580", [AWAY], lent=lent)

    assert told.severity is severity
    assert bool(told.remedy) is not lent
