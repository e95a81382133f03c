"""``idlewin init`` as a person meets it: files, what is said, exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.adapters.api import ApiError
from idlewin.cli import app
from idlewin.errors import Exit
from tests.golden.cluster import Listed
from tests.unit.test_draft import served

Call = Any


class Silent(Listed):
    """An API server that does not answer."""

    def pages(self, path: str) -> Any:
        raise ApiError(0, f"GET {path}: no answer: connection refused")


@pytest.fixture
def idlewin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    monkeypatch.delenv("IDLEWIN_PROMETHEUS", raising=False)

    def call(*arguments: object, server: Listed | None = None) -> tuple[int, str, str]:
        found = server or Listed(served())
        monkeypatch.setattr("idlewin.adapters.api.connect", lambda *_: found)
        code = 0
        try:
            app.main(["init", *map(str, arguments)])
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_the_rule_goes_to_standard_output_and_what_is_said_beside_it(idlewin: Call) -> None:
    code, out, err = idlewin()

    assert code == Exit.FAILED, "demand is not known, and check stops there"
    (rule,) = yaml.safe_load_all(out)
    assert (rule["metadata"]["name"], rule["spec"]["mode"]) == ("gpu-1", "Observe")
    assert "rule gpu-1: 1 nvidia.com/gpu on gpu-1; Deployment ai/big; no queue was found" in err
    assert "not known: demand and activity: no Prometheus was named: --prometheus http://" in err
    assert "check stops at: my.yaml:" in err
    assert "  kubectl apply -f deploy/base/namespace.yaml -f deploy/base/crd.yaml\n" in err


def test_files_that_are_there_are_not_written_over(idlewin: Call, tmp_path: Path) -> None:
    out, queues = tmp_path / "my.yaml", tmp_path / "queues.yaml"
    queues.write_text("mine")

    code, _, err = idlewin("--out", out, "--queues", queues)

    assert code == Exit.USAGE
    assert f"{queues} is there; name another file, or add --force to write over it" in err
    assert (out.exists(), queues.read_text()) == (False, "mine")


def test_what_comes_there_meanwhile_is_not_written_over_either(
    idlewin: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "my.yaml"
    monkeypatch.setattr("idlewin.cli.init._writable", lambda *_, **__: out.write_text("mine"))

    code, _, err = idlewin("--out", out)

    assert code == Exit.USAGE
    assert f"{out} cannot be written: File exists" in err
    assert out.read_text() == "mine"


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_disk_that_is_full_leaves_no_half_of_a_file(
    idlewin: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: tuple[str, ...]
) -> None:
    out = tmp_path / "my.yaml"
    if force:
        out.write_text("old")
    real = Path.open

    def full(path: Path, *mode: str, **more: Any) -> Any:
        real(path, *mode, **more).close()
        return real(Path("/dev/full"), "wb")

    monkeypatch.setattr(Path, "open", full)

    code, _, err = idlewin("--out", out, *force)

    assert code == Exit.USAGE
    monkeypatch.undo()
    assert f"{out} cannot be written: No space left on device" in err
    assert [path.read_text() for path in tmp_path.iterdir()] == (["old"] if force else [])


def test_with_force_they_are_and_nothing_is_left_beside(idlewin: Call, tmp_path: Path) -> None:
    out, queues = tmp_path / "my.yaml", tmp_path / "queues.yaml"
    out.write_text("old")

    code, told, err = idlewin("--out", out, "--queues", queues, "--force")

    assert (code, told) == (Exit.FAILED, "")
    assert sorted(tmp_path.iterdir()) == [out, queues]
    (rule,) = yaml.safe_load_all(out.read_text())
    kinds = [one["kind"] for one in yaml.safe_load_all(queues.read_text())]
    assert kinds == ["ResourceFlavor", "ClusterQueue", "LocalQueue"]
    assert rule["spec"]["batch"]["queues"][0]["clusterQueue"] == "gpu-1-batch"
    assert f"One that would do is in {queues};" in " ".join(
        out.read_text().replace("# ", "").split()
    )
    assert f"  kubectl apply -f {queues}\n" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "FOLDER"), "is a directory; name a file in it"),
        (("--force", "--out", "/dev/null"), "is no file that could be written over"),
        (("--out", "FOLDER/a", "--queues", "FOLDER/a"), "--out and --queues name one file"),
        (("--node", "gpu-9"), "no node gpu-9 has anything here; there are: gpu-1"),
        (("--resource", "amd.com/gpu"), "no extended resource amd.com/gpu has anything here"),
        (("--prometheus", "prometheus:9090"), "is no URL; write http://HOST:PORT"),
    ],
)
def test_a_command_that_cannot_be_meant_ends_with_2(
    idlewin: Call, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = idlewin(*(word.replace("FOLDER", str(tmp_path)) for word in arguments))

    assert (code, out) == (Exit.USAGE, "")
    assert said in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("server", "code", "said"),
    [
        (Silent({}), Exit.UNREACHABLE, "nodes: the API server did not answer: connection refused"),
        (
            Listed({**served(), "/api/v1/pods": 403}),
            Exit.REFUSED,
            'pods: pods is forbidden: User "guest" cannot list resource "pods"',
        ),
    ],
)
def test_a_cluster_that_does_not_tell_leaves_no_file(
    idlewin: Call, tmp_path: Path, server: Listed, code: int, said: str
) -> None:
    out = tmp_path / "my.yaml"

    found, _, err = idlewin("--out", out, server=server)

    assert found == code
    assert said in err
    assert not out.exists()


def test_a_prometheus_that_does_not_answer_is_told_and_the_rest_is_written(idlewin: Call) -> None:
    code, out, err = idlewin("--prometheus", "http://127.0.0.1:9")

    assert code == Exit.FAILED
    assert "not known: demand and activity: Prometheus at http://127.0.0.1:9 is not reached" in err
    (rule,) = yaml.safe_load_all(out)
    assert rule["spec"]["cards"]["count"] == 1


def test_a_cluster_without_serving_leaves_no_file(idlewin: Call, tmp_path: Path) -> None:
    out = tmp_path / "my.yaml"

    code, _, err = idlewin("--out", out, server=Listed(served(PODS=[], DEPLOYMENTS=[])))

    assert code == Exit.FAILED
    assert "no rule was written" in err
    assert not out.exists()
