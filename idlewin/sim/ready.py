"""Kueue's waitForPodsReady, where it is on: work that does not run in time is taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from idlewin.sim.clock import Timeline
from idlewin.sim.objects import Objects, Work

TIMED_OUT = "PodsReadyTimeout"
OVER_LIMIT = "DeactivatedDueToRequeuingLimitExceeded"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReady:
    """The fields of Kueue's configuration."""

    timeout: timedelta
    """From admission until its pods must be ready."""
    limit: int | None = None
    """So often it is queued again; then it is deactivated, and nothing but a person wakes it."""
    base: timedelta = timedelta(seconds=60)
    """How long it is kept out at first; twice as long each time."""
    block_admission: bool = False
    """Nothing of any queue is admitted while an admitted workload is not ready."""


class Readiness:
    """Watches admitted work until it runs; Hold does not keep it from acting."""

    def __init__(self, objects: Objects, timeline: Timeline) -> None:
        self._objects, self._timeline = objects, timeline
        self.policy: PodsReady | None = None
        self.on = True
        """Whether Kueue is there to act."""
        self.evict: Callable[[Work, str], None] = lambda _work, _cause: None
        self.requeue: Callable[[Work], None] = lambda _: None

    def admitted(self, work: Work) -> None:
        """The time until its pods must be ready begins."""
        if self.policy is not None and work.admitted:
            since = work.admitted_at
            seconds = self.policy.timeout.total_seconds()
            self._timeline.after(seconds, lambda: self._due(work, since))

    def blocks(self) -> bool:
        """Whether nothing may be admitted now."""
        if self.policy is None or not self.policy.block_admission:
            return False
        works = self._objects.works.values()
        return any(w.admitted and not w.evicted and not self._runs(w) for w in works)

    def _due(self, work: Work, since: object) -> None:
        same = work.admitted and not work.evicted and work.admitted_at == since
        if self.policy is None or not (self.on and same) or work.finished or self._runs(work):
            return
        work.late, work.timed_out = work.late + 1, True
        if self.policy.limit is not None and work.late > self.policy.limit:
            work.set_active(active=False, writer="kueue")
            self.evict(work, OVER_LIMIT)
            return
        work.kept_out_until = self._timeline.now() + self.policy.base * 2 ** (work.late - 1)
        self.evict(work, TIMED_OUT)
        self._timeline.at(work.kept_out_until, lambda: self._back(work))

    def _back(self, work: Work) -> None:
        work.kept_out_until = None
        self._objects.touch(work)
        self.requeue(work)

    def _runs(self, work: Work) -> bool:
        return any(pod.running for pod in self._objects.pods_of(work))
