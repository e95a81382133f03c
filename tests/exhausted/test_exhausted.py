"""A part of what ``python -m tests.exhausted`` looks at, and that a broken product is seen."""

# ruff: noqa: ARG005 - the shapes of what is broken

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core import plan, sealing
from idlewin.core.guard import GUARDS, fact
from idlewin.core.pool import StopPolicy
from idlewin.core.reason import Reason
from tests.exhausted.__main__ import told
from tests.exhausted.explore import Explorer, Found
from tests.exhausted.scenes import SCENES


def explored(name: str, most: int = 4_000, **changes) -> Found:
    return Explorer(replace(SCENES[name], **changes)).run(most=most)


@pytest.mark.parametrize("name", SCENES)
def test_no_promise_is_broken_in_the_states_that_are_reached_first(name: str):
    found = explored(name, 900)

    assert not found.violations, told(found)


def test_looking_twice_gives_the_same_states():
    first, second = explored("two-device", 300), explored("two-device", 300)

    assert (first.states, first.clusters, first.looks) == (
        second.states, second.clusters, second.looks
    )  # fmt: skip


def test_a_queue_that_opens_beside_serving_is_found(monkeypatch):
    monkeypatch.setitem(GUARDS, Reason.SERVING_GONE, lambda s: fact("gone", holds=True))

    broken = explored("one-claimed", faults=0).violations

    assert "P2: a queue is opened beside a serving pod" in broken
    assert broken["P2: a queue is opened beside a serving pod"][0].startswith(
        "leader A looks, no user there"
    )


def test_serving_that_returns_beside_batch_is_found(monkeypatch):
    monkeypatch.setitem(GUARDS, Reason.BATCH_GONE, lambda s: fact("gone", holds=True))
    monkeypatch.setitem(GUARDS, Reason.BATCH_SEEN, lambda s: fact("seen", holds=False))
    monkeypatch.setattr(plan.batch, "batch_pods", lambda s: ())

    broken = explored("one-device", faults=0).violations

    assert any(promise.startswith("P2: qwen opens the device node") for promise in broken)


def test_work_that_is_drained_and_never_agreed_is_found(monkeypatch):
    monkeypatch.setattr(
        sealing, "sealing_policy", lambda s, entry, queue: StopPolicy.HOLD_AND_DRAIN
    )

    broken = explored("one-claimed-wait", faults=0).violations

    assert any(promise.startswith("P4: ") for promise in broken)


def test_serving_that_is_never_brought_back_is_found(monkeypatch):
    monkeypatch.setattr(plan, "_restore", lambda s: ())

    broken = explored("one-claimed", faults=0).violations

    assert any(promise.startswith("P3: ") for promise in broken)
