"""A cluster under test: what people do to it, and what a look of idlewin's shows of it.

Facts are written against this once, and run over the simulated cluster and over the real one.
A job's name is its Workload's here; queues, jobs and serving have names of one test's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from idlewin.core.decision import Action, Outcome
from idlewin.core.pool import Pod, Pool, Queue, Role, StopPolicy, Target, Workload

T = TypeVar("T")


class RefusedError(Exception):
    """A webhook did not take a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsReady:
    """Kueue's waitForPodsReady, in seconds."""

    timeout: int
    base: int
    limit: int
    block: bool = True


class Cluster(ABC):
    """One node with one card; queues with any quota, jobs and serving that want one card each."""

    simulated: bool
    rule = "fact"

    # -- what people do

    @abstractmethod
    def make_cohort(self, name: str, cards: int) -> None:
        """Quota that all queues of a cohort may use."""

    @abstractmethod
    def make_queue(
        self,
        name: str,
        cards: int = 1,
        *,
        cohort: str = "",
        lends: int | None = None,
        policy: StopPolicy = StopPolicy.NONE,
        local_queues: int = 1,
    ) -> None:
        """A ClusterQueue, adopted, with LocalQueues that are open."""

    @abstractmethod
    def lend(self, queue: str, cards: int) -> None:
        """Its lendingLimit."""

    @abstractmethod
    def set_policy(self, queue: str, policy: StopPolicy) -> None:
        """A person writes a ClusterQueue's stopPolicy. Raises RefusedError."""

    @abstractmethod
    def set_local(self, queue: str, policy: StopPolicy, number: int = 0) -> None:
        """A person writes the stopPolicy of one of its LocalQueues."""

    @abstractmethod
    def submit(
        self,
        job: str,
        queue: str,
        *,
        number: int = 0,
        grace: int = 1,
        limit: int | None = None,
        fragile: bool = False,
    ) -> None:
        """A job that runs until it is ended; ``limit``: its maximum execution time in seconds.

        With backoffLimit 0, and where it is not fragile a podFailurePolicy that ignores
        disruptions. Raises RefusedError.
        """

    @abstractmethod
    def activate(self, job: str, *, active: bool) -> None:
        """A person writes its Workload's spec.active."""

    @abstractmethod
    def finish(self, job: str) -> None:
        """Its pod ends well."""

    @abstractmethod
    def serve(
        self, name: str, replicas: int, *, first: bool = False, covered: bool = False
    ) -> None:
        """A Deployment; ``first``: of a higher PriorityClass, ``covered``: by Kueue's webhooks."""

    @abstractmethod
    def scale(self, name: str, replicas: int) -> None:
        """Through /scale, as kubectl does."""

    @abstractmethod
    def restart(self, name: str) -> None:
        """One of its pods is deleted, and another one comes."""

    @abstractmethod
    def kueue_down(self) -> None:
        """Its process is killed."""

    @abstractmethod
    def kueue_up(self) -> None:
        """It is started, and answers."""

    @abstractmethod
    def wait_for_pods(self, ready: PodsReady | None) -> None:
        """Kueue's configuration; another one than it has starts it again."""

    # -- what idlewin sees and does

    @abstractmethod
    def look(self) -> Pool:
        """All that this test made."""

    @abstractmethod
    def apply(self, action: Action) -> Outcome:
        """Through the port."""

    @abstractmethod
    def rehearse(self, action: Action) -> str:
        """What the API server would say against a write."""

    @abstractmethod
    def passed_over(self, job: str) -> bool:
        """Whether Kueue has looked at a job and not let it in."""

    @abstractmethod
    def cause(self, job: str) -> str:
        """Why it was evicted last."""

    def queue(self, name: str) -> Queue:
        """A ClusterQueue as a look shows it."""
        found = self.look().queue(self.named(name))
        assert found is not None
        return found

    def target(self, name: str) -> Target:
        """A Deployment as a look shows it."""
        (found,) = (one for one in self.look().targets if one.ref.name == self.named(name))
        return found

    def work(self, job: str) -> Workload | None:
        """A job's Workload, until it has finished."""
        works = (work for queue in self.look().queues for work in queue.workloads)
        return next((work for work in works if self.is_of(work, job)), None)

    def admitted(self, job: str) -> bool:
        """Whether it has quota, and may run."""
        work = self.work(job)
        return work is not None and work.admitted

    def evicted(self, job: str) -> bool:
        """Whether it was told to stop."""
        work = self.work(job)
        return work is not None and work.evicted

    def pods(self, job: str) -> list[Pod]:
        """Its pods that hold a card."""
        work, pool = self.work(job), self.look()
        return [pod for pod in pool.on_cards(Role.BATCH) if work and pod.owner == str(work)]

    def runs(self, job: str) -> bool:
        """Whether a pod of it runs, and was not told to stop."""
        return any(pod.running and not pod.terminating for pod in self.pods(job))

    def leaving(self, job: str) -> bool:
        """Whether its pod was told to stop and still holds the card."""
        return any(pod.terminating for pod in self.pods(job))

    def serves(self, name: str) -> bool:
        """Whether a pod of a Deployment is ready."""
        return self.target(name).ready > 0

    def stopped(self, queue: str) -> bool:
        """Whether Kueue shows the stop that is written."""
        return self.queue(queue).stopped_since is not None

    # -- time

    @abstractmethod
    def until(self, what: str, check: Callable[[], T]) -> T:
        """Wait for something. Raises TimeoutError."""

    @abstractmethod
    def wait(self, length: timedelta) -> None:
        """Let time pass."""

    def stays(self, what: str, check: Callable[[], bool], seconds: float = 1.0) -> None:
        """Something holds, and goes on holding for a while."""
        assert check(), what
        self.wait(timedelta(seconds=seconds))
        assert check(), what

    # -- names

    @abstractmethod
    def named(self, name: str) -> str:
        """A name of this test's own."""

    @abstractmethod
    def is_of(self, work: Workload, job: str) -> bool:
        """Whether a Workload is a job's."""
