"""The catalogue of sources, and what it finds wrong with a rule."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from idlewin.adapters.prometheus_api import Answer, Series
from idlewin.adapters.prometheus_runs import ABSENT, codes
from idlewin.adapters.prometheus_source import Look, UnknownError
from idlewin.catalogue import (
    SHIPPED,
    Catalogue,
    described,
    nearest,
    problems,
)
from idlewin.core.load import Level
from idlewin.core.rule import Activity
from idlewin.core.target import Demand
from idlewin.source import Source, SourceKind, filled, part_is
from tests.contract.demand_rules import rule

DOOR = Demand(source="traefik-router", match={"router": "qwen3-8b@kubernetes"})
VLLM = Demand(source="vllm-requests")
NAN = float("nan")


def test_the_sources_of_the_catalogue_are_of_these_kinds() -> None:
    kinds: dict[SourceKind, list[str]] = {kind: [] for kind in SourceKind}
    for name, source in SHIPPED.sources.items():
        kinds[source.kind].append(name)

    assert {kind: " ".join(names) for kind, names in kinds.items()} == {
        SourceKind.FRONT_DOOR: "traefik-router ingress-nginx istio-requests knative-activator",
        SourceKind.IN_PATH: "haproxy-backend envoy-cluster envoy-listener keda-http",
        SourceKind.RUNNING: "vllm-requests llamacpp-requests ovms-requests ovms-graphs "
        "tgi-requests tei-requests triton-requests jellyfin-transcodes immich-jobs",
        SourceKind.ACTIVITY: "intel-xpumd intel-xpum nvidia-dcgm nvidia-smi amd-drm amd-gpu",
    }


@pytest.mark.parametrize("source", SHIPPED.sources.values(), ids=lambda source: source.name)
def test_a_source_groups_by_its_keys_and_says_what_it_is(source) -> None:
    by = ", ".join(source.keys)

    assert f"by ({by}) (" in " ".join(source.query.split())
    assert f"by ({by})" in source.age
    assert source.max > 0
    assert all((source.about, source.remedy, source.unit, source.exporter))


def test_a_counter_source_counts_what_is_born_at_one() -> None:
    counters = [s for s in SHIPPED.sources.values() if "increase(" in s.query and not s.always]
    born = [s.name for s in counters if re.search(r"unless\s+\S+ offset \$window", s.query)]

    # Triton's counters are there, at 0, as soon as a model is loaded.
    assert [s.name for s in counters if s.name not in born] == ["triton-requests"]
    assert born == [
        "traefik-router",
        "ingress-nginx",
        "istio-requests",
        "keda-http",
        "tei-requests",
    ]


@pytest.mark.parametrize("source", SHIPPED.sources.values(), ids=lambda source: source.name)
def test_a_source_says_whose_metrics_they_are_and_which_versions_were_looked_at(source) -> None:
    assert all((source.project, source.versions, source.see))
    assert source.query.count("(") == source.query.count(")")


def test_a_key_is_read_by_its_other_spelling_too() -> None:
    nginx = SHIPPED.sources["ingress-nginx"]
    honoured = {"namespace": "ai", "service": "qwen"}
    ours = {"namespace": "ingress-nginx", "service": "controller"}
    theirs = {"exported_namespace": "ai", "exported_service": "qwen"}

    assert nginx.key_of(honoured) == nginx.key_of({**ours, **theirs}) == ("ai", "qwen")
    for question in (nginx.age, nginx.alive):
        assert '"namespace", "$1", "exported_namespace", "(.+)"' in question


def test_the_stretch_of_time_is_put_into_a_query() -> None:
    query = filled("increase(c[$window]) unless c offset $window", timedelta(seconds=90))

    assert query == "increase(c[90s]) unless c offset 90s"


def test_a_sound_rule_has_no_problems() -> None:
    sound = rule(
        DOOR,
        Demand(source="vllm-requests", match={"namespace": "ai"}),
        activity=Activity(source="intel-xpumd", match={"node": "b580"}),
    )

    assert problems(sound) == ()
    assert problems(rule()) == ()  # by the calendar only


@pytest.mark.parametrize(
    ("demand", "said"),
    [
        (
            Demand(source="trafik-router"),
            "demand[1].source 'trafik-router' is not in the catalogue",
        ),
        (Demand(source="trafik-router"), "did you mean traefik-router?"),
        (Demand(source="qqq"), "there are: amd-drm, amd-gpu, envoy-cluster"),
        (Demand(source="vllm-requests", match={"model": "m"}), "keys are namespace, model_name"),
        (Demand(source="intel-xpumd"), "put it under cards.activity; demand sources are traefik"),
    ],
)
def test_a_demand_that_cannot_work_is_told_with_its_remedy(demand: Demand, said: str) -> None:
    (problem,) = problems(rule(DOOR, demand))

    assert said in problem


def test_a_demand_source_as_activity_is_told() -> None:
    (problem,) = problems(rule(DOOR, VLLM, activity=Activity(source="vllm-requests")))

    assert problem == (
        "spec.cards.activity.source vllm-requests shows demand, not how busy cards are; "
        "put it under serving.demand; activity sources are intel-xpumd, intel-xpum, nvidia-dcgm, "
        "nvidia-smi, amd-drm, amd-gpu"
    )


@pytest.mark.parametrize(
    "demand", [Demand(source="vllm-requests"), Demand(query="sum(waiting)", up="max(up)")]
)
def test_a_target_whose_demand_would_not_show_at_zero_is_told(demand: Demand) -> None:
    (problem,) = problems(rule(demand))

    assert "Deployment ai/qwen3-8b has no pod, so nobody could want it back" in problem
    assert (
        "add a source that is visible at zero (traefik-router, ingress-nginx, haproxy-backend"
        in problem
    )


def test_a_target_of_which_only_front_doors_are_looked_at_is_told() -> None:
    """They count a request when it ends, so a long answer would be cut off."""
    (problem,) = problems(rule(DOOR))

    assert "a long answer of Deployment ai/qwen3-8b looks idle" in problem
    assert "add a source of running work (vllm-requests, llamacpp-requests" in problem


@pytest.mark.parametrize(
    "query",
    ["sum(increase(req[2m]))", "sum by (x) (rate (req[2m]))", "max(changes(req[2m]))"],
)
def test_a_query_that_counts_what_has_ended_is_no_running_work(query: str) -> None:
    counted = Demand(query=query, up="u", visible_at_zero=True)

    assert not SHIPPED.running_work(counted)
    assert ["only front doors" in said for said in problems(rule(counted))] == [True]
    assert problems(rule(counted, VLLM)) == ()


def test_what_is_in_flight_in_the_path_is_both_halves() -> None:
    gateway = Source(
        name="my-gateway",
        kind=SourceKind.IN_PATH,
        keys=("service",),
        unit="requests",
        max=1000,
        series="in_flight",
        exporter="gateway_info",
        query="sum by (service) (in_flight)",
        about="requests in flight",
        remedy="scrape it",
    )
    demand, known = Demand(source="my-gateway"), Catalogue(own=(gateway,))

    assert problems(rule(demand), known) == ()
    assert "'my-gateway' is not in the catalogue" in problems(rule(demand))[0]
    assert "; those of your own are given by --sources; query and" in problems(rule(demand))[0]
    said = problems(rule(DOOR), known)[0]
    assert "take one that counts from begin to end (haproxy-backend" in said
    assert "my-gateway)" in said


def test_a_query_of_what_is_in_flight_is_both_halves() -> None:
    assert problems(rule(Demand(query="sum(waiting)", up="up", visible_at_zero=True))) == ()


def test_a_query_is_visible_at_zero_where_the_rule_says_so() -> None:
    assert SHIPPED.visible_at_zero(Demand(query="q", up="u", visible_at_zero=True))
    assert not SHIPPED.visible_at_zero(Demand(query="q"))
    assert SHIPPED.visible_at_zero(DOOR)
    assert not SHIPPED.visible_at_zero(Demand(source="no-such-source"))


def test_demands_are_named_as_a_person_would() -> None:
    assert described(DOOR) == "traefik-router{router=qwen3-8b@kubernetes}"
    assert described(Demand(source="vllm-requests")) == "vllm-requests"
    assert described(Demand(query="sum(\n  a)")) == "sum( a)"


def test_the_likest_keys_come_first() -> None:
    known = ["web@kubernetes", "qwen3-8b@kubernetes", *(f"r{n}" for n in range(8))]

    assert nearest("qwen3", known, limit=2).startswith("there are: qwen3-8b@kubernetes, ")
    assert nearest("qwen3", known, limit=2).endswith(", and 8 more")
    assert nearest("qwen3", []) == "there are none"


FREE = Demand(query="q", up="u", visible_at_zero=True)


@pytest.mark.parametrize(
    ("demand", "values", "alive", "code"),
    [
        (VLLM, [0], NAN, Level.IDLE),
        (VLLM, [1], NAN, Level.BUSY),
        (VLLM, [NAN], NAN, ABSENT),
        (VLLM, [-1], NAN, Level.UNKNOWN),
        (VLLM, [0, -1], NAN, Level.UNKNOWN),
        (VLLM, [2, -1], NAN, Level.BUSY),
        (VLLM, [0, NAN], NAN, Level.IDLE),
        (DOOR, [NAN], 1, Level.IDLE),
        (DOOR, [NAN], 0, Level.UNKNOWN),
        (DOOR, [NAN], NAN, Level.UNKNOWN),
        (FREE, [], 1, Level.IDLE),
        (FREE, [], 0, Level.UNKNOWN),
        (FREE, [0], 0, Level.UNKNOWN),
        (FREE, [1, 1], 1, Level.UNKNOWN),
        (Demand(query="q"), [NAN], NAN, ABSENT),
    ],
)
def test_a_step_of_the_past_is_told(
    demand: Demand, values: list[float], alive: float, code: str
) -> None:
    # A step before it, in which there was a value, so that the keys are known ones.
    rows = [[0.0, value] for value in values]

    assert codes(demand, rows, [1, alive], visible=SHIPPED.visible_at_zero(demand))[1] == code


def test_a_front_door_whose_key_never_was_is_unknown() -> None:
    assert codes(DOOR, [[NAN, NAN]], [1, 1], visible=True) == [Level.UNKNOWN] * 2
    assert codes(DOOR, [], [1, 1], visible=True) == [Level.UNKNOWN] * 2


def test_a_key_that_the_query_loses_is_unknown_though_the_exporter_lives() -> None:
    """Two requests are in flight, and summed over all keys: the key's own silence is no rest."""
    source = SHIPPED.sources["keda-http"]
    route = dict(zip(source.keys, ("ai", "qwen"), strict=True))
    parts = [("value", {}, 2), ("witness", {}, 1), ("witness_age", {}, 1)]
    parts += [("age", route, 1), ("alive", route, 1)]
    series = tuple(
        Series(labels=dict([part_is(name)]) | labels, points=((0.0, value),))
        for name, labels, value in parts
    )

    with pytest.raises(UnknownError, match="ai/qwen has a series, and the query of keda-http no"):
        Look(source, Answer(series=series)).value(("ai", "qwen"), timedelta(seconds=15))


@pytest.mark.parametrize(("value", "known"), [(2, False), (NAN, False), (-1, False), (0, True)])
def test_a_key_that_the_query_makes_is_not_at_rest_while_it_shows_requests(value, known) -> None:
    """By label_replace a query can give keys that no series has: such a one has no age."""
    source = SHIPPED.sources["keda-http"]
    route = dict(zip(source.keys, ("ai", "qwen"), strict=True))
    parts = [("value", route, value), ("age", {}, 1), ("alive", {}, 1)]
    parts += [("witness", {}, 1), ("witness_age", {}, 1)]
    look = Look(
        source,
        Answer(
            series=tuple(
                Series(labels=dict([part_is(name)]) | labels, points=((0.0, number),))
                for name, labels, number in parts
            )
        ),
    )

    if known:
        assert look.value(("ai", "qwen"), timedelta(seconds=15)) == 0
        return
    with pytest.raises(UnknownError, match="interceptor_request_concurrency has no sample of that"):
        look.value(("ai", "qwen"), timedelta(seconds=15))
