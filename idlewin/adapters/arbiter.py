"""Targets whose cards an arbiter owns: lowered only while it has nothing in flight nor loaded.

llama-swap is asked right before the write: what it has loaded, then what it has in flight. What is
loaded it unloads, and is asked again. Its unload waits for nobody, and the next request loads the
model again: so in flight comes before, and to zero at once after. No answer, or one that is not
understood, is not idle (P5): the write is then answered as one that met a change, and the next look
decides. Each step may be the last: an unload without the write costs the next user a start of a
model. A return never asks.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from threading import Lock, Thread
from typing import Protocol

from idlewin.adapters.llama_swap import below, connected, in_flight
from idlewin.core.decision import Action, Decision, Outcome, ScaleToZero, Verdict
from idlewin.core.pool import Pool, RuleObject, Scope
from idlewin.core.rule import Rule
from idlewin.ports import Cluster

#: All that is asked for one write has to be answered in these seconds. A cycle waits for it, and
#: somewhat longer for what no time-out of a socket ends.
ANSWER, LONGEST = 4.5, 5.0
#: What it has loaded takes some hundred bytes a model.
LARGEST_ANSWER = 1 << 20
_OK, _READY = 200, "ready"
log = logging.getLogger(__name__)


class BusyError(Exception):
    """A target is not to be lowered now, or it cannot be told; why, in words."""


class Swap(Protocol):
    """A llama-swap as an arbiter. Each raises where it gives no answer, or none that is known."""

    def running(self) -> Mapping[str, str]:
        """The models that are not stopped, with their state."""
        ...

    def in_flight(self) -> Mapping[str, int]:
        """How many requests each model has in flight."""
        ...

    def unload(self) -> None:
        """Stop all models; waits until they are, and for no request."""
        ...


class LlamaSwapApi:
    """The API of a llama-swap, until a monotonic instant."""

    def __init__(self, url: str, end: float) -> None:
        self._url, self._end = url, end

    def running(self) -> dict[str, str]:
        """``GET /running``."""
        told = json.loads(self._answer("GET", "/running"))
        return {str(one["model"]): str(one["state"]) for one in told["running"]}

    def in_flight(self) -> Mapping[str, int]:
        """The first word of ``GET /api/events``."""
        return in_flight(self._url, self._left())

    def unload(self) -> None:
        """``POST /api/models/unload``."""
        self._answer("POST", "/api/models/unload")

    def _answer(self, method: str, path: str) -> bytes:
        with connected(self._url, self._left()) as connection:
            # An unload that was long in coming through would meet other requests.
            connection.sock.settimeout(self._left())
            connection.request(method, below(self._url, path), headers={"User-Agent": "idlewin"})
            answer = connection.getresponse()
            # A redirect is another answer, too.
            if answer.status != _OK:
                raise HTTPException(f"it answers {answer.status} to {method} {path}")
            body = answer.read(LARGEST_ANSWER + 1)
            if len(body) > LARGEST_ANSWER:
                raise HTTPException(f"its answer to {path} is larger than {LARGEST_ANSWER} bytes")
            return body

    def _left(self) -> float:
        if (left := self._end - time.monotonic()) <= 0:
            raise TimeoutError
        return left


class Arbiters:
    """Asks arbiters, each in a thread of its own: however they answer, nobody waits longer."""

    def __init__(self, api: Callable[[str, float], Swap] = LlamaSwapApi) -> None:
        self._api = api
        self._lock, self._asked = Lock(), set[str]()

    def free(self, url: str, *, unload: bool) -> tuple[str, ...]:
        """Have all models unloaded, or only ask; those that were loaded. Raises BusyError."""
        with self._lock:
            if url in self._asked:
                raise BusyError(f"llama-swap {url} has not answered what it was asked before")
            self._asked.add(url)
        said: Future[tuple[str, ...]] = Future()
        ask = Thread(target=self._ask, args=(url, unload, said), name="arbiter", daemon=True)
        try:
            ask.start()
        except RuntimeError as error:
            self._answered(url)
            raise BusyError(f"llama-swap {url} cannot be asked: {error}") from None
        try:
            return said.result(LONGEST)
        except BusyError:
            raise
        except TimeoutError:
            raise BusyError(f"llama-swap {url} gave no answer in time") from None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not known to be idle
            raise BusyError(f"llama-swap {url} cannot be asked: {error or repr(error)}") from None

    def _ask(self, url: str, unload: bool, said: Future[tuple[str, ...]]) -> None:  # noqa: FBT001
        try:
            freed = _freed(self._api(url, time.monotonic() + ANSWER), url, unload=unload)
            tell = partial(said.set_result, freed)
        except BaseException as error:  # noqa: BLE001 - it is raised again where it was asked
            tell = partial(said.set_exception, error)
        self._answered(url)
        tell()

    def _answered(self, url: str) -> None:
        with self._lock:
            self._asked.discard(url)

    def told(self, rule: Rule) -> Iterator[str]:
        """What the arbiters of a rule have in flight and loaded, in words."""
        for serving in rule.serving:
            if url := serving.arbiter_url:
                try:
                    loaded = self.free(url, unload=False)
                except BusyError as busy:
                    yield f"arbiter of {serving.ref}: {busy}"
                else:
                    has = ", ".join(loaded) or "nothing"
                    yield f"arbiter of {serving.ref}: llama-swap {url}: idle, with {has} loaded"


def _freed(swap: Swap, url: str, *, unload: bool) -> tuple[str, ...]:
    """In flight first, then unload, then both again; the models that were loaded."""
    loaded = _idle(swap, url)
    if loaded and unload:
        try:
            swap.unload()
        except TimeoutError:
            raise BusyError(f"llama-swap {url} still unloads {', '.join(loaded)}") from None
        log.info("llama-swap %s: unloaded %s", url, ", ".join(loaded))
        if again := _idle(swap, url):
            raise BusyError(f"llama-swap {url} has loaded {', '.join(again)} again")
    return loaded


def _idle(swap: Swap, url: str) -> tuple[str, ...]:
    """The models that are loaded, where nothing is in flight or half-way."""
    running = swap.running()
    # The last question: what began before is seen.
    flying = [f"{count} for {model}" for model, count in swap.in_flight().items()]
    if flying:
        raise BusyError(f"llama-swap {url} has requests in flight: {', '.join(sorted(flying))}")
    half = [f"{model} {state}" for model, state in running.items() if state != _READY]
    if half:
        raise BusyError(f"llama-swap {url} has {', '.join(sorted(half))}")
    return tuple(sorted(running))


class Mediated:
    """A cluster whose targets with an arbiter are lowered only as that allows."""

    def __init__(self, cluster: Cluster, arbiters: Arbiters) -> None:
        self._cluster, self._arbiters = cluster, arbiters

    def names(self) -> Sequence[str]:
        """The names of all rules, oldest first."""
        return self._cluster.names()

    def rule(self, name: str) -> RuleObject | None:
        """A rule as it is stored."""
        return self._cluster.rule(name)

    def look(self, scope: Scope, *, fresh: bool = False) -> Pool:
        """What the cluster shows. Raises LookError."""
        return self._cluster.look(scope, fresh=fresh)

    def apply(self, action: Action) -> Outcome:
        """Carry out one action; to zero only after its arbiter."""
        try:
            unloaded = self._free(action, unload=True)
        except BusyError as busy:
            return Outcome(action, Verdict.CONFLICT, str(busy))
        outcome = self._cluster.apply(action)
        if not unloaded or outcome.message:
            return outcome
        return replace(outcome, message=f"its arbiter unloaded {', '.join(unloaded)} before")

    def rehearse(self, actions: Sequence[Action]) -> tuple[Outcome, ...]:
        """Ask the API server by dry run, and arbiters without unloading."""
        return tuple(self._heard(outcome) for outcome in self._cluster.rehearse(actions))

    def announce(self, decision: Decision) -> None:
        """Tell a change of phase as a Kubernetes Event."""
        self._cluster.announce(decision)

    def _heard(self, outcome: Outcome) -> Outcome:
        if outcome.verdict is Verdict.DONE:
            try:
                self._free(outcome.action, unload=False)
            except BusyError as busy:
                return replace(outcome, verdict=Verdict.CONFLICT, message=str(busy))
        return outcome

    def _free(self, action: Action, *, unload: bool) -> tuple[str, ...]:
        """The models that its arbiter had loaded. Raises BusyError."""
        if not isinstance(action, ScaleToZero):
            return ()
        stored = self._cluster.rule(action.rule)
        if stored is None or stored.rule is None:
            raise BusyError(f"rule {action.rule} does not say any more who has its cards")
        serving = stored.rule.serving
        url = next((one.arbiter_url for one in serving if one.ref == action.target), "")
        if not url:
            return ()
        if action.replicas > 1:
            # Its address leads to one of them: what the others have in flight is not seen.
            raise BusyError(f"{action.target} has {action.replicas} replicas: one can be asked")
        return self._arbiters.free(url, unload=unload)
