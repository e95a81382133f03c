"""Serving targets as a rule writes them: who serves on the cards, and where demand shows.

The field names are a contract, as in rule.py: add, do not rename.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar, Literal

from idlewin.core.text import SCHEMA, Duration, format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A namespaced object by name."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


#: Paths of llama-swap that are no part of its address.
_BELOW = frozenset({"upstream", "api", "v1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """The object whose pods a target has, where they are not its own."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**SCHEMA, "extra": "ignore"}

    ref: Ref
    uid: str
    by: str
    """As whom the target's controller writes it; empty: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaSwap:
    """The requests that a llama-swap (v240 or newer) has in flight, told by its event stream."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    url: str
    """Its address, such as http://llama-swap.ai.svc:8080."""
    model: str | None = None
    """A model by its id in llama-swap's configuration; without one, requests for any."""

    def __post_init__(self) -> None:
        web = self.url.startswith(("http://", "https://"))
        below = self.url.partition("://")[2].split("/")[1:]
        if not web or not _BELOW.isdisjoint(below):
            raise ValueError(
                f"llamaSwap.url {self.url!r} must be llama-swap's own address, such as "
                "http://llama-swap.ai.svc:8080; /api/events is added to it, and what is below "
                "/upstream loads a model"
            )
        if self.model == "":
            raise ValueError("llamaSwap.model is empty; write its id, or leave it out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One place in which users' demand can be seen: a catalogue source, a query, a llama-swap."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    source: str | None = None
    """A source of the catalogue, such as vllm-requests."""
    match: dict[str, str] = field(default_factory=dict)
    """Labels that pick this target among the source's series."""
    query: str | None = None
    """PromQL that gives one number, instead of a source."""
    up: str | None = None
    """PromQL that is 1 while the query's exporter is alive; only then an empty answer means 0."""
    llama_swap: LlamaSwap | None = None
    """A llama-swap, instead of a source: its requests in flight, most of the last 30 seconds."""
    busy_above: float = 0
    """A value above this is demand."""
    visible_at_zero: bool | None = None
    """Whether demand shows here while the target has no pod; a source knows that itself. For
    llamaSwap: whether llama-swap stays up then."""

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.source, self.query, self.llama_swap)) != 1:
            raise ValueError(
                "a demand has either a source (with match), a query (with up), or llamaSwap"
            )
        if self.query is None and self.up is not None:
            raise ValueError("'up' belongs to a query; a source brings its own witness")
        if self.query is not None and self.match:
            raise ValueError("'match' belongs to a source; put the labels into the query")
        if self.llama_swap is not None and self.match:
            raise ValueError("'match' belongs to a source; write llamaSwap.model")
        if self.source is not None and self.visible_at_zero is not None:
            raise ValueError("'visibleAtZero' belongs to a query; a source knows it itself")
        if self.busy_above < 0:
            raise ValueError(f"busyAbove is {self.busy_above:g}; demand is never below 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpProbe:
    """A request that a ready target answers."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    url: str
    """Where to ask; never a path that loads a model or counts as use."""
    expect: int = 200
    """The status code of a good answer."""
    timeout: Duration = timedelta(seconds=10)
    """How long one request may take."""

    def __post_init__(self) -> None:
        if not 100 <= self.expect <= 599 or self.timeout <= timedelta():
            raise ValueError(
                f"probe.http expects {self.expect} within {format_duration(self.timeout)}; write a "
                "status code from 100 to 599 and a time-out above 0s"
            )
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"probe.http.url {self.url!r} must start with http:// or https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionProbe:
    """One token of a model behind an OpenAI-compatible API: a status code 200 with choices."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    url: str
    """Where completions are asked for: it ends in /chat/completions or /completions. The server's
    own address: at a front door the request would be demand."""
    model: str
    """The model's name, as clients write it."""
    timeout: Duration = timedelta(seconds=30)
    """How long the one token may take."""

    def __post_init__(self) -> None:
        if self.timeout <= timedelta():
            raise ValueError("probe.completion.timeout must be above 0s")
        if not self.model:
            raise ValueError("probe.completion.model is empty; write the name that clients use")
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(
                f"probe.completion.url {self.url!r} must start with http:// or https://"
            )
        if not self.url.endswith(("/chat/completions", "/completions")):
            raise ValueError(
                f"probe.completion.url {self.url!r} must end in /chat/completions or /completions, "
                "such as http://qwen3-8b.ai.svc/v1/chat/completions"
            )


#: What a target is asked.
Question = HttpProbe | CompletionProbe


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What ready means beyond the pod's own readiness: it answers."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    http: HttpProbe | None = None
    """Asked by HTTP GET."""
    completion: CompletionProbe | None = None
    """Asked for one token; instead of http."""

    def __post_init__(self) -> None:
        if (self.http is None) == (self.completion is None):
            raise ValueError("probe has either http or completion; write one of them")

    @property
    def question(self) -> Question:
        """The one that it has."""
        asked = self.http or self.completion
        assert asked is not None  # noqa: S101 - seen to above
        return asked


class Arbiter(StrEnum):
    """Who owns a target's cards and lets its users at them by a protocol."""

    LLAMA_SWAP = "LlamaSwap"


class OnOverdue(StrEnum):
    """What is done about a return that is not ready within readyTimeout, beside the alarm."""

    ALARM = "Alarm"
    RESTART = "Restart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A target: one workload that serves users on the cards outside windows."""

    __pydantic_config__: ClassVar[dict[str, Any]] = SCHEMA

    api_version: str
    """The API of its kind, such as apps/v1."""
    kind: str
    """Deployment, StatefulSet, KServe's InferenceService, or KEDA's ScaledObject."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name."""
    demand: tuple[Demand, ...] | Literal["CalendarOnly"]
    """Any busy is busy, else any unknown is unknown. CalendarOnly: no demand is looked at."""
    lead_time: Literal["Auto"] | Duration = "Auto"
    """How long a return takes. Auto: a high quantile of the start-ups that were measured."""
    ready_timeout: Duration = timedelta(minutes=15)
    """A return that takes longer raises an alarm, and no window is opened after it until its probe
    has answered, or, without a probe, until ``idlewin resume``."""
    on_overdue: OnOverdue = OnOverdue.ALARM
    """What is done then, beside the alarm. Restart: its pods that are not ready, or do not answer
    the probe, are deleted once, so that others take their place."""
    probe: Probe | None = None
    """Ready means that this answers."""
    arbiter: Arbiter | None = None
    """Who owns its cards and lets users at them. LlamaSwap: that of its demand. It is asked right
    before the target is lowered, and unloads its models; with a request in flight it stays."""

    @property
    def arbiter_url(self) -> str:
        """Where its arbiter is asked; empty: it has none."""
        if self.arbiter is None or isinstance(self.demand, str):
            return ""
        (own,) = filter(_owns, self.demand)
        assert own.llama_swap is not None  # noqa: S101 - seen to by _owns
        return own.llama_swap.url

    @property
    def ref(self) -> Ref:
        """The object that it names."""
        return Ref(
            api_version=self.api_version, kind=self.kind, namespace=self.namespace, name=self.name
        )

    def __post_init__(self) -> None:
        if not self.namespace or not self.name:
            raise ValueError("serving needs a namespace and a name")
        if self.demand == ():
            raise ValueError("demand is empty; name a source or a query, or write CalendarOnly")
        if not isinstance(self.demand, str) and all(one.llama_swap for one in self.demand):
            raise ValueError(
                "demand has llamaSwap alone, which tells of now only, and a forecast needs the "
                "past; put a source or a query beside it, such as its router's"
            )
        if self.arbiter is not None and (
            isinstance(self.demand, str) or len(list(filter(_owns, self.demand))) != 1
        ):
            raise ValueError(
                "arbiter LlamaSwap is that of the demand, which goes down with the target: write "
                "one llamaSwap there with its url alone, without model, busyAbove, visibleAtZero"
            )


def _owns(demand: Demand) -> bool:
    """Whether it is a llama-swap with all its requests, which goes down with the target."""
    swap = demand.llama_swap
    return bool(swap and not swap.model and not demand.busy_above and not demand.visible_at_zero)
