"""The IdleRules of a plane: one for cards that somebody serves on, and that batch wants."""

from __future__ import annotations

from collections.abc import Iterator

from idlewin.codec import write_brief
from idlewin.core.rule import API_VERSION, KIND, Mode
from idlewin.plane.model import Plane
from idlewin.plane.objects import Object

_WHY = {
    Mode.OBSERVE: "Mode Observe decides and records, and changes nothing.",
    Mode.ACT: "Mode Act scales serving, and opens and closes queues.",
}
_ADOPTED = "Its ClusterQueues are adopted already: they carry the rule's name."


def objects(plane: Plane) -> Iterator[Object]:
    """The rules, in the order of their cards."""
    for cards in plane.written.cards:
        rule = plane.rule(cards)
        if rule is not None:
            body = {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": cards.name},
                "spec": write_brief(rule),
            }
            yield Object(body=body, why=f"{_WHY[rule.mode]} {_ADOPTED}")
