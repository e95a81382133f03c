"""How long a takeover takes at the Lease that ships, and what is lost by it: nothing."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path

from idlewin.adapters.lease import Terms
from tests.bench.figures import Figure
from tests.controlplane.conftest import SERVING_NAMESPACE
from tests.controlplane.pairs import NODES, SPOTS, Pair, a_pair
from tests.labs.build import built
from tests.labs.kubelab.controlplane import ControlPlane


def failover_figures(folder: Path, times: int = 5) -> list[Figure]:
    """Each of two replicas is killed, and told to end, so many times in mid-handover."""
    lease = f"{Terms().duration.total_seconds():.0f}s"
    excluded = [SERVING_NAMESPACE, "idlewin-system"]
    with ControlPlane(
        built("kubelab"), folder / "plane", nodes=NODES, kueue_excluded_namespaces=excluded
    ) as plane:
        plane.add_namespace(SERVING_NAMESPACE)
        with a_pair(plane, built("promlab"), folder / "pair", lease_duration=lease) as pair:
            begin = pair.recorder.version()
            killed = [_handover(pair, signal.SIGKILL) for _ in range(times)]
            ended = [_handover(pair, signal.SIGTERM) for _ in range(times)]
            pair.at_rest(lent=False)
            pair.check(begin)
            lost = sum(not scene.served() for scene in pair.scenes.values())
    return [
        Figure(
            what=f"kills of the leader survived, each at {len(SPOTS)} writes of as many pools",
            value=str(times),
        ),
        Figure(what="  pools not as they were after them", value=str(lost), goal="0", met=not lost),
        _took(f"to take over from a leader killed in mid-handover, Lease of {lease}", killed),
        _took("to take over from one that is told to end", ended),
    ]


def _handover(pair: Pair, sig: signal.Signals) -> float:
    """A handover to batch or back in which the leader goes; seconds until the other writes."""
    lent = all(scene.phase() == "Harvesting" for scene in pair.scenes.values())
    leader, other, held = pair.caught()
    process = pair.controllers[leader].process
    if lent:
        pair.users_come()
    else:
        pair.users_leave()
    held.wait()
    since = time.monotonic()
    os.kill(process.pid, sig)
    held.release(drop=sig is signal.SIGKILL)
    took = pair.taken_over(other, since)
    process.kill(sig)
    if lent:
        pair.served()
    else:
        pair.lent()
    process.start()
    return took


def _took(what: str, seconds: list[float]) -> Figure:
    return Figure(
        what=f"{what}: median, worst of {len(seconds)}",
        value=f"{statistics.median(seconds):.1f} s, {max(seconds):.1f} s",
    )
