"""A budget of worlds: no promise is broken in any, and each row of the machine fires often."""

from __future__ import annotations

from collections import Counter

import pytest

from idlewin.core.phase import Row
from idlewin.sim.kinds import FaultKind
from tests.simulation.coverage import Cause, missing_causes, missing_faults, missing_rows
from tests.simulation.swarm import Result, report, run

WORLDS = 240


@pytest.fixture(scope="module")
def results() -> list[Result]:
    print(f"seeds 0 to {WORLDS - 1}")
    return run(range(WORLDS))


def test_no_promise_is_broken_in_any_world(results: list[Result]):
    broken = [report(result) for result in results if result.failure]

    assert not broken, "\n".join(broken[:3])


def test_every_row_of_the_machine_fires_often(results: list[Result]):
    rows: Counter[Row] = sum((result.rows for result in results), Counter())

    assert not missing_rows(rows)


def test_every_cause_of_a_row_fires_often(results: list[Result]):
    causes: Counter[Cause] = sum((result.causes for result in results), Counter())

    assert not missing_causes(causes)


def test_every_kind_of_fault_hits_every_phase(results: list[Result]):
    hits: Counter[tuple[FaultKind, str]] = sum((result.hits for result in results), Counter())

    assert not missing_faults(hits)
