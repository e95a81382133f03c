"""What is in Git is applied by the real kubectl in an open window, as GitOps tools write.

docs/gitops.md tells what is seen here. Argo CD and Flux are not run: these are their ways to write.
Every case is a pool of its own on one plane; what it has in Git is written once before its window
opens, and once in it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import writers
from tests.controlplane.deployed import deploy
from tests.controlplane.pools import NO_PROMETHEUS, STAYS, Pools
from tests.controlplane.recorder import Recorder
from tests.controlplane.running import Running
from tests.controlplane.scene import RECORD, Scene
from tests.controlplane.setting import KUEUE
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

pytestmark = pytest.mark.controlplane
Json = dict[str, Any]
CLIENT, SERVER = ("apply",), ("apply", "--server-side")
FORCED = (*SERVER, "--force-conflicts")
#: As Flux names itself, and as Argo CD does.
FLUX = (*FORCED, "--field-manager=kustomize-controller")
ARGO = (*FORCED, "--field-manager=argocd-controller")


@dataclass(frozen=True, kw_only=True)
class Git:
    """What is in Git, how it is written, and what becomes of the window."""

    verb: tuple[str, ...]
    then: tuple[str, ...] = ()
    """Another way in the window; none: the same."""
    replicas: tuple[bool, bool] = (False, False)
    """Whether the Deployment has its replicas, before the window and in it."""
    stop: tuple[str, str] = ("", "")
    """The stopPolicy of the ClusterQueue, before the window and in it."""
    ends: str = ""
    """The reason by which the window ends; none: it goes on."""
    named: str = ""
    """The field manager that is named then."""
    refused: str = ""
    """What kubectl says where the API server does not take it."""
    only: str = ""
    """The kind that is written in the window; none: both."""

    def things(self, scene: Scene, *, late: bool) -> list[Json]:
        name = scene.name
        deployment, queue = scene.deployment(name), scene.cluster_queue(name)
        if not self.replicas[late]:
            del deployment["spec"]["replicas"]
        if policy := self.stop[late]:
            queue["spec"]["stopPolicy"] = policy
        for thing in (deployment, queue):
            # Each commit changes something, so that nothing is left out as unchanged.
            thing["metadata"]["labels"] = {"git": name, "commit": f"c{int(late)}"}
        queue["metadata"]["annotations"] = {"idlewin.dev/rule": name}
        return [t for t in (deployment, queue) if not late or self.only in ("", t["kind"])]


WITH, WITHOUT = (True, True), (False, False)
PRUNE = (*CLIENT, "--prune", "--selector=git=NAME")
LISTED = ("--prune-allowlist=apps/v1/Deployment", "--prune-allowlist=kueue.x-k8s.io/v1beta2/ClusterQueue")  # fmt: skip # noqa: E501
CASES = {
    # Without the fields that are idlewin's a window goes on, however it is written.
    "client": Git(verb=CLIENT),
    "server": Git(verb=SERVER),
    "flux": Git(verb=FLUX),
    "argo": Git(verb=ARGO),
    "prune": Git(verb=(*PRUNE, *LISTED)),
    "applyset": Git(verb=(*CLIENT, "--prune", "--applyset=configmaps/NAME", "--namespace=serving")),
    # With replicas serving is raised: by somebody, and it stays so.
    "client-with": Git(
        verb=CLIENT, replicas=WITH, ends="ServingRaised", named="kubectl-client-side-apply"
    ),
    "flux-with": Git(verb=FLUX, replicas=WITH, ends="ServingRaised", named="kustomize-controller"),
    "argo-with": Git(verb=ARGO, replicas=WITH, ends="ServingRaised", named="argocd-controller"),
    "prune-with": Git(
        verb=(*PRUNE, *LISTED),
        replicas=WITH,
        ends="ServingRaised",
        named="kubectl-client-side-apply",
    ),
    # Not forced, the API server refuses it, and names idlewin.
    "server-with": Git(verb=SERVER, replicas=WITH, refused='conflict with "idlewin"'),
    # Taken out of Git in a window: a client takes the field away, and its default is 1.
    "client-removed": Git(
        verb=CLIENT,
        replicas=(True, False),
        ends="ServingRaised",
        named="kubectl-client-side-apply",
    ),
    "server-removed": Git(verb=FORCED, replicas=(True, False)),
    # The whole object is written anew.
    "replace": Git(
        verb=CLIENT,
        then=("replace",),
        only="Deployment",
        ends="ServingRaised",
        named="kubectl-replace",
    ),
    "queue-replace": Git(verb=CLIENT, then=("replace",), only="ClusterQueue"),
    # The queue: closed by Git it stays closed, in the window and after it.
    "queue-client": Git(verb=CLIENT, stop=("Hold", "Hold"), named="kubectl-client-side-apply"),
    "queue-flux": Git(verb=FLUX, stop=("Hold", "Hold"), named="kustomize-controller"),
    "queue-server": Git(verb=SERVER, stop=("Hold", "Hold"), refused='conflict with "idlewin"'),
    # Open in Git: in a window nothing happens. What comes of it is seen when the window has ended.
    "queue-open": Git(verb=FLUX, stop=("None", "None")),
}
GOES_ON = [name for name, git in CASES.items() if not git.ends and not git.named]
ENDS = [name for name, git in CASES.items() if git.ends]
CLOSED = ["queue-client", "queue-flux"]
PLANE = {"nodes": {case: {GPU: "1"} for case in CASES}}


@dataclass(slots=True)
class Written(Pools):
    """The pools, what kubectl said to each in its window, and how that was after it."""

    said: dict[str, str] = field(default_factory=dict)
    phase: dict[str, str] = field(default_factory=dict)
    things: dict[str, dict[str, Json]] = field(default_factory=dict)
    """Serving and queue, by kind."""
    closed: dict[str, str] = field(default_factory=dict)
    """What was told of a queue that Git has closed."""


class Kubectl:
    """The real one, as the plane's admin."""

    def __init__(self, program: Path, plane: ControlPlane) -> None:
        self._program, self._plane = program, plane

    def write(self, scene: Scene, git: Git, *, late: bool) -> str:
        """Write what is in Git; what was said."""
        verb = (late and git.then) or git.verb
        verb = tuple(word.replace("NAME", scene.name) for word in verb)
        things = {"apiVersion": "v1", "kind": "List", "items": git.things(scene, late=late)}
        done = subprocess.run(
            [self._program, *verb, "-f", "-"],
            input=json.dumps(things),
            env={
                **os.environ,
                "KUBECONFIG": str(self._plane.kubeconfig),
                "KUBECTL_APPLYSET": "true",
                "HOME": str(self._plane.folder),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert (done.returncode == 0) is not (late and bool(git.refused)), said
        return said


@pytest.fixture(scope="module")
def pools(
    plane: ControlPlane, kubectl: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Written]:
    """All pools, each written to from Git in its open window."""
    things, folder = deploy(plane), tmp_path_factory.mktemp("gitops")
    scenes = {case: Scene(plane=plane, name=case, node=case, demand="CalendarOnly")
              for case in CASES}  # fmt: skip
    tool = Kubectl(kubectl, plane)
    with ExitStack() as stack:
        recorder = stack.enter_context(Recorder(plane.api))
        for case, scene in scenes.items():
            scene.make_flavor()
            tool.write(scene, CASES[case], late=False)
            scene.make_local_queue(case)
            # As the page says: closed before the first job.
            closed = {"spec": {"stopPolicy": "Hold"}}
            writers.edit(scene, f"{KUEUE}/clusterqueues/{case}", closed, "kubectl-patch")
        for scene in scenes.values():
            scene.wait_ready()
            scene.make_rule(**STAYS)
            scene.make_job(f"{scene.name}-work")
        running = stack.enter_context(Running(plane, things, folder, NO_PROMETHEUS))
        pools = Written(recorder, running, scenes)
        for case, scene in scenes.items():
            wait_for(f"work of {case}", lambda s=scene: s.job_runs(f"{s.name}-work"))
            pools.said[case] = tool.write(scene, CASES[case], late=True)
        looked_at(pools)
        yield pools


def looked_at(pools: Written) -> None:
    """What was written is seen, and how each window is then; those that go on end by users."""
    for case in ENDS:
        pools.scenes[case].wait_phase("Reclaiming", "Restoring", "Serving")
    for case in CLOSED:
        pools.closed[case] = wait_for(f"{case} closed", lambda s=pools.scenes[case]: closed(s))
    for case in (*GOES_ON, *CLOSED):
        scene = pools.scenes[case]
        pools.phase[case] = scene.phase()
        pools.things[case] = {"Deployment": scene.target(), "ClusterQueue": scene.queue()}
    for case in (*GOES_ON, *CLOSED):
        writers.wake(pools.scenes[case])


def closed(scene: Scene) -> str:
    """What is told of a queue that somebody closed; empty: nothing."""
    told = scene.status().get("conditions") or ()
    return next((c["message"] for c in told if c["type"] == "QueueClosedByOther"), "")


def went_on(pools: Written, case: str) -> None:
    """Its window was open until users came, and serving is back as it was."""
    assert pools.phase[case] == "Harvesting"
    assert pools.things[case]["Deployment"]["spec"]["replicas"] == 0
    assert RECORD in pools.things[case]["Deployment"]["metadata"]["annotations"]
    pools.back(case)
    assert pools.reason(case) == "WakeClaimed"


@pytest.mark.parametrize("case", GOES_ON)
def test_a_window_goes_on_where_git_has_nothing_of_idlewins(pools: Written, case: str) -> None:
    git = CASES[case]

    assert git.refused in pools.said[case]
    written = [one for kind, one in pools.things[case].items() if git.only in ("", kind)]
    commits = {one["metadata"]["labels"]["commit"] for one in written}
    assert ("c0" in commits) is bool(git.refused)
    went_on(pools, case)


@pytest.mark.parametrize("case", ENDS)
def test_replicas_from_git_end_the_window_and_are_kept(pools: Written, case: str) -> None:
    scene, git = pools.back(case), CASES[case]

    assert pools.reason(case) == git.ends
    assert f"by {git.named}" in "\n".join(event["note"] for event in scene.events())
    assert git.named in writers.managers(scene.target())
    lowered = [move for move in pools.running.moves(case) if move[1] == "Yielding"]
    assert len(lowered) == 1, "minServing keeps the next one off"


@pytest.mark.parametrize("case", CLOSED)
def test_a_queue_that_git_closes_stays_closed_and_its_window_goes_on(
    pools: Written, case: str
) -> None:
    assert f"by {CASES[case].named}" in pools.closed[case]
    went_on(pools, case)
    assert pools.scenes[case].policy() == "Hold"


def test_a_queue_that_git_opens_again_and_again_is_contested_by_name(
    pools: Written, kubectl: Path
) -> None:
    scene, git = pools.scenes["queue-open"], CASES["queue-open"]
    tool = Kubectl(kubectl, scene.plane)
    pools.back("queue-open")

    def contested() -> str:
        by: str = scene.status().get("contestedBy", "")
        if not by and scene.policy() != "None":
            tool.write(scene, git, late=True)
        return by

    assert wait_for("a contest", contested) == "kustomize-controller"


@pytest.mark.parametrize("verb", [CLIENT, FORCED])
def test_taken_out_of_git_before_any_window_a_count_is_1(
    plane: ControlPlane, kubectl: Path, verb: tuple[str, ...]
) -> None:
    scene = Scene(plane=plane, node="nowhere", cards=2)
    tool = Kubectl(kubectl, plane)
    counts = []

    for replicas in (True, False):
        tool.write(scene, Git(verb=verb, replicas=(replicas, replicas)), late=False)
        counts.append(scene.target()["spec"]["replicas"])

    assert counts == [2, 1]


def test_a_pause_outlives_a_rule_in_git_that_does_not_speak_of_it(
    pools: Written, kubectl: Path, plane: ControlPlane
) -> None:
    scene = replace(pools.scenes["client"], name="paused")
    kind = {"apiVersion": "idlewin.dev/v1alpha1", "kind": "IdleRule"}
    path = f"{scene.rule_path}"

    def apply(verb: tuple[str, ...], **spec: Any) -> bool:
        rule = {**kind, "metadata": {"name": "paused"}, "spec": scene.spec(**spec)}
        subprocess.run(
            [kubectl, *verb, "-f", "-"],
            input=json.dumps(rule),
            env={**os.environ, "KUBECONFIG": str(plane.kubeconfig)},
            text=True,
            check=True,
        )
        return bool(plane.api.get(path)["spec"].get("paused"))

    for verb in (CLIENT, FLUX):
        apply(verb, mode="Observe")
        plane.api.patch(f"{path}?fieldManager=idlewin-cli", {"spec": {"paused": True}})
        assert apply(verb, mode="Observe", staleAfter="6s")
        assert not apply(verb, mode="Observe", paused=False), "and is undone by one that does"
        plane.api.delete(path)
        wait_for("end of the rule", lambda: plane.api.find(path) is None)
