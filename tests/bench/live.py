"""Figures from the real control plane: a quiet controller, and how fast a wake shuts a queue."""

from __future__ import annotations

import contextlib
import http.client
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from idlewin.adapters.api import connect
from tests.bench.figures import Figure
from tests.bench.pools import (
    KUEUE,
    RULES,
    SERVING,
    Kind,
    PoolOf,
    demand,
    furnish,
    history,
    pools,
    rules,
    spare_queue,
)
from tests.controlplane.deployed import Controller, deploy
from tests.labs.build import built
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.audit import Entry
from tests.labs.kubelab.controlplane import ControlPlane
from tests.labs.promlab.exporters import Exporter
from tests.labs.promlab.prometheus import Prometheus

#: Steady: nothing was written for so long.
STILL = timedelta(seconds=40)
#: How many PATCH round trips are measured beside each wake.
PATCHES = 3
GONE = 410
Json = dict[str, Any]


def live_figures(folder: Path, *, over: timedelta, scale: int = 10) -> list[Figure]:
    """All of them: 5 * scale rules, watched over a time."""
    mixed = pools(busy=2 * scale, idle=scale, observe=scale, lent=scale)
    with _running(folder, mixed) as (plane, controller):
        found = _quiet(plane, controller, over, len(mixed))
        return [*found, *_wakes(plane, controller, mixed)]


@contextlib.contextmanager
def _running(folder: Path, mixed: list[PoolOf]) -> Iterator[tuple[ControlPlane, Controller]]:
    """The control plane, Prometheus and the controller, with everything at rest."""
    excluded = [SERVING, "idlewin-system"]
    with contextlib.ExitStack() as stack:
        plane = stack.enter_context(
            ControlPlane(
                built("kubelab"), folder / "plane", nodes={}, kueue_excluded_namespaces=excluded
            )
        )
        exporter = stack.enter_context(Exporter())
        demand(mixed, exporter)
        server = Prometheus(
            built("promlab"),
            folder / "prometheus",
            {"live": exporter.port},
            scrape_interval="5s",
        )
        server.backfill(history(mixed, int(time.time())))
        stack.enter_context(server)
        plane.add_namespace(SERVING)
        things = deploy(plane)
        furnish(plane, mixed)
        rules(plane, mixed)
        controller = stack.enter_context(
            Controller(plane, things, folder / "idlewin", options={"--prometheus": server.url})
        )
        controller.wait_ready()
        _rest(plane, controller, mixed)
        yield plane, controller


def _rest(plane: ControlPlane, controller: Controller, mixed: list[PoolOf]) -> None:
    """Wait until each pool is where it stays, and nothing has been written for a while."""
    lent = {pool.name for pool in mixed if pool.kind is Kind.LENT}

    def there() -> bool:
        found = {one["metadata"]["name"]: one.get("status", {}) for one in plane.api.list(RULES)}
        phases = {name: status.get("phase") for name, status in found.items()}
        return all(
            phase == ("Harvesting" if name in lent else "Serving") for name, phase in phases.items()
        )

    wait_for("windows", there, timeout=240, every=1)

    def still() -> bool:
        since = datetime.now(UTC) - STILL
        return not plane.audit.writes(user=controller.user, since=since)

    wait_for("quiet", still, timeout=300, every=5)


# -- steady state


def _quiet(
    plane: ControlPlane, controller: Controller, over: timedelta, rules: int
) -> list[Figure]:
    cpu, cycles, since = _cpu(controller.pid), _cycles(controller), datetime.now(UTC)
    time.sleep(over.total_seconds())
    cpu, cycles = _cpu(controller.pid) - cpu, _cycles(controller) - cycles
    entries = plane.audit.entries(user=controller.user, since=since)
    counted = Counter(kind for kind, _ in _sorted(entries))
    for kind, entry in _sorted(entries):
        if kind == "other":
            print(f"    {entry.verb} {entry.uri} {entry.code}")
    span, others = _minutes(over), counted["other"]
    return [
        Figure(
            what=f"requests in {span} with {rules} rules in steady state",
            value=str(others),
            goal="0",
            met=others == 0,
        ),
        Figure(what="  Lease renewals (reads and writes), apart", value=str(counted["lease"])),
        Figure(
            what="  watches that ended and were taken up again, apart", value=str(counted["watch"])
        ),
        Figure(what="  lists after 410, apart", value=str(counted["relist"])),
        Figure(what=f"cycles in {span}", value=str(cycles)),
        Figure(
            what="CPU time of the whole process a cycle without change",
            value=f"{cpu / max(cycles, 1) * 1000:.2f} ms",
        ),
        Figure(what="  as a share of one core", value=f"{cpu / over.total_seconds():.2%}"),
    ]


def _sorted(entries: list[Entry]) -> Iterator[tuple[str, Entry]]:
    """Each request with what it is counted as."""
    gone: set[str] = set()
    for entry in sorted(entries, key=lambda entry: entry.at):
        if entry.resource == "leases":
            yield "lease", entry
        elif entry.verb == "watch":
            if entry.code == GONE:
                gone.add(entry.resource)
            yield "watch", entry
        elif entry.verb == "list" and entry.resource in gone:
            yield "relist", entry
        else:
            yield "other", entry


def _minutes(over: timedelta) -> str:
    return f"{over / timedelta(minutes=1):g} min"


def _cpu(pid: int) -> float:
    """Seconds of CPU time that a process has used."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def _cycles(controller: Controller) -> int:
    """How many cycles a controller has run, as its own metrics say."""
    text = _call(controller, "GET", "/metrics")
    lines = (line.split() for line in text.splitlines())
    return next(int(float(line[1])) for line in lines if line[0] == "idlewin_cycle_seconds_count")


# -- a wake


class _Queues:
    """When each ClusterQueue was first seen with each stop policy, by a watch of its own."""

    def __init__(self, plane: ControlPlane) -> None:
        self.seen: dict[tuple[str, str], float] = {}
        self.changed = threading.Condition()
        self._plane = plane

    def watch(self) -> None:
        """Start to watch from now on; ends with the process."""
        version = self._plane.api.get(f"{KUEUE}/clusterqueues")["metadata"]["resourceVersion"]
        path = f"{KUEUE}/clusterqueues?watch=true&resourceVersion={version}"
        threading.Thread(target=self._run, args=(path,), daemon=True).start()

    def _run(self, path: str) -> None:
        with contextlib.suppress(OSError), self._plane.api.stream(path, timeout=600) as events:
            for event in events:
                now = time.perf_counter()
                thing = event["object"]
                key = (thing["metadata"]["name"], thing["spec"].get("stopPolicy", "None"))
                with self.changed:
                    self.seen.setdefault(key, now)
                    self.changed.notify_all()

    def shut(self, name: str) -> float | None:
        return min(
            (at for (queue, policy), at in self.seen.items() if queue == name and policy != "None"),
            default=None,
        )


def _wakes(plane: ControlPlane, controller: Controller, mixed: list[PoolOf]) -> list[Figure]:
    """From the POST to a queue that is seen shut, beside a PATCH of such a queue."""
    api, path = connect(controller.kubeconfig), spare_queue(plane, "spare")
    queues = _Queues(plane)
    queues.watch()
    trips, waits = [], []
    for pool in (pool for pool in mixed if pool.kind is Kind.LENT):
        for policy in ("HoldAndDrain", "Hold") * PATCHES:
            began = time.perf_counter()
            api.merge(path, {"spec": {"stopPolicy": policy}})
            trips.append(time.perf_counter() - began)
        began = time.perf_counter()
        _call(controller, "POST", f"/wake/{pool.name}?for=10m")
        with queues.changed:
            assert queues.changed.wait_for(lambda name=pool.name: queues.shut(name), 30), pool.name
        waits.append((queues.shut(pool.name) or 0) - began)
    trip, wait, worst = median(trips), median(waits), max(waits)
    return [
        Figure(
            what=f"PATCH round trip of a ClusterQueue, median of {len(trips)}",
            value=f"{trip * 1000:.1f} ms",
        ),
        Figure(
            what=f"POST /wake to a closed queue, median of {len(waits)}",
            value=f"{wait * 1000:.1f} ms",
        ),
        Figure(
            what="  as a multiple of that PATCH, median",
            value=f"{wait / trip:.1f}",
            goal="at most 3",
            met=wait / trip <= 3,
        ),
        Figure(what="  as a multiple of that PATCH, worst", value=f"{worst / trip:.1f}"),
    ]


def _call(controller: Controller, method: str, path: str) -> str:
    connection = http.client.HTTPConnection(HOST, controller.port, timeout=20)
    with contextlib.closing(connection):
        connection.request(method, path)
        response = connection.getresponse()
        text = response.read().decode()
    if response.status != http.HTTPStatus.OK:
        raise RuntimeError(f"{method} {path} is answered with {response.status}: {text}")
    return text
