"""A decision in words, and what is told beside it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import typer

from idlewin.adapters.arbiter import Arbiters
from idlewin.cli import explain as verb
from idlewin.core import opening, timing
from idlewin.core.decide import decide
from idlewin.core.decision import Check
from idlewin.core.explain import ends, line
from idlewin.core.phase import Phase
from idlewin.errors import Exit
from tests.builders import (
    BUSY,
    HOUR,
    MINUTE,
    NOW,
    a_pool,
    a_queue,
    a_situation,
    a_workload,
    an_outlook,
)


@pytest.fixture
def lent():
    since = NOW - 2 * MINUTE
    short = (
        a_workload("cut", max_runtime=5 * MINUTE, admitted=True, admitted_at=since),
        a_workload("waiting"),
        a_workload("free", max_runtime=None, admitted=True, admitted_at=since),
    )
    agreed = (
        a_workload("agreed", "resumable", admitted=True, admitted_at=since),
        a_workload("both", "resumable", max_runtime=HOUR, admitted=True, admitted_at=since),
    )
    queues = (
        a_queue(workloads=short, bound_enforced=False),
        a_queue("resumable", workloads=agreed),
    )
    return a_situation(Phase.HARVESTING, pool=a_pool(queues=queues))


def test_each_admitted_job_is_told_with_its_end(lent):
    assert [line.partition(" in queue ")[::2] for line in ends(lent)] == [
        ("work: batch/cut", "short has to end by 2026-03-04T01:03:00Z"),
        ("work: batch/free", "short has no agreed end"),
        ("work: batch/agreed", "resumable leaves when asked"),
        (
            "work: batch/both",
            "resumable leaves when asked, and has to end by 2026-03-04T01:58:00Z",
        ),
    ]
    assert not list(ends(a_situation()))


@pytest.fixture
def seen(monkeypatch):
    """Puts a situation in the place of a cluster."""

    def put(situation):
        cluster = SimpleNamespace(names=lambda: ["b580"], rule=lambda _: situation.object)
        world = SimpleNamespace(
            cluster=cluster,
            kubernetes=cluster,
            observer=SimpleNamespace(situation=lambda _: situation),
            controller=SimpleNamespace(cycle=lambda _: decide(situation)),
            arbiters=Arbiters(),
        )
        monkeypatch.setattr(verb, "explaining", lambda _: world)
        monkeypatch.setattr(verb, "in_sight", lambda _: nullcontext())

    return put


def test_idlewin_explain_tells_the_ends(lent, seen, capsys, tmp_path):
    seen(lent)

    verb.explain("b580", rules=tmp_path)

    assert "\n  work: batch/cut in queue short has to end by 2026-03" in capsys.readouterr().out


def test_a_picture_of_the_forecast_is_drawn_and_leaves_the_answer_as_it_is(
    lent, seen, capsys, tmp_path
):
    seen(lent)

    verb.explain("b580", rules=tmp_path)
    plain = capsys.readouterr()
    verb.explain("b580", rules=tmp_path, picture=tmp_path / "b580.png")
    told = capsys.readouterr()

    assert (tmp_path / "b580.png").read_bytes().startswith(b"\x89PNG")
    assert (told.out, plain.err) == (plain.out, "")
    assert told.err == f"picture of the forecast: {tmp_path / 'b580.png'}\n"


def test_of_a_window_it_shows_when_giving_back_begins_and_serving_is_wanted(lent):
    shown = verb._drawn(lent)

    assert (shown.lent, shown.forecast) == (True, lent.outlook.forecast)
    assert shown.wanted_at == timing.wanted_back(lent, lent.window.opened_at)
    assert shown.reclaim_at == opening.due(lent)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"load": BUSY, "outlook": None}, "there is no forecast: waiting is 3, busy above 0"),
        (
            {"outlook": an_outlook(ready=False, rests_on="needs 7 d, has 2 d")},
            "b580 has no forecast: needs 7 d, has 2 d",
        ),
    ],
)
def test_where_nothing_is_forecast_there_is_no_picture_and_a_line_says_why(
    changes, why, seen, capsys, tmp_path
):
    seen(a_situation(**changes))

    with pytest.raises(typer.Exit) as ended:
        verb.explain("b580", rules=tmp_path, picture=tmp_path / "b580.png")

    assert ended.value.exit_code == Exit.FAILED
    assert capsys.readouterr().err == f"no picture: {why}\n"


def test_what_was_looked_for_and_not_found_is_told_as_none():
    assert line(Check("our record on", passed=False, observed="")) == "no  our record on: none"
