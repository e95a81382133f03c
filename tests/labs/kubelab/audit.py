"""The API server's audit log as entries: who asked for what, when, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request that is over. A watch is entered when it ends."""

    at: datetime  # when it was over
    user: str
    agent: str
    verb: str
    uri: str
    code: int
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    decision: str
    """The authorizer's: allow or forbid; empty where it was not asked."""

    @classmethod
    def parse(cls, said: dict[str, Any]) -> Self:
        thing = said.get("objectRef", {})
        return cls(
            at=datetime.fromisoformat(said["stageTimestamp"]),
            user=said["user"].get("username", ""),
            agent=said.get("userAgent", ""),
            verb=said["verb"],
            uri=said["requestURI"],
            code=said.get("responseStatus", {}).get("code", 0),
            group=thing.get("apiGroup", ""),
            resource=thing.get("resource", ""),
            subresource=thing.get("subresource", ""),
            namespace=thing.get("namespace", ""),
            name=thing.get("name", ""),
            dry_run="All" in parse_qs(urlsplit(said["requestURI"]).query).get("dryRun", ()),
            decision=said.get("annotations", {}).get("authorization.k8s.io/decision", ""),
        )

    @property
    def write(self) -> bool:
        """Whether it asked for a change, Lease renewals and dry runs left out."""
        return self.verb in WRITES and not self.dry_run and self.resource != "leases"


class AuditLog:
    """The log of one API server, readable while it runs."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entries(self, *, user: str = "", since: datetime | None = None) -> list[Entry]:
        """Requests of one user (``system:serviceaccount:NAMESPACE:NAME``), over since an instant.

        Without a user: of everybody.
        """
        return [
            entry
            for entry in self._read()
            if (not user or entry.user == user) and (since is None or entry.at >= since)
        ]

    def writes(self, *, user: str = "", since: datetime | None = None) -> list[Entry]:
        """Those that asked for a change."""
        return [entry for entry in self.entries(user=user, since=since) if entry.write]

    def _read(self) -> Iterator[Entry]:
        # By size the API server moves full logs aside, under a name with the time.
        for path in sorted(self._path.parent.glob(f"{self._path.stem}*{self._path.suffix}")):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):  # the last one may be half written
                    yield Entry.parse(json.loads(line))


def account(namespace: str, name: str) -> str:
    """A service account's user name."""
    return f"system:serviceaccount:{namespace}:{name}"
