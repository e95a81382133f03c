"""Files of a plane: what is wrong with one, with its line, and what is made of a right one."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from idlewin.adapters import quota
from idlewin.cli.app import main
from idlewin.core.text import camel
from idlewin.plane.hardware import Cards, DeviceClass, Host, Machine, Topology
from idlewin.plane.model import Plane
from idlewin.plane.read import read_plane
from idlewin.plane.render import files as files_of, objects
from idlewin.plane.written import Priority, QueueClass, Tenant, Use, Written

HOMELAB = Path(__file__).parents[2] / "rules/homelab.plane.yaml"
SMALL = """\
name: small
deviceClasses:
  - {name: device, kind: Exclusive, deviceNodes: [/dev/dri]}
cards:
  - name: arc
    resource: gpu.intel.com/xe
    nodes: [box]
    model: Intel Arc B580
    memory: 12Gi
    shared: 1
    deviceClass: device
    host: {cpu: 8, memory: 32Gi}
    serving:
      - apiVersion: apps/v1
        kind: Deployment
        namespace: ai
        name: qwen
        demand: CalendarOnly
    window: {calendar: {allow: ["Mon-Sun 22:00-07:00"]}}
queueClasses:
  - {name: short, maxRuntime: 30m}
  - {name: long, contract: Checkpoint, grace: 2m}
priorities:
  - {name: soon, value: 10}
tenants:
  - name: media
    namespaces: [media]
    priorities: [soon]
    quota: {arc: 1}
    queues: [{cards: arc, queueClass: short}, {cards: arc, queueClass: long}]
outside:
  - {name: desk, model: RTX 4090, memory: 24Gi, why: it sleeps}
"""


def read(folder: Path, text: str) -> Any:
    path = folder / "plane.yaml"
    path.write_text(text)
    return read_plane(path)


def plane_of(folder: Path, text: str = SMALL) -> Plane:
    found = read(folder, text)
    assert found.findings == (), found.findings
    return found.plane


def of_kind(plane: Plane, kind: str) -> dict[str, Any]:
    return {one.name: one.body for one in objects(plane) if one.kind == kind}


KINDS = SMALL[SMALL.index("queueClasses:") : SMALL.index("priorities:")]
SERVING = SMALL[SMALL.index("    serving:") : SMALL.index("queueClasses:")]
TWICE = "  - {name: soon, value: 10}\n"
TENANT = """\
  - name: other
    namespaces: [media]
    priorities: [soon]
    queues: [{cards: arc, queueClass: short}]
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "says"),
    [
        ("shared: 1", "shared: 5", 10, "cards[0].shared: is 5; write 1"),
        ("shared: 1", "shared: 0", 10, "Replication is no partition"),
        ("shared: 1", "share: 1", 10, "cards[0].share: no such field; did you mean 'shared'?"),
        ("kind: Exclusive", "kind: Excl", 3, "deviceClasses[0].kind: 'Excl' is none of"),
        ("kind: Exclusive, deviceNodes: [/dev/dri]", "kind: Mediated", 3, "arbiter: LlamaSwap"),
        ("kind: Exclusive", "kind: Mediated, arbiter: LlamaSwap", 3, "passes every arbiter"),
        ("[/dev/dri]", "[dri]", 3, "deviceClasses[0].deviceNodes: has 'dri', which names nothing"),
        ("name: arc\n", "name: Arc 580\n", 5, "cards[0].name: 'Arc 580' is no name here"),
        ("resource: gpu.intel.com/xe", "resource: xe", 6, "cards[0].resource: 'xe' is no extended"),
        ("nodes: [box]", "nodes: [box, bix]", 5, "nodeLabels is missing, and there are 2 nodes"),
        (KINDS, "queueClasses: []\n", 20, "queueClasses: is empty"),
        (SERVING, "    mode: Act\n", 13, "cards[0].mode: has no use without serving"),
        ("nodes: [box]", "nodes: [desk]", 7, "desk is named in outside too"),
        ("nodes: [box]", "nodes: []", 7, "cards[0].nodes: is empty"),
        ("memory: 12Gi", "memory: lots", 9, "cards[0].memory: 'lots' is no quantity"),
        ("deviceClass: device", "deviceClass: devise", 11, "no device class 'devise'; did you"),
        ("demand: CalendarOnly", "demand: []", 18, "demand: is empty"),
        ("kind: Deployment", "kind: DaemonSet", 15, "cards[0].serving[0].kind: DaemonSet"),
        ("contract: Checkpoint, grace: 2m", "grace: 2m", 22, "either maxRuntime or contract"),
        ("grace: 2m", "maxRuntime: 2h", 22, "end for good what agreed to resume"),
        ("maxRuntime: 30m", "maxRuntime: 30m, protected: false", 21, "never agreed to it"),
        ("maxRuntime: 30m", "maxRuntime: 30", 21, "such as 30m"),
        (TWICE, TWICE * 2, 25, "priorities[1].name: 'soon' is taken by priorities[0]"),
        ("priorities: [soon]", "priorities: [now]", 28, "no priority 'now'"),
        ("namespaces: [media]", "namespaces: [M_1]", 27, "no namespace's name"),
        ("quota: {arc: 1}", "quota: {arc: 2}", 29, "is 2, and arc has 1; write 1 to 1"),
        ("quota: {arc: 1}", "quota: {b60: 1}", 29, "no queue on cards 'b60'"),
        ("cards: arc, queueClass: long", "cards: arc, queueClass: lang", 30, "did you mean 'long'"),
        ("outside:\n", TENANT + "outside:\n", 32, "namespace media is tenant media's already"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_what_would_be_right(
    tmp_path: Path, old: str, new: str, line: int, says: str
) -> None:
    assert SMALL.count(old) >= 1
    found = read(tmp_path, SMALL.replace(old, new, 1))

    assert found.plane is None
    assert [one for one in found.findings if says in str(one) and one.line == line], found.findings


def test_names_that_would_come_out_the_same_are_an_error(tmp_path: Path) -> None:
    text = SMALL.replace("name: long,", "name: short-x,").replace(
        "queueClass: long", "queueClass: short-x"
    )
    more = TENANT.replace("name: other", "name: x-media").replace("[media]", "[other]")
    found = read(tmp_path, text.replace("outside:\n", more + "outside:\n"))

    assert "ClusterQueue would be arc-short-x-media" in str(found.findings)


def test_cards_of_one_resource_on_a_node_are_one_entry(tmp_path: Path) -> None:
    begin, end = SMALL.index("  - name: arc"), SMALL.index("queueClasses:")
    other = SMALL[begin:end].replace("name: arc", "name: two").replace("name: qwen", "name: b")
    found = read(tmp_path, SMALL[:end] + other + SMALL[end:])

    assert "cards[1].nodes[0]: gpu.intel.com/xe on box is arc's already" in str(found.findings[0])


def test_labels_of_two_cards_select_no_node_of_both(tmp_path: Path) -> None:
    begin, end = SMALL.index("  - name: arc"), SMALL.index("queueClasses:")
    labels = "nodes: [bix]\n    nodeLabels: {kubernetes.io/hostname: box, rack: a}"
    other = SMALL[begin:end].replace("name: arc", "name: two").replace("name: qwen", "name: b")
    text = SMALL[:end] + other.replace("nodes: [box]", labels) + SMALL[end:]
    (finding,) = read(tmp_path, text).findings

    assert (finding.line, finding.field) == (23, "cards[1].nodeLabels")
    assert "select nodes of arc" in finding.message


def test_an_arbiter_is_the_cards_and_the_targets_alike(tmp_path: Path) -> None:
    text = HOMELAB.read_text()
    without = read(tmp_path, text.replace("        arbiter: LlamaSwap\n", ""))
    beside = read(tmp_path, text.replace("deviceClass: by-protocol", "deviceClass: by-device"))

    assert "write arbiter: LlamaSwap" in str(without.findings[0])
    assert "by-device is Exclusive" in str(beside.findings[0])


def test_doubts_are_warnings(tmp_path: Path) -> None:
    found = read(tmp_path, SMALL.replace("namespaces: [media]", "namespaces: [ai]"))

    assert found.plane is not None
    (doubt,) = found.findings
    assert (doubt.line, doubt.warning) == (16, True)
    assert "serving could not come back" in doubt.message


@pytest.mark.parametrize("text", ["", "- a\n", "a: b\n---\nc: d\n", "a: [\n", "a: &x {b: *x}\n"])
def test_a_file_that_is_no_plane_is_told(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)

    assert found.plane is None
    assert found.findings


def test_the_quota_is_what_there_is_and_nobody_else_can_reach_it(tmp_path: Path) -> None:
    plane = plane_of(tmp_path)
    queues, cohorts = (list(of_kind(plane, k).values()) for k in ("ClusterQueue", "Cohort"))
    names = frozenset(queue["metadata"]["name"] for queue in queues)
    card = "gpu.intel.com/xe"

    assert quota.reach(queues, queues, cohorts, card) == 1
    assert not [leak for q in queues for leak in quota.leaks(q, names, queues, cohorts, card)]


def test_queues_are_adopted_by_the_rule_that_names_them_and_have_no_stop_policy(
    tmp_path: Path,
) -> None:
    plane = plane_of(tmp_path)
    queues, rules = of_kind(plane, "ClusterQueue"), of_kind(plane, "IdleRule")

    marks = {name: body["metadata"]["annotations"] for name, body in queues.items()}
    assert marks == {
        name: {"idlewin.dev/rule": "arc"} for name in ("arc-short-media", "arc-long-media")
    }
    assert not [body for body in queues.values() if "stopPolicy" in body["spec"]]
    spec = rules["arc"]["spec"]
    assert (spec["mode"], spec["cards"]["count"]) == ("Observe", 1)
    assert [queue["clusterQueue"] for queue in spec["batch"]["queues"]] == list(queues)


def test_a_rule_acts_where_its_cards_say_so(tmp_path: Path) -> None:
    acts = SMALL.replace("    shared: 1\n", "    shared: 1\n    mode: Act\n")

    assert of_kind(plane_of(tmp_path, acts), "IdleRule")["arc"]["spec"]["mode"] == "Act"


def preemption(plane: Plane) -> dict[str, tuple[str, str]]:
    queues = of_kind(plane, "ClusterQueue").items()
    both = ("withinClusterQueue", "reclaimWithinCohort")
    return {name: tuple(body["spec"]["preemption"][key] for key in both) for name, body in queues}


def test_nobody_preempts_who_did_not_agree_to_it(tmp_path: Path) -> None:
    mixed = preemption(plane_of(tmp_path))
    agreed = SMALL.replace("{cards: arc, queueClass: short}, ", "")
    protected = SMALL.replace("grace: 2m", "grace: 2m, protected: true")

    # Work under a contract would reach that of the short queue, in the same Cohort.
    assert mixed == {
        "arc-short-media": ("Never", "Never"),
        "arc-long-media": ("LowerPriority", "Never"),
    }
    assert preemption(plane_of(tmp_path, agreed)) == {"arc-long-media": ("LowerPriority", "Any")}
    assert set(preemption(plane_of(tmp_path, protected)).values()) == {("Never", "Never")}


def test_cards_that_nobody_serves_on_have_no_rule_and_their_queues_no_owner(tmp_path: Path) -> None:
    begin, end = SMALL.index("    serving:"), SMALL.index("queueClasses:")
    plane = plane_of(tmp_path, SMALL[:begin] + SMALL[end:])

    assert of_kind(plane, "IdleRule") == {}
    assert [
        b for b in of_kind(plane, "ClusterQueue").values() if "annotations" in b["metadata"]
    ] == []


def test_a_machine_outside_is_named_and_never_rendered(tmp_path: Path) -> None:
    texts = files_of(plane_of(tmp_path))

    assert "desk (RTX 4090, 24Gi) is no node" in texts.pop("kustomization.yaml")
    assert not [name for name, text in texts.items() if "desk" in text]


def test_words_that_kubectl_reads_otherwise_are_in_quotes(tmp_path: Path) -> None:
    plane = read(tmp_path, SMALL.replace("namespaces: [media]", 'namespaces: ["no"]')).plane

    told = [yaml.safe_load_all(text) for text in files_of(plane).values()]
    local = [d for docs in told for d in docs if d["kind"] == "LocalQueue"]
    assert {one["metadata"]["namespace"] for one in local} == {"no"}


def test_the_page_says_each_field() -> None:
    page = (HOMELAB.parents[1] / "docs/plane.md").read_text()
    lists = {
        "deviceClasses[].": DeviceClass,
        "cards[].": Cards,
        "cards[].host.": Host,
        "queueClasses[].": QueueClass,
        "priorities[].": Priority,
        "tenants[].": Tenant,
        "tenants[].queues[].": Use,
        "topologies[].": Topology,
        "outside[].": Machine,
    }
    wanted = [at + camel(part.name) for at, kind in lists.items() for part in fields(kind)]
    wanted += [camel(part.name) for part in fields(Written)]

    assert [name for name in wanted if f"\n| `{name}` | " not in page] == []


def test_the_example_of_the_page_is_a_plane(tmp_path: Path) -> None:
    page = (HOMELAB.parents[1] / "docs/plane.md").read_text()

    plane_of(tmp_path, page.partition("```yaml\n")[2].partition("```")[0])


# -- the command


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["plane", "render", *arguments])
    return int(end.value.code or 0)


def test_a_rendering_is_whole_and_replaces_an_earlier_one(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    assert run(str(HOMELAB), "--out", str(out)) == 0
    assert "kubectl patch clusterqueue" in capsys.readouterr().err
    names = {path.name for path in out.iterdir()}
    listed = yaml.safe_load((out / "kustomization.yaml").read_text())["resources"]
    assert names == {*listed, "kustomization.yaml"}

    small, mine = tmp_path / "small.yaml", out / "mine.yaml"
    small.write_text(SMALL)
    mine.write_text("a: person's\n")
    assert run(str(small), "--out", str(out)) == 0
    left = {path.name for path in out.iterdir()}
    assert names - left == {"topologies.yaml"}
    assert mine.exists()


def test_a_file_of_a_person_is_not_replaced(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "cohorts.yaml").write_text("a: person's\n")

    assert run(str(HOMELAB), "--out", str(tmp_path)) == 2
    assert "was not rendered by idlewin" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["cohorts.yaml"]


def test_of_a_file_with_a_fault_nothing_is_written(tmp_path: Path, capsys: Any) -> None:
    path, out = tmp_path / "plane.yaml", tmp_path / "out"
    path.write_text(SMALL.replace("shared: 1", "shared: 2").replace("30m", "soon"))

    assert run(str(path), "--out", str(out)) == 2
    told = capsys.readouterr()
    assert (told.out, out.exists()) == ("", False)
    assert f"error: {path}:10: cards[0].shared: is 2" in told.err
    assert f"error: {path}:21: queueClasses[0].maxRuntime: 'soon' is not a duration" in told.err


def test_without_a_directory_it_is_one_stream_of_objects(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "plane.yaml"
    path.write_text(SMALL)

    assert run(str(path)) == 0
    kinds = [thing["kind"] for thing in yaml.safe_load_all(capsys.readouterr().out)]
    assert kinds == [one.kind for one in objects(plane_of(tmp_path))]
