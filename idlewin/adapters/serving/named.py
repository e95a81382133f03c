"""How one object of a kind is found, and how a rule names it."""

from __future__ import annotations

from typing import Any

from idlewin.core.target import Ref

Json = dict[str, Any]


class Named:
    """What every kind has in common, whatever it is lowered by."""

    __slots__ = ()

    api_version: str
    kind: str
    plural: str

    def path(self, namespace: str, name: str) -> str:
        """Where one of the kind is."""
        return f"/apis/{self.api_version}/namespaces/{namespace}/{self.plural}/{name}"

    def ref(self, trimmed: Json) -> Ref:
        """An object as a rule names it."""
        meta = trimmed["metadata"]
        return Ref(
            api_version=self.api_version,
            kind=self.kind,
            namespace=meta["namespace"],
            name=meta["name"],
        )
