"""Two replicas: the leader is killed, ended or frozen at its writes, and the other goes on.

One pool a write, before and after the API server has it: all are caught there at the same time, by
the leader's own proxy, and what befalls the leader befalls it at every step of a handover.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.pairs import NODES, SPOTS, Pair, a_pair
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import ControlPlane

pytestmark = pytest.mark.controlplane
PLANE = {"nodes": NODES}


@pytest.fixture(scope="module")
def pair(
    plane: ControlPlane, promlab_programs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("failover")
    with a_pair(plane, promlab_programs, folder, lease_duration="5s") as pair:
        yield pair


def test_a_leader_killed_at_any_write_of_giving_away_is_taken_over(pair: Pair) -> None:
    begin, windows = pair.at_rest(lent=False), pair.counted("windows")
    leader, other, held = pair.caught()
    pair.users_leave()
    held.wait()

    pair.controllers[leader].process.kill(signal.SIGKILL)
    killed = time.monotonic()
    held.release(drop=True)
    pair.taken_over(other, killed)
    pair.lent()

    pair.controllers[leader].process.start()
    pair.check(begin)
    assert pair.counted("windows") == [before + 1 for before in windows]


def test_a_leader_killed_at_any_write_of_giving_back_is_taken_over(pair: Pair) -> None:
    begin, returns = pair.at_rest(lent=True), pair.counted("returns")
    leader, other, held = pair.caught()
    pair.users_come()
    held.wait()

    pair.controllers[leader].process.kill(signal.SIGKILL)
    killed = time.monotonic()
    held.release(drop=True)
    pair.taken_over(other, killed)
    pair.served()

    pair.controllers[leader].process.start()
    pair.check(begin)
    assert pair.counted("returns") == [before + 1 for before in returns]


def test_a_leader_frozen_while_giving_away_opens_nothing_and_lowers_nothing_for_good(
    pair: Pair,
) -> None:
    """Its write on the way comes when the other has long given back; then it wakes."""
    begin = pair.at_rest(lent=False)
    leader, other, held = pair.caught()
    pair.users_leave()
    held.wait()
    process, done = pair.controllers[leader].process, pair.cycles(leader)

    os.kill(process.pid, signal.SIGSTOP)
    frozen = time.monotonic()
    pair.users_come()
    pair.taken_over(other, frozen)
    pair.served()
    held.release(drop=False)
    os.kill(process.pid, signal.SIGCONT)
    wait_for("the end of its cycles", lambda: pair.cycles(leader) >= done + len(SPOTS))

    pair.served()
    pair.check(begin)
    opened = [
        seen.key
        for seen in pair.recorder.history()
        if seen.kind == "ClusterQueue"
        and seen.version > begin
        and seen.raw["spec"].get("stopPolicy", "None") == "None"
    ]
    assert opened == []


def test_a_leader_that_is_told_to_end_ends_between_two_actions(pair: Pair) -> None:
    begin = pair.at_rest(lent=False)
    leader, _, held = pair.caught()
    pair.users_leave()
    held.wait()
    process = pair.controllers[leader].process
    pid = process.pid

    os.kill(pid, signal.SIGTERM)
    wait_for("its stopping", lambda: not process.answers("readinessProbe"))
    held.release(drop=False)
    code = process.kill(signal.SIGTERM)
    holder = pair.holder()
    pair.lent()

    process.start()
    assert code == 0
    assert holder != str(pid), "the Lease is to be given up at the end"
    # Each write that was on its way is noted; nothing else is begun.
    assert {exchange.path.rpartition("/")[2] for exchange in held.late} <= {"status"}
    assert len({exchange.path for exchange in held.late}) == len(held.late)
    pair.check(begin)


def test_a_leader_frozen_while_giving_back_harms_no_later_window(pair: Pair) -> None:
    begin = pair.at_rest(lent=True)
    leader, other, held = pair.caught()
    pair.users_come()
    held.wait()
    process, done = pair.controllers[leader].process, pair.cycles(leader)

    os.kill(process.pid, signal.SIGSTOP)
    frozen = time.monotonic()
    pair.taken_over(other, frozen)
    pair.served()
    pair.users_leave()
    pair.lent()
    held.release(drop=False)
    os.kill(process.pid, signal.SIGCONT)
    wait_for("the end of its cycles", lambda: pair.cycles(leader) >= done + len(SPOTS))

    pair.lent()
    pair.users_come()
    pair.served()
    pair.check(begin)
