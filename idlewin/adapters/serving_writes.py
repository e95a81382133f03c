"""Writes to serving: to zero with our record, back without it. What is shared is change.py's."""

from __future__ import annotations

from typing import Any

from idlewin.adapters.api import ApiError
from idlewin.adapters.change import TRIES, ChangedError, Changes, Patch, RefusalError, same
from idlewin.adapters.fields import annotation
from idlewin.adapters.serving import Kind, kind_of
from idlewin.adapters.store import version_of
from idlewin.adapters.watched import Watched
from idlewin.codec import read_record
from idlewin.core.decision import ForgetRecord, ScaleBack, ScaleToZero
from idlewin.core.pool import MANAGER, RECORD, Record
from idlewin.core.target import Ref

Json = dict[str, Any]


class ServingWrites:
    """What the actions on targets write. Raises ApiError and change.py's errors."""

    def __init__(self, changes: Changes, stores: Watched) -> None:
        self._changes, self._stores = changes, stores

    def to_zero(self, action: ScaleToZero) -> Json:
        """One patch of record and replicas; the target as remembered, or nothing is written."""
        kind = _kind(action.target)
        ours = Record(
            rule=action.rule,
            uid=action.uid,
            replicas=action.replicas,
            epoch=action.epoch,
            resource=action.resource,
            nodes=action.nodes,
            devices=action.devices,
            exempt=action.exempt,
            settings=action.settings,
            scaled=action.scaled,
        )

        def patch(found: Json) -> Json | None:
            raw = self._whole(kind, found)
            record = kind.record(raw)
            if kind.replicas(raw) == 0 and record == ours:
                return None
            generation = raw["metadata"].get("generation")
            written = (
                action.generation not in (0, generation)
                or kind.changed(raw, action.settings)
                # Its owner has raised it in this very window, and it cannot be told otherwise.
                or (kind.void(raw) and _newest(raw, ours) >= ours.epoch)
            )
            if record is not None or written or kind.replicas(raw) != action.replicas:
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

    def back(self, action: ScaleBack) -> Json:
        """One patch of replicas and record, if the target is still at our zero."""
        kind = _kind(action.target)

        ours = Record(
            rule=action.rule,
            uid=action.uid,
            replicas=action.replicas,
            epoch=action.epoch,
            settings=action.settings,
        )

        def patch(found: Json) -> Json:
            raw = self._whole(kind, found)
            record = kind.record(raw)
            if kind.replicas(raw) != 0:
                raise RefusalError(f"{action.target}: its owner has raised it; that is kept")
            if record is not None and record.rule != action.rule:
                raise RefusalError(f"{action.target} carries the record of rule {record.rule}")
            _of_this_window(record, action)
            if (writer := kind.writer(raw)) not in ("", MANAGER, action.by):
                raise RefusalError(f"{action.target} is at 0 by {writer}; that is kept")
            return kind.back(raw, ours)

        self._still_ours(action)
        return self._change_target(action, patch)

    def _still_ours(self, action: ScaleBack) -> None:
        """A leader that was frozen after its look must not raise what another has gone on with."""
        epoch = self._changes.epoch_of_rule(action.rule)
        if epoch is not None and epoch > action.epoch:
            raise RefusalError(
                f"rule {action.rule} is at epoch {epoch}: another has gone on with it"
            )

    def forget(self, action: ForgetRecord) -> Json:
        """Our record off, if it is ours; replicas are left alone."""
        kind = _kind(action.target)

        def patch(raw: Json) -> Json | None:
            record = kind.record(raw)
            if record is not None and record.rule != action.rule:
                return None
            _of_this_window(record, action)
            return kind.forget(raw, action.settings) if annotation(raw, RECORD) else None

        return self._change_target(action, patch)

    def _whole(self, kind: Kind, raw: Json) -> Json:
        """A target with what it scales as that is now, where that is another object."""
        ref = kind.scaled(raw)
        below = kind_of(ref) if ref else None
        if ref is None or below is None:
            return raw
        path = below.path(ref.namespace, ref.name)
        try:
            return {**raw, "scaled": self._changes.anew(self._stores.serving[below.kind], path)}
        except ApiError as error:
            if not error.gone:
                raise
            return {**raw, "scaled": None}

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


def _newest(raw: Json, ours: Record) -> int:
    """The epoch of a record of this rule on a target, whether it says anything or not."""
    found = read_record(annotation(raw, RECORD) or "{}")[0]
    return found.epoch if found is not None and found.rule == ours.rule else -1


def _of_this_window(record: Record | None, action: ScaleBack | ForgetRecord) -> None:
    if record is not None and record.epoch > action.epoch:
        raise RefusalError(f"{action.target} carries the record of a later window")


def _kind(ref: Ref) -> Kind:
    kind = kind_of(ref)
    if kind is None:
        raise RefusalError(f"{ref} ({ref.api_version}) is of a kind that idlewin cannot serve")
    return kind
