"""Actions as writes: which action writes what, and what becomes of it.

Every write is a JSON merge patch under our field manager, by the version that it was decided on.
The same code rehearses: it is given an API that asks by dry run, and keeps nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.change import AbsentError, ChangedError, Changes, RefusalError, verdict_of
from idlewin.adapters.queue_writes import QueueWrites
from idlewin.adapters.serving_writes import ServingWrites
from idlewin.adapters.watched import RULES, Watched
from idlewin.codec import status_patch
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
from idlewin.core.pool import FINALIZER

Json = dict[str, Any]

log = logging.getLogger(__name__)


class Writer:
    """Carries out actions."""

    def __init__(
        self, api: Api, stores: Watched, looked: Mapping[str, int], *, keeps: bool = True
    ) -> None:
        self._stores = stores
        self._changes = Changes(api, keeps=keeps)
        serving = ServingWrites(self._changes, stores)
        queues = QueueWrites(api, self._changes, stores, looked)
        self._carry_out: dict[type[Action], Callable[[Any], Json]] = {
            Remember: self._remember,
            HoldRule: self._hold,
            ReleaseRule: self._release,
            ScaleToZero: serving.to_zero,
            ScaleBack: serving.back,
            ForgetRecord: serving.forget,
            SetStopPolicy: queues.set_stop_policy,
            FenceQueue: queues.fence,
            StopLocalQueue: queues.stop_local_queue,
            ReopenLocalQueue: queues.reopen_local_queue,
            SetActive: queues.set_active,
            EvictPod: queues.evict,
        }

    def apply(self, action: Action) -> Outcome:
        """Carry out one action. Never raises."""
        try:
            answer = self._carry_out[type(action)](action)
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
        path = f"{RULES}/{action.rule}/status"
        try:
            return self._changes.written(self._stores.rules, path, patch)
        except ApiError as error:
            if error.conflict:
                # The watch may be half open, and not show the newer one for long.
                self._changes.anew(self._stores.rules, f"{RULES}/{action.rule}")
            raise

    def _hold(self, action: HoldRule) -> Json:
        return self._finalizer(action, wanted=True)

    def _release(self, action: ReleaseRule) -> Json:
        return self._finalizer(action, wanted=False)

    def _finalizer(self, action: HoldRule | ReleaseRule, *, wanted: bool) -> Json:
        rule = action.rule

        def patch(raw: Json) -> Json | None:
            meta = raw["metadata"]
            # A status that was not looked at must not be written over by what follows.
            if meta["resourceVersion"] != action.resource_version:
                raise ChangedError(f"rule {rule} was written by somebody meanwhile")
            now = meta.get("finalizers") or []
            if (FINALIZER in now) is wanted:
                return None
            if wanted and "deletionTimestamp" in meta:
                raise RefusalError(f"rule {rule} is being deleted: no finalizer can be added")
            after = [*now, FINALIZER] if wanted else [one for one in now if one != FINALIZER]
            return {"metadata": {"finalizers": after}}

        # Read anew: the watch may be half open, and not show the newer one for long.
        return self._changes.change(self._stores.rules, f"{RULES}/{rule}", patch)
