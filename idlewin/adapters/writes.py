"""Actions as writes: the patch of each, and what it refuses by itself.

Every write is a JSON merge patch under our field manager, by the version that it was decided on.
The same code rehearses: it is given an API that asks by dry run, and keeps nothing.
"""

from __future__ import annotations

import logging
from typing import Any, assert_never

from idlewin.adapters import watched
from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.change import (
    TRIES,
    AbsentError,
    ChangedError,
    Changes,
    Patch,
    RefusalError,
    patiently,
    same,
    verdict_of,
)
from idlewin.adapters.fields import annotation, maybe_instant
from idlewin.adapters.objects import rule_of
from idlewin.adapters.queues import GROUP as KUEUE, epoch_of, policy_of, trim_queue
from idlewin.adapters.serving import Kind, kind_of
from idlewin.adapters.store import version_of
from idlewin.adapters.watched import Watched
from idlewin.codec import status_patch
from idlewin.core.decision import (
    Action,
    EvictPod,
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
from idlewin.core.pool import ADOPTED_BY, EPOCH, FINALIZER, MANAGER, RECORD, Record, StopPolicy
from idlewin.core.rule import Ref

Json = dict[str, Any]

log = logging.getLogger(__name__)


class Writer:
    """Carries out actions."""

    def __init__(self, api: Api, stores: Watched, *, keeps: bool = True) -> None:
        self._api, self._stores = api, stores
        self._changes = Changes(api, keeps=keeps)

    def apply(self, action: Action) -> Outcome:
        """Carry out one action. Never raises."""
        try:
            answer = self._carry_out(action)
        except ApiError as error:
            return Outcome(action, verdict_of(error), str(error))
        except RefusalError as error:
            return Outcome(action, Verdict.REFUSED, str(error))
        except ChangedError as error:
            return Outcome(action, Verdict.CONFLICT, str(error))
        except AbsentError as error:
            return Outcome(action, Verdict.GONE, str(error))
        except Exception as error:
            log.exception("%s was not carried out", action)
            return Outcome(action, Verdict.FAILED, f"{type(error).__name__}: {error}")
        version = ""
        if isinstance(action, Remember | HoldRule | ReleaseRule):
            version = answer["metadata"]["resourceVersion"]
        return Outcome(action, Verdict.DONE, resource_version=version)

    def _carry_out(self, action: Action) -> Json:
        match action:
            case Remember():
                return self._remember(action)
            case ScaleToZero():
                return self._to_zero(action)
            case ScaleBack():
                return self._back(action)
            case ForgetRecord():
                return self._forget(action)
            case SetStopPolicy():
                return self._set_stop_policy(action)
            case StopLocalQueue():
                return self._stop_local_queue(action)
            case ReopenLocalQueue():
                return self._reopen_local_queue(action)
            case SetActive():
                return self._set_active(action)
            case EvictPod():
                return self._evict(action)
            case ReleaseRule():
                return self._finalizer(action.rule, wanted=False)
            case HoldRule():
                return self._finalizer(action.rule, wanted=True)
            case _:
                assert_never(action)

    # -- the rule

    def _remember(self, action: Remember) -> Json:
        stored = self._stores.rules.get("", action.rule)
        before: Any = action.before
        if (
            before is None
            and stored is not None
            and stored["metadata"]["resourceVersion"] == action.resource_version
        ):
            # A status that could not be read is written over key by key.
            before = stored["status"]
        patch = {
            "metadata": {"resourceVersion": action.resource_version},
            "status": status_patch(before, action.status),
        }
        path = f"{watched.RULES}/{action.rule}/status"
        return self._changes.written(self._stores.rules, path, patch)

    def _finalizer(self, rule: str, *, wanted: bool) -> Json:
        def patch(raw: Json) -> Json | None:
            meta = raw["metadata"]
            now = meta.get("finalizers") or []
            if (FINALIZER in now) is wanted:
                return None
            if wanted and "deletionTimestamp" in meta:
                raise RefusalError(f"rule {rule} is being deleted: no finalizer can be added")
            after = [*now, FINALIZER] if wanted else [one for one in now if one != FINALIZER]
            return {"metadata": {"finalizers": after}}

        return self._changes.change(
            self._stores.rules, f"{watched.RULES}/{rule}", patch, key=("", rule)
        )

    # -- serving

    def _to_zero(self, action: ScaleToZero) -> Json:
        kind = _kind(action.target)
        ours = Record(
            rule=action.rule, uid=action.uid, replicas=action.replicas, epoch=action.epoch
        )

        def patch(raw: Json) -> Json | None:
            record = kind.record(raw)
            if kind.replicas(raw) == 0 and record == ours:
                return None
            if record is not None or kind.replicas(raw) != action.replicas:
                raise ChangedError(
                    f"{action.target} is not as it was remembered: replicas {kind.replicas(raw)}, "
                    f"remembered {action.replicas}, record of {record.rule if record else 'none'}"
                )
            return kind.to_zero(ours)

        # What the look saw, if it still is what the store has; else it is read again, once.
        key = (action.target.namespace, action.target.name)
        seen = self._stores.serving[kind.kind].get(*key)
        current = seen is not None and str(version_of(seen)) == action.resource_version
        return self._change_target(action, patch, key=key if current else None, tries=2)

    def _back(self, action: ScaleBack) -> Json:
        kind = _kind(action.target)

        def patch(raw: Json) -> Json:
            record = kind.record(raw)
            if kind.replicas(raw) != 0:
                raise RefusalError(f"{action.target}: its owner has raised it; that is kept")
            if record is not None and record.rule != action.rule:
                raise RefusalError(f"{action.target} carries the record of rule {record.rule}")
            return kind.back(action.replicas)

        return self._change_target(action, patch)

    def _forget(self, action: ForgetRecord) -> Json:
        kind = _kind(action.target)

        def patch(raw: Json) -> Json | None:
            record = kind.record(raw)
            foreign = record is not None and record.rule != action.rule
            return None if foreign or not annotation(raw, RECORD) else kind.forget()

        return self._change_target(action, patch)

    def _change_target(
        self,
        action: ScaleToZero | ScaleBack | ForgetRecord,
        patch: Patch,
        *,
        key: tuple[str, str] | None = None,
        tries: int = TRIES,
    ) -> Json:
        kind = _kind(action.target)
        path = kind.path(action.target.namespace, action.target.name)
        guarded = same(action.uid, patch)
        return self._changes.change(
            self._stores.serving[kind.kind], path, guarded, key=key, tries=tries
        )

    # -- queues and work

    def _set_stop_policy(self, action: SetStopPolicy) -> Json:
        def patch(raw: Json) -> Json | None:
            if action.policy is StopPolicy.NONE:
                self._may_open(raw, action)
            # A leader that was believed dead must not take the fence down.
            epoch = max(action.epoch, epoch_of(raw) or 0)
            if policy_of(raw) is action.policy and epoch_of(raw) == epoch:
                return None
            return {
                "metadata": {"annotations": {EPOCH: str(epoch)}},
                "spec": {"stopPolicy": action.policy.value},
            }

        # Closing goes by what the watch knows and must win; opening by what is there now.
        key = None if action.policy is StopPolicy.NONE else ("", action.queue)
        path = f"{watched.QUEUES}/{action.queue}"
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
        closed = policy_of(raw) is not StopPolicy.NONE and epoch is not None
        if closed and writer not in ("", MANAGER) and not self._resumed(action.rule, written):
            raise RefusalError(f"ClusterQueue {action.queue} was closed by {writer}")

    def _resumed(self, rule: str, written: str) -> bool:
        """Whether a person has said resume after a foreign write."""
        stored = self._stores.rules.get("", rule)
        at, then = (rule_of(stored).resume_at if stored else None), maybe_instant(written)
        return at is not None and (then is None or at >= then)

    def _stop_local_queue(self, action: StopLocalQueue) -> Json:
        local = action.queue

        def patch(raw: Json) -> Json | None:
            if policy_of(raw) is action.policy:
                return None
            return {"spec": {"stopPolicy": action.policy.value}}

        key = (local.namespace, local.name)
        path, guarded = _path("localqueues", *key), same(local.uid, patch)
        return self._changes.change(self._stores.local_queues, path, guarded, key=key)

    def _reopen_local_queue(self, action: ReopenLocalQueue) -> Json:
        def patch(raw: Json) -> Json | None:
            # Changed since: it is its owner's, and nothing is owed any more.
            if policy_of(raw).value != action.wrote or action.wrote == action.was:
                return None
            return {"spec": {"stopPolicy": action.was or None}}

        path = _path("localqueues", action.namespace, action.name)
        return self._changes.change(self._stores.local_queues, path, same(action.uid, patch))

    def _set_active(self, action: SetActive) -> Json:
        def patch(raw: Json) -> Json | None:
            if raw["spec"].get("active", True) is action.active:
                return None
            return {"spec": {"active": action.active}}

        path = _path("workloads", action.namespace, action.name)
        return self._changes.change(self._stores.workloads, path, same(action.uid, patch))

    def _evict(self, action: EvictPod) -> Json:
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


def _kind(ref: Ref) -> Kind:
    kind = kind_of(ref)
    if kind is None:
        raise RefusalError(f"{ref} ({ref.api_version}) is of a kind that idlewin cannot serve")
    return kind


def _path(plural: str, namespace: str, name: str) -> str:
    return f"{KUEUE}/namespaces/{namespace}/{plural}/{name}"
