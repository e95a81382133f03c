"""Sources of one's own, and the verbs that take them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import yaml

from idlewin.cli import app
from idlewin.errors import Exit
from idlewin.source import Source
from tests.unit.test_cli import idlewin
from tests.unit.test_sourcefile import GOOD, written

ROOT = Path(__file__).parents[2]
OURS = "{source: traefik-router, match: {router: websecure-ai-qwen-qwen-example-com@kubernetes}}"


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    """The example rule, with my gateway for a front door."""
    text = (ROOT / "rules/b580.yaml").read_text()
    path = tmp_path / "rule.yaml"
    path.write_text(text.replace(OURS, "{source: my-gateway, match: {service: qwen}}"))
    return path


def test_a_rule_may_name_a_source_of_ones_own(rule: Path, tmp_path: Path) -> None:
    sources = written(tmp_path, GOOD)

    assert idlewin("check", rule).returncode == Exit.FAILED
    assert idlewin("check", rule, "--sources", sources).returncode == Exit.OK


@pytest.mark.parametrize(
    "command",
    [
        ("check", "RULE"),
        ("replay", "RULE", "--trace", "none.csv.gz"),
        ("tune", "RULE", "--trace", "none.csv.gz"),
        ("explain", "b580", "--prometheus", "http://127.0.0.1:9"),
        ("run", "--prometheus", "http://127.0.0.1:9"),
    ],
)
def test_a_fault_in_it_ends_with_its_line(
    command: tuple[str, ...],
    rule: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = written(tmp_path, GOOD.replace("max: 1000", "max: lots"))
    monkeypatch.setenv("IDLEWIN_SOURCES", str(sources))
    # ``run`` would leave a handler behind that writes where this test's output goes.
    monkeypatch.setattr("idlewin.cli.run.set_up", lambda _: None)

    with pytest.raises(SystemExit) as end:
        app.main([str(rule) if word == "RULE" else word for word in command])

    assert end.value.code == Exit.USAGE
    assert f"{sources}:5: my-gateway.max: 'lots' is not a number" in capsys.readouterr().err


def test_all_sources_as_data_are_an_array_with_all_fields(tmp_path: Path) -> None:
    told = json.loads(idlewin("sources", "-o", "json", "--sources", written(tmp_path, GOOD)).stdout)

    assert told[-1]["name"] == "my-gateway"
    fields = {part.name for part in dataclasses.fields(Source)}
    assert all(set(one) == fields for one in told)


def test_a_source_is_shown_whole() -> None:
    said = idlewin("sources", "vllm-requests").stdout

    assert "keys: namespace, model_name\n" in said
    assert 'query: sum by (namespace, model_name) ({__name__=~"vllm:' in said


def test_sources_are_listed_with_what_they_see() -> None:
    said = " ".join(idlewin("sources").stdout.split())

    assert "traefik-router front-door router requests" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("vllm",), "there is no source vllm; there are: vllm-"),
        (("vllm-requests", "rule.yaml"), "name one source, or none, or write probe first"),
        ((__file__,), "is a file, and no source; for its rules: sources probe"),
        (("probe",), "name the Prometheus that knows the demand"),
        (("probe", "none.yaml", "--prometheus", "http://127.0.0.1:9"), "none.yaml: is not there"),
    ],
)
def test_a_word_that_sources_does_not_know_is_told(words: tuple[str, ...], said: str) -> None:
    done = idlewin("sources", *words)

    assert done.returncode == Exit.USAGE
    assert said in done.stderr


def test_deploy_mounts_sources_of_ones_own_where_there_are_any() -> None:
    (deployment,) = yaml.safe_load_all((ROOT / "deploy/base/deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    place = container["args"][container["args"].index("--sources") + 1]

    (mount,) = [one for one in container["volumeMounts"] if one["mountPath"] == place]
    (volume,) = [one for one in pod["volumes"] if one["name"] == mount["name"]]
    assert volume["configMap"] == {"name": "idlewin-sources", "optional": True}
