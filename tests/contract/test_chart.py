"""Real kustomize and real Helm make the same objects, field by field; bad values are refused."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.manifests import CHART, DEPLOY

pytestmark = pytest.mark.controlplane
PAGE = (DEPLOY.parent / "docs" / "operations.md").read_text()
Thing = dict[str, Any]
Things = Mapping[tuple[str, str], Thing]
#: The namespace and the image of the overlays.
AS_THEY_ARE = "namespace: {create: true}\nimage: {repository: idlewin}\n"
Template = Callable[..., Things]


def by_name(things: Iterable[Thing]) -> Things:
    found = [thing for thing in things if thing]
    named = {(thing["kind"], thing["metadata"]["name"]): thing for thing in found}
    assert len(named) == len(found)
    return named


def kustomized(kubectl: Path, folder: Path) -> Things:
    said = subprocess.run(
        [kubectl, "kustomize", folder], capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    return by_name(yaml.safe_load_all(said.stdout))


def templated(helm: Path, values: str, namespace: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [helm, "template", "idlewin", CHART, "--namespace", namespace, "--include-crds", "-f", "-"],
        input=values,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def template(helm: Path) -> Template:
    """The chart's objects by values; all of what is said is read, so a warning would be seen."""

    def template(values: str, namespace: str = "idlewin-system") -> Things:
        said = templated(helm, values, namespace)
        assert (said.returncode, said.stderr) == (0, "")
        return by_name(yaml.safe_load_all(said.stdout))

    return template


@pytest.mark.parametrize(
    ("overlay", "values"),
    [
        ("observe", "mode: observe"),
        ("act", "mode: act"),
        ("ha", "{mode: act, ha: true}"),
        ("monitoring", "{mode: act, ha: true, monitoring: {enabled: true}}"),
    ],
)
def test_helm_makes_the_objects_of_the_overlay(
    kubectl: Path, template: Template, overlay: str, values: str
) -> None:
    said = yaml.safe_dump({**yaml.safe_load(AS_THEY_ARE), **yaml.safe_load(values)})

    assert template(said) == kustomized(kubectl, DEPLOY / "overlays" / overlay)


def blocks() -> dict[str, str]:
    """The files that the page shows, by the name in their first line."""
    found = re.findall(r"```yaml\n# (my\S+)[^\n]*\n(.*?)```", PAGE, flags=re.DOTALL)
    return dict(found)


def test_the_two_ways_of_the_page_make_the_same(
    kubectl: Path, template: Template, tmp_path: Path
) -> None:
    shown = blocks()
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "kustomization.yaml").write_text(shown["my/kustomization.yaml"])

    made = kustomized(kubectl, tmp_path / "my")

    assert template(f"namespace: {{create: true}}\n{shown['my-values.yaml']}") == made
    pods = [made[kind, name]["spec"] for kind, name in made if kind in ("Deployment", "CronJob")]
    assert str(pods).count("'image': 'registry.example.com/idlewin:0.1.0'") == 2
    assert "'value': 'http://prometheus.monitoring:9090'" in str(pods)


def test_in_another_namespace_they_make_the_same_too(
    kubectl: Path, template: Template, tmp_path: Path
) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (command,) = re.findall(r"`(grep -rl idlewin-system [^`]*)`", PAGE)
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)

    made = template(f"{AS_THEY_ARE}mode: act\n", "lend")

    assert made == kustomized(kubectl, tmp_path / "deploy" / "overlays" / "act")
    assert made["Namespace", "lend"]
    assert "idlewin-system" not in str(made)


def test_values_reach_both_pods(template: Template) -> None:
    made = template(
        """
        image: {repository: "registry.example.com:5000/lend/idlewin", tag: "1"}
        args: [--log-format, json]
        pod:
          imagePullSecrets: [{name: registry}]
          nodeSelector: {kubernetes.io/os: linux}
          tolerations: [{key: control-plane, operator: Exists}]
        resources: {limits: {memory: 1Gi}}
        """
    )
    controller = made["Deployment", "idlewin"]["spec"]["template"]["spec"]
    watchdog = made["CronJob", "idlewin-watchdog"]["spec"]["jobTemplate"]["spec"]["template"]

    for pod in (controller, watchdog["spec"]):
        (container,) = pod["containers"]
        assert container["image"] == "registry.example.com:5000/lend/idlewin:1"
        assert container["resources"] == {"limits": {"memory": "1Gi"}}
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
        assert pod["tolerations"] == [{"key": "control-plane", "operator": "Exists"}]
        assert "priorityClassName" not in pod
    assert controller["containers"][0]["args"][-2:] == ["--log-format", "json"]


def test_what_is_switched_off_is_left_out(template: Template) -> None:
    made = template(
        f"{AS_THEY_ARE.splitlines()[1]}\n"
        "networkPolicy: false\nwritesPolicy: false\nwatchdog: false\n"
        "monitoring: {labels: {release: x}}\n"
    )

    left = {"NetworkPolicy", "ValidatingAdmissionPolicy", "Namespace", "ServiceMonitor", "CronJob"}
    assert {kind for kind, _ in made} & left == set()


def test_helm_finds_no_fault_with_the_chart(helm: Path) -> None:
    done = subprocess.run(
        [helm, "lint", "--strict", CHART, "--set", "image.repository=idlewin"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, "0 chart(s) failed" in done.stdout) == (0, True), done.stdout


def test_what_the_operator_selects_by_is_on_what_it_selects(template: Template) -> None:
    made = template(f"{AS_THEY_ARE}monitoring: {{enabled: true, labels: {{release: x}}}}\n")

    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert made[kind, "idlewin"]["metadata"]["labels"] == {"release": "x"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ("{}", "image.repository: it must be given, for there is no published image"),
        ("mode: Act", "at '/mode': value must be one of 'observe', 'act'"),
        ("prometheus: {url: 'prometheus:9090'}", "at '/prometheus/url': 'prometheus:9090'"),
        ("image: {repository: 'idlewin:0.1.0:x y'}", "at '/image/repository'"),
        ("image: {tag: 'a:b'}", "at '/image/tag': 'a:b' does not match pattern"),
        ("image: {tag: 1.0}", "at '/image/tag': got number, want string"),
        ("ha: 'yes'", "at '/ha': got string, want boolean"),
        ("replicas: 3", "additional properties 'replicas' not allowed"),
        ("pod: {nodeSelecter: {}}", "at '/pod': additional properties 'nodeSelecter' not allowed"),
        ("args: --log-format", "at '/args': got string, want array"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(helm: Path, values: str, says: str) -> None:
    said = templated(helm, values, "idlewin-system")

    assert said.returncode != 0
    assert says in said.stderr
