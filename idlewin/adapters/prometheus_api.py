"""Prometheus' HTTP API by prometheus-api-client, with the holes of that library closed.

The only importer of the library and of what it stands on. It tells an answer from what is none;
what an answer means is prometheus.py's.

The library has no way to see warnings, no time-out by default, fails with KeyError on a 200 that
holds an error, hides the reason of a 503 behind its retries, sends the query in the URL even by
POST, and follows redirects to login pages. All of that is met in one place, the session that it
sends by. Its helpers with times frozen at import and with unescaped labels are not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import requests
from prometheus_api_client import PrometheusConnect
from urllib3.exceptions import HTTPError, TimeoutError as ReadTimeout
from urllib3.util import Retry

from idlewin.adapters.clock import SystemClock

#: No believable answer is larger: 10,000 points of some hundred series.
LARGEST = 64 * 1024 * 1024
_PIECE = 64 * 1024
_LONGEST = 300
#: Thanos answers with what it has, as the default; and coarse data lose short bursts.
_WHOLE = {"partial_response": "false", "max_source_resolution": "0s"}
_monotonic = SystemClock().monotonic
#: Puts on a request what it is let in by. Raises UnansweredError.
Request = requests.PreparedRequest
Auth = Callable[[Request], Request]


class UnansweredError(Exception):
    """Prometheus gave no answer that can be believed; the message says what it gave."""


class SilentError(UnansweredError):
    """Nothing came back in time; the next question would fare no better."""


class LargeError(UnansweredError):
    """The answer is larger than can be taken in."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its labels, and its points as (seconds since the epoch, value)."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]

    @property
    def value(self) -> float:
        """The newest value."""
        return self.points[-1][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a query gave. Where ``why`` is not empty, nothing is known."""

    series: tuple[Series, ...] = ()
    scalar: bool = False
    why: str = ""
    unreachable: bool = False
    too_large: bool = False
    """Whether a shorter stretch of time could be answered."""


class Api:
    """The three questions that are asked; none raises."""

    def __init__(self, url: str, *, timeout: timedelta, auth: Auth | None = None) -> None:
        self._timeout, session = timeout.total_seconds(), _Session()
        session.auth = auth
        self._library = PrometheusConnect(
            url=url.rstrip("/"),
            retry=Retry(total=0),
            session=session,
            timeout=self._timeout,
            method="POST",
        )

    def instant(self, query: str, *, lookback: timedelta | None = None) -> Answer:
        """The query's value now, by the server's clock, from samples no older than the lookback."""
        asked = _WHOLE | {"timeout": f"{self._timeout:g}s"}
        if lookback is not None:
            asked["lookback_delta"] = f"{lookback.total_seconds():g}s"
        return _told(lambda: _instant(self._library.custom_query(query, params=asked)))

    def over(self, query: str, start: datetime, end: datetime, step: timedelta) -> Answer:
        """The query's values from start to end, both whole seconds, both included."""
        limit = 3 * self._timeout
        asked = _WHOLE | {"timeout": f"{limit:g}s"}
        width = f"{step.total_seconds():g}"
        return _told(
            lambda: _over(
                self._library.custom_query_range(
                    query, start, end, width, params=asked, timeout=limit
                )
            )
        )

    def known(self, selector: str, start: datetime, end: datetime) -> Answer:
        """The series that a selector had at any time of a stretch, without points."""
        return _told(
            lambda: Answer(
                series=tuple(
                    Series(_labels(one), ())
                    for one in self._library.get_series(start, end, params={"match[]": selector})
                )
            )
        )

    def close(self) -> None:
        """Close the connections."""
        self._library.close()


def _told(ask: Callable[[], Answer]) -> Answer:
    """The answer, or why there is none."""
    try:
        return ask()
    except UnansweredError as error:
        return Answer(
            why=_short(str(error)),
            unreachable=isinstance(error, SilentError),
            too_large=isinstance(error, LargeError),
        )
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        return Answer(
            why=_short(
                "Prometheus answered a result of no known shape "
                f"({type(error).__name__}: {error}); "
                "is it a Prometheus API at this address?"
            )
        )


def _instant(result: Any) -> Answer:
    """The shapes that the API documents for one instant. Raises UnansweredError and others."""
    if isinstance(result, list) and len(result) == 2 and not isinstance(result[0], dict):
        return Answer(series=(Series({}, (_point(result),)),), scalar=True)
    if any("values" in one for one in result):
        raise UnansweredError(
            "the query gives a stretch of samples, not a number; write max_over_time(...) around it"
        )
    return Answer(series=tuple(_series(one, [one.get("value")]) for one in result))


def _over(result: Any) -> Answer:
    """The shape that the API documents for a range. Raises UnansweredError and others."""
    return Answer(series=tuple(_series(one, one.get("values")) for one in result))


def _series(one: Any, points: Any) -> Series:
    if "histogram" in one or "histograms" in one:
        raise UnansweredError(
            "the query gives native histograms, not numbers; "
            "write histogram_count(...) or histogram_sum(...) around it"
        )
    return Series(_labels(one["metric"]), tuple(_point(point) for point in points))


def _labels(labels: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in labels.items()}


def _point(point: Any) -> tuple[float, float]:
    at, value = point
    return float(at), float(value)


@dataclass(frozen=True, slots=True)
class _Checked:
    """What the library reads of a response, once it has been looked at."""

    document: Mapping[str, Any]
    status_code: int = 200

    def json(self) -> Mapping[str, Any]:
        return self.document


class _Session(requests.Session):
    """The session that the library sends by: every request ends in time, whole and believable."""

    def request(  # type: ignore[override]
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str],
        timeout: float,
        **_: object,
    ) -> _Checked:
        """Send, read all of it in time, and check it. Raises UnansweredError."""
        form = method == "POST"
        sent = {"data" if form else "params": params, "timeout": timeout}
        where, until = _shown(url), _monotonic() + timeout
        try:
            status, body = self._exchange(method, url, sent, until)
        except (requests.Timeout, ReadTimeout, TimeoutError):
            raise SilentError(
                f"Prometheus at {where} did not answer within {timeout:g} s"
            ) from None
        except (requests.RequestException, HTTPError, OSError) as error:
            raise SilentError(f"Prometheus at {where} is not reached: {_cause(error)}") from None
        return _Checked(_document(status, body, where))

    def _exchange(
        self, method: str, url: str, sent: Mapping[str, Any], until: float
    ) -> tuple[int, bytes]:
        """Status and body. A connection that was closed while it idled is tried once more."""
        for last in (False, True):
            try:
                with super().request(
                    method, url, allow_redirects=False, stream=True, **sent
                ) as got:
                    return got.status_code, _body(got, until)
            except requests.ConnectionError as error:
                if last or isinstance(error, requests.Timeout):
                    raise
        raise AssertionError


def _body(response: requests.Response, until: float) -> bytes:
    """The body, by a deadline for all of it: the library's time-out starts anew at each byte."""
    body = bytearray()
    while piece := response.raw.read1(_PIECE, decode_content=True):
        body += piece
        if len(body) > LARGEST:
            raise LargeError(
                f"Prometheus answered more than {LARGEST // 1024**2} MiB; "
                "aggregate in the query, so that it gives fewer series"
            )
        if _monotonic() > until:
            raise TimeoutError
    return bytes(body)


def _document(status: int, body: bytes, where: str) -> Mapping[str, Any]:
    """The JSON document of a good answer. Raises UnansweredError with the reason of a bad one."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or "status" not in document:
        start = " ".join(body[:80].decode("utf-8", "replace").split())
        raise UnansweredError(
            f"{where} answered {status} with what is no JSON of Prometheus ({start!r}); "
            "look at the address, its proxy and its login"
        )
    if status != requests.codes.ok or document.get("status") != "success":
        kind, reason = document.get("errorType", "error"), document.get("error", "no reason given")
        raise UnansweredError(f"Prometheus at {where} answered {status} {kind}: {reason}")
    data = document.get("data")
    inner = data.get("warnings") if isinstance(data, dict) else None
    if warnings := document.get("warnings") or inner:
        raise UnansweredError(f"Prometheus answered in part, with a warning: {_joined(warnings)}")
    if data is None or (isinstance(data, dict) and "result" not in data):
        raise UnansweredError(f"Prometheus at {where} answered success without data")
    return document


def _short(text: str) -> str:
    """On one line, and short enough for an Event beside other things."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _joined(warnings: Any) -> str:
    return "; ".join(map(str, warnings)) if isinstance(warnings, list) else str(warnings)


def _cause(error: BaseException) -> str:
    """The innermost reason, which names what happened and no object's address in memory."""
    while isinstance(error, Exception) and error.args and isinstance(error.args[-1], Exception):
        error = error.args[-1]
    reason = getattr(error, "reason", None)
    if isinstance(reason, Exception):
        return _cause(reason)
    text = str(error)
    return text.split(": ", 1)[-1] if text else type(error).__name__


def _shown(url: str) -> str:
    """The address without a password that may stand in it."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
