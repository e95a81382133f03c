"""Writes to Kueue's queues and work, and to batch pods. What is shared is change.py's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from idlewin.adapters.api import Api
from idlewin.adapters.change import ChangedError, Changes, RefusalError, patiently, same
from idlewin.adapters.fields import annotation, last_writer, maybe_instant
from idlewin.adapters.objects import rule_of
from idlewin.adapters.queues import GROUP as KUEUE, epoch_of, left_of, policy_of, trim_queue
from idlewin.adapters.watched import QUEUES, Watched
from idlewin.core.decision import (
    EvictPod,
    FenceQueue,
    ReopenLocalQueue,
    SetActive,
    SetStopPolicy,
    StopLocalQueue,
)
from idlewin.core.pool import ADOPTED_BY, EPOCH, LEFT, MANAGER, StopPolicy

Json = dict[str, Any]


class QueueWrites:
    """What the actions on queues and work write. Raises ApiError and change.py's errors."""

    def __init__(
        self, api: Api, changes: Changes, stores: Watched, looked: Mapping[str, int]
    ) -> None:
        """``looked``: the generation at which each queue was looked at last."""
        self._api, self._changes, self._stores = api, changes, stores
        self._looked = looked

    def set_stop_policy(self, action: SetStopPolicy) -> Json:
        """The stop policy, our epoch, and what we wrote."""

        def patch(raw: Json) -> Json | None:
            if action.policy is StopPolicy.NONE:
                self._may_open(raw, action)
            else:
                self._may_close(raw, action)
            # A leader that was believed dead must not take the fence down.
            epoch = max(action.epoch, epoch_of(raw) or 0)
            is_so = policy_of(raw) is action.policy and left_of(raw) is action.policy
            if is_so and epoch_of(raw) == epoch:
                return None
            return {
                "metadata": {"annotations": {EPOCH: str(epoch), LEFT: action.policy.value}},
                "spec": {"stopPolicy": action.policy.value},
            }

        # Closing begins with what the watch knows, for it must win; opening with what is there now.
        key = None if action.policy is StopPolicy.NONE else ("", action.queue)
        path = f"{QUEUES}/{action.queue}"
        return self._changes.change(self._stores.queues, path, same(action.uid, patch), key=key)

    def _may_open(self, raw: Json, action: SetStopPolicy) -> None:
        epoch, owner = epoch_of(raw), annotation(raw, ADOPTED_BY)
        if "deletionTimestamp" in raw["metadata"]:
            raise RefusalError(f"ClusterQueue {action.queue} is being deleted")
        if owner != action.rule:
            raise RefusalError(f"ClusterQueue {action.queue} is adopted by {owner or 'no rule'}")
        if epoch is not None and epoch > action.epoch:
            raise RefusalError(f"ClusterQueue {action.queue} has epoch {epoch}, newer than ours")
        writer, written = trim_queue(raw)["writer"]
        if writer != MANAGER and not self._as_looked_at(raw):
            raise RefusalError(f"ClusterQueue {action.queue} was written by {writer} meanwhile")
        theirs = left_of(raw) is not None and _foreign(raw)
        if theirs and not self._resumed(action.rule, written):
            raise RefusalError(f"ClusterQueue {action.queue} was closed by {writer or 'somebody'}")

    def _may_close(self, raw: Json, action: SetStopPolicy) -> None:
        """A late hold wins, but over what others have made of a queue since; a late drain never."""
        name, epoch, owner = action.queue, epoch_of(raw) or 0, annotation(raw, ADOPTED_BY)
        if _foreign(raw) and not self._as_looked_at(raw):
            raise ChangedError(f"ClusterQueue {name} was closed by somebody meanwhile")
        if action.policy is StopPolicy.HOLD_AND_DRAIN and epoch > action.epoch:
            raise RefusalError(f"ClusterQueue {name} has epoch {epoch}: a late drain")
        opened = policy_of(raw) is StopPolicy.NONE is not left_of(raw)
        if owner == action.rule and not opened:
            return
        now = self._changes.epoch_of_rule(action.rule)
        if now is None and owner != action.rule:
            raise RefusalError(f"ClusterQueue {name} is not rule {action.rule}'s, which is gone")
        if now is not None and now > action.epoch:
            raise RefusalError(
                f"ClusterQueue {name} was opened or taken by others, and rule {action.rule} is at "
                f"epoch {now}: another has gone on with it"
            )

    def _as_looked_at(self, raw: Json) -> bool:
        """Whether nobody has written a queue's spec since the look that was decided on."""
        meta = raw["metadata"]
        generation = meta.get("generation", 0)
        return bool(generation <= self._looked.get(meta["name"], generation))

    def fence(self, action: FenceQueue) -> Json:
        """Our epoch; a newer one stays. And what is there as our mark, if so asked."""

        def patch(raw: Json) -> Json | None:
            marks = {}
            if (epoch_of(raw) or 0) < action.epoch:
                marks[EPOCH] = str(action.epoch)
            if action.marks and self._as_looked_at(raw) and _unmarked_stop(raw):
                marks[LEFT] = policy_of(raw).value
            return {"metadata": {"annotations": marks}} if marks else None

        path, key = f"{QUEUES}/{action.queue}", ("", action.queue)
        return self._changes.change(self._stores.queues, path, same(action.uid, patch), key=key)

    def _resumed(self, rule: str, written: str) -> bool:
        """Whether a person has said resume after a foreign write."""
        stored = self._stores.rules.get("", rule)
        at, then = (rule_of(stored).resume_at if stored else None), maybe_instant(written)
        return at is not None and (then is None or at >= then)

    def stop_local_queue(self, action: StopLocalQueue) -> Json:
        """A LocalQueue's stop policy, if what is on record as its former one is still there."""
        local = action.queue

        def patch(raw: Json) -> Json | None:
            if (epoch := epoch_of(raw) or 0) > action.epoch:
                raise RefusalError(f"LocalQueue {local.name} was given back at epoch {epoch}")
            if policy_of(raw) is action.policy:
                return None
            if policy_of(raw) is not local.stop_policy:
                raise ChangedError(f"LocalQueue {local.name} is at {policy_of(raw)} meanwhile")
            return {"spec": {"stopPolicy": action.policy.value}}

        key = (local.namespace, local.name)
        path, guarded = _path("localqueues", *key), same(local.uid, patch)
        return self._changes.change(self._stores.local_queues, path, guarded, key=key)

    def reopen_local_queue(self, action: ReopenLocalQueue) -> Json:
        """Its former value, if it is still ours; and our epoch, if no newer is there.

        Ours is a stop that we wrote last; where a drain was to follow a hold, either.
        """

        def patch(raw: Json) -> Json | None:
            written: Json = {}
            if (gone_on := self._changes.epoch_of_rule(action.rule)) and gone_on > action.epoch:
                raise RefusalError(f"rule {action.rule} is at epoch {gone_on}: another has gone on")
            if (epoch_of(raw) or 0) < action.epoch:
                written["metadata"] = {"annotations": {EPOCH: str(action.epoch)}}
            now, writer = policy_of(raw).value, last_writer(raw, "spec", "stopPolicy")[0]
            # Another's by now, or by value: it is its owner's, and nothing is owed any more.
            held = now == StopPolicy.HOLD and action.wrote == StopPolicy.HOLD_AND_DRAIN
            ours = now == action.wrote or (held and writer == MANAGER)
            if ours and writer in ("", MANAGER) and now != action.was:
                written["spec"] = {"stopPolicy": action.was or None}
            return written or None

        path = _path("localqueues", action.namespace, action.name)
        return self._changes.change(self._stores.local_queues, path, same(action.uid, patch))

    def set_active(self, action: SetActive) -> Json:
        """A workload's spec.active; waking leaves our epoch too, and what is stopped by others."""

        def patch(raw: Json) -> Json | None:
            written: Json = {}
            epoch, is_so = epoch_of(raw) or 0, raw["spec"].get("active", True) is action.active
            if not action.active and epoch > action.epoch:
                raise RefusalError(f"Workload {action.name} was woken at epoch {epoch}")
            seen = raw["metadata"].get("generation", 0), epoch
            stops = not action.active and not is_so
            if stops and action.generation and seen != (action.generation, action.woken):
                raise ChangedError(f"Workload {action.name} was stopped, or woken, meanwhile")
            if action.active and epoch < action.epoch:
                written["metadata"] = {"annotations": {EPOCH: str(action.epoch)}}
            if not is_so and (not action.active or _by_us(raw, "active")):
                written["spec"] = {"active": action.active}
            return written or None

        path = _path("workloads", action.namespace, action.name)
        return self._changes.change(self._stores.workloads, path, same(action.uid, patch))

    def evict(self, action: EvictPod) -> Json:
        """Eviction, or deletion, of just this pod."""
        pod = action.pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        options = {"preconditions": {"uid": pod.uid}}
        if action.delete:
            return patiently(lambda: self._api.delete(path, options))
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": options,
        }
        return patiently(lambda: self._api.post(f"{path}/eviction", eviction))


def _foreign(raw: Json) -> bool:
    """Whether a stop is there that is not the one that we wrote last."""
    return policy_of(raw) not in (StopPolicy.NONE, left_of(raw))


def _by_us(raw: Json, name: str) -> bool:
    """Whether a field of the spec is as we wrote it, as far as the API server tells."""
    return last_writer(raw, "spec", name)[0] in ("", MANAGER)


def _unmarked_stop(raw: Json) -> bool:
    return left_of(raw) is None and policy_of(raw) is not StopPolicy.NONE


def _path(plural: str, namespace: str, name: str) -> str:
    return f"{KUEUE}/namespaces/{namespace}/{plural}/{name}"
