"""Kinds of serving: how each is read, lowered to zero and brought back.

A new kind is one file beside this one and one line in KINDS.
"""

from __future__ import annotations

from typing import Any, Protocol

from idlewin.adapters.serving.deployment import DEPLOYMENT
from idlewin.adapters.serving.replicated import Around
from idlewin.adapters.serving.statefulset import STATEFUL_SET
from idlewin.core.pool import Record, Target
from idlewin.core.target import Ref

Json = dict[str, Any]

__all__ = ["KINDS", "Around", "Kind", "kind_of"]


class Kind(Protocol):
    """One kind of serving. All but the paths are pure functions of its raw objects."""

    @property
    def api_version(self) -> str:
        """As a rule spells it."""
        ...

    @property
    def kind(self) -> str:
        """As a rule spells it."""
        ...

    @property
    def plural(self) -> str:
        """As paths and webhook rules spell it."""
        ...

    @property
    def pod_owner(self) -> str:
        """The kind of whatever controls its pods."""
        ...

    @property
    def watch_path(self) -> str:
        """Where all of the kind are listed."""
        ...

    def path(self, namespace: str, name: str) -> str:
        """Where one of the kind is."""
        ...

    def trim(self, raw: Json) -> Json:
        """What is kept of an object."""
        ...

    def read(self, trimmed: Json, around: Around) -> Target:
        """A trimmed object in the core's words."""
        ...

    def writer(self, raw: Json) -> str:
        """Who wrote its size last; empty where nobody is on record."""
        ...

    def replicas(self, trimmed: Json) -> int:
        """What is wanted of it now."""
        ...

    def record(self, trimmed: Json) -> Record | None:
        """Our record on it."""
        ...

    def owns(self, trimmed: Json, pod: Json) -> bool:
        """Whether a pod of the same namespace is its."""
        ...

    def pod_labels(self, trimmed: Json) -> dict[str, str]:
        """The labels that its pods will have."""
        ...

    def pod_selector(self, trimmed: Json) -> str:
        """A label selector that its pods match, as a query parameter."""
        ...

    def to_zero(self, record: Record) -> Json:
        """The patch that lowers it and puts our record on it."""
        ...

    def back(self, replicas: int) -> Json:
        """The patch that brings it back and takes our record off."""
        ...

    def forget(self) -> Json:
        """The patch that takes our record off and nothing else."""
        ...


KINDS: tuple[Kind, ...] = (DEPLOYMENT, STATEFUL_SET)


def kind_of(ref: Ref) -> Kind | None:
    """The kind that a name is of; None: idlewin cannot serve it."""
    return next((k for k in KINDS if (k.api_version, k.kind) == (ref.api_version, ref.kind)), None)
