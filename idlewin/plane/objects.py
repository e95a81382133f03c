"""An object that is to be applied, and why it is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """One manifest."""

    body: Mapping[str, Any]
    why: str = ""
    """For people, as a comment before it."""

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def file(self) -> str:
        """The file that has all of its kind, called as the API server calls them."""
        kind = self.kind.lower()
        return f"{kind[:-1]}ies.yaml" if kind.endswith("y") else f"{kind}{_plural(kind)}.yaml"


def _plural(kind: str) -> str:
    return "es" if kind.endswith("s") else "s"
