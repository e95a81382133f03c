"""Two replicas of the controller, each behind a proxy of its own, and a pool for each write.

All pools are caught at their writes at the same time, by the leader's own proxy, so what befalls
the leader befalls it at every step of a handover.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.controlplane.deployed import deploy
from tests.controlplane.holding import Held
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running, history_of, scraped
from tests.controlplane.scene import Scene
from tests.controlplane.setting import JOBS, RESUMABLE
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.kubelab.proxy import Moment, Proxy
from tests.labs.promlab.exporters import Exporter

#: Each way has so many writes of a pool at least.
SPOTS = {f"{moment.name.lower()}-{n}": (n, moment) for moment in Moment for n in range(1, 6)}
NODES = {pool: {GPU: "1"} for pool in SPOTS}
#: Held while giving back, as while serving: nothing changes of such a queue but its epoch.
WAITS = {"maxRuntime": "60s", "grace": "1s"}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/idlewin-system/leases/idlewin"
Json = dict[str, Any]


@dataclass(kw_only=True)
class Pair:
    """Two controllers, each behind a proxy of its own, and the pools."""

    plane: ControlPlane
    exporter: Exporter
    recorder: Recorder
    controllers: list[Running]
    proxies: list[Proxy]
    scenes: dict[str, Scene] = field(default_factory=dict)
    windows: int = 0
    """How many there were so far."""

    # -- what people do

    def users_leave(self) -> None:
        """Users go, and there is work for each pool."""
        self.windows += 1
        for pool, scene in self.scenes.items():
            if scene.queues[pool] is WAITS:
                short = {"finish": "succeeded", "finish_after": "1s"}
                scene.make_job(f"{pool}-{self.windows}", contract=False, **short)
            elif self.windows == 1:
                scene.make_job(f"{pool}-1")
            self.exporter.set("demand", 0, pool=pool)

    def users_come(self) -> None:
        for pool in self.scenes:
            self.exporter.set("demand", 1, pool=pool)

    def at_rest(self, *, lent: bool) -> int:
        """Be there, wherever the test before has left it; the version then."""
        phases = {scene.phase() for scene in self.scenes.values()}
        if lent and phases != {"Harvesting"}:
            self.users_leave()
            self.lent()
        elif not lent and phases != {"Serving"}:
            self.users_come()
            self.served()
        return self.recorder.version()

    def counted(self, what: str) -> list[int]:
        return [scene.status()["counters"].get(what, 0) for scene in self.scenes.values()]

    # -- who leads

    def holder(self) -> str:
        """Which process holds the Lease; empty: none."""
        found = self.plane.api.get(LEASE)["spec"].get("holderIdentity") or ""
        return str(found.rpartition("_")[2])

    def leads(self, one: int) -> bool:
        return self.holder() == str(self.controllers[one].process.pid)

    def caught(self) -> tuple[int, int, Held]:
        """The leader, the other, and the leader's next writes: held from here on."""
        leader = wait_for("a leader", lambda: [one for one in (0, 1) if self.leads(one)])[0]
        other = 1 - leader
        wait_for("a standby", lambda: self.controllers[other].process.answers("readinessProbe"))
        self.proxies[other].counting.writes.clear()
        return leader, other, Held(self.proxies[leader], SPOTS)

    def taken_over(self, other: int, since: float) -> float:
        """After how many seconds the other wrote first."""
        wait_for("a leader that acts", lambda: self.proxies[other].writes)
        took = time.monotonic() - since
        print(f"taken over in {took:.1f} s")
        return took

    def cycles(self, one: int) -> int:
        """How many cycles a controller has ended."""
        url = f"http://{HOST}:{self.controllers[one].process.port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = [line.rpartition(" ") for line in answer.read().decode().splitlines()]
        return next(int(float(n)) for name, _, n in lines if name == "idlewin_cycle_seconds_count")

    # -- where it ends

    def lent(self) -> None:
        """Wait until every pool is lent, and a Job of its has run in this window."""
        for pool, scene in self.scenes.items():
            scene.wait_phase("Harvesting")
            name = f"{pool}-{self.windows if scene.queues[pool] is WAITS else 1}"
            wait_for(f"{name} at work", lambda s=scene, n=name: s.job_runs(n) or _done(s.job(n)))

    def served(self) -> None:
        """Wait until all is as it was before."""
        for pool, scene in self.scenes.items():
            scene.wait_phase("Serving")
            wait_for(f"{pool} as it was", scene.served)

    def check(self, since: int) -> None:
        """No card had two users since a version, and no work was lost that did not agree."""
        self.recorder.caught_up()
        for scene in self.scenes.values():
            assert scene.one_user_of_the_cards(self.recorder, since) > 0
        for job in self.plane.api.list(JOBS):
            assert not job["status"].get("failed"), job["metadata"]["name"]
        for seen in self.recorder.history():
            queue = seen.raw["spec"].get("queueName") if seen.kind == "Workload" else None
            if queue and self.scenes[queue].queues[queue] is WAITS:
                assert not _evicted(seen.raw), seen.key


def _done(job: Json) -> bool:
    return bool(job["status"].get("succeeded"))


def _evicted(work: Json) -> bool:
    conditions = work.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Evicted" and c["status"] == "True" for c in conditions)


@contextmanager
def a_pair(
    plane: ControlPlane, programs: Path, folder: Path, *, lease_duration: str
) -> Iterator[Pair]:
    """Both at work, every pool served. ``programs``: the lab's Prometheus."""
    things = deploy(plane)
    account = plane.service_account_kubeconfig("idlewin-system", "idlewin")
    with ExitStack() as stack:
        exporter, prometheus = stack.enter_context(
            scraped(programs, folder, history_of(SPOTS), dict.fromkeys(SPOTS, 1))
        )
        pair = Pair(
            plane=plane,
            exporter=exporter,
            recorder=stack.enter_context(Recorder(plane.api)),
            controllers=[],
            proxies=[stack.enter_context(Proxy(plane)) for _ in range(2)],
        )
        for pool, (_, moment) in SPOTS.items():
            queue = WAITS if moment is Moment.BEFORE else RESUMABLE
            scene = Scene(plane=plane, name=pool, node=pool, queues={pool: queue})
            pair.scenes[pool] = scene
            # Time for a takeover: else serving is put in line behind batch, which is allowed.
            scene.set_up(batch={"drainTimeout": "2m"})
        for number, proxy in enumerate(pair.proxies):
            running = Running(
                plane,
                things,
                folder / f"controller-{number}",
                prometheus.url,
                kubeconfig=proxy.kubeconfig(account),
                # So seldom that it is not the tick which finds what the other has left.
                tick="1h",
                lease_duration=lease_duration,
                workers="16",
            )
            pair.controllers.append(stack.enter_context(running))
        pair.served()
        yield pair
