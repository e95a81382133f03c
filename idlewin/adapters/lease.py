"""Who may act, by a Lease of coordination.k8s.io. Held by the monotonic clock.

A holder believes in its Lease for less time than others wait to take it, counted from before the
request that renewed it was sent; so a process that was frozen has lost it when it wakes. The wall
clock is only written down, for people and for the watchdog. Decision record 0001 says why the
client's own leader election is not used.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread
from time import monotonic
from typing import Any, Self

from idlewin.adapters.api import Api, ApiError
from idlewin.adapters.events import micro
from idlewin.ports import Clock

Json = dict[str, Any]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How long a Lease holds."""

    duration: timedelta = timedelta(seconds=15)
    """Others take it when it was not renewed for so long."""
    renew: timedelta = timedelta(seconds=5)
    """How often the holder renews it."""
    ask: timedelta = timedelta(seconds=2)
    """How often others look: by so much later they may learn of the last renewal."""
    margin: timedelta = timedelta(seconds=3)
    """The holder stops believing in it so much earlier: what it began may still be on its way."""

    @classmethod
    def of(cls, duration: timedelta) -> Self:
        """The usual proportions, for a Lease that holds so long."""
        return cls(duration=duration, renew=duration / 3, ask=duration / 7.5, margin=duration / 5)


class KubernetesLease:
    """A Lease, asked for and renewed in a thread. Implements Lease."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        place: tuple[str, str],
        holder: str,
        terms: Terms | None = None,
    ) -> None:
        """``place``: the namespace and the name of the Lease object."""
        namespace, self._name = place
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._api, self._clock, self._holder = api, clock, holder
        self._terms = terms or Terms()
        self._until = 0.0
        self._known_until = 0.0
        self._seen: tuple[str, float] = ("", 0.0)
        self._free_at = 0.0
        self._taken: Callable[[], object] = lambda: None
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="lease", daemon=True)

    def subscribe(self, taken: Callable[[], object]) -> None:
        """Call ``taken`` whenever it has become ours."""
        self._taken = taken

    def start(self) -> None:
        """Begin to ask for it."""
        self._thread.start()

    def stop(self) -> None:
        """Give it up, so that another need not wait."""
        self._stopping.set()
        self._thread.join(10)
        held, self._until = self.held(), 0.0
        if held:
            try:
                self._release()
            except ApiError as error:
                log.warning("the Lease was not given up: %s", error)

    def held(self) -> bool:
        """Whether we may write now."""
        return monotonic() < self._until

    def known(self) -> bool:
        """Whether the API server said lately whose it is."""
        return monotonic() < self._known_until

    def _run(self) -> None:
        ours = False
        while not self._stopping.is_set():
            ours = self._told(before=ours)
            sent = monotonic()
            try:
                self.renew()
                self._known_until = sent + self._terms.duration.total_seconds()
            except ApiError as error:
                log.warning("the Lease was not renewed: %s", error)
            except Exception:
                # A Lease like no other: it is not ours then, and the asking goes on.
                log.exception("the Lease was not understood")
            ours = self._told(before=ours)
            self._stopping.wait(self._pause())

    def _told(self, *, before: bool) -> bool:
        """Whether it is ours, and a word about it where that has changed."""
        now = self.held()
        if now is not before:
            log.info("the Lease is %s", "ours" if now else "lost")
            if now:
                self._taken()
        return now

    def _pause(self) -> float:
        """Seconds until it is renewed, or looked at again: at the latest when it may be free."""
        spread = random.uniform(0.9, 1.1)  # noqa: S311 - spreads the load
        if self.held():
            return self._terms.renew.total_seconds() * spread
        ask = self._terms.ask.total_seconds() * spread
        left = self._free_at - monotonic()
        return min(ask, left) if left > 0 else ask

    def renew(self) -> None:
        """Take it, or keep it, where it is free or ours. Raises ApiError."""
        sent = monotonic()
        try:
            lease = self._api.get(f"{self._path}/{self._name}")
        except ApiError as error:
            if not error.gone:
                raise
            wanted = {"metadata": {"name": self._name}, "spec": self._spec({})}
            self._settle(lambda: self._api.post(self._path, wanted), sent)
            return
        if self._may_take(lease):
            wanted = {**lease, "spec": self._spec(lease.get("spec") or {})}
            self._settle(lambda: self._api.put(f"{self._path}/{self._name}", wanted), sent)

    def _settle(self, write: Any, sent: float) -> None:
        try:
            write()
        except ApiError as error:
            if not error.conflict:
                raise
            # Another was quicker, or our last answer was lost: the next round tells which.
            return
        term = self._terms.duration - self._terms.margin
        self._until = sent + term.total_seconds()

    def _may_take(self, lease: Json) -> bool:
        """Whether it is ours, given up, or was not renewed for its whole term while we looked."""
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._holder):
            return True
        version = lease["metadata"]["resourceVersion"]
        if version != self._seen[0]:
            self._seen = (version, monotonic())
        term = spec.get("leaseDurationSeconds") or self._terms.duration.total_seconds()
        self._free_at = self._seen[1] + term
        return monotonic() >= self._free_at

    def _spec(self, before: Json) -> Json:
        now = micro(self._clock.now())
        ours = before.get("holderIdentity") == self._holder
        turns = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": max(1, round(self._terms.duration.total_seconds())),
            "renewTime": now,
            "acquireTime": before.get("acquireTime", now) if ours else now,
            "leaseTransitions": turns if ours else turns + bool(before),
        }

    def _release(self) -> None:
        lease = self._api.get(f"{self._path}/{self._name}")
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == self._holder:
            given_up = {**lease, "spec": {**spec, "holderIdentity": None}}
            self._api.put(f"{self._path}/{self._name}", given_up)
