"""Pareto's order: what is worth choosing where several things count and none has a price."""

from __future__ import annotations

from collections.abc import Sequence

#: What something costs in each respect; less is better, so a gain is written with a minus.
Costs = tuple[float, ...]


def dominates(one: Costs, other: Costs) -> bool:
    """Whether one is nowhere worse than another, and somewhere better."""
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def front(all_: Sequence[Costs]) -> tuple[int, ...]:
    """The places, in order, of those that none dominates; equal ones are all there."""
    return tuple(
        place for place, one in enumerate(all_) if not any(dominates(other, one) for other in all_)
    )
