"""Device nodes are of what a window was opened on: it is given back by those, and by no others."""

from __future__ import annotations

from dataclasses import replace
from posixpath import normpath

import pytest
from hypothesis import example, given, strategies as st

from idlewin.adapters.fields import devices_of
from idlewin.core.decide import decide
from idlewin.core.decision import ScaleToZero
from idlewin.core.phase import Phase
from idlewin.core.pool import Record
from idlewin.core.reason import Reason
from idlewin.core.scope import scope_of
from idlewin.core.situation import Situation
from tests.builders import (
    a_batch_pod,
    a_lowered_target,
    a_pool,
    a_rule,
    a_situation,
    a_status,
    away,
    gone,
    with_rule,
)
from tests.property.facts import in_window
from tests.property.test_writes import TARGET, Place, record

DRI, STORAGE = ("/dev/dri",), ("longhorn-system",)


def harvesting() -> Situation:
    return away(Phase.HARVESTING, pool=gone(pods=(a_batch_pod(),)))


def cards(**changes):
    return replace(a_rule(), cards=replace(a_rule().cards, **changes))


NAMED = cards(device_nodes=DRI, exempt_namespaces=STORAGE)


@pytest.mark.parametrize(
    "changes", [{"device_nodes": DRI}, {"device_nodes": DRI, "exempt_namespaces": STORAGE}]
)
def test_other_device_nodes_end_a_window_and_it_is_looked_at_by_those_that_it_had(changes):
    s = with_rule(in_window(device_nodes=("/dev/nvidia0",))(harvesting()), rule=cards(**changes))

    decision = decide(s)

    assert decision.reason is Reason.RULE_CHANGED
    assert scope_of(s.object).device_nodes == ("/dev/nvidia0",)
    assert scope_of(s.object).exempt_namespaces == ()


def test_namespaces_that_are_exempt_are_frozen_too():
    s = with_rule(in_window(device_nodes=DRI)(harvesting()), rule=NAMED)

    assert decide(s).reason is Reason.RULE_CHANGED


def test_a_window_is_opened_on_the_device_nodes_of_its_rule():
    window = decide(with_rule(a_situation(), rule=NAMED)).status.window

    assert window is not None
    assert (window.device_nodes, window.exempt_namespaces) == (DRI, STORAGE)


def test_outside_a_window_those_of_the_rule_count():
    scope = scope_of(with_rule(harvesting(), rule=NAMED, status=a_status()).object)

    assert (scope.device_nodes, scope.exempt_namespaces) == (DRI, STORAGE)


def test_a_lost_window_is_made_again_with_the_device_nodes_of_the_rule():
    lowered = gone(targets=(a_lowered_target(),))
    s = with_rule(away(Phase.HARVESTING, pool=lowered), rule=NAMED, status=None)

    window = decide(s).status.window

    assert window is not None
    assert (window.device_nodes, window.exempt_namespaces) == (DRI, STORAGE)


RECORD = Record(
    rule="b580", uid="t1", replicas=2, epoch=1, resource="gpu.intel.com/xe", nodes={"a": "b"}
)


@pytest.mark.parametrize("rule", [None, cards(device_nodes=("/dev/nvidia0",))])
def test_a_lost_window_is_made_again_with_the_device_nodes_on_the_record(rule):
    named = replace(RECORD, devices=DRI, exempt=STORAGE)
    lowered = gone(targets=(a_lowered_target(record=named, claims=0),))
    s = with_rule(away(Phase.HARVESTING, pool=lowered), rule=rule, status=None)

    window = decide(s).status.window

    assert window is not None
    assert (window.device_nodes, window.exempt_namespaces) == (DRI, STORAGE)


def test_a_record_of_an_older_version_leaves_those_of_the_rule():
    lowered = gone(targets=(a_lowered_target(record=RECORD),))
    s = with_rule(away(Phase.HARVESTING, pool=lowered), rule=NAMED, status=None)

    window = decide(s).status.window

    assert window is not None
    assert (window.resource, window.node_selector) == (RECORD.resource, RECORD.nodes)
    assert (window.device_nodes, window.exempt_namespaces) == (DRI, STORAGE)


def test_a_target_is_lowered_with_the_device_nodes_of_its_window_on_the_record():
    yielding = away(Phase.YIELDING, pool=a_pool())
    entry = replace(yielding.window.targets[0], lowered=False)
    named = in_window(targets=(entry,), device_nodes=DRI, exempt_namespaces=STORAGE)(yielding)

    (lower,) = [
        a for a in decide(with_rule(named, rule=NAMED)).actions if isinstance(a, ScaleToZero)
    ]

    assert (lower.devices, lower.exempt) == (DRI, STORAGE)
    place = Place()
    place.apply(replace(place.to_zero(3), devices=DRI, exempt=STORAGE))
    kept = record(place.server.get(TARGET))
    assert (kept.devices, kept.exempt) == (DRI, STORAGE)


@given(st.lists(st.text(alphabet="/.dev\\cri:0", min_size=1, max_size=12), max_size=3))
@example(["c:\\\\logs"])
def test_whatever_path_a_pod_mounts_it_is_read(paths):
    volumes = [{"name": str(n), "hostPath": {"path": path}} for n, path in enumerate(paths)]
    mounts = [{"name": volume["name"], "mountPath": "/x"} for volume in volumes]
    spec = {"volumes": volumes, "containers": [{"name": "c", "volumeMounts": mounts}]}

    for path in devices_of(spec):
        assert path in ("/", "/dev") or path.startswith("/dev/")
        assert normpath(path) == path
