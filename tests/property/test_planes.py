"""A plane with anything in any place: judged by line, or rendered into what a reader takes."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import example, given, settings, strategies as st

from idlewin.adapters import quota
from idlewin.plane.model import Plane
from idlewin.plane.read import read_plane
from idlewin.plane.render import files, objects
from idlewin.yamlfile import to_yaml

HOMELAB = yaml.safe_load((Path(__file__).parents[2] / "rules/homelab.plane.yaml").read_text())
ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from(["", "no", "1", "a-b", "b60", "30m", "12:30", "a\nb", "'", '"', "#"]),
    st.just([]),
    st.just({}),
    st.just([[]]),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*at, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*at, key))


PLACES = list(places(HOMELAB))


@settings(deadline=None)
@given(st.sampled_from(PLACES), ODD)
@example(("cards", 0, "shared"), 1)
def test_anything_in_any_place_is_judged_or_rendered(place: tuple[Any, ...], odd: Any) -> None:
    whole = copy.deepcopy(HOMELAB)
    node = whole
    for step in place[:-1]:
        node = node[step]
    node[place[-1]] = odd
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plane.yaml"
        path.write_text(to_yaml(whole))
        found = read_plane(path)

    if found.plane is None:
        assert found.findings
        assert all(one.line >= 1 and one.message and not one.warning for one in found.findings)
        return
    texts = files(found.plane)
    texts.pop("kustomization.yaml")
    read = [thing for text in texts.values() for thing in yaml.safe_load_all(text)]
    # As kubectl's reader takes them they are what was meant.
    assert read == [one.body for one in objects(found.plane)]


# -- laws over planes that are right

CARD = "gpu.intel.com/xe"
CLASSES = [
    {"name": "short", "maxRuntime": "30m"},
    {"name": "long", "contract": "Checkpoint"},
    {"name": "kept", "contract": "Checkpoint", "protected": True},
]
SERVING = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "namespace": "ai",
    "demand": "CalendarOnly",
}


@st.composite
def planes(draw: st.DrawFn) -> Plane:
    """Some cards, with serving or without, and tenants with some queues on them."""
    cards = [
        {
            "name": f"c{number}",
            "resource": CARD,
            "nodes": [f"n{number}"],
            "perNode": draw(st.integers(1, 4)),
            "model": "a card",
            "memory": "12Gi",
            "deviceClass": "device",
            "host": {"cpu": 8, "memory": "32Gi"},
            "serving": [{**SERVING, "name": f"s{number}"}] if draw(st.booleans()) else [],
        }
        for number in range(draw(st.integers(1, 3)))
    ]
    uses = [{"cards": c["name"], "queueClass": k["name"]} for c in cards for k in CLASSES]
    tenants = []
    for number in range(draw(st.integers(1, 3))):
        mine = draw(
            st.lists(st.sampled_from(uses), min_size=1, unique_by=lambda u: tuple(u.values()))
        )
        limited = {use["cards"]: 1 for use in mine if draw(st.booleans())}
        tenants.append(
            {
                "name": f"t{number}",
                "namespaces": [f"t{number}-a", f"t{number}-b"],
                "quota": limited,
                "priorities": ["soon"],
                "queues": mine,
            }
        )
    whole = {
        "name": "drawn",
        "deviceClasses": [{"name": "device", "kind": "Exclusive"}],
        "cards": cards,
        "queueClasses": CLASSES,
        "priorities": [{"name": "soon", "value": 1}],
        "tenants": tenants,
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plane.yaml"
        path.write_text(to_yaml(whole))
        found = read_plane(path)
    assert found.plane is not None, found.findings
    return found.plane


def bodies(plane: Plane, kind: str) -> list[Any]:
    return [one.body for one in objects(plane) if one.kind == kind]


def flavor(queue: Any) -> str:
    return queue["spec"]["resourceGroups"][0]["flavors"][0]["name"]


@settings(deadline=None)
@given(planes())
def test_kueue_lets_work_in_for_the_cards_there_are_and_from_no_other_queue(plane: Plane) -> None:
    queues, cohorts = bodies(plane, "ClusterQueue"), bodies(plane, "Cohort")
    for cards in plane.written.cards:
        ours = [queue for queue in queues if flavor(queue) == cards.name]
        names = frozenset(queue["metadata"]["name"] for queue in ours)

        assert not ours or quota.reach(ours, queues, cohorts, CARD) == cards.count
        assert not [leak for q in ours for leak in quota.leaks(q, names, queues, cohorts, CARD)]


@settings(deadline=None)
@given(planes())
def test_nothing_preempts_work_that_did_not_agree_to_it(plane: Plane) -> None:
    preemptions = {
        one["metadata"]["name"]: one["spec"]["preemption"] for one in bodies(plane, "ClusterQueue")
    }
    for queue in plane.queues:
        told = preemptions[queue.name]
        if told["withinClusterQueue"] != "Never":
            assert queue.kind.name == "long"
        if told["reclaimWithinCohort"] != "Never":
            assert {other.kind.name for other in plane.on(queue.cards)} == {"long"}


@settings(deadline=None)
@given(planes())
def test_a_rule_names_the_queues_that_it_has_adopted_and_no_other(plane: Plane) -> None:
    adopted: dict[str, set[str]] = {}
    for queue in bodies(plane, "ClusterQueue"):
        assert "stopPolicy" not in queue["spec"]
        for rule in queue["metadata"].get("annotations", {}).values():
            adopted.setdefault(rule, set()).add(queue["metadata"]["name"])

    named = {
        rule["metadata"]["name"]: {one["clusterQueue"] for one in rule["spec"]["batch"]["queues"]}
        for rule in bodies(plane, "IdleRule")
    }
    assert named == adopted
    served = {c.name for c in plane.written.cards if c.serving and plane.on(c)}
    assert set(named) == served


@settings(deadline=None)
@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
@example(["no", "12:30", "1_000", "a\nb", " a\nb ", "\n", "a\n\n", "\x85", "<<", "0b1", "+1"])
def test_text_is_text_for_a_reader_of_yaml_1_1(data: Any) -> None:
    assert yaml.safe_load(to_yaml({"data": data})) == {"data": data}
