"""One cycle for one pool: observe, decide, act, record. The same in every mode.

Level, not edge: a cycle never reads what woke it. It holds no state that a restart could lose,
and knows no concrete adapter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.core.condition import alarming
from idlewin.core.decide import decide
from idlewin.core.decision import (
    Action,
    Decision,
    FenceQueue,
    HoldRule,
    Outcome,
    ReleaseRule,
    Remember,
    ScaleBack,
    ScaleToZero,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.forecast import Forecaster
from idlewin.core.note import noted
from idlewin.core.phase import GIVING_BACK, Phase
from idlewin.core.plan import drains, gives, handover
from idlewin.core.reason import Reason
from idlewin.core.rule import OnReturn
from idlewin.core.situation import Rehearsal, Situation
from idlewin.core.status import Status
from idlewin.core.tally import Tallies
from idlewin.memory import Memory
from idlewin.observe import SECOND, Observer
from idlewin.ports import Clock, Cluster, Journal, Lease, LookError, Metrics

#: How many rungs of the ladder one cycle may climb.
RUNGS = 3
#: A status that only tells more is written at most so often.
WRITE_EVERY = timedelta(seconds=30)
#: After a write that did not get through.
RETRY = timedelta(seconds=2)
#: What was seen longer ago gives nothing more away: writes may be slow, and users come back.
FRESH = timedelta(seconds=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """What a controller is given to work with."""

    clock: Clock
    metrics: Metrics
    cluster: Cluster
    journal: Journal
    lease: Lease
    forecaster: Forecaster
    poll: timedelta | None = None
    """Demand is asked for at least so often; None: something else wakes us when it changes."""
    catalogue: Catalogue | None = SHIPPED
    """The sources that rules may name; None: it is not known here, and not judged."""


class Controller:
    """Runs cycles."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._cluster = ports.cluster
        self._observer = Observer(
            ports.clock, ports.metrics, ports.cluster, ports.forecaster, ports.catalogue
        )

    def cycle(self, name: str, *, forced: bool = False) -> Decision | None:
        """Look at a pool and do what is due; None: there is no such rule, or another leads.

        Raises LookError where the cluster cannot be looked at: nothing is decided on a guess.
        """
        rule = self._cluster.rule(name)
        if rule is None:
            self._observer.forget(name)
            return None
        if not self._ports.lease.held():
            # What happens under another leader is not seen here: what was, says nothing later.
            self._observer.forget(name)
            return None
        situation = replace(self._observer.situation(rule), forced=forced)
        decision = decide(situation)
        if decision.reason is Reason.REHEARSAL_DUE:
            situation, decision = self._rehearsed(situation)
        if _looks_again(situation, decision):
            situation, decision = self._second_look(situation, decision)
        decision, outcomes = self._act(situation, decision)
        memory = self._observer.memory(name)
        memory.target_refused = {**memory.target_refused, **_refused(outcomes)}
        memory.stopped |= _stops(outcomes)
        memory.wrote |= _wrote(outcomes)
        self._ports.journal.append(decision, outcomes)
        alarmed = alarming(decision.status) - alarming(situation.status)
        if (decision.changes_phase or alarmed) and _on_record(outcomes):
            self._cluster.announce(decision)
        return replace(decision, revisit_at=self._revisit(situation, decision, outcomes))

    def _rehearsed(self, s: Situation) -> tuple[Situation, Decision]:
        """Ask the API server whether it would take the handover's patches."""
        no = [one for one in self._cluster.rehearse(handover(s)) if one.verdict is not Verdict.DONE]
        rehearsal = Rehearsal(
            at=s.now,
            refused="; ".join(dict.fromkeys(one.message or one.verdict for one in no)),
            final=all(one.verdict is Verdict.REFUSED for one in no),
        )
        self._observer.memory(s.object.name).rehearsal = rehearsal
        s = replace(s, rehearsal=rehearsal)
        return s, decide(s)

    def _second_look(self, s: Situation, decision: Decision) -> tuple[Situation, Decision]:
        """Cards are given away, serving brought back, and work drained, on a look made now."""
        rule = self._cluster.rule(s.object.name)
        if rule is None:
            return s, replace(decision, actions=())
        try:
            again = replace(self._observer.situation(rule, fresh=True), forced=s.forced)
        except LookError:
            if decision.after in GIVING_BACK:
                s = replace(s, unsure=True)
                return s, decide(s)
            raise
        return again, decide(again)

    # -- acting

    def _act(self, s: Situation, decision: Decision) -> tuple[Decision, tuple[Outcome, ...]]:
        """Carry out a decision; while giving back, answer a refused write by the next rung."""
        outcomes: list[Outcome] = []
        actions, rung = decision.actions, decision
        for _ in range(RUNGS):
            done, s = self._carry_out(s, rung, actions)
            outcomes += done
            failed = tuple(o for o in outcomes if o.verdict not in (Verdict.DONE, Verdict.GONE))
            if rung.after not in GIVING_BACK or not failed or _undone(done, Remember):
                break
            rung = decide(replace(s, refused=failed))
            tried = [outcome.action for outcome in outcomes]
            actions = tuple(action for action in rung.actions if action not in tried)
            if rung.after is not decision.after or not actions:
                break
        return decision, tuple(outcomes)

    def _carry_out(
        self, s: Situation, decision: Decision, actions: tuple[Action, ...]
    ) -> tuple[list[Outcome], Situation]:
        """Apply actions in order, and note each outcome in the status right away."""
        outcomes: list[Outcome] = []
        memory = self._observer.memory(s.object.name)
        failed = False
        for action in actions:
            if not self._ports.lease.held():
                break
            if gives(action) and (failed or self._ports.clock.now() > s.now + FRESH):
                continue
            if self._too_soon(s, decision, action, memory):
                continue
            outcome = self._cluster.apply(_by_version(s, action))
            outcomes.append(outcome)
            failed = failed or outcome.verdict is not Verdict.DONE
            if isinstance(action, HoldRule | ReleaseRule) and outcome.verdict is Verdict.DONE:
                s = _written(s, s.object.status, outcome)
            write = action if isinstance(action, Remember) else _to_note(s, outcome)
            if write is None:
                continue
            if write is not action:
                outcome = self._cluster.apply(write)
                outcomes.append(outcome)
            if outcome.verdict is not Verdict.DONE:
                break
            memory.written_at = s.now
            s = _written(s, write.status, outcome)
        return outcomes, s

    def _too_soon(self, s: Situation, decision: Decision, action: Action, memory: Memory) -> bool:
        """Whether a status that only tells more was written a moment ago."""
        return (
            isinstance(action, Remember)
            and not decision.changes_phase
            and memory.written_at is not None
            and s.now < memory.written_at + WRITE_EVERY
            and _essence(action.status) == _essence(s.status)
        )

    def _revisit(self, s: Situation, decision: Decision, outcomes: tuple[Outcome, ...]) -> datetime:
        """When to look again: what is due by time, a retry, a late write of the status, demand."""
        due = [decision.revisit_at]
        if decision.changes_phase and _unheard(outcomes):
            due = []  # the phase that it comes to is not ours yet
        done = [outcome.action for outcome in outcomes]
        left = any(gives(action) and action not in done for action in decision.actions)
        if left or any(outcome.verdict is not Verdict.DONE for outcome in outcomes):
            due.append(s.now + RETRY)
        written = self._observer.memory(s.object.name).written_at
        late = any(isinstance(a, Remember) for a in decision.actions) and not any(
            isinstance(outcome.action, Remember) for outcome in outcomes
        )
        if late and written:
            due.append(written + WRITE_EVERY)
        if self._ports.poll and s.rule:
            due.append(s.now + min(self._ports.poll, max(s.rule.stale_after / 4, SECOND)))
        return min(due)


def _to_note(s: Situation, outcome: Outcome) -> Remember | None:
    """The write of what an outcome leaves on record, if anything."""
    status = noted(s.status, outcome.action, outcome.verdict)
    if status == s.status:
        return None
    return Remember(s.object.name, s.object.resource_version, s.object.status, status)


def _by_version(s: Situation, action: Action) -> Action:
    """The action, by the version of the rule that our own last write made."""
    if not isinstance(action, Remember | HoldRule | ReleaseRule):
        return action
    return replace(action, resource_version=s.object.resource_version)


def _written(s: Situation, status: Status | None, outcome: Outcome) -> Situation:
    version = outcome.resource_version or s.object.resource_version
    return replace(s, object=replace(s.object, status=status, resource_version=version))


def _looks_again(s: Situation, decision: Decision) -> bool:
    """Whether a decision gives away, brings serving back, drains, or ends a return.

    A drain evicts what is there, not what we knew of: what came in since must be seen, unless
    the rule says that all may be evicted.
    """
    if decision.changes_phase and decision.after is not Phase.RECLAIMING:
        return True
    all_agreed = s.window is not None and s.window.on_return is OnReturn.EVICT
    return any(
        gives(action) or isinstance(action, ScaleBack) or (drains(action) and not all_agreed)
        for action in decision.actions
    )


def _on_record(outcomes: tuple[Outcome, ...]) -> bool:
    """Whether the status was written: not so where the lease was lost just before, either."""
    wrote = any(isinstance(outcome.action, Remember) for outcome in outcomes)
    return wrote and not _undone(outcomes, Remember)


def _undone(outcomes: tuple[Outcome, ...] | list[Outcome], kind: type) -> bool:
    return any(isinstance(o.action, kind) and o.verdict is not Verdict.DONE for o in outcomes)


def _refused(outcomes: tuple[Outcome, ...]) -> dict[str, str]:
    """What was said to each write of serving that was tried; empty: it got through."""
    return {
        str(one.action.target): "" if one.verdict is Verdict.DONE else one.message or one.verdict
        for one in outcomes
        if isinstance(one.action, ScaleToZero | ScaleBack)
    }


def _stops(outcomes: tuple[Outcome, ...]) -> frozenset[tuple[str, int]]:
    """The queues that a stop or a fence got through to, or to what is below them; its epoch."""
    done = [outcome.action for outcome in outcomes if outcome.verdict is Verdict.DONE]
    below = {(a.cluster_queue, a.epoch) for a in done if isinstance(a, StopLocalQueue)}
    return frozenset(below.union(_wrote(outcomes).items()))


def _wrote(outcomes: tuple[Outcome, ...]) -> dict[str, int]:
    """The ClusterQueues that were written themselves, and the epoch that they have by that."""
    done = [outcome.action for outcome in outcomes if outcome.verdict is Verdict.DONE]
    return {a.queue: a.epoch for a in done if isinstance(a, SetStopPolicy | FenceQueue)}


def _unheard(outcomes: tuple[Outcome, ...]) -> bool:
    """Whether the status could not be written, other than because it is newer than we know."""
    return any(
        isinstance(one.action, Remember) and one.verdict in (Verdict.FAILED, Verdict.REFUSED)
        for one in outcomes
    )


def _essence(status: Status) -> Status:
    """A status without what only tells: reason, message, conditions, tallies."""
    return replace(
        status,
        reason="",
        message="",
        conditions=(),
        observed_generation=0,
        until=None,
        since=None,
        tallies=Tallies(),
    )
