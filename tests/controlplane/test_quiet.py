"""Observe writes the rule's own status and Events, a dry run nothing: the API server's log says so.

The same rule lives through the same demand three times: dry, in Observe, and in Act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.deployed import Thing, deploy
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.audit import WRITES, Entry
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.exporters import Exporter

pytestmark = pytest.mark.controlplane
#: A run that says "nothing was written" must be one in which at least so much could have been.
AT_LEAST = 8


@dataclass(kw_only=True)
class Pool:
    """A pool with work waiting, whose users the test plays."""

    scene: Scene
    exporter: Exporter
    things: list[Thing]
    prometheus: str
    folder: Path

    def users(self, *, there: bool) -> None:
        self.exporter.set("demand", int(there), pool=self.scene.name)

    def live(self, mode: str, *, dry: bool = False) -> tuple[list[Entry], list[dict[str, Any]]]:
        """Users go and come back under a controller: all that it asked for, and its decisions."""
        self.users(there=True)
        self.scene.api.patch(self.scene.rule_path, {"spec": {"mode": mode}})
        acts, name, began = mode == "Act" and not dry, self.scene.name, datetime.now(UTC)
        with Running(
            self.scene.plane,
            self.things,
            self.folder / f"{mode}-{dry}",
            self.prometheus,
            **({"dry_run": None} if dry else {}),
        ) as running:

            def decided(reason: str) -> None:
                wait_for(reason, lambda: reason in {one["reason"] for one in running.journal(name)})

            decided("LoadBusy")
            self.users(there=False)
            decided("WindowOpen" if mode == "Act" else "ObserveOnly")
            if acts:
                wait_for("a running Job", lambda: self.scene.job_runs("train"))
            self.users(there=True)
            if acts:
                decided("HandoverComplete")
                self.scene.wait_ready()
            user, journal = running.process.user, running.journal(name)
        return self.scene.plane.audit.entries(user=user, since=began), journal


@pytest.fixture(scope="module")
def pool(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("quiet")
    scene, things = Scene(plane=plane), deploy(plane)
    with scraped(promlab_programs, folder, history_of([scene.name]), {}) as (exporter, prometheus):
        scene.set_up(mode="Observe")
        scene.make_job("train")
        yield Pool(
            scene=scene,
            exporter=exporter,
            things=things,
            prometheus=prometheus.url,
            folder=folder,
        )
        scene.clear()


def test_a_dry_run_in_act_decides_to_hand_over_and_asks_for_no_write_at_all(pool: Pool) -> None:
    entries, journal = pool.live("Act", dry=True)

    assert "WindowOpen" in {line["reason"] for line in journal}
    # Not even its Lease. What it asked by dry run, the API server stored nowhere.
    assert [e for e in entries if e.verb in WRITES and not e.dry_run] == []
    assert "status" not in pool.scene.rule()


def test_observe_writes_its_own_status_and_events_and_nothing_else(pool: Pool) -> None:
    entries, journal = pool.live("Observe")

    assert "ObserveOnly" in {line["reason"] for line in journal}
    written = {(e.resource, e.subresource, e.name) for e in entries if e.write}
    own = ("idlerules", "status", pool.scene.name)
    assert own in written
    assert {one for one in written if one[0] != "events"} == {own}
    assert pool.scene.served()


def test_the_same_rule_in_act_makes_the_writes_that_the_others_left_out(pool: Pool) -> None:
    entries, _ = pool.live("Act")

    made = Counter(
        f"{e.verb} {e.resource}{'/' * bool(e.subresource)}{e.subresource}"
        for e in entries
        if e.write and e.resource != "events"
    )
    print(f"{made.total()} writes in Act: {dict(made)}")
    assert made.total() >= AT_LEAST
    assert made["patch deployments"] >= 2
    assert made["patch clusterqueues"] >= 2
    assert pool.scene.served()
