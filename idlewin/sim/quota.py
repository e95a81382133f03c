"""Quota as Kueue counts it: a queue's own, and what the others of its cohort lend, open or not."""

from __future__ import annotations

from collections.abc import Iterator

from idlewin.sim.objects import Objects, SimQueue


def room(objects: Objects, queue: SimQueue) -> int:
    """How many cards more a queue's work may claim now."""
    own = queue.quota - _lent(queue) - _used(objects, queue)
    return max(0, own) + _pooled(objects, queue) if queue.cohort else own


def _pooled(objects: Objects, queue: SimQueue) -> int:
    """What is left of the cohort's: its own quota and what is lent, less what is used of it."""
    cohort = objects.cohorts.get(queue.cohort)
    left = cohort.quota if cohort else 0
    for member in _members(objects, queue):
        kept = member.quota - _lent(member)
        left += _lent(member) - max(0, _used(objects, member) - kept)
    return left


def leaks(objects: Objects, queue: SimQueue, ours: frozenset[str]) -> Iterator[str]:
    """How its quota could be used while it is stopped, by queues that are not of ``ours``."""
    others = [one.name for one in _members(objects, queue) if one.name not in ours]
    cohort = objects.cohorts.get(queue.cohort)
    if others and _lent(queue):
        yield f"ClusterQueue {queue.name} lends to {', '.join(others)}; set lendingLimit: 0 on it"
    if others and cohort and cohort.quota:
        yield f"Cohort {cohort.name} has cards that {', '.join(others)} can use; take them out"


def _lent(queue: SimQueue) -> int:
    if not queue.cohort:
        return 0
    return queue.quota if queue.lending is None else min(queue.lending, queue.quota)


def _members(objects: Objects, queue: SimQueue) -> list[SimQueue]:
    return [one for one in objects.queues.values() if queue.cohort and one.cohort == queue.cohort]


def _used(objects: Objects, queue: SimQueue) -> int:
    return sum(work.claims for work in objects.works_of(queue.name) if work.admitted)
