"""A recorded week comes out as it did: a change of behaviour that nobody meant shows here.

After a change that is meant: ``pytest tests/golden --update-golden``, and look at the difference.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from idlewin import traces
from idlewin.cli.recorded import DELAYS, MINUTE
from idlewin.core.window import Span
from idlewin.replay import Case, as_dict, replay
from idlewin.rulefile import read_files
from idlewin.wiring import replayed

HERE = Path(__file__).parent
CARDS = ("language/m-large#69", "language/m-mid#98")


def week(card: str) -> dict[str, object]:
    trace = traces.sample()
    about = traces.about(trace)
    (document,) = read_files([Path(traces.__file__).parent / "demo.yaml"]).documents
    # Not boosted: what is in its library differs from one processor to another.
    rule = replace(document.rule, forecast=replace(document.rule.forecast, method="hazard"))
    case = Case(
        card=card,
        rule=rule,
        busy=traces.busy_spans(traces.load(trace)[card], about.origin),
        covers=Span(about.origin, about.origin + about.minutes * MINUTE),
        judged_from=about.origin + timedelta(days=7),
        delays=DELAYS,
    )
    return as_dict(replay(case, replayed, lambda _now, _phase: None))


@pytest.mark.parametrize("card", CARDS)
def test_a_recorded_week_comes_out_as_it_did(card: str, request: pytest.FixtureRequest) -> None:
    path = HERE / f"replay-{card.replace('/', '-').replace('#', '-')}.json"

    found = json.dumps(week(card), indent=1) + "\n"

    if request.config.getoption("--update-golden"):
        path.write_text(found)
    assert found == path.read_text()
