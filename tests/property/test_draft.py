"""Whatever others called their things, the text of a draft can be read, and means them."""

from __future__ import annotations

from pathlib import Path

import yaml
from hypothesis import given, settings, strategies as st

from idlewin.catalogue import SHIPPED
from idlewin.core.target import Ref
from idlewin.draft.facts import Facts, Node, Queue, Role, Seen, Service, Tenant, Wanted
from idlewin.draft.rules import drafted
from idlewin.draft.yamltext import flow, scalar
from idlewin.rulefile import read_text

GPU = "nvidia.com/gpu"
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
odd = st.one_of(
    texts, st.sampled_from(["no", "~", "1e3", "0x1", "null", "on", "2026-01-01", "a: b"])
)
names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)


@given(odd)
def test_a_text_is_the_same_once_it_is_read(text: str) -> None:
    assert yaml.safe_load(f"{{{scalar('key')}: {scalar(text)}}}") == {"key": text}


@given(st.dictionaries(odd, odd, max_size=3))
def test_a_mapping_is_the_same_once_it_is_read(values: dict[str, str]) -> None:
    assert yaml.safe_load(f"at: {flow(values)}") == {"at": values}


@st.composite
def clusters(draw: st.DrawFn) -> Facts:
    nodes = [
        Node(name=name, labels={draw(names): draw(names)}, cards={GPU: draw(st.integers(0, 3))})
        for name in draw(st.lists(names, max_size=4, unique=True))
    ]
    tenants = []
    for name in draw(st.lists(names, max_size=4, unique=True)):
        on = [node.name for node in nodes if draw(st.booleans())]
        tenants.append(
            Tenant(
                ref=Ref(api_version="apps/v1", kind="Deployment", namespace="ai", name=name),
                role=draw(st.sampled_from(Role)),
                why=tuple(draw(st.lists(odd, max_size=2))),
                claims={GPU: 1},
                held={node: {GPU: 1} for node in on},
                devices={node: ("/dev/nvidia0",) for node in on if draw(st.booleans())},
                services=(Service(name=draw(names), ports=(("http", 80),)),),
                images=(draw(odd),),
            )
        )
    series = draw(
        st.lists(st.fixed_dictionaries({"namespace": odd, "model_name": odd}), max_size=3)
    )
    doors = [{"router": f"web-ai-{one.ref.name}-{draw(odd)}"} for one in tenants]
    vllm, traefik = SHIPPED.sources["vllm-requests"], SHIPPED.sources["traefik-router"]
    return Facts(
        nodes=tuple(nodes),
        tenants=tuple(tenants),
        queues=tuple(
            Queue(name=name, flavors={GPU: ("f",)})
            for name in draw(st.lists(names, max_size=2, unique=True))
        ),
        sources=(
            Seen(source=vllm, alive=True, series=tuple(series)),
            Seen(source=traefik, alive=draw(st.booleans()), series=tuple(doors)),
        ),
    )


@settings(deadline=None, max_examples=60)
@given(clusters())
def test_a_draft_can_be_read_and_is_stopped_by_demand_alone(facts: Facts) -> None:
    told = drafted(facts, Wanted(), SHIPPED)

    found = read_text(Path("my.yaml"), told.text) if told.text else None
    rules = [one.object for one in found.documents] if found else []
    assert [rule.name for rule in rules] == list(told.rules)
    assert len(set(told.rules)) == len(told.rules)
    assert {stop.field.rpartition(".")[2] for stop in told.stops} <= {"demand"}
    # Each card is in one rule at most, each target too, and each line that is named is that one's.
    lines = told.text.splitlines()
    assert all(lines[stop.line - 1].lstrip().startswith("demand:") for stop in told.stops)
    stopped = {stop.rule for stop in told.stops}
    whole = [rule.rule for rule in rules if rule.name not in stopped]
    assert all(rule is not None and rule.mode == "Observe" for rule in whole)
    assert "TODO" in told.text or not told.text
