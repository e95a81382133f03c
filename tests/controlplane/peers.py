"""Faults under which other tools lose what serving was, done to idlewin on a real control plane.

Each case is a pool of its own: some Deployments in a namespace, of 0, 1, 2, 3 and 5 replicas, which
the calendar alone puts away. ``the_story`` does to each pool what its case says, and tells what was
seen; *lost* is a Deployment that is not as its owner had it last, once its window is over.
``test_peers.py`` runs it small, ``tests/bench/peers.py`` large.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.controlplane.deployed import deploy
from tests.controlplane.running import Running
from tests.controlplane.scene import RECORD, Scene
from tests.controlplane.setting import RULES
from tests.labs.kubelab.api import ApiError, wait_for
from tests.labs.kubelab.audit import Entry
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.kubelab.proxy import Exchange, Moment, Proxy

COUNTS = (0, 1, 2, 3, 5)
#: A pool a case, and one beside them to which nothing is done.
POOLS = (
    "edge",
    "killed",
    "dead",
    "remade",
    "by-hand",
    "wiped",
    "forgotten",
    "unknown",
    "fought",
    "broken",
    "good",
    "away-down",
    "away-up",
    "slow",
)
PLANE: dict[str, Any] = {
    "nodes": {pool: {GPU: "1", "pods": "300"} for pool in POOLS},
    "kueue_excluded_namespaces": [*POOLS, "idlewin-system"],
}
#: No window opens again while one looks.
STAYS = {"minServing": "30m"}
#: From an edit that sets the end of a window to that end: giving back starts some seconds before.
SOON = timedelta(seconds=12)
SECOND = timedelta(seconds=1)
#: The window.min of every rule here, in seconds.
SHORTEST = 5
WRITER = "a-second-writer"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How large the cases are, and how long their faults last."""

    deployments: int = 5
    meddled: int = 2
    """With so many Deployments of a pool somebody meddles."""
    late: timedelta = timedelta(seconds=5)
    """A controller that is dead at an edge is back so long after it."""
    away: timedelta = timedelta(seconds=14)
    """So long the API server is away, half of it before the edge."""
    throttle: timedelta = timedelta(seconds=6)
    """So long takes each write of a scale-down that is slowed down."""
    slow_window: timedelta = timedelta(seconds=20)
    """So long after it opens, the window of that pool ends."""
    tick: str = "1s"


@dataclass(slots=True, kw_only=True)
class Told:
    """What was seen of one pool."""

    targets: int
    above: int
    """So many of them were above zero."""
    lost: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)


class Story:
    """The pools, and what is done to them."""

    def __init__(self, plane: ControlPlane, proxy: Proxy, running: Running, size: Size) -> None:
        self.plane, self.api, self.proxy, self.running = plane, plane.api, proxy, running
        self.size = size
        self.began = datetime.now(UTC)
        self.scenes = {pool: _scene(plane, pool, size) for pool in POOLS}
        self.facts: dict[str, dict[str, Any]] = {pool: {} for pool in POOLS}

    # -- a pool

    def furnish(self, *pools: str) -> None:
        """All that a pool needs but its rule, with work that waits."""
        scenes = [self.scenes[pool] for pool in pools]
        with ThreadPoolExecutor(4) as people:
            list(people.map(self._make, scenes))
        for scene in scenes:
            for target in scene.targets:
                scene.wait_ready(target)

    def _make(self, scene: Scene) -> None:
        self.plane.add_namespace(scene.name)
        scene.make_queues()
        for target in scene.targets:
            scene.make_target(target)
        scene.make_job(f"{scene.name}-work")

    def open(self, *pools: str, **window: Any) -> None:
        """Make the rules, and wait until all of the pools are lent."""
        for pool in pools:
            self.scenes[pool].make_rule(window={**STAYS, **window})
        self.lent(*pools)

    def lent(self, *pools: str) -> None:
        for pool in pools:
            self.scenes[pool].wait_phase("Harvesting", timeout=180)

    def ends(self, *pools: str, after: timedelta = SOON) -> datetime:
        """Set the end of open windows, as an edit of the rule; when the last of them ends."""
        end = datetime.now(UTC) + after
        for pool in pools:
            opened = datetime.fromisoformat(self.scenes[pool].status()["window"]["openedAt"])
            # A rule is not readable with a window.max below its window.min.
            length = max(SHORTEST, int((end - opened) / SECOND))
            end = max(end, opened + length * SECOND)
            patch = {"spec": {"window": {"max": f"{length}s"}}}
            self.api.patch(self.scenes[pool].rule_path, patch)
        return end

    def back(self, *pools: str) -> None:
        """Wait until the pools are given back, whatever their counts are then."""
        for pool in pools:
            scene = self.scenes[pool]
            scene.wait_phase("Serving", timeout=180)
            wait_for(f"no record in {pool}", lambda s=scene: not _records(s), 60)

    def some(self, pool: str) -> list[str]:
        """The Deployments of a pool that are meddled with: those above zero first."""
        targets = self.scenes[pool].targets
        return sorted(targets, key=lambda name: targets[name] == 0)[: self.size.meddled]

    def counts(self, pool: str) -> dict[str, int]:
        """The replicas that a pool's Deployments want now."""
        path = self.scenes[pool].target_path("").rstrip("/")
        return {one["metadata"]["name"]: one["spec"]["replicas"] for one in self.api.list(path)}

    def down(self, pool: str) -> int:
        """How many of its Deployments are lowered."""
        wanted = self.scenes[pool].targets
        return sum(count == 0 < wanted[name] for name, count in self.counts(pool).items())

    def told(self, pool: str) -> Told:
        """What became of a pool; asked when its window is over."""
        wanted, now = self.scenes[pool].targets, self.counts(pool)
        return Told(
            targets=len(wanted),
            above=sum(count > 0 for count in wanted.values()),
            lost=tuple(name for name, count in wanted.items() if now.get(name) != count),
            facts=self.facts[pool],
        )

    def moved_at(self, pool: str, phase: str) -> datetime:
        """When a pool came to a phase last, by the controller's own journal."""
        lines = [x for x in self.running.journal(pool) if x["after"] == phase != x["before"]]
        return datetime.fromisoformat(lines[-1]["at"])

    def writes(self, pool: str) -> list[Entry]:
        """What the controller wrote to the pool's Deployments and its rule, and was let to."""
        return [
            entry
            for entry in self.plane.audit.writes(user=self.running.process.user, since=self.began)
            if entry.code < 400
            and (entry.namespace == pool or (entry.resource, entry.name) == ("idlerules", pool))
        ]

    def answers(self, code: int) -> int:
        """How often the controller was answered by a status code so far."""
        asked = self.plane.audit.entries(user=self.running.process.user, since=self.began)
        return sum(entry.code == code for entry in asked)

    # -- C10: the edges of the calendar

    def calendar(self, pool: str, *, ahead: timedelta) -> datetime:
        """A rule whose calendar opens at the next minute that is so far ahead; when that is."""
        edge = (datetime.now(UTC) + ahead).replace(second=0, microsecond=0) + timedelta(minutes=1)
        spans = [f"{edge:%Y-%m-%dT%H:%M}/{edge + timedelta(hours=1):%Y-%m-%dT%H:%M}"]
        self.scenes[pool].make_rule(window={**STAYS, "calendar": {"allow": spans}})
        self.facts[pool]["edge"] = edge
        return edge

    def exact(self, pool: str) -> None:
        """How its scale-down lies to the edge of the calendar."""
        edge = self.facts[pool]["edge"]
        lowered = [entry for entry in self.writes(pool) if entry.resource == "deployments"]
        # The audit log has the time at which a request was over.
        self.facts[pool]["first"] = (min(entry.at for entry in lowered) - edge) / SECOND
        self.facts[pool]["last"] = (max(entry.at for entry in lowered) - edge) / SECOND

    def returned(self, pool: str, end: datetime) -> None:
        """How its return lies to the window's end, and what both edges cost."""
        facts, writes = self.facts[pool], self.writes(pool)
        facts["begun"] = (self.moved_at(pool, "Reclaiming") - end) / SECOND
        facts["ready"] = (self.moved_at(pool, "Serving") - end) / SECOND
        facts["patches"] = sum(entry.resource == "deployments" for entry in writes)
        facts["status"] = sum(entry.subresource == "status" for entry in writes)

    # -- C1 and C2: the controller is killed

    def killed(self, pool: str) -> None:
        """In the middle of its scale-down; it is back two seconds later."""
        scene, process = self.scenes[pool], self.running.process
        above = sum(count > 0 for count in scene.targets.values())
        # The finalizer and the status come first, then two writes a Deployment.
        shot = self.proxy.at(2 + above, Moment.AFTER, process.kill)
        scene.make_rule(window=STAYS)
        assert shot.wait(120), "the scale-down has no such write"
        self.facts[pool]["down"] = self.down(pool)
        time.sleep(2)
        process.start()
        process.wait_ready()
        self.lent(pool)
        self.ends(pool, after=SECOND)
        self.back(pool)

    def dead(self, pool: str) -> None:
        """In the middle of the window; it is back only when the end is past."""
        process = self.running.process
        process.kill()
        end = self.ends(pool, after=2 * SECOND)
        _sleep_until(end + self.size.late)
        assert self.down(pool), "somebody else brought it back"
        process.start()
        process.wait_ready()
        began = datetime.now(UTC)
        self.back(pool)
        self.facts[pool]["after"] = (datetime.now(UTC) - began) / SECOND

    # -- C3 to C7: people and others meddle with open windows

    def remade(self, pool: str) -> None:
        scene = self.scenes[pool]
        for name in self.some(pool):
            self.api.delete(scene.target_path(name))
        for name in self.some(pool):
            wait_for("its end", lambda name=name: self.api.find(scene.target_path(name)) is None)
            scene.make_target(name)

    def by_hand(self, pool: str) -> None:
        scene = self.scenes[pool]
        for name in self.some(pool):
            path = f"{scene.target_path(name)}?fieldManager=kubectl"
            self.api.patch(path, {"spec": {"replicas": 7}})
        scene.targets = {**scene.targets, **dict.fromkeys(self.some(pool), 7)}

    def wiped(self, pool: str, *, all_of_them: bool = False) -> None:
        scene = self.scenes[pool]
        for name in scene.targets if all_of_them else self.some(pool):
            self.api.patch(scene.target_path(name), {"metadata": {"annotations": {RECORD: None}}})

    def forgotten(self, pool: str) -> None:
        """The status of its rule, all of it."""
        self.api.patch(f"{self.scenes[pool].rule_path}/status", {"status": None})

    def broken(self, pool: str) -> None:
        patch = {"spec": {"window": {"calendar": {"allow": ["Mon-Fry 20:00-06:00"]}}}}
        self.api.patch(self.scenes[pool].rule_path, patch)

    def fought(self, pool: str, least: timedelta) -> None:
        """Somebody raises what is at zero, each second, until idlewin gives in, and a while on."""
        scene, names, raised = self.scenes[pool], self.some(pool)[:5], 0
        until = datetime.now(UTC) + timedelta(seconds=180)
        stop = datetime.now(UTC) + least
        while datetime.now(UTC) < until:
            now = self.counts(pool)
            for name in (name for name in names if now[name] == 0):
                with contextlib.suppress(ApiError):
                    self.api.patch(
                        f"{scene.target_path(name)}?fieldManager={WRITER}",
                        {"spec": {"replicas": scene.targets[name]}},
                    )
                    raised += 1
            if scene.status().get("contestedBy") and datetime.now(UTC) > stop:
                break
            time.sleep(1)
        lowered = [e for e in self.writes(pool) if e.name in names and e.resource == "deployments"]
        self.facts[pool] |= {
            "raised": raised / len(names),
            "writes": len(lowered) / len(names),
            "contested": scene.status().get("contestedBy", ""),
            "windows": scene.status()["counters"]["windows"],
        }

    # -- C8: the API server is away

    def away(self, down: str, up: str) -> None:
        """Across an edge at which one pool goes down, and another one is due back."""
        end = self.ends(up, after=self.size.away / 2 + 2 * SECOND)
        scene, pid = self.scenes[down], self.running.process.pid
        until = f"{end:%Y-%m-%dT%H:%M:%SZ}"
        kind = {"apiVersion": "idlewin.dev/v1alpha1", "kind": "IdleRule"}
        meta = {"name": scene.name, "annotations": {"idlewin.dev/wake-until": until}}
        self.api.post(RULES, {**kind, "metadata": meta, "spec": scene.spec(window=STAYS)})
        # Its window waits for nothing but the end of the claim.
        wait_for("the claim is seen", lambda: scene.reason() == "WakeClaimed")
        self.plane.kill("kube-apiserver")
        _sleep_until(end + self.size.away / 2)
        self.plane.run("kube-apiserver")
        self.plane.wait_ready("kube-apiserver")
        began = datetime.now(UTC)
        above = self.told(down).above
        wait_for(f"scale-down of {down}", lambda: self.down(down) == above, 180)
        self.facts[down]["after"] = (datetime.now(UTC) - began) / SECOND
        self.facts[down]["down"] = self.down(down)
        self.lent(down)
        self.back(up)
        self.facts[up]["after"] = (datetime.now(UTC) - began) / SECOND
        for pool in (down, up):
            self.facts[pool]["same process"] = self.running.process.pid == pid
        self.ends(down, after=SECOND)
        self.back(down)

    # -- C9: the scale-down takes longer than the window

    def throttled(self, pool: str) -> None:
        wait = self.size.throttle / SECOND

        def hook(exchange: Exchange, moment: Moment) -> None:
            lowers = exchange.number and f"/namespaces/{pool}/deployments/" in exchange.path
            if lowers and moment is Moment.BEFORE:
                time.sleep(wait)

        self.proxy.hook = hook
        length = f"{self.size.slow_window / SECOND:.0f}s"
        self.scenes[pool].make_rule(window={**STAYS, "max": length, "yieldTimeout": "10m"})

    def slow(self, pool: str) -> None:
        scene = self.scenes[pool]
        wait_for("its window", lambda: scene.status().get("counters", {}).get("windows"), 180)
        self.back(pool)
        done = [one for line in self.running.journal(pool) for one in line["outcomes"]]
        self.facts[pool]["lowered"] = sum(o["action"]["kind"] == "ScaleToZero" for o in done)


def _scene(plane: ControlPlane, pool: str, size: Size) -> Scene:
    targets = {f"{pool}-{n}": COUNTS[n % len(COUNTS)] for n in range(size.deployments)}
    return Scene(
        plane=plane,
        name=pool,
        node=pool,
        targets=targets,
        namespace=pool,
        claims=False,
        demand="CalendarOnly",
    )


def _records(scene: Scene) -> list[str]:
    found = scene.api.list(scene.target_path("").rstrip("/"))
    marked = (one["metadata"] for one in found)
    return [meta["name"] for meta in marked if RECORD in (meta.get("annotations") or {})]


def _sleep_until(instant: datetime) -> None:
    time.sleep(max(0.0, (instant - datetime.now(UTC)) / SECOND))


@contextlib.contextmanager
def a_story(plane: ControlPlane, folder: Path, size: Size) -> Iterator[Story]:
    """The controller at work behind a proxy, without a Lease: a new one would wait for the old."""
    things = deploy(plane)
    account = plane.service_account_kubeconfig("idlewin-system", "idlewin")
    with (
        Proxy(plane, leave_out="/events$") as proxy,
        # Nobody asks for demand here: a Prometheus that is not there does for CalendarOnly.
        Running(
            plane,
            things,
            folder,
            "http://127.0.0.1:9",
            kubeconfig=proxy.kubeconfig(account),
            no_lease=None,
            tick=size.tick,
        ) as running,
    ):
        yield Story(plane, proxy, running, size)


def the_story(story: Story, *, fought_for: timedelta = timedelta()) -> dict[str, Told]:
    """All cases, in as few windows as do not disturb each other; what was seen of each pool."""
    meddled = ("remade", "by-hand", "wiped", "forgotten", "unknown", "broken", "good")
    story.furnish("edge")
    story.calendar("edge", ahead=timedelta(seconds=5))
    story.furnish(*(pool for pool in POOLS if pool != "edge"))
    story.throttled("slow")
    story.open(*meddled, "dead", "away-up")
    story.scenes["fought"].make_rule(window={"minServing": "1s"})
    with ThreadPoolExecutor(1) as other:
        fight = other.submit(story.fought, "fought", fought_for)
        story.remade("remade")
        story.by_hand("by-hand")
        story.wiped("wiped")
        story.forgotten("forgotten")
        story.wiped("unknown", all_of_them=True)
        story.forgotten("unknown")
        story.broken("broken")
        story.back("remade", "by-hand", "forgotten", "unknown", "broken")
        story.lent("edge")
        story.exact("edge")
        end = story.ends("wiped", "good", "edge")
        story.back("wiped", "good", "edge")
        story.returned("edge", end)
        story.slow("slow")
        fight.result()
    story.back("fought")
    story.killed("killed")
    story.dead("dead")
    # Before the API server is away: as it starts, it answers so itself.
    story.facts["edge"] |= {"409": story.answers(409), "429": story.answers(429)}
    story.away("away-down", "away-up")
    return {pool: story.told(pool) for pool in POOLS}
