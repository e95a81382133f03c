"""One guarded write: by the version it was made for, again on a conflict, and what no means.

What is written is writes.py's.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.store import Store
from idlewin.adapters.watched import RULES
from idlewin.core.decision import Verdict

Json = dict[str, Any]
#: The patch of an object as it is; None: nothing is to be written.
Patch = Callable[[Json], Json | None]

#: How often a write is tried against an object that changes under it.
TRIES = 5

#: The longest that a server which is too busy is waited for, once; a return must not hang on it.
PATIENCE = timedelta(seconds=3)


#: Errors of the server's own by which nothing was written, and would not be later either: a webhook
#: that cannot be called, an eviction that two budgets have a say in.
_NOES = ("failed calling webhook", "more than one PodDisruptionBudget")


class RefusalError(Exception):
    """Our own precondition said no."""


class ChangedError(Exception):
    """The object is not as it was when the action was decided."""


class AbsentError(Exception):
    """The object that was meant is not there."""


class Changes:
    """Writes to single objects; answers go into the stores, so that the next look sees them."""

    def __init__(self, api: Api, *, keeps: bool) -> None:
        self._api, self._keeps = api, keeps

    def change(
        self,
        store: Store,
        path: str,
        patch_of: Patch,
        *,
        key: tuple[str, str] | None = None,
        tries: int = TRIES,
    ) -> Json:
        """Patch an object by the version that the patch was made for; on a conflict, anew.

        ``key``: begin with what the store has, instead of a read.
        """
        seen = store.get(*key) if key else None
        for left in reversed(range(tries)):
            if seen is None:
                seen = self.anew(store, path)
            patch = patch_of(seen)
            if patch is None:
                return seen
            version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
            patch["metadata"] = {**patch.get("metadata", {}), **version}
            try:
                return self.written(store, path, patch)
            except ApiError as error:
                if not error.conflict or not left:
                    raise
                seen = None
        raise AssertionError("unreachable: the last try returns or raises")

    def anew(self, store: Store, path: str) -> Json:
        """What the object is now."""
        return self._kept(store, self._api.get(path))

    def written(self, store: Store, path: str, patch: Json) -> Json:
        """What the object is after a patch."""
        return self._kept(store, patiently(lambda: self._api.merge(path, patch)))

    def epoch_of_rule(self, rule: str) -> int | None:
        """The epoch that a rule is at now; None: it is gone. Another may have gone on with it."""
        try:
            stored = self._api.get(f"{RULES}/{rule}")
        except ApiError as error:
            if error.gone:
                return None
            raise
        epoch = (stored.get("status") or {}).get("epoch", 0)
        return epoch if isinstance(epoch, int) else 0

    def _kept(self, store: Store, answer: Json) -> Json:
        if self._keeps:
            store.upsert(answer)
        return answer


def same(uid: str, patch_of: Patch) -> Patch:
    """The patch, unless the object is another one of the same name."""

    def patch(raw: Json) -> Json | None:
        if raw["metadata"]["uid"] != uid:
            raise AbsentError(f"{raw['metadata']['name']} is another one now: its UID changed")
        return patch_of(raw)

    return patch


def verdict_of(error: ApiError) -> Verdict:
    """What became of a write that was answered with an error, or not at all."""
    if error.gone:
        return Verdict.GONE
    if error.conflict:
        # A pod of the same name with another UID: the one that was meant is gone.
        return Verdict.GONE if "UID in" in error.message else Verdict.CONFLICT
    if error.status == 429:
        return Verdict.REFUSED if _by_budget(error) else Verdict.FAILED
    if 400 <= error.status < 500:
        return Verdict.REFUSED
    return Verdict.REFUSED if any(text in error.message for text in _NOES) else Verdict.FAILED


def patiently(call: Callable[[], Json]) -> Json:
    """The call's answer; made once more after the wait that a busy server asks for, if short."""
    try:
        return call()
    except ApiError as error:
        wait = error.retry_after
        if error.status != 429 or _by_budget(error) or wait is None or wait > PATIENCE:
            raise
    Event().wait(wait.total_seconds())
    return call()


def _by_budget(error: ApiError) -> bool:
    """Whether a PodDisruptionBudget said no, and not the server's load."""
    causes = (error.answer.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "DisruptionBudget" for cause in causes)
