"""What becomes of each write, as the API server, its webhooks and our preconditions have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from idlewin.core.decision import (
    Action,
    EvictPod,
    FenceQueue,
    ForgetRecord,
    HoldRule,
    Outcome,
    ReleaseRule,
    Remember,
    ReopenLocalQueue,
    ScaleBack,
    ScaleToZero,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
    Verdict,
)
from idlewin.core.pool import MANAGER, Record, StopPolicy
from idlewin.core.target import Ref
from idlewin.ports import Clock
from idlewin.sim.kueue import Kueue
from idlewin.sim.nodes import Nodes
from idlewin.sim.objects import Deployment
from idlewin.sim.serving import Serving

WEBHOOK = "500 failed calling webhook: no endpoints available for service kueue-webhook-service"


class Writes:
    """Carries out actions."""

    def __init__(self, clock: Clock, kueue: Kueue, serving: Serving, nodes: Nodes) -> None:
        self._objects, self._kueue, self._serving = kueue.objects, kueue, serving
        self._clock, self._nodes = clock, nodes
        self._how: dict[type[Action], Callable[[Any], Outcome]] = {
            Remember: self._remember,
            ScaleToZero: self._to_zero,
            ScaleBack: self._back,
            ForgetRecord: self._forget,
            SetStopPolicy: self._stop_policy,
            FenceQueue: self._fence,
            StopLocalQueue: self._stop_local,
            ReopenLocalQueue: self._reopen_local,
            SetActive: self._active,
            EvictPod: self._evict,
            ReleaseRule: self._finalizer,
            HoldRule: self._finalizer,
        }

    def carry_out(self, action: Action) -> Outcome:
        """Write, or say why not."""
        return self._how[type(action)](action)

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        """What would become of some writes."""
        return tuple(self._rehearsed(action) for action in actions)

    def _rehearsed(self, action: Action) -> Outcome:
        if isinstance(action, SetStopPolicy | FenceQueue) and not self._kueue.up:
            return Outcome(action, Verdict.REFUSED, f"ClusterQueue {action.queue}: {WEBHOOK}")
        if isinstance(action, ScaleToZero):
            target = self._find(action.target, action.uid)
            if target is None:
                return Outcome(action, Verdict.GONE, f"{action.target}: 404 not found")
            if target.inside_kueue and not self._kueue.up:
                return Outcome(action, Verdict.REFUSED, f"{action.target}: {WEBHOOK}")
        return Outcome(action, Verdict.DONE)

    def _remember(self, action: Remember) -> Outcome:
        rule = self._objects.rules.get(action.rule)
        if rule is None:
            return Outcome(action, Verdict.GONE, "404 the rule is not there")
        if str(rule.version) != action.resource_version:
            return Outcome(action, Verdict.CONFLICT, "409 the rule has been modified")
        rule.status, rule.status_error = action.status, ""
        self._objects.touch(rule)
        return Outcome(action, Verdict.DONE, resource_version=str(rule.version))

    def _finalizer(self, action: ReleaseRule | HoldRule) -> Outcome:
        rule = self._objects.rules.get(action.rule)
        if rule is None:
            return Outcome(action, Verdict.GONE, "404 the rule is not there")
        if action.resource_version != str(rule.version):
            return Outcome(action, Verdict.CONFLICT, "409 the rule has been modified")
        if isinstance(action, HoldRule) and rule.deleting and not rule.finalizer:
            return Outcome(action, Verdict.REFUSED, "422 no finalizer while it is being deleted")
        wanted = isinstance(action, HoldRule)
        if rule.finalizer is wanted:
            return Outcome(action, Verdict.DONE, resource_version=str(rule.version))
        rule.finalizer = wanted
        if rule.deleting and not wanted:
            del self._objects.rules[rule.name]
        self._objects.touch(rule)
        return Outcome(action, Verdict.DONE, resource_version=str(rule.version))

    # -- serving

    def _find(self, ref: Ref, uid: str) -> Deployment | None:
        target = self._objects.deployments.get(ref)
        return target if target is not None and target.uid == uid else None

    def _to_zero(self, action: ScaleToZero) -> Outcome:
        target = self._find(action.target, action.uid)
        if target is None:
            return Outcome(action, Verdict.GONE, "404 the target is not there, or is another")
        if target.inside_kueue and not self._kueue.up:
            return Outcome(action, Verdict.REFUSED, WEBHOOK)
        if target.replicas == 0 and target.record and target.record.epoch == action.epoch:
            return Outcome(action, Verdict.DONE, "it is at our zero already")
        # A newer version alone is read again and tried once more; an owner's raise is not.
        written = action.generation not in (0, target.generation)
        if written or target.replicas != action.replicas or target.record is not None:
            return Outcome(action, Verdict.CONFLICT, "409 its owner has changed it")
        target.record = Record(
            rule=action.rule,
            uid=action.uid,
            replicas=action.replicas,
            epoch=action.epoch,
            resource=action.resource,
            nodes=action.nodes,
            devices=action.devices,
            exempt=action.exempt,
        )
        self._scaled(target, 0)
        target.at_our_zero = True
        return Outcome(action, Verdict.DONE)

    def _back(self, action: ScaleBack) -> Outcome:
        target = self._find(action.target, action.uid)
        if target is None:
            return Outcome(action, Verdict.GONE, "404 the target is not there, or is another")
        if target.inside_kueue and not self._kueue.up:
            return Outcome(action, Verdict.REFUSED, WEBHOOK)
        if target.replicas != 0:
            return Outcome(action, Verdict.REFUSED, "its owner has raised it")
        if target.record is not None and target.record.rule != action.rule:
            return Outcome(action, Verdict.REFUSED, f"its record is {target.record.rule}'s")
        if target.record is not None and target.record.epoch > action.epoch:
            return Outcome(action, Verdict.REFUSED, "its record is of a later window")
        rule = self._objects.rules.get(action.rule)
        if rule is not None and rule.status and rule.status.epoch > action.epoch:
            return Outcome(action, Verdict.REFUSED, "another has gone on with the rule")
        if target.writer != MANAGER:
            return Outcome(action, Verdict.REFUSED, f"its zero is {target.writer}'s")
        target.record = None
        self._scaled(target, action.replicas)
        target.at_our_zero = False
        return Outcome(action, Verdict.DONE)

    def _forget(self, action: ForgetRecord) -> Outcome:
        target = self._find(action.target, action.uid)
        if target is None:
            return Outcome(action, Verdict.GONE, "404 the target is not there, or is another")
        if target.inside_kueue and not self._kueue.up:
            return Outcome(action, Verdict.REFUSED, WEBHOOK)
        ours = target.record is not None and target.record.rule == action.rule
        if ours and target.record and target.record.epoch > action.epoch:
            return Outcome(action, Verdict.REFUSED, "its record is of a later window")
        if ours:
            target.record = None
            self._objects.touch(target)
        return Outcome(action, Verdict.DONE)

    def _scaled(self, target: Deployment, replicas: int) -> None:
        target.replicas, target.writer = replicas, MANAGER
        target.generation += 1
        self._objects.touch(target)
        self._serving.changed(target)

    # -- batch

    def _stop_policy(self, action: SetStopPolicy) -> Outcome:
        queue = self._objects.queues.get(action.queue)
        if queue is None or queue.uid != action.uid:
            return Outcome(action, Verdict.GONE, "404 the queue is not there, or is another")
        if not self._kueue.up:
            return Outcome(action, Verdict.REFUSED, WEBHOOK)
        epoch = max(queue.epoch or 0, action.epoch)
        if action.policy is not StopPolicy.HOLD and epoch > action.epoch:
            return Outcome(action, Verdict.REFUSED, f"its epoch {epoch} is newer")
        taken = queue.adopted_by != action.rule
        rule = self._objects.rules.get(action.rule)
        late = taken if rule is None else rule.status and rule.status.epoch > action.epoch
        if late and (taken or queue.stop_policy is StopPolicy.NONE is not queue.left):
            return Outcome(action, Verdict.REFUSED, "another has gone on with the rule")
        asked = (action.policy, action.policy, epoch)
        if (queue.stop_policy, queue.left, queue.epoch) == asked:
            return Outcome(action, Verdict.DONE, "it is so already")
        if queue.stop_policy is not action.policy:
            queue.generation += 1
            queue.stop_policy, queue.writer = action.policy, MANAGER
            queue.wrote_at = self._clock.now()
            self._kueue.queue_written(queue)
        queue.epoch, queue.left = epoch, action.policy
        self._objects.touch(queue)
        return Outcome(action, Verdict.DONE)

    def _fence(self, action: FenceQueue) -> Outcome:
        queue = self._objects.queues.get(action.queue)
        if queue is None or queue.uid != action.uid:
            return Outcome(action, Verdict.GONE, "404 the queue is not there, or is another")
        if not self._kueue.up:
            return Outcome(action, Verdict.REFUSED, WEBHOOK)
        shut = queue.stop_policy is not StopPolicy.NONE
        unmarked = action.marks and shut and queue.left is None
        if unmarked or (queue.epoch or 0) < action.epoch:
            queue.epoch = max(queue.epoch or 0, action.epoch)
            queue.left = queue.stop_policy if unmarked else queue.left
            self._objects.touch(queue)
        return Outcome(action, Verdict.DONE)

    def _local(self, action: Action, key: tuple[str, str, str], policy: StopPolicy) -> Outcome:
        namespace, name, uid = key
        local = self._objects.local_queues.get((namespace, name))
        if local is None or local.uid != uid:
            return Outcome(action, Verdict.GONE, "404 the LocalQueue is not there, or is another")
        if local.stop_policy is not policy:
            local.stop_policy, local.writer = policy, MANAGER
            local.wrote_at = self._clock.now()
            self._objects.touch(local)
            self._kueue.local_queue_written(local)
        return Outcome(action, Verdict.DONE)

    def _stop_local(self, action: StopLocalQueue) -> Outcome:
        local = action.queue
        found = self._objects.local_queues.get((local.namespace, local.name))
        if found is not None and (found.epoch or 0) > action.epoch:
            return Outcome(action, Verdict.REFUSED, f"it was given back at epoch {found.epoch}")
        if found is not None and found.stop_policy not in (action.policy, local.stop_policy):
            return Outcome(action, Verdict.CONFLICT, "409 it has another stop policy meanwhile")
        return self._local(action, (local.namespace, local.name, local.uid), action.policy)

    def _reopen_local(self, action: ReopenLocalQueue) -> Outcome:
        key = (action.namespace, action.name, action.uid)
        local = self._objects.local_queues.get((action.namespace, action.name))
        if local is None or local.uid != action.uid:
            return self._local(action, key, StopPolicy(action.was))
        rule = self._objects.rules.get(action.rule)
        if rule is not None and rule.status and rule.status.epoch > action.epoch:
            return Outcome(action, Verdict.REFUSED, "another has gone on with the rule")
        if (local.epoch or 0) < action.epoch:
            local.epoch = action.epoch
            self._objects.touch(local)
        # Of a drain that was to follow a hold, either may be there.
        held = local.stop_policy is StopPolicy.HOLD and action.wrote == StopPolicy.HOLD_AND_DRAIN
        ours = local.stop_policy == action.wrote or (held and local.writer == MANAGER)
        if not ours or local.writer not in ("", MANAGER):
            return Outcome(action, Verdict.DONE, "changed since: it is its owner's")
        return self._local(action, key, StopPolicy(action.was))

    def _active(self, action: SetActive) -> Outcome:
        work = self._objects.works.get((action.namespace, action.name))
        if work is None or work.uid != action.uid:
            return Outcome(action, Verdict.GONE, "404 the workload is not there, or is another")
        if not self._kueue.up:
            return Outcome(action, Verdict.REFUSED, WEBHOOK)
        if not action.active and (work.epoch or 0) > action.epoch:
            return Outcome(action, Verdict.REFUSED, f"it was woken at epoch {work.epoch}")
        seen = work.generation, work.epoch or 0
        stops = not action.active and work.active
        if stops and action.generation and seen != (action.generation, action.woken):
            return Outcome(action, Verdict.CONFLICT, "it was stopped, or woken, meanwhile")
        if action.active and (work.epoch or 0) < action.epoch:
            work.epoch = action.epoch
            self._objects.touch(work)
        theirs = action.active and work.active_writer not in ("", MANAGER)
        if work.active is not action.active and not theirs:
            work.set_active(active=action.active, writer=MANAGER)
            self._objects.touch(work)
            self._kueue.active_written(work)
        return Outcome(action, Verdict.DONE)

    def _evict(self, action: EvictPod) -> Outcome:
        pod = self._objects.pods.get(action.pod.uid)
        if pod is None:
            return Outcome(action, Verdict.GONE, "404 the pod is not there")
        self._nodes.delete(pod)
        return Outcome(action, Verdict.DONE)
