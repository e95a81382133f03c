"""Device nodes are of what a window was opened on: it is given back by those, and by no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from idlewin.core.decide import decide
from idlewin.core.phase import Phase
from idlewin.core.reason import Reason
from idlewin.core.scope import scope_of
from idlewin.core.situation import Situation
from tests.builders import (
    a_batch_pod,
    a_lowered_target,
    a_rule,
    a_situation,
    a_status,
    away,
    gone,
    with_rule,
)
from tests.property.facts import in_window

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
