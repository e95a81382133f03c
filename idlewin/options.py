"""What a person may choose where a real cluster is looked at; the command line fills it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from idlewin.catalogue import SHIPPED, Catalogue
from idlewin.errors import UsageError, unreadable

#: How the instance begins of a process that gives back where nobody leads.
STAND_IN = "give-back_"


def read_token(path: Path) -> str:
    """The bearer token that a file holds. Raises UsageError."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeError) as error:
        raise UsageError(f"the token file {path} cannot be read: {unreadable(error)}") from None
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError(f"the token file {path} holds no token; write one, on a single line")
    return token


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a person may choose where a real cluster is looked at."""

    kubeconfig: Path | None = None
    context: str | None = None
    prometheus: str = ""
    """Its URL."""
    prometheus_token_file: Path | None = None
    """Read anew for each question: tokens of service accounts expire."""
    catalogue: Catalogue = SHIPPED
    """The sources that rules may name."""
    rules: Path | None = None
    """Rules from files; None: those of the cluster."""
    listen: tuple[str, int] = ("127.0.0.1", 8080)
    token: str = ""
    """What a caller of the endpoint's POSTs must bring; empty: nothing."""
    journal: Path | None = None
    lease: tuple[str, str] | None = None
    """Its namespace and name; None: no other controller runs."""
    lease_duration: timedelta = timedelta(seconds=15)
    """How long a dead leader is waited for."""
    instance: str = "idlewin"
    """This process among its replicas."""
    tick: timedelta = timedelta(seconds=15)
    """The back-stop, and how often demand is asked for."""
    workers: int = 4
