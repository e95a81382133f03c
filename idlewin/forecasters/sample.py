"""Sample: some cards of a large fleet, enough to learn from what all have in common."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from idlewin.forecasters.fleet import Fleet, Minutes


def sample(fleet: Fleet, most: int) -> Fleet:
    """At most so many cards, groups as a whole, in an order drawn once; the fleet if it is small.

    Only the last group may be in part.
    """
    if len(fleet.cards) <= most:
        return fleet
    order = np.random.default_rng(0).permutation(int(fleet.group.max()) + 1)[fleet.group]
    return part(fleet, np.sort(np.argsort(order, kind="stable")[:most]))


def part(fleet: Fleet, cards: Minutes) -> Fleet:
    """Some cards, in the order of their numbers, as a fleet of their own."""
    number = np.full(len(fleet.cards), -1)
    number[cards] = np.arange(len(cards))
    card, (away, *windows) = number[fleet.card], fleet.away
    runs, lent = card >= 0, number[away] >= 0
    begin, end = (at[lent] for at in windows)
    return replace(
        fleet,
        cards=tuple(fleet.cards[n] for n in cards),
        since=fleet.since[cards],
        card=card[runs],
        busy_from=fleet.busy_from[runs],
        busy_to=fleet.busy_to[runs],
        away=(number[away][lent], begin, end),
        place_of=fleet.place_of[cards],
        group=fleet.group[cards],
    )
