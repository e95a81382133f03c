"""A decision in words, and what is told beside it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from idlewin.cli import explain as verb
from idlewin.core.decide import decide
from idlewin.core.explain import ends
from idlewin.core.phase import Phase
from tests.builders import HOUR, MINUTE, NOW, a_pool, a_queue, a_situation, a_workload


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


def test_idlewin_explain_tells_the_ends(lent, monkeypatch, capsys, tmp_path):
    cluster = SimpleNamespace(names=lambda: ["b580"], rule=lambda _: lent.object)
    world = SimpleNamespace(
        cluster=cluster,
        kubernetes=cluster,
        observer=SimpleNamespace(situation=lambda _: lent),
        controller=SimpleNamespace(cycle=lambda _: decide(lent)),
    )
    monkeypatch.setattr(verb, "explaining", lambda _: world)
    monkeypatch.setattr(verb, "in_sight", lambda _: nullcontext())

    verb.explain("b580", rules=tmp_path)

    assert "\n  work: batch/cut in queue short has to end by 2026-03" in capsys.readouterr().out
