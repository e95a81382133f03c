"""What a probe asks serving, and what a good answer is: one HTTP request, never a redirect.

A thread that asks is one of a few for all rules, so an answer has an end: in time and in size.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, Request, build_opener

from idlewin.core.target import CompletionProbe, Question

#: One token takes a few hundred bytes.
LARGEST_ANSWER = 1 << 20
_OK = 200
_AGENT = "idlewin-probe"
log = logging.getLogger(__name__)


class _NoRedirect(HTTPRedirectHandler):
    """A redirect is an answer of its own, and not the one that was asked for."""

    def redirect_request(self, *_: object) -> None:
        """Follow nothing."""


class Asker:
    """Puts questions to serving, and judges the answers."""

    def __init__(self) -> None:
        self._opener = build_opener(
            # Serving is asked directly, whatever proxy the environment names.
            ProxyHandler({}),
            HTTPSHandler(context=ssl.create_default_context()),
            _NoRedirect(),
        )

    def good(self, probe: Question) -> bool:
        """Whether it answers as expected now; waits for it."""
        expected = _OK if isinstance(probe, CompletionProbe) else probe.expect
        limit, wrong = probe.timeout.total_seconds(), ""
        end = time.monotonic() + limit
        try:
            with self._opener.open(_request(probe), timeout=limit) as answer:
                status = answer.status
                if isinstance(probe, CompletionProbe):
                    wrong = _without_choices(_read(answer, end))
        except HTTPError as error:
            status = error.code
            error.close()
        except (OSError, HTTPException, ValueError) as error:
            log.info("probe %s: no answer: %s", probe.url, error)
            return False
        if status != expected:
            log.info("probe %s: answered %s, expected %s", probe.url, status, expected)
        elif wrong:
            log.info("probe %s: answered %s, %s", probe.url, status, wrong)
        return bool(status == expected and not wrong)


def _request(probe: Question) -> Request:
    headers = {"User-Agent": _AGENT}
    if not isinstance(probe, CompletionProbe):
        return Request(probe.url, headers=headers)  # noqa: S310 - the rule takes http(s) only
    chat = probe.url.endswith("/chat/completions")
    body: dict[str, Any] = {"model": probe.model, "max_tokens": 1, "stream": False}
    body |= {"messages": [{"role": "user", "content": "Hi"}]} if chat else {"prompt": "Hi"}
    headers["Content-Type"] = "application/json"
    return Request(probe.url, json.dumps(body).encode(), headers)  # noqa: S310 - as above


def _read(answer: HTTPResponse, end: float) -> bytes:
    """The body. Raises ValueError where it is too large, or takes too long in all."""
    body = b""
    while piece := answer.read1(1 << 16):
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise ValueError(f"the answer is larger than {LARGEST_ANSWER} bytes")
        if time.monotonic() > end:
            raise ValueError("the answer did not end in time")
    return body


def _without_choices(body: bytes) -> str:
    """What is wrong with a completion; empty: it has choices."""
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return "which is no JSON"
    choices = told.get("choices") if isinstance(told, dict) else None
    return "" if isinstance(choices, list) and choices else "without choices"
