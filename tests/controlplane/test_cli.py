"""The verbs that a person uses, against a real API server with real Kueue objects."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.adapters.api import connect
from idlewin.adapters.edits import Edits
from idlewin.cli.app import main
from idlewin.errors import RefusedError
from tests.labs.kubelab.api import wait_for
from tests.labs.kubelab.controlplane import GPU, ControlPlane

pytestmark = pytest.mark.controlplane
CRD = Path(__file__).parents[2] / "deploy" / "base" / "crd.yaml"
RULES = "/apis/idlewin.dev/v1alpha1/idlerules"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
BEFORE = "idlewin.dev/stop-policy-before"


def a_rule(name: str, queue: str, **spec: Any) -> dict[str, Any]:
    serving = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "serving",
        "name": name,
        "demand": "CalendarOnly",
    }
    whole = {
        "mode": "Act",
        "cards": {
            "resource": GPU,
            "count": 1,
            "nodeSelector": {"kubernetes.io/hostname": "node-1"},
        },
        "serving": [serving],
        "batch": {"queues": [{"clusterQueue": queue, "maxRuntime": "30m"}]},
        **spec,
    }
    kind = {"apiVersion": "idlewin.dev/v1alpha1", "kind": "IdleRule"}
    return {**kind, "metadata": {"name": name}, "spec": whole}


def a_condition(kind: str) -> dict[str, str]:
    at = "2026-03-01T00:00:00Z"
    texts = {"reason": "Test", "message": "", "lastTransitionTime": at}
    return {"type": kind, "status": "True", **texts}


class Cluster:
    """The plane with the CRD, a queue for each test, and the command line before it."""

    def __init__(self, plane: ControlPlane, capsys: Any) -> None:
        self.api, self._kubeconfig, self._capsys = plane.api, plane.kubeconfig, capsys

        self.edits = Edits(connect(plane.kubeconfig))

    def cli(self, *arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([*arguments, "--kubeconfig", str(self._kubeconfig)])
        out, err = self._capsys.readouterr()
        return int(end.value.code or 0), out, err

    def add_queue(self, name: str, stop: str = "Hold") -> None:
        quota = [{"name": GPU, "nominalQuota": "1"}]
        group = {"coveredResources": [GPU], "flavors": [{"name": "plain", "resources": quota}]}
        spec = {"namespaceSelector": {}, "stopPolicy": stop, "resourceGroups": [group]}
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue"}
        self.api.apply({**kind, "metadata": {"name": name}, "spec": spec})

    def queue(self, name: str) -> Any:
        return self.api.get(f"{KUEUE}/clusterqueues/{name}")

    def marks(self, name: str) -> dict[str, str]:
        found = self.queue(name)["metadata"].get("annotations") or {}
        return {key: text for key, text in found.items() if key.startswith("idlewin.dev/")}

    def add_rule(self, name: str, queue: str = "none", **spec: Any) -> None:
        self.api.apply(a_rule(name, queue, **spec))

    def rule(self, name: str) -> Any:
        return self.api.get(f"{RULES}/{name}")


@pytest.fixture(scope="module")
def with_rules(plane: ControlPlane) -> ControlPlane:
    """The plane, with IdleRule established."""
    plane.api.apply(yaml.safe_load(CRD.read_text()))
    wait_for("IdleRule", lambda: plane.api.find(RULES))
    return plane


@pytest.fixture
def cluster(with_rules: ControlPlane, capsys: Any) -> Cluster:
    return Cluster(with_rules, capsys)


def test_adopting_marks_the_queue_keeps_what_it_was_and_changes_nothing_else(
    cluster: Cluster,
) -> None:
    cluster.add_queue("adopted", stop="None")
    cluster.add_rule("adopter", "adopted")

    code, out, err = cluster.cli("adopt", "adopted", "--rule", "adopter")

    assert (code, "it was None" in out) == (0, True)
    assert cluster.marks("adopted") == {"idlewin.dev/rule": "adopter", BEFORE: "None"}
    assert cluster.queue("adopted")["spec"]["stopPolicy"] == "None"
    # The test's own apply owns the field, and would write it again.
    assert "kubelab has written stopPolicy" in err


def test_adopting_again_does_not_overwrite_the_record(cluster: Cluster) -> None:
    cluster.add_queue("twice")
    cluster.add_rule("twice", "twice")
    cluster.cli("adopt", "twice", "--rule", "twice")
    patch = {"spec": {"stopPolicy": "HoldAndDrain"}}
    cluster.api.patch(f"{KUEUE}/clusterqueues/twice", patch)

    code, out, _ = cluster.cli("adopt", "twice", "--rule", "twice")

    assert (code, "already" in out) == (0, True)
    assert cluster.marks("twice")[BEFORE] == "Hold"


def test_a_queue_of_another_rule_is_refused_with_the_way_out(cluster: Cluster) -> None:
    cluster.add_queue("taken")
    cluster.add_rule("first", "taken")
    cluster.cli("adopt", "taken", "--rule", "first")

    code, _, err = cluster.cli("adopt", "taken", "--rule", "second")

    assert code == 2
    assert "in the hands of rule first" in err
    assert "adopt taken --undo" in err


def test_doubtful_adoptions_are_done_and_warned_of(cluster: Cluster) -> None:
    cluster.add_queue("odd")
    cluster.add_rule("elsewhere", "another-queue")

    _, _, missing = cluster.cli("adopt", "odd", "--rule", "no-such-rule")
    cluster.cli("adopt", "odd", "--undo")
    code, _, unnamed = cluster.cli("adopt", "odd", "--rule", "elsewhere")

    assert code == 0
    assert "there is no rule no-such-rule yet" in missing
    assert "does not name odd in batch.queues" in unnamed


def test_undoing_takes_our_marks_off_and_restores_only_if_asked(cluster: Cluster) -> None:
    for name in ("kept", "restored"):
        cluster.add_queue(name, stop="None")
        cluster.add_rule(name, name)
        cluster.cli("adopt", name, "--rule", name)
        cluster.api.patch(f"{KUEUE}/clusterqueues/{name}", {"spec": {"stopPolicy": "Hold"}})

    _, kept, _ = cluster.cli("adopt", "kept", "--undo")
    cluster.cli("adopt", "restored", "--undo", "--restore")

    assert "kubectl patch clusterqueue kept" in kept
    assert cluster.marks("kept") == cluster.marks("restored") == {}
    assert cluster.queue("kept")["spec"]["stopPolicy"] == "Hold"
    assert cluster.queue("restored")["spec"]["stopPolicy"] == "None"


def test_a_write_of_kueue_or_the_controller_meanwhile_is_not_in_a_persons_way(
    cluster: Cluster,
) -> None:
    cluster.add_queue("moving")
    cluster.add_rule("moving", "moving")
    queue, rule = cluster.edits.queue("moving"), cluster.edits.existing_rule("moving")
    for path in (f"{KUEUE}/clusterqueues/moving/status", f"{RULES}/moving/status"):
        conditions = [a_condition("Seen")]
        cluster.api.patch(path, {"status": {"conditions": conditions}})

    cluster.edits.adopt(queue, "moving")
    cluster.edits.pause(rule)

    assert cluster.marks("moving")["idlewin.dev/rule"] == "moving"
    assert cluster.api.get(f"{RULES}/moving")["spec"]["paused"] is True


def test_a_queue_that_a_person_changed_meanwhile_is_not_written(cluster: Cluster) -> None:
    cluster.add_queue("raced")
    queue = cluster.edits.queue("raced")
    cluster.api.patch(f"{KUEUE}/clusterqueues/raced", {"spec": {"stopPolicy": "HoldAndDrain"}})

    with pytest.raises(RefusedError, match="changed meanwhile"):
        cluster.edits.adopt(queue, "raced")

    assert cluster.marks("raced") == {}


def test_a_queue_of_an_open_window_is_not_let_go(cluster: Cluster) -> None:
    cluster.add_queue("busy")
    cluster.add_rule("busy", "busy")
    cluster.cli("adopt", "busy", "--rule", "busy")
    at = "2026-03-01T00:00:00Z"
    cards = {"resource": GPU, "nodeSelector": {"a": "b"}, "count": 1}
    window = {"epoch": 1, "generation": 1, "openedAt": at, **cards, "targets": [], "queues": []}
    status = {"phase": "Harvesting", "since": at, "epoch": 1, "window": window}
    cluster.api.patch(f"{RULES}/busy/status", {"status": status})

    code, _, err = cluster.cli("adopt", "busy", "--undo")

    assert (code, "give-back busy" in err) == (2, True)
    assert cluster.marks("busy")["idlewin.dev/rule"] == "busy"


def test_what_is_not_there_is_named_with_a_remedy(cluster: Cluster) -> None:
    asked = [
        ("adopt", "no-such-queue", "--rule", "r"),
        ("adopt", "../../pods", "--rule", "r"),
        ("pause", "no-such-rule"),
        ("resume", "no-such-rule"),
        ("wake", "no-such-rule"),
        ("status", "no-such-rule"),
    ]

    answers = [cluster.cli(*arguments) for arguments in asked]

    assert [code for code, _, _ in answers] == [2] * len(asked)
    assert all("there is no" in err and "list" in err for _, _, err in answers)


def test_a_claim_is_on_the_rule_and_is_never_shortened(cluster: Cluster) -> None:
    cluster.add_rule("woken")
    before = datetime.now(UTC)

    code, out, _ = cluster.cli("wake", "woken", "--for", "2h")
    _, again, _ = cluster.cli("wake", "woken", "--for", "30m")

    text = cluster.rule("woken")["metadata"]["annotations"]["idlewin.dev/wake-until"]
    until = datetime.fromisoformat(text) - before
    assert timedelta(hours=2) <= until < timedelta(hours=2, minutes=1)
    assert (code, text in out, f"{text} already" in again) == (0, True, True)


def test_a_claim_of_nonsense_is_refused_before_the_cluster_is_asked(cluster: Cluster) -> None:
    code, _, err = cluster.cli("wake", "woken", "--for", "soon")

    assert code == 2
    assert "--for" in err
    assert "10m" in err


def test_pause_and_resume_write_the_spec_and_end_a_contest(cluster: Cluster) -> None:
    cluster.add_rule("paused")
    cluster.api.patch(f"{RULES}/paused/status", {"status": {"contestedBy": "argocd"}})

    cluster.cli("pause", "paused")
    paused = cluster.rule("paused")["spec"]["paused"]
    _, already, _ = cluster.cli("pause", "paused")
    _, out, _ = cluster.cli("resume", "paused")

    stored = cluster.rule("paused")
    assert (paused, "already" in already, stored["spec"]["paused"]) == (True, True, False)
    assert "contest with argocd is over" in out
    resumed = stored["metadata"]["annotations"]["idlewin.dev/resume"]
    assert datetime.now(UTC) - datetime.fromisoformat(resumed) < timedelta(minutes=1)


def test_resume_all_lets_go_on_what_is_paused_and_nothing_else(cluster: Cluster) -> None:
    for name in ("stopped-1", "stopped-2", "never-stopped"):
        cluster.add_rule(name)
    for name in ("stopped-1", "stopped-2"):
        cluster.cli("pause", name)

    code, out, _ = cluster.cli("resume", "--all")
    _, again, _ = cluster.cli("resume", "--all")

    paused = [cluster.rule(f"stopped-{n}")["spec"]["paused"] for n in (1, 2)]
    assert (code, paused) == (0, [False, False])
    assert all(f"rule stopped-{n} goes on" in out for n in (1, 2))
    assert "never-stopped" not in out
    assert "annotations" not in cluster.rule("never-stopped")["metadata"]
    assert again == "no rule is paused\n"


def test_status_shows_all_rules_and_one_with_its_conditions(cluster: Cluster) -> None:
    cluster.add_rule("shown")
    at = "2026-03-01T00:00:00Z"
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "NotAdopted",
        "message": "ClusterQueue none is not ours",
        "lastTransitionTime": at,
    }
    told = {"phase": "Serving", "since": at, "reason": "NotAdopted", "conditions": [condition]}
    cluster.api.patch(f"{RULES}/shown/status", {"status": told})
    cluster.add_rule("unreadable", window={"idelFor": "1m"})

    code, table, _ = cluster.cli("status")
    _, one, _ = cluster.cli("status", "shown", "-o", "json")

    assert code == 0
    assert "shown: Ready=False (NotAdopted): ClusterQueue none is not ours" in table
    assert "unreadable: spec.window.idelFor" in table
    assert json.loads(one)["status"]["reason"] == "NotAdopted"


def test_status_is_told_as_wide_and_as_yaml(cluster: Cluster) -> None:
    cluster.add_rule("broad", queue="short")

    _, wide, _ = cluster.cli("status", "broad", "-o", "wide")
    _, text, _ = cluster.cli("status", "-o", "yaml")

    row = next(line for line in wide.splitlines() if line.startswith("broad"))
    assert row.split()[-5:] == ["1", GPU, "serving/broad", "short", "0"]
    (told,) = [one for one in yaml.safe_load(text) if one["rule"] == "broad"]
    assert (told["mode"], told["status"]) == ("Act", None)


def test_status_is_shown_again_when_it_changes(cluster: Cluster) -> None:
    cluster.add_rule("watched")
    kubeconfig = ["--kubeconfig", str(cluster._kubeconfig)]
    command = [sys.executable, "-m", "idlewin.cli.app", "status", "watched", "--watch", *kubeconfig]
    # A run in the background ignores Ctrl-C, and so would what it starts.
    interrupted = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, interrupted)
    try:
        assert process.stdout is not None
        assert "not looked at yet" in process.stdout.readline() + process.stdout.readline()
        told = {"phase": "Serving", "since": "2026-03-01T00:00:00Z", "reason": "LoadBusy"}
        cluster.api.patch(f"{RULES}/watched/status", {"status": told})
        shown = ""
        while "LoadBusy" not in shown:
            shown = process.stdout.readline()
            assert shown, "it ended"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()


def test_an_unreachable_cluster_is_one_line_and_its_own_exit_code(
    cluster: Cluster, tmp_path: Path, capsys: Any
) -> None:
    nowhere = tmp_path / "kubeconfig"
    text = cluster._kubeconfig.read_text()
    nowhere.write_text(text.replace(str(cluster.api._port), "1"))

    for verb in (["status"], ["pause", "x"], ["wake", "x"], ["adopt", "q", "--rule", "x"]):
        with pytest.raises(SystemExit) as end:
            main([*verb, "--kubeconfig", str(nowhere)])

        err = capsys.readouterr().err
        assert end.value.code == 3, verb
        assert err.count("\n") == 1, err
        assert "refused" in err
