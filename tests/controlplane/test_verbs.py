"""Each account may do what it does, and nothing else: the API server's audit log beside RBAC.

One pool with serving of every kind is lent twice, and Kueue dies in both windows. The first is
given back by the controller; in the second that is killed too, and the watchdog gives it back, with
the rule being deleted. So each rung of the ladder is taken by each account.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import threading
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from idlewin.cli.app import main
from idlewin.core.pool import WAKE_UNTIL
from tests.controlplane.deployed import Thing, deploy
from tests.controlplane.every_kind import EveryKind
from tests.controlplane.pools import NO_PROMETHEUS
from tests.controlplane.running import Running
from tests.controlplane.scene import PODS, Scene
from tests.controlplane.setting import JOBS
from tests.controlplane.test_deployed import may
from tests.controlplane.watchdog import NAMESPACE, Watchdog, age_lease
from tests.labs.kubelab.api import HOST, wait_for
from tests.labs.kubelab.audit import Entry, account
from tests.labs.kubelab.controlplane import GPU, ControlPlane
from tests.labs.servinglab.serving import Keda, KServe
from tests.rbac import Verb, accounts, granted, objects, verbs, without

pytestmark = pytest.mark.controlplane
PLANE = {"nodes": {"node-1": {GPU: "4"}, "node-2": {GPU: "1"}}}
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
HELD = sorted((who, verb) for who in accounts(objects()) for verb in granted(objects(), who))
LONG = timedelta(minutes=16)


@dataclass(kw_only=True)
class Life:
    """The pool, who looks after it, and what each account asked for when all is over."""

    plane: ControlPlane
    things: list[Thing]
    folder: Path
    scene: EveryKind
    asked: dict[str, list[Entry]] = field(default_factory=dict)

    def running(self) -> Running:
        return Running(self.plane, self.things, self.folder, NO_PROMETHEUS)

    def lend(self, window: int, running: Running) -> None:
        """A window with work under a contract on the cards, and some that has none."""
        job = f"leaves-{window}"
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"job-name": job}}}
        self.plane.api.post(BUDGETS, {"metadata": {"name": job}, "spec": spec})
        self.scene.make_job(job, retries=5)
        self.scene.wait_phase("Harvesting")
        wait_for("work under a contract", lambda: self.scene.job_runs(job))
        # Else the controller may close the queue for it, before Kueue has let it in.
        os.kill(running.process.pid, signal.SIGSTOP)
        try:
            self.scene.make_job(f"stays-{window}", contract=False)
            wait_for("work without one", lambda: self.scene.job_runs(f"stays-{window}"))
        finally:
            os.kill(running.process.pid, signal.SIGCONT)

    def without_kueue(self, window: int, seen: Callable[[], object]) -> None:
        """What agreed to it goes, budget or not; then the rest ends, and Kueue comes back."""
        pods = self.scene.job_pods(f"leaves-{window}")
        wait_for("its deletion", lambda: all(self.goes(pod["metadata"]["name"]) for pod in pods))
        (stays,) = self.scene.job_pods(f"stays-{window}")
        # As its kubelet would: Kueue's webhook lets nobody else change a pod now.
        done = {"status": {"phase": "Succeeded", "containerStatuses": []}}
        self.plane.api.patch(f"{PODS}/{stays['metadata']['name']}/status", done)
        wait_for("serving", self.ready, timeout=90)
        assert not self.plane.running("kueue")
        self.plane.run("kueue")
        self.plane.wait_ready("kueue")
        wait_for("the end of it", seen, timeout=90)

    def goes(self, pod: str) -> bool:
        found = self.plane.api.find(f"{PODS}/{pod}")
        return found is None or "deletionTimestamp" in found["metadata"]

    def ready(self) -> bool:
        return all(self.scene.target_ready(target) for target in self.scene.targets)

    def used(self, who: str) -> set[Verb]:
        """What an account asked for, and was let."""
        return {
            Verb(
                one.group, f"{one.resource}{'/' * bool(one.subresource)}{one.subresource}", one.verb
            )
            for one in self.asked[who]
            if one.resource and one.decision == "allow"
        }


def call(port: int, rule: str) -> None:
    """A user of serving's comes."""
    request = urllib.request.Request(
        f"http://{HOST}:{port}/wake/{rule}",
        data=json.dumps({"for": "5m"}).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert json.load(answer)


def by_the_controller(life: Life) -> Running:
    running = life.running()
    running.__enter__()
    life.lend(1, running)
    life.plane.kill("kueue", signal.SIGKILL)
    call(running.process.port, life.scene.name)
    life.without_kueue(1, life.scene.served)
    return running


def by_the_watchdog(life: Life, running: Running) -> None:
    scene = life.scene
    scene.api.delete(f"{JOBS}/leaves-1")
    scene.api.patch(scene.rule_path, {"metadata": {"annotations": {WAKE_UNTIL: None}}})
    # A return without Kueue holds the next window up.
    with pytest.raises(SystemExit) as end:
        main(["resume", scene.name, "--kubeconfig", str(life.plane.kubeconfig)])
    assert not end.value.code
    life.lend(2, running)
    running.process.kill()
    life.plane.kill("kueue", signal.SIGKILL)
    life.plane.api.delete(scene.rule_path)
    age_lease(life.plane, LONG)
    cron = next(thing for thing in life.things if thing["kind"] == "CronJob")
    template = cron["spec"]["jobTemplate"]["spec"]["template"]
    dog = Watchdog(
        plane=life.plane, pod={"metadata": {"name": "watchdog"}, "spec": template["spec"]}
    )
    ended: list[tuple[int, str]] = []
    going = threading.Thread(target=lambda: ended.append(dog.run()))
    going.start()
    life.without_kueue(2, lambda: life.plane.api.find(scene.rule_path) is None)
    going.join(60)
    assert [code for code, _ in ended] == [0], ended


@pytest.fixture(scope="module")
def life(
    plane: ControlPlane,
    kserve_programs: Path,
    keda_programs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Life:
    Keda(plane, keda_programs).start()
    KServe(plane, kserve_programs).start()
    folder, things = tmp_path_factory.mktemp("verbs"), deploy(plane)
    life = Life(plane=plane, things=things, folder=folder, scene=EveryKind(plane, "every"))
    life.scene.set_up()
    running = by_the_controller(life)
    try:
        by_the_watchdog(life, running)
    finally:
        running.__exit__()
    for who in accounts(objects()):
        life.asked[who] = plane.audit.entries(user=account(NAMESPACE, who))
    return life


@pytest.mark.parametrize("who", accounts(objects()))
def test_an_account_does_what_it_may_and_no_more(life: Life, who: str) -> None:
    print(f"{who}: {len(life.asked[who])} requests, {len(life.used(who))} verbs")
    assert [str(one) for one in sorted(life.used(who) - granted(objects(), who))] == []
    assert {one.uri for one in life.asked[who] if one.decision == "forbid"} == set()


@pytest.mark.parametrize(("who", "verb"), HELD, ids=[f"{who}: {verb}" for who, verb in HELD])
def test_without_a_verb_it_could_not_do_what_it_does(life: Life, who: str, verb: Verb) -> None:
    left = [without(one, verb) if "rules" in one else one for one in objects()]

    assert granted(objects(), who) - granted(left, who) == {verb}
    assert life.used(who) - granted(left, who) == {verb}


@contextlib.contextmanager
def taken(plane: ControlPlane, verb: Verb) -> Iterator[None]:
    """The role without a verb, as the authorizer has it; the whole of it afterwards."""
    role = next(
        one for one in objects() if one["kind"] == "ClusterRole" and verb in set(verbs(one))
    )
    path = f"{ROLES}/{role['metadata']['name']}"
    user = account(NAMESPACE, "idlewin")
    asked = {"group": verb.group, "resource": verb.resource, "verb": verb.verb}
    plane.api.patch(path, {"rules": without(role, verb)["rules"]})
    try:
        wait_for("less", lambda: not may(plane, user, **asked))
        yield
    finally:
        plane.api.patch(path, {"rules": role["rules"]})
        wait_for("all of it", lambda: may(plane, user, **asked))


def doctor(plane: ControlPlane) -> tuple[int, str]:
    """Its exit code, and what it says of the controller's permissions."""
    said = io.StringIO()
    account = ("--account", f"{NAMESPACE}/idlewin", "--kubeconfig", str(plane.kubeconfig))
    with contextlib.redirect_stdout(said), pytest.raises(SystemExit) as end:
        main(["doctor", "-o", "json", *account])
    found = [one["seen"] for one in json.loads(said.getvalue()) if one["about"] == "permissions"]
    return int(end.value.code or 0), " ".join(found)


def refused(running: Running, verb: Verb) -> bool:
    """Whether the API server's no stands in the way of a window of the rule ``less``."""
    no = f'cannot {verb.verb} resource "{verb.resource}"'
    return any(
        no in check["observed"] for line in running.journal("less") for check in line["checks"]
    )


def test_a_verb_that_is_taken_away_keeps_the_window_shut_and_is_told(life: Life) -> None:
    scene = Scene(plane=life.plane, name="less", node="node-2", demand="CalendarOnly")
    scene.set_up()
    scene.make_job("waits")
    for verb in (
        Verb("kueue.x-k8s.io", "clusterqueues", "patch"),
        Verb("apps", "deployments", "patch"),
    ):
        with taken(life.plane, verb), life.running() as running:
            wait_for("the refusal", partial(refused, running, verb))
            assert scene.reason() == "RehearsalRefused"
            assert scene.target_ready()
            code, said = doctor(life.plane)
            assert (code, f"may not patch {verb.resource}.{verb.group}" in said) == (1, True), said
    with life.running():
        scene.wait_phase("Harvesting")
        assert doctor(life.plane) == (0, f"{account(NAMESPACE, 'idlewin')} may do all of it")
    scene.clear()
