"""What ends a window, each way for itself: a window has one of them as its theme, in turn.

So each cause of each row fires in a share of the windows that no other mishap thins out. What was
done is undone some time later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from idlewin.core.calendar import Calendar
from idlewin.core.decision import ScaleToZero
from idlewin.core.phase import Phase
from idlewin.core.pool import StopPolicy
from idlewin.core.rule import OnReturn, Rule
from idlewin.core.target import Ref
from idlewin.sim.kinds import FaultKind
from tests.simulation import (
    machine_mishaps as machines,
    people_mishaps as people,
    writer_mishaps as writers,
)
from tests.simulation.scenery import seconds

if TYPE_CHECKING:
    from tests.simulation.scenario import Story

Mishap = Callable[["Story"], None]


# -- the rule is written otherwise


def _edited(story: Story, change: Callable[[Rule], Rule]) -> None:
    stored = story.world.objects.rules.get(story.name)
    if stored is not None and stored.rule is not None:
        rule = stored.rule
        story.people.edit(story.name, change(rule))
        story.later(5, 300, lambda: story.people.edit(story.name, rule))


def edit_cards(story: Story) -> None:
    _edited(
        story, lambda rule: replace(rule, cards=replace(rule.cards, count=rule.cards.count + 1))
    )


def edit_serving(story: Story) -> None:
    def change(rule: Rule) -> Rule:
        other = replace(rule.serving[0], name="other")
        return replace(rule, serving=rule.serving[1:] or (other,))

    _edited(story, change)


def edit_on_return(story: Story) -> None:
    def change(rule: Rule) -> Rule:
        (other,) = (one for one in OnReturn if one is not rule.batch.on_return)
        return replace(rule, batch=replace(rule.batch, on_return=other))

    _edited(story, change)


def edit_queues(story: Story) -> None:
    def change(rule: Rule) -> Rule:
        first = replace(rule.batch.queues[0], grace=rule.batch.queues[0].grace + seconds(1))
        return replace(rule, batch=replace(rule.batch, queues=(first, *rule.batch.queues[1:])))

    _edited(story, change)


def close_calendar(story: Story) -> None:
    shut = Calendar(deny=(f"{story.world.clock.now():%a}",))
    _edited(story, lambda rule: replace(rule, window=replace(rule.window, calendar=shut)))


# -- queues


def drain_all(story: Story) -> None:
    """Their owners stop all LocalQueues for a while: no work is left."""
    for namespace, name in list(story.world.objects.local_queues):
        story.people.set_local_policy(namespace, name, StopPolicy.HOLD_AND_DRAIN)
        back = partial(story.people.set_local_policy, namespace, name, StopPolicy.NONE)
        story.later(300, 600, back)


# -- a claim


def claim_in_no_words(story: Story) -> None:
    """Somebody announces demand until an instant that cannot be read."""
    stored = story.world.objects.rules.get(story.name)
    if stored is None:
        return
    stored.wake_error = "idlewin.dev/wake-until: 'soon' is no instant"
    story.world.objects.touch(stored)

    def put_right() -> None:
        stored.wake_error = ""
        story.world.objects.touch(stored)

    story.later(5, 300, put_right)


# -- serving


def scale_before_us(story: Story) -> None:
    """Its owner takes a target down for a while that could not be lowered yet."""

    def change(ref: Ref) -> None:
        story.people.scale(ref, 0)
        story.later(60, 300, lambda: story.people.scale(ref, _size(story, ref)))

    _before_us(story, change)


def deploy_before_us(story: Story) -> None:
    """A target that could not be lowered yet is deployed anew."""
    _before_us(story, story.people.deploy)


def _before_us(story: Story, change: Callable[[Ref], None]) -> None:
    story.trouble.refuse(ScaleToZero, timedelta(hours=3))

    def then(story: Story) -> None:
        change(story.ref())
        story.trouble.refuse(ScaleToZero, seconds(story.random.uniform(0, 5)))

    story.when_entered[Phase.YIELDING] = then


def raise_what_was_at_zero(story: Story) -> None:
    """A target that its owner had at zero before the window is raised in it."""
    _at_owners_zero(story, lambda ref: story.people.scale(ref, _size(story, ref)))


def deploy_what_was_at_zero(story: Story) -> None:
    """A target that its owner had at zero before the window is deployed anew, and stays there."""

    def change(ref: Ref) -> None:
        story.people.deploy(ref)
        story.later(60, 300, lambda: story.people.scale(ref, _size(story, ref)))

    _at_owners_zero(story, change)


def _at_owners_zero(story: Story, change: Callable[[Ref], None]) -> None:
    ref = story.ref()

    def zero(story: Story) -> None:
        story.people.scale(ref, 0)
        # It is meant to be down.
        story.world.clock.after(20, lambda: story.people.resume(story.name))

    story.when_entered[Phase.SERVING] = zero
    story.when_entered[Phase.HARVESTING] = lambda _story: change(ref)


def _size(story: Story, ref: Ref) -> int:
    return max(1, story.cast.setup.servers[ref].replicas)


def nobody_knows(story: Story) -> None:
    """Serving is deleted, and the rule comes back without its status: the queues alone tell."""
    for ref in story.refs:
        if ref in story.world.objects.deployments:
            story.people.delete_target(ref)
            server = story.cast.setup.servers[ref]
            story.later(20, 300, partial(story.people.recreate_target, ref, story.name, server))
    story.people.lose_status(story.name)


def come_and_go(story: Story) -> None:
    """A target is raised and lowered again before the watch tells, and its pods are not gone."""
    story.trouble.begin(FaultKind.LAG, seconds(3))
    ref = story.ref()
    story.people.scale(ref, _size(story, ref))
    story.world.clock.after(2.95, lambda: story.people.scale(ref, 0))


@dataclass(frozen=True, slots=True)
class Theme:
    """How a window ends: what happens in which phase of it."""

    phase: Phase
    mishap: Mishap


_BOTH: tuple[Mishap, ...] = (
    *(people.delete_rule, people.break_rule, people.observe, people.pause, people.lose_status),
    *(edit_cards, edit_serving, edit_queues, edit_on_return, people.unadopt),
    *(people.delete_target, writers.deploy, machines.card_gone, people.raise_serving),
    *(people.claim, claim_in_no_words, people.users_come, machines.blind, close_calendar),
)
#: Not all take effect in time: a window may end of itself, and fewer come to harvest than yield.
THEMES = (
    *(Theme(Phase.YIELDING, one) for one in (*_BOTH, scale_before_us, deploy_before_us)),
    *(Theme(Phase.YIELDING, one) for one in (people.rival_opens, people.rival_opens)),
    Theme(Phase.YIELDING, machines.blind),
    *(Theme(Phase.HARVESTING, one) for one in (*_BOTH, *_BOTH, nobody_knows)),
    *(Theme(Phase.HARVESTING, one) for one in (raise_what_was_at_zero, *(come_and_go,) * 4)),
    *(
        Theme(Phase.HARVESTING, one)
        for one in (deploy_what_was_at_zero, *(people.rival_reopens,) * 3) * 2
    ),
    *(Theme(Phase.HARVESTING, one) for one in (drain_all, machines.blind, people.delete_queue)),
)
EVENTS = (edit_cards, edit_serving, edit_queues, edit_on_return, close_calendar, claim_in_no_words)
AMBUSHES: dict[Phase, tuple[Mishap, ...]] = {}
