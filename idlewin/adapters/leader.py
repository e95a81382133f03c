"""Whether anybody leads, as an onlooker can tell who does not run for long.

Both ends of the silence are the API server's clock: its answer's date, and the date at which it
stored the last renewal. So a node whose clock is wrong looks neither dead nor alive by that. What
the holder wrote counts only where the other is not on record.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from time import monotonic

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.fields import last_writer, maybe_instant
from idlewin.adapters.lease import KubernetesLease, Terms
from idlewin.options import STAND_IN

#: The term of a Lease that says none; one that is missing is made anew well within two of them.
USUAL = Terms().duration
#: How often it is looked at.
STEP = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """What a Lease says."""

    holder: str
    """Empty: it was given up."""
    silent: timedelta
    """Since it was last written; max: nobody knows."""
    term: timedelta
    """How long it has to stay as it is before somebody else may take it."""

    def dead_for(self, limit: timedelta) -> bool:
        """Whether no controller has led for so long; a stand-in has made sure of that before."""
        return self.silent >= limit or self.holder.startswith(STAND_IN)


class Vacancy:
    """A Lease that somebody would take who is no controller."""

    def __init__(self, api: Api, place: tuple[str, str], limit: timedelta) -> None:
        """``place``: its namespace and name; it is vacant when it was silent for ``limit``."""
        namespace, name = place
        self._api, self._limit = api, limit
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"

    def leader(self) -> Leader | None:
        """What the Lease says; None: there is none. Raises ApiError."""
        try:
            lease = self._api.get(self._path)
        except ApiError as error:
            if error.gone:
                return None
            raise
        if doubt := self._api.clock.doubt():
            raise ApiError(0, f"how long the Lease was silent cannot be told: {doubt}")
        now = self._api.clock.now()
        spec = lease.get("spec") or {}
        _, stored = last_writer(lease, "spec", "renewTime")
        written = maybe_instant(stored or spec.get("renewTime"))
        silent = now - written if written else timedelta.max
        term = spec.get("leaseDurationSeconds")
        return Leader(
            holder=spec.get("holderIdentity") or "",
            silent=silent,
            term=timedelta(seconds=term) if term else USUAL,
        )

    def taken(self, lease: KubernetesLease) -> bool:
        """Take it; False: somebody leads after all, or has come back. Raises ApiError.

        True without ``lease`` being held: there is none to take, and nobody makes one. A leader
        that lives moves its Lease while this looks at it, or makes it anew, whatever the clocks
        say.
        """
        began = monotonic()
        while not lease.held():
            found, looked = self.leader(), timedelta(seconds=monotonic() - began)
            if found is None and looked >= 2 * USUAL:
                return True
            if found is not None:
                if not found.dead_for(self._limit) or looked >= 2 * found.term:
                    return False
                lease.renew()
            if not lease.held():
                Event().wait(STEP.total_seconds())
        return True
