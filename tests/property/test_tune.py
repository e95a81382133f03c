"""Laws of tuning: what is on the front, and what a change does to a rule file."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings, strategies as st

from idlewin.codec import write_rule
from idlewin.core.pareto import dominates, front
from idlewin.ruleedit import edited
from idlewin.rulefile import read_text
from idlewin.tune import FIELDS, VaryError, changes, grid

COSTS = st.lists(st.tuples(*[st.integers(-3, 3)] * 3), max_size=30)


@given(COSTS)
def test_no_point_of_the_front_is_dominated_and_every_other_is(costs):
    best = front(costs)

    for place, one in enumerate(costs):
        better = [
            other
            for other in costs
            if all(a <= b for a, b in zip(other, one, strict=True)) and other != one
        ]
        assert (place in best) == (not better)


@given(COSTS)
def test_what_is_not_on_the_front_is_dominated_by_a_point_of_it(costs):
    best = front(costs)

    for place, one in enumerate(costs):
        assert place in best or any(dominates(costs[other], one) for other in best)


HEAD = """\
# The night's rule.
apiVersion: idlewin.dev/v1alpha1
kind: IdleRule
metadata: {name: night}   # its name
spec:
  mode: Observe # for now
  cards: {resource: gpu.intel.com/xe, count: 1, nodeSelector: {card: b580}}
  serving:
    - apiVersion: apps/v1
      kind: Deployment
      namespace: ai
      name: qwen
      demand:
        - query: |
            sum(waiting)

          up: up
          visibleAtZero: true
  batch: {queues: [{clusterQueue: short, maxRuntime: 30m}]}
"""
WINDOWS = [
    "",
    "  window: {}\n",
    "  window: {min: '20m' , max: 6h}  # the owner's\n",
    "  window:\n    # worth a handover\n    min: 20m   # half is start-up\n\n    max: 6h\n",
    '  window:\n    minServing: "15m"\n    calendar:\n      timeZone: UTC  # of the house\n',
]
FORECASTS = [
    "",
    "  forecast: {}\n",
    "  forecast: {budget: {share: 5%}} # a wish\n",
    "  forecast:\n    # so many\n    budget:\n      perWeek: 2 # late returns\n",
]
VALUES = {
    "forecast.budget": ["0.5", "1", "5%", "12.5%"],
    "window.idleFor": ["7m", "1h30m"],
    "window.min": ["10m", "20m", "1h"],
    "window.max": ["3h", "6h"],
    "window.maxPerDay": ["3"],
    "window.minServing": ["15m", "45s"],
}


@settings(max_examples=60, deadline=None)
@given(
    order=st.booleans(),
    window=st.sampled_from(WINDOWS),
    forecast=st.sampled_from(FORECASTS),
    tail=st.sampled_from(["", "# the end\n", "\n\n"]),
    returns=st.booleans(),
    cut=st.booleans(),
    chosen=st.fixed_dictionaries(
        {}, optional={field: st.sampled_from(values) for field, values in VALUES.items()}
    ),
)
def test_a_changed_file_says_the_point_and_nothing_else(
    order, window, forecast, tail, returns, cut, chosen
):
    text = HEAD + (window + forecast if order else forecast + window) + tail
    text = text.rstrip("\n") if cut else text
    text = text.replace("\n", "\r\n") if returns else text
    rule = read_text(Path("night.yaml"), text).documents[0].rule
    point = grid(rule, {field: [value] for field, value in chosen.items()})[0][-1]

    after = edited(text, changes(point))

    (document,) = read_text(Path("night.yaml"), after).documents
    assert document.rule == point.rule
    assert document.findings == ()
    assert comments(after) == comments(text)
    assert after.count("\r\n") == (after.count("\n") if returns else 0)
    lines = after.splitlines()
    kept = [line for line in text.splitlines() if line in lines]
    assert len(text.splitlines()) - len(kept) <= len(point.differs)


def comments(text):
    return [line.partition("#")[2] for line in text.splitlines() if "#" in line]


@settings(deadline=None)
@given(st.sampled_from(FIELDS), st.text(max_size=8))
def test_any_text_as_a_value_is_a_rule_or_an_error_that_names_the_field(field, text):
    rule = read_text(Path("night.yaml"), HEAD).documents[0].rule
    try:
        points, _ = grid(rule, {field: [text]})
    except VaryError as error:
        points, said = [], str(error)

    if points:
        assert len(points) == 1 or write_rule(points[1].rule) != write_rule(rule)
    else:
        assert field in said
