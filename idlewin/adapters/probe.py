"""Whether serving answers: HTTP requests in a few threads of their own.

A cycle never waits for one: it gets the last answer, if that is recent, and asks for the next.
Probes are sent only while serving is on its way back, so they are no load in steady state.
How one is put, and what a good answer is: question.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from threading import Lock

from idlewin.adapters.question import Asker
from idlewin.core.decision import Action, Decision, Outcome
from idlewin.core.phase import Phase
from idlewin.core.pool import Pool, RuleObject, Scope, Target
from idlewin.core.target import Question
from idlewin.ports import Cluster

WORKERS = 4
#: An answer is asked for again after this.
AGAIN_AFTER = timedelta(seconds=2)
#: An answer that is older says nothing any more.
BELIEVED_FOR = timedelta(seconds=15)


@dataclass(slots=True)
class _Asked:
    """What is known of one probe."""

    answer: bool | None = None
    answered: float | None = None
    sent: float | None = None
    running: bool = False


class Probes:
    """Answers of probes, asked for in threads of their own. Implements Wake."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._wakes: list[Callable[[str], None]] = []
        self._lock = Lock()
        self._asked: dict[tuple[str, Question], _Asked] = {}
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="probe")
        self._asker = Asker()

    def subscribe(self, wake: Callable[[str], None]) -> None:
        """Call ``wake`` with a rule's name whenever an answer has changed."""
        self._wakes.append(wake)

    def answer(self, rule: str, probe: Question) -> bool | None:
        """Whether it answered as expected, lately; None: not known. Never waits."""
        now = self._monotonic()
        with self._lock:
            asked = self._asked.setdefault((rule, probe), _Asked())
            due = asked.sent is None or now - asked.sent >= AGAIN_AFTER.total_seconds()
            if due and not asked.running:
                asked.running, asked.sent = True, now
                self._pool.submit(self._send, rule, probe, asked)
            age = None if asked.answered is None else now - asked.answered
            return asked.answer if age is not None and age <= BELIEVED_FOR.total_seconds() else None

    def forget(self, rule: str) -> None:
        """Drop what is known for a rule; an answer of one return says nothing of the next."""
        with self._lock:
            for key in [key for key in self._asked if key[0] == rule]:
                del self._asked[key]

    def close(self) -> None:
        """Send no more, and wait for the answer to what was sent (at most its time-out)."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _send(self, rule: str, probe: Question, asked: _Asked) -> None:
        answer = self._asker.good(probe)
        with self._lock:
            changed = asked.answer is not answer
            asked.answer, asked.answered, asked.running = answer, self._monotonic(), False
        for wake in self._wakes if changed else ():
            wake(rule)


class Probing:
    """A cluster whose targets, while they come back, are ready only if they answer their probe."""

    def __init__(self, cluster: Cluster, probes: Probes) -> None:
        self._cluster, self._probes = cluster, probes

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        return self._cluster.names()

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored."""
        return self._cluster.rule(name)

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows, where ready means answering. Raises LookError."""
        pool = self._cluster.look(scope, fresh=fresh)
        rule = self._cluster.rule(scope.rule)
        if rule is None or rule.rule is None or rule.status is None:
            return pool
        probes = {s.ref: s.probe.question for s in rule.rule.serving if s.probe}
        if rule.status.phase != Phase.RESTORING:
            if probes:
                self._probes.forget(scope.rule)
            return pool

        def seen(target: Target) -> Target:
            probe = probes.get(target.ref)
            # Before the pods are ready there is nobody to ask.
            if probe is None or not target.ready or self._probes.answer(scope.rule, probe):
                return target
            return replace(target, ready=0, answers=False)

        return replace(pool, targets=tuple(seen(target) for target in pool.targets))

    def apply(self, action: Action) -> Outcome:
        """Carry out one action."""
        return self._cluster.apply(action)

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        """Ask the API server by dry run."""
        return self._cluster.rehearse(actions)

    def announce(self, decision: Decision) -> None:
        """Tell a change of phase as a Kubernetes Event."""
        self._cluster.announce(decision)
