"""What other tools lose under these faults, idlewin does not: the bench's cases, small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.controlplane import peers
from tests.controlplane.peers import POOLS, WRITER, Size, Story, Told, a_story, the_story
from tests.controlplane.scene import RECORD
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
PLANE = peers.PLANE


@dataclass(frozen=True, slots=True)
class Seen:
    """The story after its end."""

    story: Story
    told: dict[str, Told]

    def why(self, pool: str) -> list[str]:
        """Why its windows were given back, in order."""
        moves = self.story.running.moves(pool)
        return [reason for _, after, reason in moves if after == "Reclaiming"]

    def condition(self, pool: str, kind: str) -> str:
        """What a condition of its rule says; empty: it is not there."""
        found = self.story.scenes[pool].status()["conditions"]
        return next((str(one["message"]) for one in found if one["type"] == kind), "")


@pytest.fixture(scope="module")
def seen(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with a_story(plane, tmp_path_factory.mktemp("peers"), Size()) as story:
        yield Seen(story, the_story(story))


@pytest.mark.parametrize("pool", [pool for pool in POOLS if pool != "unknown"])
def test_nothing_is_lost(seen: Seen, pool: str) -> None:
    assert seen.told[pool].lost == ()


def test_no_window_opens_before_the_edge_and_each_edge_costs_two_writes_a_target(
    seen: Seen,
) -> None:
    edge = seen.told["edge"]

    assert edge.facts["first"] >= 0
    assert edge.facts["patches"] == 2 * edge.above
    # One more a target notes what was done; the rest are the changes of phase.
    assert edge.facts["status"] <= 2 * edge.above + 12
    assert edge.facts["429"] == 0


def test_a_kill_in_the_middle_of_the_scale_down_is_made_good(seen: Seen) -> None:
    killed = seen.told["killed"]

    assert 0 < killed.facts["down"] < killed.above
    assert seen.why("killed") == ["WindowMax"]


def test_who_is_dead_at_the_edge_gives_back_when_it_is_there_again(seen: Seen) -> None:
    assert seen.why("dead") == ["WindowMax"]


def test_what_is_made_anew_or_set_by_hand_is_its_owners(seen: Seen) -> None:
    assert seen.why("remade") == ["TargetChanged"]
    assert seen.why("by-hand") == ["ServingRaised"]
    said = [
        check["observed"]
        for line in seen.story.running.journal("by-hand")
        for check in line["checks"]
        if line["reason"] == "ServingRaised" and line["before"] != line["after"]
    ]
    assert any("by kubectl" in observed for observed in said)


def test_either_copy_of_the_record_is_enough_and_without_both_it_is_named(seen: Seen) -> None:
    assert seen.why("wiped") == ["WindowMax"]
    assert seen.why("forgotten") == ["RecordFound"]
    unknown = seen.told["unknown"]
    assert len(unknown.lost) == unknown.above
    lost = seen.condition("unknown", "RecordLost")
    assert all(name in lost for name in unknown.lost)
    # Its cards are not lent again on top of that.
    assert seen.why("unknown") == ["RecordFound"]
    assert seen.story.scenes["unknown"].phase() == "Serving"


def test_a_second_writer_is_corrected_a_few_times_and_then_named(seen: Seen) -> None:
    facts: dict[str, Any] = seen.told["fought"].facts

    assert facts["contested"] == WRITER
    assert facts["windows"] <= 3
    assert facts["writes"] <= 2 * facts["windows"]


def test_an_unreadable_schedule_gives_back_its_own_targets_and_no_others(seen: Seen) -> None:
    assert seen.why("broken") == ["RuleChanged"]
    assert "Mon-Fry" in seen.condition("broken", "Ready")
    assert seen.why("good") == ["WindowMax"]


def test_an_api_server_that_is_away_at_an_edge_delays_it_and_no_more(seen: Seen) -> None:
    down, up = seen.told["away-down"], seen.told["away-up"]

    assert down.facts["same process"]
    assert down.facts["down"] == down.above
    assert seen.why("away-down") == ["WindowMax"]
    assert seen.why("away-up") == ["WindowMax"]
    assert up.facts["same process"]


def test_a_scale_down_that_takes_longer_than_its_window_stops_and_is_undone(seen: Seen) -> None:
    slow = seen.told["slow"]

    assert 0 < slow.facts["lowered"] < slow.above
    assert seen.why("slow") == ["WindowMax"]


def test_no_record_is_left_on_anything(seen: Seen) -> None:
    for scene in seen.story.scenes.values():
        for one in seen.story.api.list(scene.target_path("").rstrip("/")):
            assert RECORD not in (one["metadata"].get("annotations") or {})
