"""``idlewin audit --from``: each fault once, none where there is none, and how it is told."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from idlewin.adapters.audited import facts_of
from idlewin.adapters.manifests import read
from idlewin.audit.audited import audited
from idlewin.audit.checks import CHECKS, Id
from idlewin.audit.exempt import Exemption, exempted
from idlewin.audit.facts import Idle
from idlewin.cli.app import main

MANIFESTS = Path(__file__).parents[1] / "golden/audit"
FAULTS, CLEAN = MANIFESTS / "faults", MANIFESTS / "clean"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
#: How long a card was idle stands in no file.
OF_FILES = set(CHECKS) - {Id.IDLE}


@pytest.fixture
def audit(capsys):
    def call(*arguments: object) -> tuple[int, str, str]:
        code = 0
        try:
            main(["audit", *map(str, arguments)])
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def faults(path: Path, idle: dict[str, Idle] | None = None):
    objects, unreadable = read([path])
    assert unreadable == []
    return audited(facts_of(objects, idle), NOW)


def test_each_fault_is_found_once_with_its_file_and_line():
    found = faults(FAULTS)

    assert Counter(one.id for one in found) == Counter(OF_FILES)
    for one in found:
        line = Path(one.file).read_text().splitlines()[one.line - 1]
        assert line.lstrip("- ").startswith("apiVersion"), one.where
        assert one.remedy
        assert one.severity == CHECKS[one.id].severity


def test_a_mended_cluster_has_no_finding(audit):
    assert faults(CLEAN) == []
    assert audit("--from", CLEAN, "--fail-on", "warning") == (
        0,
        "nothing was found; 0 exempted\n",
        "",
    )


@pytest.mark.parametrize(
    ("check", "said"),
    [
        (Id.OVERSUBSCRIBED, ("gives out 2", "has 1 card")),
        (Id.SHARED, ("1 card on node-b60", "llama-swap", "qwen3-embed")),
        (Id.BESIDE_CLAIMS, ("gpu.amd.com", "1 given out")),
        (Id.NOBODY_MANAGES, ("example.com/workstation since 54d14h",)),
        (Id.ORPHANED_QUOTA, ("2 nvidia.com/gpu of ClusterQueue resumable since 54d14h",)),
        (Id.QUOTA, ("2 cards on box", "quota of 3", "resumable (3)")),
        (Id.GATE_LEAKS, ("quota of 1", "IdleRule b60 closes only b60-short")),
        (Id.NO_CONTRACT, ("LowerPriority", "Job lab/embed", "(1 card)")),
        (Id.PRIORITY, ("1000, serving", "Job lab/embed", "(0, batch)")),
    ],
)
def test_both_sides_are_named_and_counted(check, said):
    (one,) = (found for found in faults(FAULTS) if found.id == check)

    assert [part for part in said if part not in one.seen] == []


def test_a_card_that_is_held_and_idle_is_told_with_its_hours():
    week = Idle(idle=timedelta(hours=131), known=timedelta(hours=168))

    (one,) = faults(CLEAN, {"b60": week})

    assert (one.id, one.about) == (Id.IDLE, "Deployment ai/llama-swap")
    assert "1 gpu.intel.com/xe, and was idle 131.0 h of 168.0 h that are known (78%)" in one.seen


@pytest.mark.parametrize(("idle", "known"), [(80, 168), (20, 20)])
def test_a_busy_card_and_one_of_which_little_is_known_are_not(idle, known):
    some = Idle(idle=timedelta(hours=idle), known=timedelta(hours=known))

    assert faults(CLEAN, {"b60": some}) == []


# -- exemptions, and the exit code


def exemption(until: date, object_: str = "Deployment media/*") -> Exemption:
    return Exemption(id="IW103", object=object_, reason="VA-API", until=until)


def test_what_is_exempted_is_apart_and_comes_back_with_its_reason_when_that_ends():
    found, day = faults(FAULTS), date(2026, 3, 1)

    holds = exempted(found, [exemption(day)], day)
    ended = exempted(found, [exemption(day)], day + timedelta(days=1))

    assert [one.id for one, _ in holds.exempted] == ["IW103"]
    assert len(holds.findings) == len(found) - 1
    (back,) = (one for one in ended.findings if one.id == "IW103")
    assert back.seen.endswith("(its exemption ended on 2026-03-01: VA-API)")


def test_an_exemption_that_is_about_nothing_is_said():
    nothing = exemption(date(2030, 1, 1), "Deployment media/gone")

    assert exempted(faults(FAULTS), [nothing], date(2026, 3, 1)).unused == (nothing,)


def test_an_exempted_error_does_not_fail_and_a_warning_only_where_it_is_said(audit, tmp_path):
    file = tmp_path / "exemptions.yaml"
    errors = [c for c in CHECKS.values() if c.severity == "error"]
    entries = [
        {"id": str(c.id), "object": "*", "reason": "R", "until": "2999-01-01"} for c in errors
    ]
    file.write_text(yaml.safe_dump({"exemptions": entries}))

    assert audit("--from", FAULTS)[0] == 1
    code, out, _ = audit("--from", FAULTS, "--exemptions", file)
    assert (code, out.splitlines()[-1]) == (
        0,
        f"{len(OF_FILES) - len(errors)} warning(s); {len(errors)} exempted",
    )
    assert audit("--from", FAULTS, "--exemptions", file, "--fail-on", "warning")[0] == 1
    code, _, err = audit("--from", CLEAN, "--exemptions", file)
    assert (code, err.splitlines()[0]) == (0, f"{file}:2: IW101 * is found no more")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("exemptions: [{id: IW103, object: X, until: 2030-01-01}]", "1: reason is missing"),
        ("\nexemptions:\n- {id: IW9, object: X, reason: R, until: 2030-01-01}", "3: id IW9 is no"),
        ("exemptions: [{id: IW103, object: X, reason: R, until: soon}]", "until 'soon' is no day"),
        ("exemptions: [{id: IW103, object: X, reason: R, until: 2030-01-01, by: me}]", "by is no"),
        ("- IW103", "is no file of exemptions"),
        ("", "is empty"),
    ],
)
def test_a_bad_file_of_exemptions_is_told_by_line(audit, tmp_path, text, said):
    file = tmp_path / "exemptions.yaml"
    file.write_text(text)

    code, out, err = audit("--from", CLEAN, "--exemptions", file)

    assert (code, out) == (2, "")
    assert said in err
    assert "exemptions.yaml" in err


# -- what cannot be read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Node\n\tx: 1", "m.yaml:2: the line is indented with a tab"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {allocatable: {a.b/gpu: x}}",
            "m.yaml:1: Node n is unlike a Node that the API server takes",
        ),
        (
            "---\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: text",
            "m.yaml:3: Deployment default/d is unlike",
        ),
        (
            "apiVersion: idlewin.dev/v1alpha1\nkind: IdleRule\nmetadata: {name: r}\nspec: {}",
            "m.yaml:1: IdleRule r is no rule",
        ),
    ],
)
def test_a_bad_manifest_ends_with_2_and_its_line(audit, tmp_path, text, said):
    (tmp_path / "m.yaml").write_text(text)

    code, out, err = audit("--from", tmp_path)

    assert (code, out) == (2, "")
    assert said in err


def test_what_is_no_object_of_a_kind_that_is_known_is_passed_over(audit, tmp_path):
    (tmp_path / "values.yaml").write_text("sharedDevNum: 5\n")
    (tmp_path / "other.yaml").write_text("apiVersion: x.y/v1\nkind: Node\nmetadata: {name: n}\n")
    (tmp_path / "patch.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\nspec: {}\n")

    assert audit("--from", tmp_path)[0] == 0


@pytest.mark.filterwarnings("error")
def test_an_anchor_that_is_set_anew_is_nothing_to_warn_of(audit, tmp_path):
    meta = "metadata: {name: &n a, labels: {x: &n b, y: *n}}"
    (tmp_path / "m.yaml").write_text(f"apiVersion: v1\nkind: Node\n{meta}\n")

    assert audit("--from", tmp_path) == (0, "nothing was found; 0 exempted\n", "")


def test_a_path_that_is_not_there_and_a_directory_without_manifests_end_with_2(audit, tmp_path):
    assert audit("--from", tmp_path / "gone")[0] == 2
    assert audit("--from", tmp_path)[0] == 2


# -- settings, wherever they are written


@pytest.mark.parametrize(
    ("manifest", "check", "said"),
    [
        (
            {"kind": "DaemonSet", "spec": {"template": {"spec": {"containers": [
                {"name": "p", "image": "intel-gpu-plugin", "args": ["-shared-dev-num=5"]}]}}}},
            Id.REPLICAS, "-shared-dev-num=5: one card is given out as 5",
        ),
        (
            {"kind": "DaemonSet", "spec": {"template": {"spec": {"containers": [
                {"name": "p", "image": "intel-gpu-plugin", "args": ["-resource-manager"]}]}}}},
            Id.RESOURCE_MANAGER, "-resource-manager",
        ),
        (
            {"kind": "ConfigMap", "data": {"any": "sharing:\n  timeSlicing:\n    resources:\n"
                                          "    - {name: nvidia.com/gpu, replicas: 4}\n"}},
            Id.REPLICAS, "sharing.timeSlicing has 4 replicas of nvidia.com/gpu",
        ),
        (
            {"kind": "ConfigMap", "data": {"any": "sharing:\n  mps:\n    resources:\n"
                                          "    - {name: nvidia.com/gpu, replicas: 4}\n"}},
            Id.LIMITER, "sharing.mps has 4 replicas",
        ),
    ],
)  # fmt: skip
def test_a_setting_is_found_in_arguments_and_in_configuration(tmp_path, manifest, check, said):
    version = {"DaemonSet": "apps/v1"}.get(manifest["kind"], "v1")
    meta = {"name": "plugin", "namespace": "kube-system"}
    text = yaml.safe_dump({"apiVersion": version, "metadata": meta, **manifest})
    (tmp_path / "m.yaml").write_text(text)

    (one,) = faults(tmp_path)

    assert one.id == check
    assert said in one.seen


def test_of_manifests_without_nodes_a_shared_setting_names_who_may_meet(tmp_path):
    (tmp_path / "a.yaml").write_text((FAULTS / "serving.yaml").read_text().split("---\n# IW103")[0])
    (tmp_path / "b.yaml").write_text((FAULTS / "settings.yaml").read_text().split("---\n")[0])

    shared, replicas = faults(tmp_path)

    assert (shared.id, replicas.id) == (Id.SHARED, Id.REPLICAS)
    assert shared.seen.startswith("with sharedDevNum: 2 up to 2 of these meet on one card: ")


# -- how it is told


def test_json_and_yaml_say_the_same(audit):
    as_json = json.loads(audit("--from", FAULTS, "-o", "json")[1])

    assert yaml.safe_load(audit("--from", FAULTS, "-o", "yaml")[1]) == as_json
    assert {one["id"] for one in as_json["findings"]} == OF_FILES
    assert set(as_json["findings"][0]) == {
        "id", "title", "about", "severity", "seen", "remedy", "file", "line",
    }  # fmt: skip


def test_sarif_has_what_its_schema_requires_and_what_is_exempted_is_suppressed(audit, tmp_path):
    file = tmp_path / "e.yaml"
    file.write_text("exemptions: [{id: IW103, object: '*', reason: R, until: 2999-01-01}]")

    log = json.loads(audit("--from", FAULTS, "-o", "sarif", "--exemptions", file)[1])

    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(CHECKS)
    assert run["tool"]["driver"]["name"]
    assert run["invocations"][0]["executionSuccessful"] is True
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning")
        assert result["message"]["text"]
        (place,) = result["locations"]
        assert place["physicalLocation"]["region"]["startLine"] >= 1
        assert " " not in place["physicalLocation"]["artifactLocation"]["uri"]
    (let,) = (one for one in run["results"] if "suppressions" in one)
    assert (let["ruleId"], let["suppressions"][0]["kind"]) == ("IW103", "external")


def test_junit_has_a_case_for_each_check_and_fails_those_with_findings(audit):
    root = ET.fromstring(audit("--from", FAULTS, "-o", "junit")[1].split("?>\n")[1])

    suite = root.find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == (str(len(CHECKS)), str(len(OF_FILES)))
    failed = {case.get("name")[:5] for case in suite if case.find("failure") is not None}
    assert failed == OF_FILES


def test_the_gauge_has_each_check_also_those_without_a_finding(audit):
    lines = audit("--from", FAULTS, "-o", "prometheus")[1].splitlines()

    assert lines[1] == "# TYPE idlewin_audit_findings gauge"
    assert 'idlewin_audit_findings{id="IW101",severity="error"} 1' in lines
    assert 'idlewin_audit_findings{id="IW106",severity="warning"} 0' in lines
    assert len(lines) == 2 + len(CHECKS)


def test_what_could_not_be_listed_is_said_in_each_form():
    from idlewin.audit.exempt import Audit
    from idlewin.cli.audit_told import FORMS, Told

    told = Told(Audit(), {"cohorts": "forbidden"})

    for form in ("text", "json", "yaml", "sarif"):
        assert "cohorts" in FORMS[form](told)


def test_the_same_finding_is_told_once():
    objects, _ = read([FAULTS])
    facts = facts_of(objects)
    twice = replace(facts, settings=facts.settings * 2)

    assert audited(twice, NOW) == audited(facts, NOW)
