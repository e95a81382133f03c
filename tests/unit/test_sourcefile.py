"""Files of sources: what is read, and what is said of a mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from idlewin.source import SourceKind
from idlewin.sourcefile import read_sources, shipped

GOOD = """\
my-gateway:
  kind: in-path
  keys: [namespace, service]
  unit: requests
  max: 1000
  series: my_gateway_in_flight
  exporter: my_gateway_info
  query: sum by (namespace, service) (my_gateway_in_flight)
  about: requests that my gateway has in flight
  remedy: scrape the gateway
"""


def written(folder: Path, text: str, name: str = "sources.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_catalogue_that_ships_has_no_fault() -> None:
    assert shipped().findings == ()
    assert "traefik-router" in {source.name for source in shipped().sources}


def test_a_source_of_ones_own_is_read_with_its_defaults(tmp_path: Path) -> None:
    (source,) = read_sources(written(tmp_path, GOOD)).sources

    assert source.name == "my-gateway"
    assert source.kind is SourceKind.IN_PATH
    assert source.keys == ("namespace", "service")
    assert source.max == 1000
    assert (source.project, source.versions, source.see) == ("", "", "")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: in-path", "kind: in_path", ":2: my-gateway.kind: 'in_path' is none of running, "),
        ("kind: in-path", "kind: in_path", "did you mean in-path?"),
        ("max: 1000", "max: lots", ":5: my-gateway.max: 'lots' is not a number"),
        ("max: 1000", "max: 0", ":5: my-gateway.max: is 0; write the largest value"),
        ("keys: [namespace, service]", "keys: namespace", ":3: my-gateway.keys: 'namespace' is"),
        ("keys: [namespace, service]", "keys: []", ":3: my-gateway.keys: are labels, one or more"),
        (
            "[namespace, service]",
            "[a, a-b]",
            ":3: my-gateway.keys: has 'a-b', which is no label of Prometheus",
        ),
        ("  remedy: scrape the gateway\n", "", ":1: my-gateway.remedy: is missing: What to look"),
        ("exporter:", "exporters:", ":7: my-gateway.exporters: no such field; did you mean"),
        ("about: requests", "name: x\n  about: requests", ":9: my-gateway.name: no such field; a"),
        ("series: my_gateway_in_flight", "series: ''", ":6: my-gateway.series: is empty"),
        (
            "series: my_gateway_in_flight",
            "series: rate(my_gateway_requests_total[5m])",
            ":6: my-gateway.series: is 'rate(my_gateway_requests_total[5m])'; write one metric",
        ),
        ("exporter: my_gateway_info", "exporter: up == 1", ":7: my-gateway.exporter: is 'up == 1'"),
        ("(my_gateway_in_flight)", "(rate(a[$windw]))", ":8: my-gateway.query: has $windw, which"),
        ("my-gateway:", "My_Gateway:", ":1: My_Gateway: 'My_Gateway' is no name of a source"),
        ("  kind: in-path", "\tkind: in-path", ":2: the line is indented with a tab"),
    ],
)
def test_a_mistake_is_told_with_its_line_field_and_remedy(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    found = read_sources(written(tmp_path, GOOD.replace(old, new)))

    assert found.sources == ()
    assert said in "\n".join(map(str, found.findings))


def test_one_bad_entry_leaves_the_others(tmp_path: Path) -> None:
    bad = GOOD.replace("my-gateway:", "bad:").replace("max: 1000", "max: -1")

    found = read_sources(written(tmp_path, bad + GOOD))

    assert [source.name for source in found.sources] == ["my-gateway"]
    assert [(f.line, f.field) for f in found.findings] == [(5, "bad.max")]


def test_a_name_in_two_files_of_a_directory_is_told(tmp_path: Path) -> None:
    written(tmp_path, GOOD, "a.yaml")
    written(tmp_path, "# two\n" + GOOD, "b.yml")
    written(tmp_path, "not: read", "notes.txt")

    found = read_sources(tmp_path)

    assert len(found.sources) == 1
    (finding,) = found.findings
    assert str(finding).startswith(
        f"{tmp_path}/b.yml:2: my-gateway: is taken by {tmp_path}/a.yaml:1"
    )


def test_a_name_that_ships_is_not_shadowed(tmp_path: Path) -> None:
    found = read_sources(written(tmp_path, GOOD.replace("my-gateway:", "vllm-requests:")))

    assert found.sources == ()
    (finding,) = found.findings
    assert "sources.yaml:1: vllm-requests: is taken by the catalogue that ships" in str(finding)


def test_a_mounted_configmap_is_read_once(tmp_path: Path) -> None:
    """The kubelet puts the files into a hidden folder, and links to them beside it."""
    (tmp_path / "..2026_11_30").mkdir()
    written(tmp_path / "..2026_11_30", GOOD)
    (tmp_path / "..data").symlink_to("..2026_11_30")
    (tmp_path / "sources.yaml").symlink_to("..data/sources.yaml")

    found = read_sources(tmp_path)

    assert (len(found.sources), found.findings) == (1, ())


def test_an_empty_directory_has_no_sources_and_no_fault(tmp_path: Path) -> None:
    assert read_sources(tmp_path).findings == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a\n- b\n", 'sources.yaml:1: ["a", "b"] is no source; write NAME:'),
        (
            "a: &a\n  b: *a\n",
            "a.b: no such field; known here: about, always, exporter, keys, kind, max, project",
        ),
        ("a: 3\n", "sources.yaml:1: a: 3 is not a mapping"),
    ],
)
def test_what_is_no_mapping_of_entries_is_told(tmp_path: Path, text: str, said: str) -> None:
    assert said in "\n".join(map(str, read_sources(written(tmp_path, text)).findings))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    (finding,) = read_sources(tmp_path / "none.yaml").findings

    assert "none.yaml: is not there; name a file of sources" in str(finding)
