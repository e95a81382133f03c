"""Kinds of serving: how each is read, lowered to zero and brought back.

A new kind is one file beside this one and one line in KINDS.
"""

from __future__ import annotations

from typing import Any, Protocol

from idlewin.adapters.serving.deployment import DEPLOYMENT
from idlewin.adapters.serving.inferenceservice import INFERENCE_SERVICE
from idlewin.adapters.serving.replicated import Around
from idlewin.adapters.serving.scaledobject import SCALED_OBJECT
from idlewin.adapters.serving.statefulset import STATEFUL_SET
from idlewin.core.pool import Record, Target
from idlewin.core.target import Ref

Json = dict[str, Any]

__all__ = ["INFERENCE_SERVICE", "KINDS", "SCALED_OBJECT", "Around", "Kind", "kind_of"]


class Kind(Protocol):
    """One kind of serving. All but the paths are pure functions of its raw objects.

    Of a kind whose pods are those of another object, each object has that one as ``scaled``; it is
    None where there is none.
    """

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
    def optional(self) -> bool:
        """Whether a cluster without it, or one that hides it, is right where no rule names it."""
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

    def void(self, trimmed: Json) -> bool:
        """Whether a record that is on it says nothing, and stays there until it is lowered next."""
        ...

    def settings(self, trimmed: Json) -> dict[str, str]:
        """What its size rests on beside its replicas, byte for byte."""
        ...

    def changed(self, trimmed: Json, settings: dict[str, str]) -> bool:
        """Whether these are not its settings any more: somebody has written it."""
        ...

    def scaled(self, trimmed: Json) -> Ref | None:
        """The object whose pods it has; None: it makes its own."""
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

    def back(self, raw: Json, record: Record) -> Json:
        """The patch that brings it back to a record, and takes that off or has it settle first."""
        ...

    def forget(self, raw: Json, settings: dict[str, str]) -> Json | None:
        """The patch that takes our record off, and gives settings back that are still ours."""
        ...


KINDS: tuple[Kind, ...] = (DEPLOYMENT, STATEFUL_SET, INFERENCE_SERVICE, SCALED_OBJECT)


def kind_of(ref: Ref) -> Kind | None:
    """The kind that a name is of; None: idlewin cannot serve it."""
    return next((k for k in KINDS if (k.api_version, k.kind) == (ref.api_version, ref.kind)), None)
