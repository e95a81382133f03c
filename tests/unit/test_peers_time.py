"""Time and calendar, in the cases that three other tools were asked."""

from __future__ import annotations

import pytest

from tests.unit.peers_time import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_it_is_as_a_person_means_it(case: Case):
    assert case.holds()
